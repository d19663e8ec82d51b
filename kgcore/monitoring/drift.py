"""Drift: it measures a calibrated model on newly labelled triples, and compares their scores with the test scores."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Ints, Labels, Probabilities, Scores, Weights
from kgcore.config import WatchConfig
from kgcore.errors import InputError
from kgcore.metrics.bootstrap import Estimate, bootstrap
from kgcore.metrics.classification import accuracy
from kgcore.metrics.proper import brier, log_loss
from kgcore.metrics.reliability import ece
from kgcore.monitoring.significance import calibration_in_the_large, spiegelhalter
from kgcore.monitoring.stability import Stability, stability
from kgcore.registries import METRICS


@dataclass(frozen=True)
class Look:
    """The measurements of a calibrated model on newly labelled triples.

    triples                         number of triples
    base_rate                       share of positives, in [0, 1]
    brier, log_loss, ece, accuracy  metrics with 95 % intervals
    calibration_p                   p-value of the hypothesis that the model is calibrated: twice the smaller p-value of
                                    two tests (Bonferroni), at most 1
    psi, psi_p                      population stability index of the scores, and its p-value
    findings                        one sentence about each problem; empty if there is no problem
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
        """Return the measurements by name. The ends of an interval are called NAME_low and NAME_high.

        A metric without `Metric.interval` has no ends: its interval would not cover.
        """
        plain: dict[str, float] = {name: getattr(self, name) for name in ("triples", "base_rate", "calibration_p")}
        plain |= {"psi": self.psi, "psi_p": self.psi_p}
        for name in ("brier", "log_loss", "ece", "accuracy"):
            estimate: Estimate = getattr(self, name)
            plain[name] = estimate.value
            if METRICS.get(name).interval:
                plain |= {f"{name}_low": estimate.low, f"{name}_high": estimate.high}
        return plain


def look(
    probabilities: Probabilities,
    scores: Scores,
    labels: Labels,
    reference: Scores,
    reference_weights: Weights,
    config: WatchConfig,
) -> Look:
    """Measure a calibrated model on newly labelled triples.

    probabilities, scores         (n,) of the model on the new triples
    labels                        (n,) 0/1
    reference, reference_weights  (m,) scores and weights of the test rows that the model was evaluated on

    There are two possible findings:

    * The probabilities are miscalibrated: the calibration error is above `config.ece`, and `calibration_p` is below
      `config.alpha`.
    * The scores have drifted: the stability index is above `config.psi`, and its p-value is below `config.alpha`.

    So a finding is large enough to matter, and too large to come from sampling alone. Raises InputError for fewer than
    `config.at_least` triples, because the tests need more.
    """
    if len(labels) < config.at_least:
        raise InputError(
            f"{len(labels):,} new triples have labels and known names: at least {config.at_least:,} are needed; "
            "a triple is new if it is not in train, valid or test"
        )
    measured = _measure(probabilities, labels)
    tests = (spiegelhalter(probabilities, labels), calibration_in_the_large(probabilities, labels))
    p, drift = min(1.0, 2 * min(tests)), stability(reference, scores, reference_weights)
    findings = [
        *_calibration_finding(measured["ece"].value, p, probabilities, labels, config),
        *_drift_finding(drift, config),
    ]
    return Look(
        triples=len(labels),
        base_rate=float(labels.mean()),
        calibration_p=p,
        psi=drift.index,
        psi_p=drift.p,
        findings=tuple(findings),
        **measured,
    )


def _measure(q: Probabilities, y: Labels) -> dict[str, Estimate]:
    """Compute the four metrics with bootstrap intervals, by name."""
    rng = np.random.default_rng(0)
    figures: dict[str, Callable[[Ints], float]] = {
        "brier": lambda i: brier(q[i], y[i]),
        "log_loss": lambda i: log_loss(q[i], y[i]),
        "ece": lambda i: ece(q[i], y[i]),
        "accuracy": lambda i: accuracy(q[i] > 0.5, y[i]),
    }
    return {name: bootstrap(figure, len(y), rng, replicates=500) for name, figure in figures.items()}


def _calibration_finding(error: float, p: float, q: Probabilities, y: Labels, config: WatchConfig) -> list[str]:
    if p >= config.alpha or error <= config.ece:
        return []
    return [
        f"the probabilities are miscalibrated: the calibration error is {error:.3f}, above {config.ece:g}; "
        f"{y.mean():.3f} of the triples are true, the mean probability is {q.mean():.3f} (p-value {p:.2g})"
    ]


def _drift_finding(drift: Stability, config: WatchConfig) -> list[str]:
    if drift.index <= config.psi or drift.p >= config.alpha:
        return []
    return [
        f"the scores have drifted: the stability index is {drift.index:.3f}, above {config.psi:g} (p = {drift.p:.2g})"
    ]
