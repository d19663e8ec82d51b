"""A fitted calibrator with the scorer, the graph and the base rate that it is valid for, and its file format."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, runtime_checkable

import numpy as np
from pydantic import ConfigDict, TypeAdapter
from typing_extensions import TypedDict

from kgcore.arrays import Floats, Ints, Probabilities, Scores, Triples
from kgcore.base_rate import ESTIMATED, STATED, BaseRate, HiddenShare, OpenShare
from kgcore.calibrate.base import LARGEST_SCORE, Calibrator
from kgcore.calibrate.sample import check_base_rate, shift
from kgcore.calibrate.support import Support
from kgcore.config import CorruptConfig
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.models.scorer import Scorer
from kgcore.errors import InputError, MismatchError, check_format
from kgcore.registries import BASELINES, CALIBRATORS, STORED
from kgcore.scores.table import Evidence

if TYPE_CHECKING:
    from kgcore.embed.models.trained import TrainedModel

FORMAT = 13


@dataclass(frozen=True)
class CorruptionSettings:
    """The settings with which the synthetic negatives of a calibrator were drawn.

    strategy  name of a corruption strategy -> its share of the corruptions, above 0
    sides     which side of a triple is replaced: subject, object, both, bernoulli or object=SHARE
    filtered  whether corruptions that are known facts were excluded
    """

    strategy: dict[str, float]
    sides: str
    filtered: bool

    @classmethod
    def of(cls, config: CorruptConfig) -> Self:
        """Return those of a configuration."""
        return cls(dict(config.calibration_strategy), config.calibration_sides, config.calibration_filtered)


class FittedScorer(Protocol):
    """What makes the scores of a calibrator from embedding models: a combiner of evidence, or a pool of models."""

    @property
    def name(self) -> str:
        """Its name in the settings and in labels."""

    @property
    def models(self) -> tuple[str, ...]:
        """The fingerprints of the embedding models that it needs, in their order."""

    def scorer(self, models: "Sequence[TrainedModel]", graph: KnowledgeGraph) -> Scorer:
        """Return what scores triples with these models."""

    def fingerprint(self) -> str:
        """Return the sha256 of everything that its scores depend on, beside the graph."""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values. The key `scorer` names its kind."""


@runtime_checkable
class EvidenceScorer(FittedScorer, Protocol):
    """A scorer that sees evidence beside the score of a model: see kgcore/combiners."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The registered names of the groups of evidence, in the order of their columns."""

    def scores(self, evidence: Evidence, predicates: Ints) -> Scores:
        """Return the log-odds (n,) of triples from their evidence and their predicates (n,)."""

    def contributions(self, evidence: Evidence, predicates: Ints) -> tuple[float, Floats]:
        """Divide log-odds among the features. Return a constant, and what each adds (n, d + 1), the predicate last."""


@runtime_checkable
class EvidenceModel(Protocol):
    """A model that scores triples by their evidence."""

    def evidence(self, triples: Triples) -> Evidence:
        """Return the evidence of triples (n, 3)."""


class FittedCandidates(Protocol):
    """The candidates that a calibrator was fitted to: see kgcore/mixture."""

    @property
    def source(self) -> str:
        """The name of their file, or of the held-out split."""

    @property
    def stated(self) -> bool:
        """Whether the user stated their base rate. If not, it was estimated, in each bootstrap replicate again."""

    @property
    def summary(self) -> str:
        """What they contain, in a clause."""

    def to_json(self) -> dict[str, Any]:
        """Return them as plain JSON values."""


@dataclass(frozen=True)
class UnseenProbabilities:
    """Probabilities (n,) of triples with unseen entities, and their 95 % confidence intervals, in [0, 1]."""

    probabilities: Probabilities
    low: Probabilities
    high: Probabilities


class NamedTables(Protocol):
    """What is known of the names of a graph's entities."""

    @property
    def shared_words(self) -> frozenset[str]:
        """The words that the names of at least two entities have."""

    def words(self, name: str) -> tuple[str, ...]:
        """Return the words of a name."""

    def of(self, triples: Triples, names: Sequence[str]) -> Evidence:
        """Return the evidence of triples (n, 3). names[i] has the id E + i, for E entities that training has."""


class UnseenScorer(Protocol):
    """Answers about triples with entities that training has not seen: see kgcore/combiners/unseen.py."""

    @property
    def combined(self) -> EvidenceScorer:
        """What gives the log-odds of their evidence."""

    def tables(self, trained: Scorer, graph: KnowledgeGraph) -> NamedTables:
        """Return what makes the evidence of such triples. Raises MismatchError for another model or graph."""

    def answers(
        self, triples: Triples, evidence: Evidence, base_rate: float | None, limits: tuple[float, float] | None
    ) -> UnseenProbabilities:
        """Return the answers about triples (n, 3) at a base rate, whose interval `limits` widens theirs."""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What calibrators share that are fitted to one kind of negatives: what their probabilities are about.

    negatives    kind of negatives: ground_truth, candidates, synthetic or population; none for a baseline
    rate         the share of true triples that the probabilities assume, in (0, 1)
    dataset      fingerprint of the graph
    corruptions  how synthetic negatives were drawn. The probabilities are valid for false triples of this kind. None:
                 the negatives are not synthetic
    hidden       the share of the synthetic negatives that are estimated to be true, and that count as much less. None:
                 they all count as false
    mixture      the candidates; None if the negatives are not `candidates`
    """

    negatives: str
    rate: BaseRate
    dataset: str
    corruptions: CorruptionSettings | None = None
    hidden: HiddenShare | None = None
    mixture: FittedCandidates | None = field(default=None, compare=False)

    @property
    def base_rate(self) -> float:
        """Return the number of the base rate."""
        return self.rate.value


@dataclass(frozen=True, kw_only=True)
class Calibrated(Terms):
    """A fitted calibrator, stored with its scorer, its graph and its base rate, so that a wrong use is an error.

    name        registered name of the calibrator or the baseline
    calibrator  the fitted map
    model       fingerprint of what gives the scores: of `scorer`, or of an embedding model
    scorer      a combiner of evidence or a pool of models, whose log-odds are the scores; None: an embedding model
    support     confidence limits and counts from the sample that it was fitted on; None for a baseline
    fitted_at   share of positives, by weight, in the sample that it was fitted on; None: equal to base_rate
    unseen      answers about triples with entities that training has not seen; None: these get no probability
    """

    name: str
    calibrator: Calibrator
    model: str
    scorer: FittedScorer | None = None
    support: Support | None = field(default=None, compare=False)
    fitted_at: float | None = None
    unseen: UnseenScorer | None = field(default=None, compare=False)

    @property
    def label(self) -> str:
        """Return its name in tables and metrics, such as `ground_truth.platt`, or `uncalibrated` for a baseline."""
        return self.shown_name if self.negatives == "none" else f"{self.negatives}.{self.shown_name}"

    @property
    def about(self) -> str:
        """Return the triples that its probabilities are about."""
        kinds = {
            "ground_truth": "triples like the labelled ones of validation",
            "synthetic": "triples like validation facts and their corruptions",
            "candidates": "the candidates that it was fitted to",
            "population": "the missing facts that it was fitted to",
        }
        return kinds.get(self.negatives, "triples at the base rate")

    @property
    def combined(self) -> EvidenceScorer | None:
        """Return the combiner if it sees evidence; None: it sees the score of a model, or of a pool."""
        return self.scorer if isinstance(self.scorer, EvidenceScorer) else None

    @property
    def shown_name(self) -> str:
        """Return its name in the settings and in labels: that of its scorer, or `name` for the score of a model."""
        return self.scorer.name if self.scorer else self.name

    @property
    def embedding_models(self) -> tuple[str, ...]:
        """Return the fingerprints of all embedding models that it needs."""
        return self.scorer.models if self.scorer else (self.model,)

    def scorer_of(self, models: "Sequence[TrainedModel]", graph: KnowledgeGraph) -> Scorer:
        """Return what gives its scores, from its embedding models, in the order of `embedding_models`."""
        return self.scorer.scorer(models, graph) if self.scorer else models[0]

    def predict(self, scores: Scores, model: str, predicates: Ints | None = None) -> Probabilities:
        """Map scores (n,) to probabilities (n,) in [0, 1].

        model       fingerprint of the model that gave the scores
        predicates  (n,) the predicates of the triples; required if the calibrator has a map for each predicate

        Raises MismatchError if the scores come from another model, InputError if required predicates are missing.
        """
        if model != self.model:
            raise MismatchError(
                f"the calibrator {self.label} belongs to model {self.model[:12]}, "
                f"but the scores come from model {model[:12]}"
            )
        if predicates is None and self.calibrator.by_predicate:
            raise InputError(f"the calibrator {self.label} has a map for each predicate: pass the predicates, too")
        return self._shifted(self.calibrator.calibrate_of(scores, predicates))

    def interval(
        self, scores: Scores, probabilities: Probabilities, predicates: Ints | None = None
    ) -> tuple[Probabilities, Probabilities]:
        """Return the lower and the upper end (n,) of the 95 % confidence interval of probabilities, in [0, 1].

        scores, probabilities  (n,) and their probabilities by `predict`
        predicates             as in `predict`

        The interval says where the share of true triples with this score lies, given that the calibration sample is
        finite: kgcore/calibrate/support.py. If the probability is outside these limits, the interval is widened to
        contain it. If the base rate has an interval, the lower end is for its lower end, and the upper end for its
        upper end. Without `support` both ends are NaN.
        """
        if self.support is None:
            return np.full(len(scores), np.nan), np.full(len(scores), np.nan)
        low, high = (self._shifted(limits) for limits in self.support.limits(scores, predicates))
        if self.rate.limits is not None and not self._counted:
            ends = zip((low, high), self.rate.limits, strict=True)
            low, high = (shift(own, self.base_rate, end) for own, end in ends)
        return np.minimum(low, probabilities), np.maximum(high, probabilities)

    def lowest_score(self, above: float, predicate: int) -> float:
        """Return the lowest score whose probability is above a limit, for triples of one predicate.

        above  the limit, in [0, 1)

        It is -inf if every score has such a probability, and inf if none has. Probabilities do not decrease with the
        score, so bisection finds it to the last bit.
        """

        def is_above(score: float) -> bool:
            q = self.predict(np.array([score]), self.model, np.array([predicate]))
            return bool(q[0] > above)

        low, high = -LARGEST_SCORE, LARGEST_SCORE
        if is_above(low):
            return -np.inf
        if not is_above(high):
            return np.inf
        while (middle := low + (high - low) / 2) not in (low, high):
            low, high = (low, middle) if is_above(middle) else (middle, high)
        return high

    @property
    def _counted(self) -> bool:
        """Whether `support` counts the uncertainty of the base rate: it was estimated in each bootstrap replicate."""
        estimated = self.mixture is not None and not self.mixture.stated
        return estimated and self.rate.origin == ESTIMATED

    def _shifted(self, probabilities: Probabilities) -> Probabilities:
        if self.fitted_at is None:
            return probabilities
        return shift(probabilities, self.fitted_at, self.base_rate)

    def at(self, rate: BaseRate | float) -> Self:
        """Return the same calibrator for another base rate in (0, 1), without a new fit.

        `predict` then applies `shift`, which adds a constant to the log-odds. The shift always starts from the base
        rate of the fit, so going to another base rate and back restores the calibrator exactly. A baseline is shifted
        in the same way. The new base rate counts as stated. Raises InputError for a base rate out of range.
        """
        rate = replace(rate, origin=STATED) if isinstance(rate, BaseRate) else BaseRate(rate)
        for end in (rate.value, *(rate.limits or ())):
            check_base_rate("base_rate", end)
        fitted_at = self.base_rate if self.fitted_at is None else self.fitted_at
        return replace(self, rate=rate, fitted_at=None if rate.value == fitted_at else fitted_at)

    def to_json(self) -> dict[str, Any]:
        """Return the calibrator as plain JSON values, which hold no executable code."""
        plain = ("name", "negatives", "fitted_at", "model", "dataset")
        parts = {name: getattr(self, name) for name in ("mixture", "scorer", "unseen", "support")}
        return {
            "format": FORMAT,
            **{name: getattr(self, name) for name in plain},
            "rate": asdict(self.rate),
            "corruptions": None if self.corruptions is None else asdict(self.corruptions),
            "hidden": None if self.hidden is None else asdict(self.hidden),
            "parameters": self.calibrator.parameters(),
            **{name: None if value is None else value.to_json() for name, value in parts.items()},
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read the output of `to_json`. Raises InputError for another format and for an unknown calibrator."""
        check_format("calibrators", data, FORMAT)
        readers: dict[str, Callable[[Any], object]] = {
            "support": Support.from_json,
            "mixture": lambda mixture: STORED.get("candidates").from_json(mixture),
            "scorer": lambda scorer: STORED.get(scorer["scorer"]).from_json(scorer),
            "unseen": lambda unseen: STORED.get("unseen").from_json(unseen),
        }
        values: dict[str, Any] = {
            name: readers[name](value) if name in readers and value is not None else value
            for name, value in _VALUES.validate_python(data).items()
            if name not in ("format", "parameters")
        }
        rate = values["rate"]
        check_base_rate("base_rate", rate.value)
        low, high = rate.limits or (rate.value, rate.value)
        if not low <= rate.value <= high or (rate.low is None) != (rate.high is None):
            raise InputError(f"rate is {asdict(rate)}: the base rate must be in its interval, which has two ends")
        return cls(**values, calibrator=stored_class(data["name"]).stored(data["parameters"]))


class _Values(TypedDict):
    """The values of a calibrator in a file, with their types and ranges. Each part checks its own values."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # pydantic reads it
    format: int
    name: str
    negatives: Literal["ground_truth", "candidates", "synthetic", "population", "none"]
    fitted_at: OpenShare | None
    model: str
    dataset: str
    rate: BaseRate
    corruptions: CorruptionSettings | None
    hidden: HiddenShare | None
    parameters: dict[str, object]
    mixture: dict[str, object] | None
    scorer: dict[str, object] | None
    unseen: dict[str, object] | None
    support: dict[str, object] | None


_VALUES = TypeAdapter(_Values)


def stored_class(name: str) -> type[Calibrator]:
    """Return the class with this registered name, a calibrator or a baseline. Raises InputError for an unknown name."""
    return BASELINES.get(name) if name in BASELINES.names() else CALIBRATORS.get(name)
