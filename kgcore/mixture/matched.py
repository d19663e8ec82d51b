"""What the candidates of a file contain: the fit of their mixture, overall and by relation, in sentences."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from kgcore.base_rate import ESTIMATED, BaseRate
from kgcore.config import CalibrateConfig
from kgcore.errors import InputError, MismatchError
from kgcore.mixture.fit import FOREIGN, MixtureFit, MixtureOptions, fit_mixture
from kgcore.mixture.relations import RelationRate, fit_others, fit_relations
from kgcore.mixture.remainder import REMAINDER
from kgcore.mixture.samples import MixtureData
from kgcore.registries import CALIBRATOR_PARTS

SMALLEST_SHOWN = 0.005  # a strategy with a smaller share of the mistakes is not named
LEAST_RATE = 1e-6  # an estimated base rate, and each end of its interval, is at least this far from 0 and from 1


@CALIBRATOR_PARTS.register("candidates")
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
        value, low, high = (inside(end) for end in (fit.base_rate, fit.estimated.low, fit.estimated.high))
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
    def stated(self) -> bool:
        """Return whether the user stated the base rate; if not, it is the estimate of the fit."""
        return self.fit.stated

    @property
    def summary(self) -> str:
        """Return how many candidates there are, what their mistakes resemble, and the test of fit, in a clause."""
        return (
            f"{self.fit.candidates + self.fit.labels:,} candidates of {self.source}. Their mistakes resemble "
            f"corruptions: {self.mistakes}. Test of fit: p = {self.fit.fit.p_value:.2g}"
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
            "relations": [asdict(relation) for relation in self.relations],
            "notes": list(self.notes),
            "others": None if self.others is None else asdict(self.others),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read the fit that `to_json` wrote."""
        relations = tuple(RelationRate.from_json(relation) for relation in data["relations"])
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


def inside(rate: float) -> float:
    """Return a base rate that is at least LEAST_RATE from 0 and from 1."""
    return float(np.clip(rate, LEAST_RATE, 1 - LEAST_RATE))
