"""The settings of calibration: the base rate, the candidates that calibrators are fitted to, and the evidence."""

from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, model_validator

from kgcore.base_rate import ASSUMED, ESTIMATED, STATED, BaseRate, check_size, middle
from kgcore.config.base import DRAWN, EXAM_SHARE, HELD_OUT, Choices, Config, Metavar, setting
from kgcore.errors import InputError
from kgcore.registries import ALL_CALIBRATORS, CALIBRATORS, EVIDENCE

ASSUMED_BASE_RATE = 0.5
COMPLETENESS = (
    "share of the true facts that the graph knows, an interval LOW:HIGH, or a file with a line for each predicate "
    "(predicate, tab, share): it says how many candidates or corruptions are true; if empty, it is not stated"
)
BY_PREDICATE = "by predicate"  # stands for a file of shares in the settings of a run
SCORE_CALIBRATORS = ("per_relation", "smoothed_isotonic", "beta")
INTERVAL = Metavar("RATE|LOW:HIGH")
FEWEST = 1_000  # positives, and negatives or candidates, that a combiner needs


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
    check_size("completeness", ends)
    return sum(ends) / len(ends), ends[0], ends[-1]


def _checked(text: str) -> str:
    """Return a completeness. Raises InputError for a number out of range; another text is a file, read later."""
    if text:
        share_of(text)
    return text


Completeness = Annotated[str, AfterValidator(_checked)]


class MatchConfig(Config):
    """The candidates to calibrate to, and the corruptions that their mistakes may resemble.

    Near misses and nearest entities can look like true triples. They are used only if the base rate is stated, because
    an estimated base rate could confuse them with true triples.
    """

    stage: ClassVar[str] = "match"
    first: ClassVar[tuple[str, ...]] = ("candidates",)

    candidates: str = setting(
        "",
        "file of the triples that you want probabilities for, in any format; some may have a label. Or "
        f"{' or '.join(HELD_OUT)}: a held-out split with its labels hidden",
    )
    match_strategies: Annotated[tuple[str, ...], DRAWN] = setting(
        ("relational", "typed", "uniform"), "corruption strategies that the candidates' mistakes may resemble"
    )
    match_hard_strategies: Annotated[tuple[str, ...], DRAWN] = setting(
        ("near_miss", "nearest"),
        "further strategies that the mistakes may resemble, used only if the base rate is stated",
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

    def at(self, rate: BaseRate) -> Self:
        """Return the settings for the base rate of a calibration. An estimate is made of the candidates themselves."""
        if rate.origin == ESTIMATED:
            return self
        return self.replace(match_base_rate=rate.value if rate.origin == STATED else None)

    @property
    def strategies(self) -> tuple[str, ...]:
        """The strategies that are used, each once."""
        hard = () if self.match_base_rate is None else self.match_hard_strategies
        return tuple(dict.fromkeys((*self.match_strategies, *hard)))


def combines_labels(negatives: int) -> bool:
    """Return whether a number of labelled negatives is enough to fit combiners to labels."""
    return negatives >= FEWEST


class CalibrateConfig(Config):
    """The settings of the calibration, which converts scores to probabilities."""

    stage: ClassVar[str] = "calibrate"
    first: ClassVar[tuple[str, ...]] = ("calibrators", "base_rate", "completeness")

    calibrators: Annotated[tuple[str, ...], Choices(ALL_CALIBRATORS)] = setting(
        (*SCORE_CALIBRATORS, "boosted_trees"),
        f"calibrators to fit. Those that see evidence beside the score need {FEWEST:,} true validation triples",
    )
    base_rate: Annotated[float | None, INTERVAL] = setting(
        None,
        "base rate alpha: share of true triples among your candidates. If you do not state it, it is estimated from "
        f"the candidates that you give; without candidates, {ASSUMED_BASE_RATE:g} is assumed",
        gt=0,
        lt=1,
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
    base_rate_from: Annotated[str, Choices((STATED, ESTIMATED))] = setting(
        STATED, "where the base rate that you give comes from"
    )
    completeness: Completeness = setting("", COMPLETENESS)
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

    @model_validator(mode="before")
    @classmethod
    def _interval(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Split a text LOW:HIGH into its ends. The middle of an interval is the base rate if none is given."""
        if isinstance(text := given.get("base_rate"), str) and (rate := BaseRate.read(text)):
            ends = {"base_rate_low": rate.low, "base_rate_high": rate.high} if rate.limits else {}
            if any(given.get(end) not in (None, value) for end, value in ends.items()):
                raise InputError(f"base_rate is the interval {text}: leave out base_rate_low and base_rate_high")
            return given | {"base_rate": rate.value} | ends
        low, high = given.get("base_rate_low"), given.get("base_rate_high")
        if isinstance(low, float) and isinstance(high, float) and 0 < low <= high < 1:
            return {"base_rate": middle(low, high)} | given
        return given

    @model_validator(mode="after")
    def _within(self) -> Self:
        low, high = self.base_rate_low, self.base_rate_high
        if low is None and high is None:
            return self
        if low is None or high is None or low > high:
            raise InputError(f"the base rate is between {low} and {high}: give the lower end, then the upper end")
        if self.base_rate is not None and not low <= self.base_rate <= high:
            raise InputError(f"base_rate is {self.base_rate:g}: it must be in its interval, {low:g} to {high:g}")
        return self

    @property
    def score_calibrators(self) -> tuple[str, ...]:
        """The calibrators that see the score alone."""
        return tuple(name for name in self.calibrators if name in CALIBRATORS.names())

    @property
    def combiners(self) -> tuple[str, ...]:
        """The calibrators that see evidence: combiners."""
        return tuple(name for name in self.calibrators if name not in CALIBRATORS.names())

    def can_combine(self, positives: int, negatives: int, confidences: bool, candidates: int | None = None) -> bool:
        """Return whether a combiner can be fitted: the settings name one, and there are enough positives and negatives.

        If fewer than FEWEST are labelled, and there are no candidates, corruptions are the negatives. There are always
        enough of them. Triples with confidences have no negatives.

        positives, negatives  numbers of labelled validation triples
        confidences           whether the user names a column of confidences
        candidates            number of candidates; None: without candidates
        """
        has_corruptions = candidates is None and not confidences
        others = FEWEST if has_corruptions else max(negatives, candidates or 0)
        return bool(self.combiners) and min(positives, others) >= FEWEST

    @property
    def has_shares(self) -> bool:
        """Whether the completeness is a file with a share for each predicate."""
        return bool(self.completeness) and share_of(self.completeness) is None

    @property
    def recorded(self) -> Self:
        """The settings without the path of this file, whose content is stored beside them."""
        return self.replace(completeness=BY_PREDICATE) if self.has_shares else self

    @property
    def rate(self) -> BaseRate:
        """The base rate that the probabilities assume: the given one, or ASSUMED_BASE_RATE."""
        if self.base_rate is None:
            return BaseRate(ASSUMED_BASE_RATE, origin=ASSUMED)
        return BaseRate(self.base_rate, self.base_rate_low, self.base_rate_high, self.base_rate_from)

    def at(self, rate: BaseRate | None) -> Self:
        """Return the same settings at another base rate; None: it is not stated."""
        if rate is None or rate.origin == ASSUMED:
            return self.replace(base_rate=None, base_rate_low=None, base_rate_high=None, base_rate_from=None)
        ends = {"base_rate_low": rate.low, "base_rate_high": rate.high}
        return self.replace(base_rate=rate.value, base_rate_from=rate.origin, **ends)

    def parameters(self) -> dict[str, object]:
        """Return the settings as MLflow parameters, with the base rate that is used, and where it comes from."""
        settings = self.recorded.as_dict()
        return settings | {"base_rate": self.rate.value, "base_rate_is": self.rate.origin}


OTHER_SCORES = "other_scores"  # the group of the further models: a run has it if it has further models
OF_NAMES = frozenset({"name_roles", "name_pairs", "name_likeness", "name_embeddings"})
UNSEEN_COMBINER = "boosted_trees"  # it answers about entities that training has not seen
FOLD = "fold"  # the group that says by which of several combiners a triple is judged
HELD_OUT_FACTS = "held_out"  # the group of held-out facts, which the survey of a population alone uses
# The groups about both entities together. They alone are used with corruptions as negatives: what is known of one
# entity betrays how the entity of a corruption was drawn
OF_PAIRS = ("score", "cohorts", "neighbours", "paths", "rules", "name_likeness", "name_embeddings", OTHER_SCORES)


class EvidenceConfig(Config):
    """The groups of evidence, and what answers about entities that training has not seen."""

    stage: ClassVar[str] = "evidence"
    first: ClassVar[tuple[str, ...]] = ()

    evidence: Annotated[tuple[str, ...], Choices(EVIDENCE.without((OTHER_SCORES, FOLD, HELD_OUT_FACTS)))] = setting(
        (
            *("score", "cohorts", "degrees", "types", "neighbours", "paths", "rules", "constants"),
            *("name_roles", "name_pairs", "name_likeness", "name_embeddings"),
        ),
        "groups of evidence about triples",
    )
    unseen_seed: int = setting(
        0, "seed of the fit of the combiner that answers about entities that training has not seen", ge=0
    )
