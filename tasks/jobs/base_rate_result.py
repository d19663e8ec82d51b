"""The base rate of candidates, overall and by relation, and what a user should know about it."""

from collections.abc import Sequence
from dataclasses import dataclass

from kgcore.mixture.fit import FOREIGN, MixtureFit
from kgcore.mixture.labels import MOST_ODDS, Rate, labels_needed


@dataclass(frozen=True)
class RelationRow:
    """The base rate of the candidates of one relation.

    base_rate   moved towards those of other relations if it was estimated from scores
    low, high   the 95 % interval of this relation alone
    candidates  number of candidates, with and without labels
    labels      number of candidates with a label
    """

    relation: str
    base_rate: float
    low: float
    high: float
    candidates: int
    labels: int


@dataclass(frozen=True, kw_only=True)
class BaseRateResult:
    """The base rate of candidates.

    dataset    name of the data set of the model
    model      URI of the calibrated model whose scores were used
    mixture    what the scores say, and the labels with them; None if all candidates have labels
    labelled   what the labels alone say: the exact binomial interval; None without labels
    labels     number of candidates with a label
    width      a 95 % interval that is wider than this does not determine the base rate: see `Rate.is_narrow`
    relations  the relations with an estimate, in the order of the number of their candidates
    others     number of further relations of the candidates
    notes      which rows are left out, and why, in sentences
    run        id of the MLflow run
    """

    dataset: str
    model: str
    mixture: MixtureFit | None
    labelled: Rate | None
    labels: int
    width: float
    relations: Sequence[RelationRow]
    others: int
    notes: Sequence[str]
    run: str = ""

    @property
    def foreign(self) -> bool:
        """Return whether the test of fit found mistakes that no strategy resembles. Scores then say little."""
        return self.mixture is not None and self.mixture.fit.p_value <= FOREIGN

    @property
    def rate(self) -> Rate:
        """Return the best estimate: from scores and labels; from labels alone if scores cannot be trusted."""
        if self.mixture is None or (self.foreign and self.labelled is not None):
            assert self.labelled is not None
            return self.labelled
        return self.mixture.estimated

    @property
    def determined(self) -> bool:
        """Return whether the interval is narrow enough, and comes from scores that fit or from labels."""
        return self.rate.is_narrow(self.width) and (not self.foreign or self.labelled is not None)

    @property
    def command(self) -> str:
        """Return the command that calibrates to this base rate; '' if it is not determined, or is 0 or 1."""
        value = f"{self.rate.value:.3g}"
        if not self.determined or not 0 < float(value) < 1:
            return ""
        return f"kgcal recalibrate {self.model} --base-rate {value}"

    def rows(self) -> list[tuple[str, Rate]]:
        """Return every overall estimate, with the name of what it comes from."""
        found = []
        if self.mixture is not None:
            found.append(("scores and labels" if self.labelled else "scores", self.mixture.estimated))
        if self.labelled is not None:
            found.append(("labels alone", self.labelled))
        return found

    def sentences(self) -> list[str]:
        """Return the estimate, and what a user should know about it, in sentences."""
        rate = self.rate
        said = [f"The base rate is {rate.value:.3g}; its 95 % interval is {rate.low:.3g} to {rate.high:.3g}."]
        said += [_sentence(finding) for finding in self._findings()]
        said += [_sentence(note) for note in self.notes]
        said += [f"Next: `{self.command}`"] if self.command else []
        return said

    def _findings(self) -> list[str]:
        needed = labels_needed(self.rate, self.width)
        factor = f"its ends differ by more than a factor of {MOST_ODDS:g} in odds"
        why = f"the interval is wider than {self.width:g}" if self.rate.width > self.width else factor
        wide = (
            f"{why}, so the base rate is not determined: about {needed:,} labels of candidates drawn at random make "
            "the interval narrow enough"
        )
        if self.mixture is None:
            return [] if self.determined else [wide]
        found = self.mixture.findings()
        if self.foreign and self.labelled is None:
            found.append("so their scores cannot show the base rate: state it, or label candidates drawn at random")
        elif self.labelled is not None and not self.labelled.low <= self.rate.value <= self.labelled.high:
            limits = f"{self.labelled.low:.3g} to {self.labelled.high:.3g}"
            found.append(f"the labels alone say {limits}: check that the labelled candidates were drawn at random")
        elif self.foreign:
            found.append("so only the labels count here")
            found += [] if self.determined else [wide]
        return found

    def metrics(self) -> dict[str, float]:
        """Return the overall estimate as MLflow metrics."""
        rate, fit = self.rate, self.mixture
        found = {"base_rate": rate.value, "low": rate.low, "high": rate.high, "determined": float(self.determined)}
        found |= {"labels": float(self.labels)}
        if fit is not None:
            found |= {"unlabelled": float(fit.candidates), "fit_p": fit.fit.p_value}
            found |= {f"share.{name}": share.value for name, share in fit.shares.items()}
        return found


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
