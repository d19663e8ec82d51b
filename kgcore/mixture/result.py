"""The result of a mixture fit, and its JSON."""

from dataclasses import asdict, dataclass
from typing import Any, Self

from kgcore.mixture.goodness import Fitness
from kgcore.mixture.labels import Rate
from kgcore.mixture.remainder import REMAINDER

MUCH = 0.5  # a share of the remainder from this one on is reported
FOREIGN = 0.01  # a test of fit with a p-value below this one is reported


@dataclass(frozen=True)
class Shape:
    """The distribution of the candidates' scores, and its parts. Each part has the shares of B bins.

    edges       (B - 1,) ascending scores between the bins
    candidates  (B,) observed shares; they sum to 1
    parts       component -> (B,) fitted shares; those of all components sum to 1. If the remainder has a share, it is a
                component
    """

    edges: tuple[float, ...]
    candidates: tuple[float, ...]
    parts: dict[str, tuple[float, ...]]


@dataclass(frozen=True)
class MixtureFit:
    """What the candidates contain: a share of true triples, and mistakes that resemble corruptions of some strategies.

    base_rate      the base rate that probabilities assume, in [0, 1]
    stated         whether the user stated it; if not, it is the estimate
    estimated      the base rate that the candidates and labels suggest, with its interval
    shares         strategy -> its share pi of the mistakes, with a bootstrap interval; the values sum to 1. They are
                   shares of the mistakes without the remainder
    fit            the test of fit
    shape          the candidates' scores and the fitted parts; the positives' part is called "positives"
    candidates     number of unlabelled candidates
    labels         number of labelled candidates
    width          the base rate is determined if its interval is narrow enough for this width: see `Rate.is_narrow`
    labels_needed  number of random candidates to label for such an interval, from labels alone
    remainder      share of the remainder in the mistakes, in [0, 1]: see `remainder_share`. It is 0 without a stated
                   base rate
    """

    base_rate: float
    stated: bool
    estimated: Rate
    shares: dict[str, Rate]
    fit: Fitness
    shape: Shape
    candidates: int
    labels: int
    width: float
    labels_needed: int
    remainder: float = 0.0

    @property
    def determined(self) -> bool:
        """Return whether candidates and labels determine the base rate: see `Rate.is_narrow`."""
        return self.estimated.is_narrow(self.width)

    @property
    def strategies(self) -> dict[str, float]:
        """Return strategy -> its share of the mistakes without the remainder."""
        return {name: share.value for name, share in self.shares.items()}

    @property
    def weights(self) -> dict[str, float]:
        """Return component -> its share of the mistakes: strategies, and the remainder if it has a share. Sum 1."""
        strategies = {name: (1 - self.remainder) * share for name, share in self.strategies.items()}
        return strategies | ({REMAINDER: self.remainder} if self.remainder else {})

    def findings(self) -> list[str]:
        """Return what a user should know about the fit, in sentences. The list is empty if all is well."""
        found, rate = [], self.estimated
        limits = f"{rate.low:.3g} to {rate.high:.3g}"
        if not self.determined and not self.stated:
            found.append(
                f"these candidates do not determine the base rate ({limits}): state it, or label "
                f"{self.labels_needed:,} of them, drawn at random"
            )
        if self.stated and not rate.low <= self.base_rate <= rate.high:
            found.append(
                f"the stated base rate is {self.base_rate:g}, but these candidates suggest {limits}: check it, or "
                f"label {self.labels_needed:,} of them, drawn at random"
            )
        if self.fit.p_value <= FOREIGN:
            stated = " with the stated base rate" if self.stated else ""
            found.append(
                f"your candidates contain mistakes that no strategy resembles: no mixture of "
                f"{', '.join(self.shares)}{stated} explains their scores (p = {self.fit.p_value:.2g})"
            )
        if self.remainder >= MUCH:
            found.append(
                "the mistakes differ from the corruptions of every strategy, so "
                f"{self.remainder:.0%} of them are taken from the candidates themselves. This depends on the stated "
                "base rate: check that it is right"
            )
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the fit as plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read the fit that `to_json` wrote."""
        shape = data["shape"]
        parts = {name: tuple(own) for name, own in shape["parts"].items()}
        nested = {
            "estimated": Rate(**data["estimated"]),
            "shares": {name: Rate(**own) for name, own in data["shares"].items()},
            "fit": Fitness(**data["fit"]),
            "shape": Shape(tuple(shape["edges"]), tuple(shape["candidates"]), parts),
        }
        return cls(**(data | nested))
