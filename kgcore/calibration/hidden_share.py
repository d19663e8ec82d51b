"""The share of the synthetic negatives that are estimated to be true."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Self


@dataclass(frozen=True)
class HiddenShare:
    """The share of the corruptions, by weight, that are estimated to be true, and its 95 % interval; all in [0, 1).

    A corruption is true if it is a fact of test, or a fact that no split has.
    """

    share: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return `34 % [30, 38]`."""
        return "{:.2g} % [{:.2g}, {:.2g}]".format(*(100 * end for end in (self.share, self.low, self.high)))

    def sentence(self) -> str:
        """Return the sentence that reports and model cards show."""
        return (
            f"{self} of the corruptions that the synthetic calibrators are fitted to are estimated to be true: hidden "
            "facts, which count as much less of a negative."
        )

    def to_json(self) -> dict[str, float]:
        """Return the three numbers under their names."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, float]) -> Self:
        """Read the output of `to_json`. Other keys are ignored."""
        return cls(data["share"], data["low"], data["high"])

    def figures(self) -> dict[str, float]:
        """Return the three numbers under keys that begin with `hidden_`."""
        return {f"hidden_{name}": value for name, value in self.to_json().items()}

    @classmethod
    def of_figures(cls, figures: Mapping[str, float]) -> Self | None:
        """Read the output of `figures` among others; None if it is not there."""
        if "hidden_share" not in figures:
            return None
        return cls(*(figures[f"hidden_{name}"] for name in ("share", "low", "high")))
