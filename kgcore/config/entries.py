"""The contenders of a race: those of the portfolio, with the settings that the user gives."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from kgcore.config.choices import MODEL_ONLY
from kgcore.config.given import TrainGiven
from kgcore.config.portfolio import contenders, of_confidences
from kgcore.config.race import ChooseConfig
from kgcore.config.stages import CorruptConfig, TrainConfig
from kgcore.errors import InputError

USUAL = "default"  # name of the contender with the settings of the preset `default`
DECIDES = ("model", "loss")  # if the user gives one of these, only the portfolio's settings for it take part


@dataclass(frozen=True, kw_only=True)
class RaceConfig(ChooseConfig):
    """The settings of a race, and the settings of the pipeline on which it depends.

    given    training settings that the user gives: every contender has them
    usual    training settings of the preset `default`, with the given ones
    corrupt  the corruptions that are the negatives of the race if none are labelled

    The race does not depend on the base rate of the candidates, so that runs at other base rates re-use its model.
    """

    given: TrainGiven = field(default_factory=TrainGiven)
    usual: TrainConfig = field(default_factory=TrainConfig)
    corrupt: CorruptConfig = field(default_factory=CorruptConfig)

    def parameters(self) -> dict[str, object]:
        """Return the settings of the race as MLflow parameters, and each given training setting as `given.NAME`."""
        own = {item.name: getattr(self, item.name) for item in fields(ChooseConfig)}
        return own | {f"given.{name}": value for name, value in self.given.given().items()}

    @property
    def negatives(self) -> CorruptConfig:
        """The corruptions, with the default strategies in place of those that draw with a trained model."""
        usable = MODEL_ONLY.isdisjoint(self.corrupt.calibration_strategy)
        return self.corrupt if usable else CorruptConfig()


def entries(
    config: RaceConfig, rows: int, entities: int, predicates: int, confidences: bool = False
) -> dict[str, TrainConfig]:
    """Return name -> training settings of each contender of a race on a graph, each settings once.

    rows, entities, predicates  numbers of training triples, entities and predicates of the graph
    confidences                 whether its training triples have confidences. Then there are further contenders

    The first one is `config.usual`, with the name USUAL. The others are the portfolio's settings, in which the given
    settings replace the portfolio's. If the user gives the model or the loss, only the portfolio's settings for it take
    part. Settings that contradict the given ones are left out.
    """
    further = of_confidences(rows) if confidences else {}
    portfolio = _with_given(further | contenders(rows, entities, predicates), config.given)
    found = {USUAL: config.usual}
    for name, settings in portfolio.items():
        try:
            made = config.given.over(settings.over(TrainConfig()))
        except InputError:  # the given settings contradict these
            continue
        if made not in found.values():
            found[name] = made
    return found


def _with_given(portfolio: Mapping[str, TrainGiven], given: TrainGiven) -> dict[str, TrainGiven]:
    """Return the portfolio's settings for the given model and loss.

    If the portfolio has no settings for the given loss, those for the model remain. Given options of a loss belong to
    one loss, so they count as giving it.
    """
    left = dict(portfolio)
    for name in DECIDES:
        wanted = given.given().get(name)
        if wanted is None and given.given().get(f"{name}_options"):
            wanted = getattr(TrainConfig(), name)  # as without a race: options without a name are the default's
        if wanted is None:
            continue
        having = {key: settings for key, settings in left.items() if _value(settings, name) == wanted}
        left = having if having or name == "model" else left
    return left


def _value(settings: TrainGiven, name: str) -> object:
    return settings.given().get(name, getattr(TrainConfig(), name))
