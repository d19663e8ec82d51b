"""How good the probabilities are: one `Measured` a calibrator."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

import numpy as np

from kgcore.arrays import Floats, Ints
from kgcore.config import ClassifyConfig, EvaluateConfig
from kgcore.errors import MismatchError
from kgcore.evaluation.predictions import Predictions
from kgcore.metrics.bootstrap import estimate, resampled
from kgcore.metrics.corp import BRIER, LOG_LOSS, decompose, recalibrated
from kgcore.metrics.discrimination import auroc_of, average_precision_of
from kgcore.metrics.equal_mass import bin_starts, binned_ece_of, debiased_rmsce_of, equal_mass_bins
from kgcore.metrics.proper import CLIP, brier, log_loss
from kgcore.metrics.reliability import Reliability, equal_width_bins, reliability
from kgcore.metrics.sharpness import sharpness_of
from kgcore.metrics.smooth import smooth_ece_of
from kgcore.metrics.tally import Pool

MAIN = ("brier", "log_loss", "ece", "accuracy")
FINEST = 4096  # groups of neighbouring probabilities that resamplings tell apart


@dataclass(frozen=True)
class Measured:
    """The scores of one calibrator on the test split, and its reliability diagram.

    brier, log_loss, ece, accuracy   what everything is compared by
    reliability                      the diagram
    others                           the further metrics by name, but for those that are not defined on the sample, as
                                     the area under a ROC curve without negatives
    intervals                        metric -> (low, high), kept inside the metric's range; see `evaluate`
    """

    brier: float
    log_loss: float
    ece: float
    accuracy: float
    reliability: Reliability
    others: dict[str, float] = field(default_factory=dict)
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)

    def metrics(self) -> dict[str, float]:
        """The numbers alone, by name."""
        main: dict[str, float] = {name: getattr(self, name) for name in MAIN}
        return main | self.others


def evaluate(
    predictions: Predictions,
    config: EvaluateConfig,
    tau: float = ClassifyConfig.tau,
    source: Ints | None = None,
    on_replicate: Callable[[int], None] = lambda done: None,
) -> dict[str, Measured]:
    """Calibrator label -> what it measures on the test split: Brier score, log loss (clip 1e-7), calibration error over
    equal-width bins, accuracy at tau (paper, section 5), and beside them, all in kgcore.metrics:

        ece_equal_mass, debiased_rmsce, smooth_ece       calibration
        brier_miscalibration, brier_discrimination, brier_uncertainty, and the same of log_loss: what it is made of
        auroc, average_precision                         discrimination
        sharpness                                        variance of the probabilities

    tau           the threshold that the decisions were made at
    source        (m,) which positive each of the m negatives was made from, where they are corruptions; None: unknown
    on_replicate  told how many resamplings are done

    Intervals are normal ones, with the standard deviation over `bootstrap_replicates` resamplings of the rows, the same
    for every calibrator; a positive is drawn with its corruptions, which keeps the stated base rate. They tell how the
    figure varies, not its bias: of perfect probabilities every error but the debiased one is above 0, and so may its
    interval be.
    For speed, resamplings keep the bins of equal mass, and pool neighbouring probabilities where there are many.

    Raises MismatchError where `source` does not fit the predictions.
    """
    judged = {label: (q, predictions.labels, predictions.weights) for label, q in predictions.probabilities.items()}
    samples = {label: _Sample(Pool(*rows, FINEST), config.bins, tau) for label, rows in judged.items()}
    clusters = None if source is None else _clusters(predictions, source)
    rng, n = np.random.default_rng(config.bootstrap_seed), len(predictions.labels)
    drawn: dict[str, list[dict[str, float]]] = {label: [] for label in samples}
    for done, counts in enumerate(resampled(n, rng, config.bootstrap_replicates, clusters), start=1):
        for label, sample in samples.items():
            drawn[label].append(sample.figures(counts))
        on_replicate(done)

    measured = {}
    for label, rows in judged.items():
        diagram = reliability(*rows, config.bins)
        main = {"brier": brier(*rows), "log_loss": log_loss(*rows), "ece": diagram.ece}
        main["accuracy"] = predictions.accuracies[label]
        values = _Sample(Pool(*rows), config.bins, tau).figures() | main
        intervals = {}
        for name, value in values.items():
            found = estimate(value, [figures[name] for figures in drawn[label]], config.bootstrap_level)
            if math.isfinite(found.low):
                highest = math.inf if name.startswith("log_loss") else 1.0
                intervals[name] = (max(found.low, 0.0), min(found.high, highest))
        others = {name: value for name, value in values.items() if name not in main and math.isfinite(value)}
        measured[label] = Measured(**main, reliability=diagram, others=others, intervals=intervals)
    return measured


class _Sample:
    """One calibrator's judged rows, with what stays the same when they are resampled."""

    def __init__(self, pool: Pool, bins: int, tau: float) -> None:
        self._pool, q = pool, pool.q
        self._width, self._mass = bin_starts(equal_width_bins(q, bins)), equal_mass_bins(pool.tally(), bins)
        clipped, called = q.clip(CLIP, 1 - CLIP), (q > tau).astype(np.float64)
        self._losses = {
            "brier": ((1 - q) ** 2, q**2),
            "log_loss": (-np.log(clipped), -np.log1p(-clipped)),
            "accuracy": (called, 1 - called),
        }

    def figures(self, counts: Floats | None = None) -> dict[str, float]:
        """Every metric by name, each row (n,) being taken `counts` times; NaN where it is not defined."""
        t = self._pool.tally(counts)
        found = {name: t.mean(*loss) for name, loss in self._losses.items()}
        found |= {"ece": binned_ece_of(t, self._width), "ece_equal_mass": binned_ece_of(t, self._mass)}
        found |= {"debiased_rmsce": debiased_rmsce_of(t, self._mass), "smooth_ece": smooth_ece_of(t)}
        fitted = recalibrated(t)
        for name, curve in (("brier", BRIER), ("log_loss", LOG_LOSS)):
            parts = decompose(found[name], curve, *fitted)
            found |= {f"{name}_{part}": value for part, value in asdict(parts).items()}
        found |= {"auroc": auroc_of(t), "average_precision": average_precision_of(t)}
        return found | {"sharpness": sharpness_of(t)}


def _clusters(predictions: Predictions, source: Ints) -> Ints:
    """The positive that each row is, or was made from (n,)."""
    positive = predictions.labels == 1
    if len(source) != (~positive).sum() or (len(source) and source.max() >= positive.sum()):
        raise MismatchError(
            f"{len(source):,} corruptions have a source, {int((~positive).sum()):,} negatives were judged: "
            "they do not belong together"
        )
    clusters = np.empty(len(positive), dtype=np.int64)
    clusters[positive], clusters[~positive] = np.arange(positive.sum()), source
    return clusters
