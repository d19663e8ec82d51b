"""A fitted calibrator, stored with the model, the graph and the base rate that it is valid for, and its file format."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self, TypeVar

import numpy as np

from kgcore.arrays import Ints, Probabilities, Scores
from kgcore.base_rate import ASSUMED, ESTIMATED, STATED, BaseRate
from kgcore.calibration.base import Calibrator
from kgcore.calibration.hidden_share import HiddenShare
from kgcore.calibration.matched import Matched
from kgcore.calibration.shift import check_base_rate, shift
from kgcore.calibration.support import Support
from kgcore.calibration.unseen_answers import UnseenAnswers
from kgcore.combiners.combined import Combined
from kgcore.errors import InputError, MismatchError, check_format
from kgcore.registries import BASELINES, CALIBRATORS

FORMAT = 9
T = TypeVar("T")
LARGEST_SCORE = 1e30  # no model has a larger score


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


@dataclass(frozen=True)
class BoundCalibrator:
    """A fitted calibrator, stored with its model, its graph and its base rate, so that a wrong use is an error.

    name         registered name of the calibrator or the baseline
    negatives    kind of negatives that it was fitted on: ground_truth, candidates or synthetic; none for a baseline
    base_rate    the share of true triples that its probabilities assume, in (0, 1)
    model        fingerprint of the scorer whose scores it maps to probabilities: a model, an ensemble, or `combined`
    dataset      fingerprint of the graph that it was fitted on
    calibrator   the fitted map
    fitted_at    share of positives, by weight, in the sample that it was fitted on; None: equal to base_rate
    corruptions  how its synthetic negatives were drawn. Its probabilities are valid for false triples of this kind.
                 None if its negatives are not synthetic.
    base_rate_is where the base rate comes from: assumed, stated or estimated
    limits       the ends of an interval of the base rate; None: it has no interval
    mixture      the candidates that it was fitted to; None if its negatives are not `candidates`
    support      confidence limits and counts from the sample that it was fitted on; None for a baseline
    combined     the combiner whose log-odds are its scores, if it sees evidence; None: it sees the score of a model
    unseen       answers about triples with entities that training has not seen; None: these get no probability
    hidden       the share of its synthetic negatives that are estimated to be true, and that count as much less. None:
                 they all count as false
    """

    name: str
    negatives: str
    base_rate: float
    model: str
    dataset: str
    calibrator: Calibrator
    fitted_at: float | None = None
    corruptions: CorruptionSettings | None = None
    base_rate_is: str = field(default=ASSUMED, compare=False)
    support: Support | None = field(default=None, compare=False)
    limits: tuple[float, float] | None = None
    mixture: Matched | None = field(default=None, compare=False)
    combined: Combined | None = None
    unseen: UnseenAnswers | None = field(default=None, compare=False)
    hidden: HiddenShare | None = None

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
    def shown_name(self) -> str:
        """Return its name in the settings: that of the combiner if it sees evidence, otherwise `name`."""
        return self.combined.name if self.combined else self.name

    @property
    def base_model(self) -> str:
        """Return the fingerprint of the model whose scores it needs: `model`, or the model of `combined`."""
        return self.combined.model if self.combined else self.model

    @property
    def embedding_models(self) -> tuple[str, ...]:
        """Return the fingerprints of all embedding models that it needs, `base_model` first."""
        return (self.base_model, *(self.combined.others if self.combined else ()))

    @property
    def base_rate_text(self) -> str:
        """Return the base rate and where it comes from, such as `0.0224 [0.01, 0.05], stated`."""
        low, high = self.limits or (None, None)
        return str(BaseRate(self.base_rate, low, high, self.base_rate_is))

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
        finite: kgcore/calibration/band.py. If the probability is outside these limits, the interval is widened to
        contain it. If the base rate has an interval, the lower end is for its lower end, and the upper end for its
        upper end. Without `support` both ends are NaN.
        """
        if self.support is None:
            return np.full(len(scores), np.nan), np.full(len(scores), np.nan)
        low, high = (self._shifted(limits) for limits in self.support.limits(scores, predicates))
        if self.limits is not None and not self._counted:
            low, high = (shift(own, self.base_rate, end) for own, end in zip((low, high), self.limits, strict=True))
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
        estimated = self.mixture is not None and not self.mixture.fit.stated
        return estimated and self.base_rate_is == ESTIMATED

    def _shifted(self, probabilities: Probabilities) -> Probabilities:
        if self.fitted_at is None:
            return probabilities
        return shift(probabilities, self.fitted_at, self.base_rate)

    def at(self, base_rate: float, limits: tuple[float, float] | None = None) -> Self:
        """Return the same calibrator for another base rate in (0, 1), without a new fit.

        limits  the ends of the interval of the new base rate, in (0, 1); None: it has none

        `predict` then applies `shift`, which adds a constant to the log-odds. The shift always starts from the base
        rate of the fit, so going to another base rate and back restores the calibrator exactly. A baseline is shifted
        in the same way. The new base rate counts as stated. Raises InputError for a base rate out of range.
        """
        for rate in (base_rate, *(limits or ())):
            check_base_rate("base_rate", rate)
        fitted_at = self.base_rate if self.fitted_at is None else self.fitted_at
        moved = None if base_rate == fitted_at else fitted_at
        return replace(self, base_rate=base_rate, fitted_at=moved, base_rate_is=STATED, limits=limits)

    def to_json(self) -> dict[str, Any]:
        """Return the calibrator as plain JSON values, which hold no executable code."""
        parts = {name: getattr(self, name) for name in ("mixture", "combined", "unseen", "hidden", "support")}
        return {
            "format": FORMAT,
            "calibrator": self.name,
            "negatives": self.negatives,
            "base_rate": self.base_rate,
            "base_rate_is": self.base_rate_is,
            "limits": self.limits,
            "fitted_at": self.fitted_at,
            "corruptions": None if self.corruptions is None else asdict(self.corruptions),
            "model": self.model,
            "dataset": self.dataset,
            "parameters": self.calibrator.parameters(),
            **{name: None if value is None else value.to_json() for name, value in parts.items()},
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read the output of `to_json`. Raises InputError for another format and for an unknown calibrator."""
        check_format("calibrators", data, FORMAT)

        def read(name: str, build: Callable[[Any], T]) -> T | None:
            return None if data[name] is None else build(data[name])

        return cls(
            name=data["calibrator"],
            negatives=data["negatives"],
            base_rate=data["base_rate"],
            model=data["model"],
            dataset=data["dataset"],
            calibrator=stored_class(data["calibrator"]).from_parameters(data["parameters"]),
            fitted_at=data["fitted_at"],
            corruptions=read("corruptions", lambda settings: CorruptionSettings(**settings)),
            base_rate_is=data["base_rate_is"],
            support=read("support", Support.from_json),
            limits=read("limits", lambda ends: (ends[0], ends[1])),
            mixture=read("mixture", Matched.from_json),
            combined=read("combined", Combined.from_json),
            unseen=read("unseen", UnseenAnswers.from_json),
            hidden=read("hidden", HiddenShare.from_json),
        )


def stored_class(name: str) -> type[Calibrator]:
    """Return the class with this registered name, a calibrator or a baseline. Raises InputError for an unknown name."""
    return BASELINES.get(name) if name in BASELINES.names() else CALIBRATORS.get(name)
