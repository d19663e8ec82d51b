"""The settings of calibration: the base rate, and the candidates that calibrators are fitted to."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from kgcore.base_rate import ASSUMED, ESTIMATED, STATED, BaseRate, middle
from kgcore.config.base import Config, setting
from kgcore.config.choices import EXAM_SHARE, HELD_OUT, TRAINING_ONLY, check_draws_without_training
from kgcore.errors import InputError
from kgcore.registries import ALL_CALIBRATORS, CALIBRATORS, STRATEGIES

ASSUMED_BASE_RATE = 0.5
COMPLETENESS = (
    "share of the true facts that the graph knows, an interval LOW:HIGH, or a file with a line for each predicate "
    "(predicate, tab, share): it says how many candidates or corruptions are true; if empty, it is not stated"
)
BY_PREDICATE = "by predicate"  # stands for a file of shares in the settings of a run
SCORE_CALIBRATORS = ("per_relation", "smoothed_isotonic", "beta")
STRATEGY_CHOICES = STRATEGIES.without(TRAINING_ONLY)


def share_of(text: str) -> tuple[float, float, float] | None:
    """Return value, lower and upper end of a completeness; None if the text is no number and no interval LOW:HIGH.

    Raises InputError for numbers out of range.
    """
    try:
        ends = [float(part) for part in text.split(":")]
    except ValueError:
        return None
    if len(ends) > 2 or not all(0 < end < 1 for end in ends) or ends != sorted(ends):
        raise InputError(f"completeness is {text!r}: it must be above 0 and below 1, or LOW:HIGH, such as 0.7:0.9")
    return sum(ends) / len(ends), ends[0], ends[-1]


def check_completeness(name: str, text: str | None) -> None:
    """Raise InputError if a setting is a number out of range. Another text is a file, which is read later."""
    if text:
        share_of(str(text))


@dataclass(frozen=True, kw_only=True)
class MatchConfig(Config):
    """The candidates to calibrate to, and the corruptions that their mistakes may resemble.

    Near misses and nearest entities can look like true triples. They are used only if the base rate is stated, because
    an estimated base rate could confuse them with true triples.
    """

    stage: ClassVar[str] = "match"

    candidates: str = setting(
        "",
        "file of the triples that you want probabilities for, in any format; some may have a label. Or "
        f"{' or '.join(HELD_OUT)}: a held-out split with its labels hidden",
    )
    match_strategies: tuple[str, ...] = setting(
        ("relational", "typed", "uniform"),
        "corruption strategies that the candidates' mistakes may resemble",
        choices=STRATEGY_CHOICES,
        check=check_draws_without_training,
    )
    match_hard_strategies: tuple[str, ...] = setting(
        ("near_miss", "nearest"),
        "further strategies that the mistakes may resemble, used only if the base rate is stated",
        choices=STRATEGY_CHOICES,
        check=check_draws_without_training,
    )
    match_eta: int = setting(20, "corruptions of each validation positive by each strategy", ge=1)
    match_base_rate: float | None = setting(
        None, "stated base rate of the candidates; a pipeline uses base_rate in its place", gt=0, lt=1
    )
    match_width: float = setting(
        0.1,
        "an estimated base rate counts as determined if its 95 % interval is at most this wide, and its "
        "ends differ by at most a factor of 4 in odds",
        gt=0,
        lt=1,
    )
    match_exam_share: float = setting(
        EXAM_SHARE,
        "share of the candidates' labels that belong to the exam of `kgcal promote`. The fit does not see them: these "
        "triples are candidates without a label. 0 = the fit sees all labels",
        ge=0,
        lt=1,
    )
    match_replicates: int = setting(100, "bootstrap replicates of candidates and corruptions, for intervals", ge=20)
    match_seed: int = setting(0, "seed of the corruptions and of the bootstrap replicates", ge=0)

    @property
    def strategies(self) -> tuple[str, ...]:
        """The strategies that are used, each once."""
        hard = () if self.match_base_rate is None else self.match_hard_strategies
        return tuple(dict.fromkeys((*self.match_strategies, *hard)))


@dataclass(frozen=True, kw_only=True)
class CalibrateConfig(Config):
    """The settings of the calibration, which converts scores to probabilities."""

    stage: ClassVar[str] = "calibrate"

    calibrators: tuple[str, ...] = setting(
        (*SCORE_CALIBRATORS, "boosted_trees"),
        "calibrators to fit. Those that see evidence beside the score need labelled negatives",
        choices=ALL_CALIBRATORS,
    )
    base_rate: float | None = setting(
        None,
        "base rate alpha: share of true triples among your candidates. If you do not state it, it is estimated from "
        f"the candidates that you give; without candidates, {ASSUMED_BASE_RATE:g} is assumed",
        gt=0,
        lt=1,
        ends=("base_rate_low", "base_rate_high"),
    )
    base_rate_low: float | None = setting(
        None, "lower end of an interval of the base rate; give the upper end, too", gt=0, lt=1
    )
    base_rate_high: float | None = setting(
        None,
        "upper end of the interval. The interval of a probability contains its intervals at both ends. If you give no "
        "base_rate, it is the middle of the interval in log-odds",
        gt=0,
        lt=1,
    )
    base_rate_from: str = setting(STATED, "where the base rate that you give comes from", choices=(STATED, ESTIMATED))
    completeness: str = setting("", COMPLETENESS, check=check_completeness)
    weighted: bool = setting(
        True, "weight the synthetic negatives to match the base rate; turn off for experiments only"
    )

    combine_folds: int = setting(
        5, "parts of the labelled rows: a combiner that is fitted to the others judges each part", ge=2
    )
    combine_rounds: int = setting(
        1,
        "how often the rows are divided into parts; with 1, a combiner that is fitted to all rows answers, with more "
        "the mean of the combiners of all parts and divisions",
        ge=1,
    )
    combine_seed: int = setting(0, "seed of the fit of combiners", ge=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = self.base_rate_low, self.base_rate_high
        if low is None and high is None:
            return
        if low is None or high is None or low > high:
            raise InputError(f"the base rate is between {low} and {high}: give the lower end, then the upper end")
        if self.base_rate is None:
            object.__setattr__(self, "base_rate", middle(low, high))
        elif not low <= self.base_rate <= high:
            raise InputError(f"base_rate is {self.base_rate:g}: it must be in its interval, {low:g} to {high:g}")

    @property
    def score_calibrators(self) -> tuple[str, ...]:
        """The calibrators that see the score alone."""
        return tuple(name for name in self.calibrators if name in CALIBRATORS.names())

    @property
    def combiners(self) -> tuple[str, ...]:
        """The calibrators that see evidence: combiners."""
        return tuple(name for name in self.calibrators if name not in CALIBRATORS.names())

    @property
    def has_shares(self) -> bool:
        """Whether the completeness is a file with a share for each predicate."""
        return bool(self.completeness) and share_of(str(self.completeness)) is None

    @property
    def recorded(self) -> Self:
        """The settings without the path of this file, whose content is stored beside them."""
        return replace(self, completeness=BY_PREDICATE) if self.has_shares else self

    @property
    def rate(self) -> BaseRate:
        """The base rate that the probabilities assume: the given one, or ASSUMED_BASE_RATE."""
        if self.base_rate is None:
            return BaseRate(ASSUMED_BASE_RATE, origin=ASSUMED)
        return BaseRate(self.base_rate, self.base_rate_low, self.base_rate_high, self.base_rate_from)

    @property
    def alpha(self) -> float:
        """The number of the base rate."""
        return self.rate.value

    @property
    def limits(self) -> tuple[float, float] | None:
        """The ends of the interval of the base rate; None: it has no interval."""
        return self.rate.limits

    @property
    def base_rate_is(self) -> str:
        """STATED, ESTIMATED or ASSUMED."""
        return self.rate.origin

    @property
    def base_rate_text(self) -> str:
        """The base rate and where it comes from: `0.5, assumed` or `0.0224 [0.01, 0.05], stated`."""
        return str(self.rate)

    def at(self, rate: BaseRate | None) -> Self:
        """Return the same settings at another base rate; None: it is not stated."""
        rate = rate or BaseRate(ASSUMED_BASE_RATE, origin=ASSUMED)
        value = None if rate.origin == ASSUMED else rate.value
        origin = ESTIMATED if rate.origin == ESTIMATED else STATED
        return replace(self, base_rate=value, base_rate_low=rate.low, base_rate_high=rate.high, base_rate_from=origin)

    def parameters(self) -> dict[str, object]:
        """Return the settings as MLflow parameters, with the base rate that is used, and where it comes from."""
        settings = super(CalibrateConfig, self.recorded).parameters()
        return settings | {"base_rate": self.alpha, "base_rate_is": self.base_rate_is}
