"""Check a calibrated model on newly labelled triples for drift.

Three tests can find drift: the base rate moved, the map moved (kgcore/wings/monitoring/moves.py), and the scores moved
(`stability`). They share one significance level alpha, and so do all checks of one model:

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
from scipy.special import chdtrc

from kgcore.arrays import Ints, Labels, Probabilities, Scores, Weights, as_floats
from kgcore.calibrate.sample import CalibrationSample, scaled_weights
from kgcore.config import WatchConfig
from kgcore.errors import InputError
from kgcore.measure.metrics.base import Estimate, bootstrap
from kgcore.measure.metrics.classification import accuracy
from kgcore.measure.metrics.proper import brier, log_loss
from kgcore.measure.metrics.reliability import ece
from kgcore.registries import METRICS
from kgcore.wings.monitoring.moves import moves
from kgcore.wings.monitoring.two_samples import NewTriples

BINS = 10
NONE, SHIFT, REFIT, LABEL = "", "shift", "refit", "label"  # the answers to drift
LEAST_MOVE = 0.25  # a move of this size, in log-odds, matters even if the calibration error is small
SHIFT_SHARE, MAP_SHARE, SCORES_SHARE = 0.4, 0.4, 0.2


def stability(reference: Scores, scores: Scores, weights: Weights | None = None) -> tuple[float, float]:
    """Return the population stability index of scores, compared with reference scores, and its p-value. The index is

        sum_b (a_b - e_b) ln(a_b / e_b)

    over BINS bins that hold equal shares of the reference scores. e_b is the share of the reference scores in bin b,
    and a_b is the share of the new scores in it. 1/2 is added to each count first, so that no share is 0.

    reference  (m,) reference scores, finite
    scores     (n,) new scores, finite
    weights    (m,) weights of the reference scores, positive; None: equal

    Without drift the index is about (1 / n + 1 / m) times a chi-square variable with BINS - 1 degrees of freedom
    (Yurdakul 2018), which gives p. In this formula, m is the effective count (sum w)^2 / sum w^2 of the reference.
    Raises InputError for arrays that are empty or not finite, and for weights <= 0.
    """
    new, old = as_floats("scores", scores, len(scores)), as_floats("reference", reference, len(reference))
    if not len(new) or not len(old):
        raise InputError(
            f"there are {len(old):,} reference scores and {len(new):,} new scores: a stability index needs both"
        )
    w = scaled_weights(weights, len(old))
    count = float(w.sum() ** 2 / (w**2).sum())
    order = np.argsort(old, kind="stable")
    mass = np.cumsum(w[order]) / w.sum()
    edges = np.unique(old[order][np.searchsorted(mass, np.arange(1, BINS) / BINS)])
    cells = len(edges) + 1
    expected = np.bincount(np.searchsorted(edges, old), w, cells) / w.sum() * count + 0.5
    actual = np.bincount(np.searchsorted(edges, new), minlength=cells) + 0.5
    e, a = expected / expected.sum(), actual / actual.sum()
    index = float(((a - e) * np.log(a / e)).sum())
    return index, float(chdtrc(cells - 1, index / (1 / len(new) + 1 / count))) if cells > 1 else 1.0


@dataclass(frozen=True)
class DriftEvidence:
    """What a check has measured about drift.

    triples                number of new triples
    positives              number of them that are labelled true
    expected               number of true triples that the calibrator expects among them
    ece                    calibration error
    shift, slope, misfit   how far the base rate and the map have moved: see `Moves`
    base_rate              base rate of the calibrator
    moved_base_rate        the same, shifted by `shift`
    shift_p, map_p, psi_p  corrected p-values of: the base rate, the map, the scores have not moved
    psi                    population stability index of the scores
    """

    triples: int
    positives: int
    expected: float
    ece: float
    shift: Estimate
    slope: Estimate
    misfit: Estimate
    base_rate: float
    moved_base_rate: Estimate
    shift_p: float
    map_p: float
    psi: float
    psi_p: float


@dataclass(frozen=True)
class Report:
    """The result of a check in sentences.

    findings  one sentence about each kind of drift; empty: no drift was found
    notes     sentences that limit what the check can say
    answer    what to do: `shift` the calibrator to the new base rate, `refit` it with the new labels, `label` a
              random sample; '' = nothing
    """

    findings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    answer: str = NONE


def report(found: DriftEvidence, config: WatchConfig) -> Report:
    """Decide what has moved.

    * The map has moved if `map_p` is below `config.alpha`: refit the calibrator.
    * Else, the base rate has moved if `shift_p` is below `config.alpha`: shift the calibrator.
    * The scores have moved if `psi_p` is below `config.alpha` and the stability index is above `config.psi`. If
      neither of the other two has moved, the probabilities still fit: there is nothing to do.

    The first two also need a calibration error above `config.ece`, or a move above LEAST_MOVE. At a low base rate the
    calibration error is always small.

    If all labels are equal, the map cannot be tested. The triples may then be a selection by label, so the answer
    to a moved base rate is to label a random sample.
    """
    scores = _scores_finding(found, config)
    if found.positives in (0, found.triples):
        sentence = _one_class(found)
        if found.shift_p < config.alpha and _matters(found, found.shift, config):
            return Report((sentence, *scores), (), LABEL)
        return Report(scores, (sentence,), NONE)
    if found.map_p < config.alpha and _matters(found, found.misfit, config):
        return Report((_map_finding(found), *scores), (), REFIT)
    if found.shift_p < config.alpha and _matters(found, found.shift, config):
        return Report((_shift_finding(found), *scores), (), SHIFT)
    still_fits = ("the labels show no change of the base rate or of the map",) if scores else ()
    return Report(scores, still_fits, NONE)


def _matters(found: DriftEvidence, move: Estimate, config: WatchConfig) -> bool:
    return found.ece > config.ece or abs(move.value) > LEAST_MOVE


def _shift_finding(found: DriftEvidence) -> str:
    rate = found.moved_base_rate
    return (
        f"the base rate moved: since calibration, the log-odds have changed by {_interval(found.shift, '+.2f')} "
        f"(p-value {found.shift_p:.2g}), so the base rate is about {_interval(rate, '.3g')} instead of "
        f"{found.base_rate:.3g}; beyond this shift no change of the map was found (remaining misfit "
        f"{_interval(found.misfit, '.2f')}): shift the calibrator to the new base rate"
    )


def _map_finding(found: DriftEvidence) -> str:
    return (
        f"the map moved: beyond a shift of {_interval(found.shift, '+.2f')}, the log-odds differ from those at "
        f"calibration by {_interval(found.misfit, '.2f')} (root mean square; p-value {found.map_p:.2g}), and their "
        f"slope is {_interval(found.slope, '.2f')} instead of 1: refit the calibrator with the new labels"
    )


def _scores_finding(found: DriftEvidence, config: WatchConfig) -> tuple[str, ...]:
    if found.psi <= config.psi or found.psi_p >= config.alpha:
        return ()
    return (
        f"the scores have drifted: the stability index is {found.psi:.3f}, above {config.psi:g} "
        f"(p-value {found.psi_p:.2g})",
    )


def _one_class(found: DriftEvidence) -> str:
    same = "true" if found.positives else "false"
    return (
        f"all {found.triples:,} labels are {same}; the calibrator expects {found.expected:,.1f} true triples among "
        "them: labels of one class cannot show whether the base rate or the map moved; label a random sample of the "
        "triples that you judge, with its true and its false triples"
    )


def _interval(estimate: Estimate, style: str) -> str:
    return f"{estimate.value:{style}} [{estimate.low:{style}}, {estimate.high:{style}}]"


@dataclass(frozen=True)
class DriftReference:
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

    triples    number of triples
    base_rate  share of positives, in [0, 1]
    figures    brier, log_loss, ece, accuracy -> its value with a 95 % interval
    evidence   how far the base rate, the map and the scores have moved; the p-values are corrected for the three tests
               and the number of checks
    report     the findings in sentences, and what to do
    """

    triples: int
    base_rate: float
    figures: dict[str, Estimate]
    evidence: DriftEvidence
    report: Report

    def metrics(self) -> dict[str, float]:
        """Return the measurements by name, except infinite ones. Intervals end at NAME_low and NAME_high.

        A metric without `Metric.interval` is given without an interval, because its interval would not cover.
        """
        values: dict[str, float] = {"triples": self.triples, "base_rate": self.base_rate}
        values |= {name: getattr(self.evidence, name) for name in ("shift_p", "map_p", "psi", "psi_p")}
        without = [name for name in self.figures if not METRICS.get(name).interval]
        estimates = self.figures | {
            n: getattr(self.evidence, n) for n in ("shift", "slope", "misfit", "moved_base_rate")
        }
        for name, estimate in estimates.items():
            values[name] = estimate.value
            if name not in without:
                values |= {f"{name}_low": estimate.low, f"{name}_high": estimate.high}
        return {name: value for name, value in values.items() if np.isfinite(value)}


def check(
    probabilities: Probabilities, new: NewTriples, origin: DriftReference, config: WatchConfig, number: int = 1
) -> Check:
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
    figures = _measure(probabilities, new.labels)
    return Check(count, float(new.labels.mean()), figures, evidence, report(evidence, config))


def find_evidence(
    probabilities: Probabilities, new: NewTriples, origin: DriftReference, number: int = 1
) -> DriftEvidence:
    """Test for drift. The arguments are those of `check`; there is no smallest number of triples."""
    used = new if origin.by_predicate else replace(new, predicates=None)
    moved = moves(origin.sample, origin.base_rate, used, origin.limits)
    index, p = stability(origin.test_scores, new.scores, origin.test_weights)
    return DriftEvidence(
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
        psi=index,
        psi_p=corrected(p, SCORES_SHARE, number),
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
