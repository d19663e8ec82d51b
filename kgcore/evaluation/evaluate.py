"""The evaluation of calibrators: every registered metric with its interval, and the reliability diagram."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from kgcore.arrays import Ints
from kgcore.config import ClassifyConfig, EvaluateConfig
from kgcore.errors import MismatchError
from kgcore.evaluation.predictions import Predictions
from kgcore.metrics.base import Draw, Metric, Sample
from kgcore.metrics.bootstrap import estimate, resampled
from kgcore.metrics.catalogue import every_metric
from kgcore.metrics.reliability import Reliability, diagram
from kgcore.metrics.tally import SortedRows

FINEST = 4096  # resamplings merge neighbouring probabilities into at most 4096 groups
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
        return with_ends(self.metrics, self.intervals)


def with_ends(metrics: Mapping[str, float], intervals: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """Return the metrics and the interval ends that MLflow shows, as `Measured.with_ends` does."""
    shown = [name for name, metric in every_metric().items() if metric.with_ends and name in metrics]
    ends: dict[str, float] = {}
    for name in shown:
        if name in intervals:
            ends[f"{name}_low"], ends[f"{name}_high"] = intervals[name]
    return {**metrics, **ends}


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
    calibrator on its own: the intervals are the same, but for the weights inside a group (see `SortedRows.merged`).

    Raises MismatchError if the length of `source` is not the number of negatives, or an index is out of range.
    """
    metrics = every_metric()
    varied = {name: metric for name, metric in metrics.items() if metric.interval}
    judged = {label: (q, predictions.truth, predictions.weights) for label, q in predictions.probabilities.items()}
    clusters = _clusters(predictions, source, cold)
    together = None if cold is None else clusters  # a positive and its corruptions hardly vary together
    coarse = {label: Sample(SortedRows(*rows, FINEST), config.bins, tau, together) for label, rows in judged.items()}
    rng, n = np.random.default_rng(config.bootstrap_seed), len(predictions.labels)
    replicates: dict[str, list[dict[str, float]]] = {label: [] for label in judged}
    if clusters is None and n > MOST_RESAMPLED and predictions.confidences is None:
        draws = _draws_of_groups(coarse, rng, config)
    else:
        times = resampled(n, rng, config.bootstrap_replicates, clusters)
        draws = ({label: sample.draw(counts) for label, sample in coarse.items()} for counts in times)
    for done, drawn in enumerate(draws, start=1):
        for label, draw in drawn.items():
            replicates[label].append({name: draw.once(metric.figure) for name, metric in varied.items()})
        on_replicate(done)
    samples = {label: Sample(SortedRows(*rows), config.bins, tau, together) for label, rows in judged.items()}
    return {
        label: _measure(sample, metrics, replicates[label], config.bootstrap_level) for label, sample in samples.items()
    }


def kept_sources(source: Ints, predicates: Ints, corrupted: Ints) -> Ints:
    """Return the sources (m,) of corruptions, counted without the positives that `ScoreTable.measured` leaves out.

    source      (m,) the index of the positive that each corruption was made from, among all positives
    predicates  (P,) of all positives
    corrupted   (m,) predicates of the corruptions
    """
    kept: Ints = (np.cumsum(np.isin(predicates, corrupted)) - 1)[source]
    return kept


def _draws_of_groups(
    samples: Mapping[str, Sample], rng: np.random.Generator, config: EvaluateConfig
) -> Iterator[dict[str, Draw]]:
    """Yield resamplings of the samples, by label, in which groups of rows are drawn at once."""
    groups = {label: sample.rows.merged() for label, sample in samples.items()}
    merged = {label: Sample(rows, samples[label].bins, samples[label].tau) for label, (rows, _) in groups.items()}
    for _ in range(config.bootstrap_replicates):
        yield {
            label: merged[label].draw(rng.multinomial(int(sizes.sum()), sizes / sizes.sum()).astype(np.float64))
            for label, (_, sizes) in groups.items()
        }


def _measure(
    sample: Sample, metrics: Mapping[str, Metric], replicates: list[dict[str, float]], level: float
) -> Measured:
    """Compute the metrics that are defined on a sample, and their intervals from the values on its replicates."""
    everything = sample.draw()
    values = {name: metric.value(everything) for name, metric in metrics.items()}
    intervals = {}
    for name in replicates[0]:
        found = estimate(values[name], [figures[name] for figures in replicates], level)
        if math.isfinite(found.low):
            lowest, highest = metrics[name].range
            intervals[name] = (max(found.low, lowest), min(found.high, highest))
    defined = {name: value for name, value in values.items() if math.isfinite(value)}
    return Measured(defined, sample.once(diagram), intervals)


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
