"""Check a calibrated model on newly labelled triples for drift.

Three tests can find drift: the base rate moved, the map moved (kgcore/monitoring/moves.py), and the scores moved
(kgcore/monitoring/stability.py). They share one significance level alpha, and so do all checks of one model:

    p of check k, corrected = p k (k + 1) / share,   share = .4, .4 and .2

A finding needs a corrected p-value below alpha. The shares sum to 1, and so does 1 / (k (k + 1)) over k = 1, 2, ...
So for a model without drift, the probability that any check ever finds drift is at most alpha (Bonferroni). This is
alpha spending (Lan & DeMets, Biometrika 70, 1983) with a rule that needs no planned number of checks. It makes no
assumption about the labels of different checks: a later check may use the same file with more rows, a corrected file,
or another file.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from kgcore.arrays import Ints, Labels, Probabilities, Scores, Weights
from kgcore.calibration.sample import CalibrationSample
from kgcore.config import WatchConfig
from kgcore.errors import InputError
from kgcore.metrics.bootstrap import Estimate, bootstrap
from kgcore.metrics.classification import accuracy
from kgcore.metrics.proper import brier, log_loss
from kgcore.metrics.reliability import ece
from kgcore.monitoring.findings import Evidence, Report, report
from kgcore.monitoring.moves import moves
from kgcore.monitoring.stability import stability
from kgcore.monitoring.two_samples import NewTriples
from kgcore.registries import METRICS

SHIFT_SHARE, MAP_SHARE, SCORES_SHARE = 0.4, 0.4, 0.2


@dataclass(frozen=True)
class Origin:
    """What a calibrated model was fitted and measured on.

    sample                     the sample that the calibrator was fitted on
    base_rate                  the base rate of the calibrator, in (0, 1)
    by_predicate               whether it has a map for each predicate
    test_scores, test_weights  (m,) scores and weights of the test rows that the model was evaluated on
    limits                     the ends of the 95 % interval of the base rate, in (0, 1); None: it is exact
    """

    sample: CalibrationSample
    base_rate: float
    by_predicate: bool
    test_scores: Scores
    test_weights: Weights
    limits: tuple[float, float] | None = None


@dataclass(frozen=True)
class Check:
    """The measurements of a calibrated model on newly labelled triples.

    triples                         number of triples
    base_rate                       share of positives, in [0, 1]
    brier, log_loss, ece, accuracy  metrics with 95 % intervals
    evidence                        how far the base rate, the map and the scores have moved; the p-values are
                                    corrected for the three tests and the number of checks
    report                          the findings in sentences, and what to do
    """

    triples: int
    base_rate: float
    brier: Estimate
    log_loss: Estimate
    ece: Estimate
    accuracy: Estimate
    evidence: Evidence
    report: Report

    def metrics(self) -> dict[str, float]:
        """Return the measurements by name, except infinite ones. Intervals end at NAME_low and NAME_high.

        A metric without `Metric.interval` is given without an interval, because its interval would not cover.
        """
        found: dict[str, float] = {"triples": self.triples, "base_rate": self.base_rate}
        found |= {name: getattr(self.evidence, name) for name in ("shift_p", "map_p", "psi", "psi_p")}
        estimates: dict[str, Estimate] = {n: getattr(self, n) for n in ("brier", "log_loss", "ece", "accuracy")}
        without = [name for name in estimates if not METRICS.get(name).interval]
        estimates |= {n: getattr(self.evidence, n) for n in ("shift", "slope", "misfit", "moved_base_rate")}
        for name, estimate in estimates.items():
            found[name] = estimate.value
            if name not in without:
                found |= {f"{name}_low": estimate.low, f"{name}_high": estimate.high}
        return {name: value for name, value in found.items() if np.isfinite(value)}


def check(probabilities: Probabilities, new: NewTriples, origin: Origin, config: WatchConfig, number: int = 1) -> Check:
    """Measure a calibrated model on newly labelled triples, and test for drift.

    probabilities  (n,) of the model for the new triples
    new            scores and labels of the new triples. Their predicates are used if the calibrator has a map for
                   each predicate, and are then required
    origin         what the model was fitted and measured on
    number         number of this check among all checks of the model, from 1

    A finding is significant and large enough to matter: see `report`. Raises InputError for fewer than
    `config.at_least` triples, because the tests need more.
    """
    count = len(new.labels)
    if count < config.at_least:
        raise InputError(
            f"{count:,} new triples have labels and known names: at least {config.at_least:,} are needed; "
            "a triple is new if it is not in train, valid or test"
        )
    evidence = find_evidence(probabilities, new, origin, number)
    measured = _measure(probabilities, new.labels)
    return Check(
        triples=count,
        base_rate=float(new.labels.mean()),
        brier=measured["brier"],
        log_loss=measured["log_loss"],
        ece=measured["ece"],
        accuracy=measured["accuracy"],
        evidence=evidence,
        report=report(evidence, config),
    )


def find_evidence(probabilities: Probabilities, new: NewTriples, origin: Origin, number: int = 1) -> Evidence:
    """Test for drift. The arguments are those of `check`; there is no smallest number of triples."""
    used = new if origin.by_predicate else replace(new, predicates=None)
    moved = moves(origin.sample, origin.base_rate, used, origin.limits)
    scores = stability(origin.test_scores, new.scores, origin.test_weights)
    return Evidence(
        triples=len(new.labels),
        positives=int(new.labels.sum()),
        expected=float(probabilities.sum()),
        ece=ece(probabilities, new.labels),
        shift=moved.shift,
        slope=moved.slope,
        misfit=moved.misfit,
        base_rate=origin.base_rate,
        moved_base_rate=moved.base_rate(origin.base_rate),
        shift_p=corrected(moved.shift_p, SHIFT_SHARE, number),
        map_p=corrected(moved.map_p, MAP_SHARE, number),
        psi=scores.index,
        psi_p=corrected(scores.p, SCORES_SHARE, number),
    )


def corrected(p: float, share: float, number: int) -> float:
    """Return a p-value in [0, 1], corrected for the other tests and checks: at most 1.

    share   share of alpha that the test has, in (0, 1]
    number  number of the check, from 1
    """
    return min(1.0, p * number * (number + 1) / share)


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
