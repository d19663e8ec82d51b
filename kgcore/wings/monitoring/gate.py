"""The gate: it tests whether a challenger may replace the champion."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from kgcore.arrays import Probabilities, as_probabilities, same_length
from kgcore.config import GateConfig
from kgcore.measure.metrics.base import Estimate
from kgcore.wings.monitoring.paired import Excess, Gain, PairedRows, brier_gain, calibration_excess


def level_of(sitting: int, judged: int, alpha: float) -> float:
    """Return the one-sided level at which each challenger of a sitting is tested.

        alpha / (k (k + 1)) / m

    sitting  number k of the sitting in an era of the exam, from 1
    judged   number m of the challengers of this sitting, at least 1. If the triples of the test have also chosen them,
             the number of those from which they were chosen
    alpha    largest probability, in (0, 1), that any challenger of the era counts as better without being so

    1 / (k (k + 1)) over k = 1, 2, ... sums to 1 (alpha spending, Lan & DeMets, Biometrika 70, 1983), and the level of a
    sitting is divided by the number of its challengers (Bonferroni). So the sum over all tests is at most alpha,
    however many sittings there are. A first challenger that is alone has the level alpha / 2, one side of a two-sided
    test at alpha.
    """
    return alpha / (sitting * (sitting + 1)) / judged


@dataclass(frozen=True)
class Scarce:
    """Triples of one label that are too few for a gain that was observed.

    label   0 or 1
    found   number of triples with this label
    needed  about how many show a gain of this size
    """

    label: int
    found: int
    needed: int

    def __str__(self) -> str:
        """Return `300 negatives are too few at this base rate: to show a gain of this size needs about 2,000`."""
        kind = "positives" if self.label else "negatives"
        return (
            f"{self.found:,} {kind} are too few at this base rate: to show a gain of this size needs about "
            f"{self.needed:,}"
        )


@dataclass(frozen=True)
class Verdict:
    """The comparison of a challenger and the champion on the same triples.

    brier        Brier score of the champion minus that of the challenger. If it is above 0, the challenger is better.
    calibration  squared calibration error of the challenger minus that of the champion. Its upper end is the upper
                 confidence limit that the gate uses. None if there is no champion.
    excess       the two squared calibration errors; None if there is no champion
    margin       by how much the calibration error of the challenger may be higher, at the base rate of the triples
    needed       about how many triples like these show that the calibration error is not worse, if both models are
                 equally calibrated
    triples      number of triples
    scarce       the triples of a label that are too few to show the gain that was observed; None: they are enough
    """

    brier: Estimate
    calibration: Estimate | None
    excess: Excess | None
    margin: float
    needed: int
    triples: int
    scarce: Scarce | None = None

    @property
    def better(self) -> bool:
        """Return whether the challenger's Brier score is significantly lower: the interval of `brier` is above 0."""
        return self.brier.low > 0

    @property
    def calibrated(self) -> bool:
        """Return whether its calibration error is shown to be higher by less than the margin."""
        return self.calibration is None or self.calibration.high < self.margin**2

    @property
    def passed(self) -> bool:
        """Return whether the challenger may become the champion: it is better, and not worse calibrated."""
        return self.better and self.calibrated

    def reason(self) -> str:
        """Return the comparison as a clause: `on 2,000 triples its Brier score is significantly lower (...)`."""
        better = "" if self.better else "not "
        text = f"on {self.triples:,} triples its Brier score is {better}significantly lower (gain {self.brier})"
        text += f"; {self.scarce}" if self.scarce else ""
        if self.excess is None:
            return text
        errors = [max(0.0, square) ** 0.5 for square in (self.excess.challenger, self.excess.champion)]
        figures = f"(calibration errors {errors[0]:.3f} and {errors[1]:.3f})"
        if self.calibrated:
            return f"{text} and its calibration error is at most {self.margin:.3g} higher {figures}"
        text = f"{text}, but it is not shown that its calibration error is at most {self.margin:.3g} higher {figures}"
        if self.needed <= self.triples:
            return text
        return f"{text}; to show it for an equally calibrated challenger needs about {self.needed:,} triples"


def gate(
    challenger: Probabilities,
    champion: Probabilities | None,
    rows: PairedRows,
    config: GateConfig,
    level: float | None = None,
) -> Verdict:
    """Compare two calibrated models on the same n triples.

    challenger  (n,) probabilities in [0, 1]
    champion    (n,) probabilities in [0, 1]. If None, there is no champion, and the challenger is compared with a
                constant probability, the share of positives. Then only Brier scores are compared, because this
                constant has a calibration error of 0 without being useful
    rows        labels, weights and clusters of the triples
    level       probability, in (0, 1), that a challenger that is not better counts as better. None:
                (1 - `config.level`) / 2, that of the first challenger of an exam

    Two conditions:

    1. The Brier score is lower, by a one-sided test at this level (`brier_gain`). Its standard error is at least that
       under the hypothesis, so that rare triples that are not in the sample count.
    2. The calibration error is not worse: it exceeds the champion's by less than the margin d at the base rate a of the
       rows: d = 2 sqrt(a (1 - a)) `config.margin`. The test rejects
       E_q^2 - E_r^2 >= d^2 at the one-sided level 1 - `config.level` (`calibration_excess`). E_q^2 < E_r^2 + d^2
       implies E_q < E_r + d. A calibration error itself has no interval that covers near 0; its square has one.

    sqrt(a (1 - a)) is the root mean square error of the constant probability a. So the margin is the same share of it
    at every base rate, and `config.margin` itself at 0.5.

    Raises InputError for arrays of different lengths and for values out of range.
    """
    same_length(challenger=challenger, labels=rows.labels, weights=rows.weights)
    q, count = as_probabilities(challenger), rows.triples
    r = np.full(len(rows), rows.base_rate) if champion is None else as_probabilities(champion)
    same_length(challenger=q, champion=r)
    one_sided = (1 - config.level) / 2 if level is None else level
    gain = brier_gain(q, r, rows)
    z = -float(ndtri(one_sided))
    half = z * gain.cautious
    brier = Estimate(gain.value, gain.value - half, gain.value + half)
    margin, scarce = config.margin * 2 * float(np.sqrt(rows.base_rate * (1 - rows.base_rate))), _scarce(gain, rows, z)
    if champion is None:
        return Verdict(brier, None, None, margin, 0, count, scarce)
    excess, z = calibration_excess(q, r, rows), float(ndtri(config.level))
    limits = Estimate(excess.value, excess.value - z * excess.error, excess.value + z * excess.error)
    needed = int(np.ceil(count * z * excess.noise / margin**2))
    return Verdict(brier, limits, excess, margin, needed, count, scarce)


def _scarce(gain: Gain, rows: PairedRows, z: float) -> Scarce | None:
    """Return the triples that are too few, if the observed variance alone would show the gain and the test does not."""
    if not z * gain.error < gain.value <= z * gain.cautious:
        return None
    label = int(gain.unseen[1] > gain.unseen[0])
    number = int((rows.labels == label).sum())
    return Scarce(label, number, int(np.ceil(number * (z * gain.cautious / gain.value) ** 2)))
