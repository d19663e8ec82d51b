"""The evaluation of calibrators: every registered metric with its interval, and the reliability diagram."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kgcore.arrays import Ints
from kgcore.calibrate.calibrated import Calibrated
from kgcore.calibrate.fit import SYNTHETIC
from kgcore.config import ClassifyConfig, EvaluateConfig
from kgcore.errors import MismatchError
from kgcore.measure.evaluation.predictions import Predictions
from kgcore.measure.metrics.base import Metric, Sample, Tally, estimate, every_metric, percent, resampled
from kgcore.measure.metrics.reliability import Reliability, reliability

if TYPE_CHECKING:
    from kgcore.measure.evaluation.predictions import Predictions

FINEST = 4096  # resamplings merge neighbouring probabilities into at most 4096 groups
ERROR = "debiased_rmsce"
TOLERANCE = 0.02  # a calibration error whose interval is above it is reported first, and does not pass the gate
SAME_BASE_RATE = 0.05  # test rows with a base rate that differs by more are no test of a calibrator
MOST_RESAMPLED = 2**18  # from more independent rows than this, groups of rows are resampled instead of rows


@dataclass(frozen=True)
class Measured:
    """The metrics of one calibrator on the test split, and its reliability diagram.

    metrics      name -> value. A metric that is not defined on the sample is missing; for example, AUROC is not defined
                 without negatives.
    reliability  the reliability diagram
    intervals    name of a metric -> (low, high), cut off at the ends of the metric's range; see `evaluate`. A metric
                 whose intervals would not cover the true value has none
    """

    metrics: dict[str, float]
    reliability: Reliability
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)

    def with_ends(self) -> dict[str, float]:
        """Return the metrics, and the ends NAME_low and NAME_high of the intervals that MLflow shows."""
        ends: dict[str, float] = {}
        for name, metric in every_metric().items():
            if metric.with_ends and name in self.intervals:
                ends[f"{name}_low"], ends[f"{name}_high"] = self.intervals[name]
        return self.metrics | ends


def evaluate(
    predictions: Predictions,
    config: EvaluateConfig,
    tau: float = ClassifyConfig().tau,
    source: Ints | None = None,
    on_replicate: Callable[[int], None] = lambda done: None,
    cold: int | None = None,
) -> dict[str, Measured]:
    """Compute every registered metric on the test split, with an interval, for each calibrator (paper, section 5).

    Return the label of each calibrator -> its metrics.

    tau           decision threshold of the accuracy
    source        (m,) if the m negatives are corruptions: for each of them, the index, among the positives, of the
                  positive that it was made from. None: each row is resampled on its own
    on_replicate  function that is called after each resampling, with the number of resamplings done so far
    cold          column of the cold entities in triples, 0 or 2, if test was drawn by them: all rows of an entity, and
                  the corruptions of its positives, are resampled together. None: test was not drawn by entities

    Only metrics with `Metric.interval` get an interval. Each interval is a normal interval. Its standard error is the
    standard deviation over `bootstrap_replicates` resamplings of the rows. All calibrators use the same resamplings. A
    positive is drawn together with its corruptions, which keeps the base rate. The bootstrap shows how much a metric
    varies, but not its bias: on a finite sample, every calibration error except the debiased one is above 0 even for
    perfect probabilities, so an interval of it would not cover. For speed, every resampling uses the bins of equal mass
    of the whole sample, and merges neighbouring probabilities if there are more than 4096 distinct ones. With more than
    MOST_RESAMPLED rows, no `source` and no confidences, it draws how often each group of merged rows occurs, for each
    calibrator on its own: the intervals are the same, but for the weights inside a group (see `Sample.merged`).

    Raises MismatchError if the length of `source` is not the number of negatives, or an index is out of range.
    """
    metrics = every_metric()
    varied = {name: metric for name, metric in metrics.items() if metric.interval}
    judged = {label: (q, predictions.truth, predictions.weights) for label, q in predictions.probabilities.items()}
    clusters = _clusters(predictions, source, cold)
    together = None if cold is None else clusters  # a positive and its corruptions hardly vary together
    settings = config.bins, tau, together
    coarse = {label: Sample(*rows, *settings, most=FINEST) for label, rows in judged.items()}
    n = len(predictions.labels)
    replicates: dict[str, list[dict[str, float]]] = {label: [] for label in judged}
    if clusters is None and n > MOST_RESAMPLED and predictions.confidences is None:
        tallies = _tallies_of_groups(coarse, config)
    else:
        times = resampled(n, np.random.default_rng(config.bootstrap_seed), config.bootstrap_replicates, clusters)
        tallies = ({label: sample.tally(counts) for label, sample in coarse.items()} for counts in times)
    for done, drawn in enumerate(tallies, start=1):
        for label, tally in drawn.items():
            replicates[label].append({name: tally.once(metric.figure) for name, metric in varied.items()})
        on_replicate(done)
    return {
        label: _measure(Sample(*rows, *settings), metrics, replicates[label], config.bootstrap_level)
        for label, rows in judged.items()
    }


def kept_sources(source: Ints, predicates: Ints, corrupted: Ints) -> Ints:
    """Return the sources (m,) of corruptions, counted without the positives that `ScoreTable.measured` leaves out.

    source      (m,) the index of the positive that each corruption was made from, among all positives
    predicates  (P,) of all positives
    corrupted   (m,) predicates of the corruptions
    """
    return (np.cumsum(np.isin(predicates, corrupted)) - 1)[source]


def _tallies_of_groups(samples: Mapping[str, Sample], config: EvaluateConfig) -> Iterator[dict[str, Tally]]:
    """Yield resamplings of the samples, by label, in which groups of rows are drawn at once.

    Each label has a generator: a further calibrator does not move the intervals of the others.
    """
    groups = {
        label: (*sample.merged(), np.random.default_rng(config.bootstrap_seed)) for label, sample in samples.items()
    }
    for _ in range(config.bootstrap_replicates):
        yield {
            label: merged.tally(rng.multinomial(int(sizes.sum()), sizes / sizes.sum()).astype(np.float64))
            for label, (merged, sizes, rng) in groups.items()
        }


def _measure(
    sample: Sample, metrics: Mapping[str, Metric], replicates: list[dict[str, float]], level: float
) -> Measured:
    """Compute the metrics that are defined on a sample, and their intervals from the values on its replicates."""
    tally = sample.tally()
    values = {name: tally.once(metric.figure) for name, metric in metrics.items()}
    intervals = {}
    for name in replicates[0]:
        interval = estimate(values[name], [figures[name] for figures in replicates], level)
        if math.isfinite(interval.low):
            lowest, highest = metrics[name].range
            intervals[name] = (max(interval.low, lowest), min(interval.high, highest))
    defined = {name: value for name, value in values.items() if math.isfinite(value)}
    shown = reliability(sample.probabilities, sample.labels, sample.weights, sample.bins)
    return Measured(defined, shown, intervals)


def _clusters(predictions: Predictions, source: Ints | None, cold: int | None) -> Ints | None:
    """Return the cluster number of each row (n,); None: each row is a cluster of its own.

    A positive and its corruptions are in one cluster, and so are all rows about one cold entity.
    """
    entities = None if cold is None else predictions.triples[:, cold]
    if source is not None:
        sources = _clusters_of_positives(predictions, source)
        if entities is None:
            return sources
        entities = entities[predictions.labels == 1][sources]
    return None if entities is None else np.unique(entities, return_inverse=True)[1]


def _clusters_of_positives(predictions: Predictions, source: Ints) -> Ints:
    """Return the position of the positive that each row (n,) is, or was made from."""
    positive = predictions.labels == 1
    if len(source) != (~positive).sum() or (len(source) and source.max() >= positive.sum()):
        raise MismatchError(
            f"{len(source):,} sources do not fit {int((~positive).sum()):,} negatives and {int(positive.sum()):,} "
            "positives: every negative needs one source, the index of a positive"
        )
    clusters = np.empty(len(positive), dtype=np.int64)
    clusters[positive], clusters[~positive] = np.arange(positive.sum()), source
    return clusters


def miscalibrated(
    bounds: Mapping[str, Calibrated],
    predictions: Predictions,
    measured: Mapping[str, Measured],
    incomplete: bool = False,
) -> dict[str, str]:
    """Return label -> a sentence with its debiased RMSCE, for each calibrator whose lower interval end is too high.

    bounds        label -> calibrator, without baselines
    predictions   of the test rows
    measured      label -> its metrics and their intervals
    incomplete    whether the graph is stated to be incomplete

    A calibrator is judged on its own test alone: see `untested`.
    """
    sentences = {}
    for label, bound in bounds.items():
        low, high = measured[label].intervals.get(ERROR, (0.0, 0.0))
        if low > TOLERANCE and not untested(bound, predictions, incomplete):
            sentences[label] = (
                f"The probabilities of {label.replace('_', ' ')} are not calibrated: their debiased RMSCE on this test "
                f"is {measured[label].metrics[ERROR]:.4f} [{low:.4f}, {high:.4f}], and {TOLERANCE:g} is the tolerance."
            )
    return sentences


def untested(bound: Calibrated, predictions: Predictions, incomplete: bool = False) -> str:
    """Return why the test rows are no test of a calibrator, in a clause; '' if they are one.

    The arguments are those of `miscalibrated`. The base rate of the test rows must be near that of the calibrator. If
    their negatives are corruptions, it must be fitted to corruptions that are all false.
    """
    if abs(predictions.base_rate - bound.base_rate) > SAME_BASE_RATE:
        return f"{percent(predictions.base_rate)} of its triples are true, and they assume {percent(bound.base_rate)}"
    if predictions.synthetic_negatives and bound.negatives != SYNTHETIC:
        return f"its false triples are corruptions, and they are about {bound.about}"
    if predictions.synthetic_negatives and incomplete:
        return "the graph is stated to be incomplete, so that some of its corruptions are true"
    return ""
