"""Whether a calibrated model still fits the world: newly labelled triples against what it was measured on."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, ndtr

from kgcore.arrays import Ints, Labels, Probabilities, Scores, Weights, as_floats, as_weights
from kgcore.config import WatchConfig
from kgcore.errors import InputError
from kgcore.metrics.bootstrap import Estimate, bootstrap
from kgcore.metrics.classification import accuracy
from kgcore.metrics.proper import brier, log_loss
from kgcore.metrics.reliability import ece
from kgcore.metrics.rows import judged_rows

BINS = 10


@dataclass(frozen=True)
class Stability:
    """index: the population stability index, >= 0; p: how likely one as large is where nothing has drifted."""

    index: float
    p: float


def stability(reference: Scores, scores: Scores, weights: Weights | None = None, bins: int = BINS) -> Stability:
    """Population stability index of scores (n,) against reference scores (m,), which may bear weights (m,).

    sum_b (a_b - e_b) ln(a_b / e_b) over `bins` bins that hold equal shares of the reference, e_b and a_b being the
    shares of reference and scores, each count raised by a half so that none is 0. By sampling alone the index is about
    (1 / n + 1 / m) times a chi-square variable of bins - 1 degrees (Yurdakul 2018), which gives p; m is the reference's
    effective count (sum w)^2 / sum w^2.
    Raises InputError for arrays that are empty or not finite, and for weights <= 0.
    """
    new, old = as_floats("scores", scores, len(scores)), as_floats("reference", reference, len(reference))
    if not len(new) or not len(old):
        raise InputError("a stability index needs scores on both sides")
    w = as_weights(weights, len(old))
    count = float(w.sum() ** 2 / (w**2).sum())
    order = np.argsort(old, kind="stable")
    mass = np.cumsum(w[order]) / w.sum()
    edges = np.unique(old[order][np.searchsorted(mass, np.arange(1, bins) / bins)])
    cells = len(edges) + 1
    expected = np.bincount(np.searchsorted(edges, old), w, cells) / w.sum() * count + 0.5
    actual = np.bincount(np.searchsorted(edges, new), minlength=cells) + 0.5
    e, a = expected / expected.sum(), actual / actual.sum()
    index = float(((a - e) * np.log(a / e)).sum())
    return Stability(index, float(chdtrc(cells - 1, index / (1 / len(new) + 1 / count))) if cells > 1 else 1.0)


def spiegelhalter(probabilities: Probabilities, labels: Labels) -> float:
    """p of Spiegelhalter's test of calibration (1986): how likely a Brier score as far from its expectation is where
    every probability is right.

    z = sum (y - q)(1 - 2 q) / sqrt(sum (1 - 2 q)^2 q (1 - q)), two-sided. Where the denominator is 0 (all q are 0, 1/2
    or 1) p is 1 if the numerator is 0, too, and 0 otherwise. Raises InputError for values out of range.
    """
    q, y, _ = judged_rows(probabilities, labels, None)
    over = float(((y - q) * (1 - 2 * q)).sum())
    under = float(((1 - 2 * q) ** 2 * q * (1 - q)).sum())
    if under == 0:
        return 1.0 if over == 0 else 0.0
    return float(2 * ndtr(-abs(over) / np.sqrt(under)))


def calibration_in_the_large(probabilities: Probabilities, labels: Labels) -> float:
    """p of the share of positives being the mean probability: z = sum (y - q) / sqrt(sum q (1 - q)), two-sided; what
    Spiegelhalter's test cannot see where every q is near 1/2. Raises InputError for values out of range."""
    q, y, _ = judged_rows(probabilities, labels, None)
    over, under = float((y - q).sum()), float((q * (1 - q)).sum())
    if under == 0:
        return 1.0 if over == 0 else 0.0
    return float(2 * ndtr(-abs(over) / np.sqrt(under)))


@dataclass(frozen=True)
class Look:
    """A calibrated model on newly labelled triples.

    triples, base_rate                   how many, and the share of positives
    brier, log_loss, ece, accuracy       with intervals of 95 %
    calibration_p                        the smaller p of the two tests of calibration, doubled (Bonferroni), at most 1
    psi, psi_p                           the stability index of the scores, and its p
    findings                             what is wrong, a sentence each
    """

    triples: int
    base_rate: float
    brier: Estimate
    log_loss: Estimate
    ece: Estimate
    accuracy: Estimate
    calibration_p: float
    psi: float
    psi_p: float
    findings: tuple[str, ...]

    def metrics(self) -> dict[str, float]:
        """The numbers by name; the ends of an interval as NAME_low and NAME_high."""
        plain: dict[str, float] = {name: getattr(self, name) for name in ("triples", "base_rate", "calibration_p")}
        plain |= {"psi": self.psi, "psi_p": self.psi_p}
        for name in ("brier", "log_loss", "ece", "accuracy"):
            estimate: Estimate = getattr(self, name)
            plain |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
        return plain


def look(
    probabilities: Probabilities,
    scores: Scores,
    labels: Labels,
    reference: Scores,
    reference_weights: Weights,
    config: WatchConfig,
) -> Look:
    """Measure probabilities and scores (n,) of newly labelled triples against labels (n,) and the scores (m,) that the
    model was measured on.

    Something is wrong where the calibration error is above `ece` and a test of calibration has p below alpha, or where
    the stability index is above `psi` and has p below alpha: large enough to matter, and beyond sampling.
    Raises InputError for fewer triples than `at_least`: their tests would say nothing.
    """
    if len(labels) < config.at_least:
        raise InputError(
            f"{len(labels):,} triples can be judged: at least {config.at_least:,} are needed that train, valid and "
            "test do not have"
        )
    q, y, rng = probabilities, labels, np.random.default_rng(0)
    figures: dict[str, Callable[[Ints], float]] = {
        "brier": lambda i: brier(q[i], y[i]),
        "log_loss": lambda i: log_loss(q[i], y[i]),
        "ece": lambda i: ece(q[i], y[i]),
        "accuracy": lambda i: accuracy(q[i] > 0.5, y[i]),
    }
    measured = {name: bootstrap(figure, len(y), rng, replicates=500) for name, figure in figures.items()}
    tests = (spiegelhalter(probabilities, labels), calibration_in_the_large(probabilities, labels))
    p, drift = min(1.0, 2 * min(tests)), stability(reference, scores, reference_weights)
    findings = []
    if p < config.alpha and measured["ece"].value > config.ece:
        findings.append(
            f"the probabilities are off: calibration error {measured['ece'].value:.3f}, above {config.ece:g}; "
            f"{y.mean():.3f} of the triples are true, {q.mean():.3f} were expected (p = {p:.2g})"
        )
    if drift.index > config.psi and drift.p < config.alpha:
        findings.append(
            f"the scores have drifted: stability index {drift.index:.3f}, above {config.psi:g} (p = {drift.p:.2g})"
        )
    return Look(
        triples=len(labels),
        base_rate=float(labels.mean()),
        calibration_p=p,
        psi=drift.index,
        psi_p=drift.p,
        findings=tuple(findings),
        **measured,
    )
