"""Candidates that calibrators are fitted to: the fit of their mixture, and the calibrators that are fitted to it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from scipy.special import expit, logit

from kgcore.base_rate import ESTIMATED, BaseRate
from kgcore.calibration.balance import shift
from kgcore.calibration.band import Band
from kgcore.calibration.base import Calibrator
from kgcore.calibration.mixed import fit_to_candidates, mixture_sample, relation_sample
from kgcore.calibration.sample import CalibrationSample, evenly_weighted
from kgcore.calibration.smoothed_isotonic import SmoothedIsotonic
from kgcore.calibration.support import MOST_POINTS_OF_A_RELATION, Support, rows_of
from kgcore.config import CalibrateConfig
from kgcore.errors import InputError, MismatchError
from kgcore.mixture.fit import FOREIGN, MixtureFit, MixtureOptions, fit_mixture
from kgcore.mixture.relations import RelationRate, fit_others, fit_relations
from kgcore.mixture.remainder import REMAINDER
from kgcore.mixture.samples import MixtureData
from kgcore.registries import CALIBRATORS

SMALLEST_SHOWN = 0.005  # a strategy with a smaller share of the mistakes is not named
LEAST_RATE = 1e-6  # an estimated base rate, and each end of its interval, is at least this far from 0 and from 1


@dataclass(frozen=True)
class Matched:
    """What the candidates of a file contain.

    source     name of the file, or of the held-out split
    fit        the mixture of all candidates
    relations  base rate and shares of each relation with enough candidates
    notes      which rows of the file are left out, and why, in sentences
    others     base rate and shares of all other relations together; None: they have too few candidates
    """

    source: str
    fit: MixtureFit
    relations: tuple[RelationRate, ...] = ()
    notes: tuple[str, ...] = ()
    others: RelationRate | None = None

    def settle(self, config: CalibrateConfig) -> CalibrateConfig:
        """Return the settings with the base rate of the candidates: the stated one, otherwise the estimate.

        Raises MismatchError if the settings have another base rate, and InputError if no base rate is stated and the
        candidates do not determine it.
        """
        fit, given = self.fit, config.base_rate
        if fit.stated:
            if given not in (None, fit.base_rate):
                raise MismatchError(
                    f"base_rate is {given:g}, but the candidates were matched at the base rate {fit.base_rate:g}: "
                    f"run match again with match_base_rate {given:g}"
                )
            return config.replace(base_rate=fit.base_rate)
        value, low, high = (_inside(end) for end in (fit.base_rate, fit.estimated.low, fit.estimated.high))
        if given is not None and (given, config.base_rate_from) != (value, ESTIMATED):
            raise MismatchError(
                f"base_rate is {given:g}, but the candidates were matched without a stated base rate: run match again "
                f"with match_base_rate {given:g}"
            )
        if reason := self.undetermined:
            raise InputError(reason)
        return config.at(BaseRate(value, min(low, value), max(high, value), ESTIMATED))

    @property
    def undetermined(self) -> str:
        """Why the base rate of the candidates is not known, in one sentence; '' if it is stated or determined."""
        fit = self.fit
        if fit.stated:
            return ""
        if not fit.determined:
            return fit.findings()[0]
        if not LEAST_RATE < fit.base_rate < 1 - LEAST_RATE:
            return f"the estimated base rate of these candidates is {fit.base_rate:g}: state one above 0 and below 1"
        if fit.fit.p_value > FOREIGN:
            return ""
        return (
            f"{fit.findings()[-1]}, so their scores do not determine the base rate: state it, or label "
            f"{fit.labels_needed:,} of them, drawn at random, for `kgcal base-rate`"
        )

    @property
    def mistakes(self) -> str:
        """What the mistakes resemble, such as `61 % near_miss, 24 % typed, 15 % no strategy`."""
        shares = sorted(self.fit.weights.items(), key=lambda share: -share[1])
        named = [(share, "no strategy" if name == REMAINDER else name) for name, share in shares]
        return ", ".join(f"{100 * share:.0f} % {name}" for share, name in named if share >= SMALLEST_SHOWN)

    def sentences(self) -> list[str]:
        """Return what the probabilities of calibrators fitted to these candidates are about, in sentences."""
        fit, rate = self.fit, self.fit.estimated
        limits = f"{rate.low:.3g} to {rate.high:.3g}"
        own = f"{fit.base_rate:.3g}, stated; their scores suggest {limits}"
        if not fit.stated:
            own = f"{fit.base_rate:.3g}, estimated, 95 % interval {limits}"
        labels = f", {fit.labels:,} of them labelled" if fit.labels else ""
        said = [
            f"The rows `candidates` are probabilities for triples like the {fit.candidates + fit.labels:,} candidates "
            f"in {self.source}{labels}. Their base rate is {own}. Their mistakes resemble corruptions: "
            f"{self.mistakes}. Test of fit: p = {fit.fit.p_value:.2g}."
        ]
        return said + [f"{text[0].upper()}{text[1:]}." for text in (*fit.findings(), *self.notes)]

    def metrics(self) -> dict[str, float]:
        """Return base rate, its interval, shares of the mistakes and p of the test of fit, under their names."""
        fit, rate = self.fit, self.fit.estimated
        found = {"base_rate": fit.base_rate, "estimated": rate.value, "low": rate.low, "high": rate.high}
        found |= {"fit_p": fit.fit.p_value, "candidates": float(fit.candidates), "labels": float(fit.labels)}
        return found | {f"share.{name}": share for name, share in fit.weights.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the fit as plain JSON."""
        return {
            "source": self.source,
            "fit": self.fit.to_json(),
            "relations": [asdict(one) for one in self.relations],
            "notes": list(self.notes),
            "others": None if self.others is None else asdict(self.others),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read the fit that `to_json` wrote."""
        relations = tuple(RelationRate.from_json(one) for one in data["relations"])
        others = None if data["others"] is None else RelationRate.from_json(data["others"])
        return cls(data["source"], MixtureFit.from_json(data["fit"]), relations, tuple(data["notes"]), others)


def match(
    data: MixtureData, source: str, options: MixtureOptions, rng: np.random.Generator, notes: Sequence[str] = ()
) -> Matched:
    """Fit the mixture of the candidates, overall and for each relation with enough of them.

    source, notes  see `Matched`
    """
    fit = fit_mixture(data, options, rng)
    relations = fit_relations(data, fit.strategies, rng, replicates=options.replicates)
    others = fit_others(data, relations, fit.strategies, rng, replicates=options.replicates) if relations else None
    return Matched(source, fit, tuple(relations), tuple(notes), others)


def candidate_sample(data: MixtureData, matched: Matched, by_predicate: bool = False) -> CalibrationSample:
    """Return the sample that calibrators are fitted on.

    by_predicate  whether each relation has its own base rate and its own mistakes, where there is enough
    """
    if by_predicate and matched.relations:
        return relation_sample(data, matched.fit, matched.relations, matched.others)
    return mixture_sample(data, _inside(matched.fit.base_rate), matched.fit.weights)


def fit_matched(
    data: MixtureData, matched: Matched, names: Sequence[str], replicates: int, rng: np.random.Generator
) -> dict[str, tuple[Calibrator, Support]]:
    """Fit calibrators to the candidates, with limits of their probabilities that count the mixture's uncertainty.

    names       registered names of the calibrators
    replicates  bootstrap replicates, at least 20

    A calibrator with a map for each predicate is fitted with the base rate and the mistakes of each relation. All
    others share the limits of `fit_to_candidates`.
    """
    _, band = fit_to_candidates(data, matched.fit, SmoothedIsotonic, replicates, rng)
    found = {}
    for name in names:
        made = CALIBRATORS.get(name)()
        sample = candidate_sample(data, matched, made.by_predicate)
        relations = matched.relations if made.by_predicate else ()
        bands = {one.predicate: _relation_band(one, sample, rng) for one in relations}
        found[name] = (made.fit_sample(sample), Support(band, bands, rows_of(sample)))
    return found


def _relation_band(relation: RelationRate, sample: CalibrationSample, rng: np.random.Generator) -> Band:
    """Return confidence limits of one relation. They hold for every base rate in the interval of the relation.

    The uncertainty of the relation's shares is not counted.
    """
    own = sample.part(sample.predicates == relation.predicate)  # type: ignore[arg-type]
    rows = evenly_weighted(own, rng)
    band = Band.fit(rows, most_points=MOST_POINTS_OF_A_RELATION)
    moved = logit(own.base_rate) - logit(_inside(relation.shrunk))  # if the base rate of all relations was stated
    ends = [_inside(float(expit(logit(_inside(end)) + moved))) for end in (relation.own.low, relation.own.high)]
    low, high = min(*ends, own.base_rate), max(*ends, own.base_rate)
    return Band(band.scores, shift(band.low, rows.base_rate, low), shift(band.high, rows.base_rate, high))


def _inside(rate: float) -> float:
    return float(np.clip(rate, LEAST_RATE, 1 - LEAST_RATE))
