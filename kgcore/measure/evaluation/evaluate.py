"""The evaluation of calibrators: metrics with intervals, the reliability diagram, and groups of rows.

Probabilities can be right on average but wrong for every single relation, and a model knows less about new and rare
entities. So there are figures of each relation, and of what training knows much or little of.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Labels, Probabilities, Triples
from kgcore.calibrate.calibrated import Calibrated
from kgcore.calibrate.fit import SYNTHETIC
from kgcore.config import ClassifyConfig, EvaluateConfig
from kgcore.data.graph import KnowledgeGraph
from kgcore.errors import MismatchError
from kgcore.measure.evaluation.predictions import Predictions
from kgcore.measure.metrics.base import Metric, Sample, Tally, estimate, every_metric, resampled
from kgcore.measure.metrics.proper import brier, log_loss
from kgcore.measure.metrics.reliability import Reliability, reliability, wilson

if TYPE_CHECKING:
    from kgcore.measure.evaluation.predictions import Predictions

FINEST = 4096  # resamplings merge neighbouring probabilities into at most 4096 groups
ERROR = "debiased_rmsce"
TOLERANCE = 0.02  # a calibration error whose interval is above it is reported first, and does not pass the gate
SAME_BASE_RATE = 0.05  # test rows with a base rate that differs by more are no test of a calibrator
MOST_RESAMPLED = 2**18  # from more independent rows than this, groups of rows are resampled instead of rows
METRICS_OF_GROUPS = ("brier", "ece", "debiased_rmsce", "auroc")
WITH_PREDICATE = {
    2: "train has the predicate with both entities",
    1: "train has the predicate with one of the entities",
    0: "train has the predicate with neither entity",
}


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
    rng, n = np.random.default_rng(config.bootstrap_seed), len(predictions.labels)
    replicates: dict[str, list[dict[str, float]]] = {label: [] for label in judged}
    if clusters is None and n > MOST_RESAMPLED and predictions.confidences is None:
        tallies = _tallies_of_groups(coarse, rng, config)
    else:
        times = resampled(n, rng, config.bootstrap_replicates, clusters)
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


def _tallies_of_groups(
    samples: Mapping[str, Sample], rng: np.random.Generator, config: EvaluateConfig
) -> Iterator[dict[str, Tally]]:
    """Yield resamplings of the samples, by label, in which groups of rows are drawn at once."""
    groups = {label: sample.merged() for label, sample in samples.items()}
    for _ in range(config.bootstrap_replicates):
        yield {
            label: merged.tally(rng.multinomial(int(sizes.sum()), sizes / sizes.sum()).astype(np.float64))
            for label, (merged, sizes) in groups.items()
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

    A calibrator is judged on its own test alone. The base rate of the test rows is near its base rate. If their
    negatives are corruptions, it is fitted to corruptions, and the graph is not stated to be incomplete: some
    corruptions of test would be true, and count as false.
    """
    sentences = {}
    for label, bound in bounds.items():
        same = abs(predictions.base_rate - bound.base_rate) <= SAME_BASE_RATE
        kind = not predictions.synthetic_negatives or (bound.negatives == SYNTHETIC and not incomplete)
        low, high = measured[label].intervals.get(ERROR, (0.0, 0.0))
        if same and kind and low > TOLERANCE:
            sentences[label] = (
                f"The probabilities of {label.replace('_', ' ')} are not calibrated: their debiased RMSCE on this test "
                f"is {measured[label].metrics[ERROR]:.4f} [{low:.4f}, {high:.4f}], and {TOLERANCE:g} is the tolerance."
            )
    return sentences


@dataclass(frozen=True)
class RelationReliability:
    """The reliability of every calibrator on one relation.

    predicate    position of the relation in the graph's vocabulary
    triples      number of test triples of the relation
    observed     weighted share of true triples among them; their mean confidence, if they have confidences
    low, high    ends of the 95 % Wilson interval of `observed`, with the effective count
    calibrators  label of the calibrator -> its weighted mean probability, as `predicted`, and its Brier score, as
                 `brier`. If `predicted` is outside the interval, the probabilities of this calibrator are too high or
                 too low for the relation as a whole
    """

    predicate: int
    triples: int
    observed: float
    low: float
    high: float
    calibrators: dict[str, dict[str, float]]


def reliability_by_relation(predictions: "Predictions") -> list[RelationReliability]:
    """Return the reliability of each predicate that occurs in the test triples, in increasing order of its position."""
    results = []
    for predicate in np.unique(predictions.triples[:, 1]).tolist():
        rows = predictions.triples[:, 1] == predicate
        y, w = predictions.truth[rows], predictions.weights[rows]
        fits = {
            label: {"predicted": float(np.average(q[rows], weights=w)), "brier": brier(q[rows], y, w)}
            for label, q in predictions.probabilities.items()
        }
        results.append(RelationReliability(predicate, int(rows.sum()), *_observed(y, w), fits))
    return results


def _observed(y: Probabilities, w: Floats) -> tuple[float, float, float]:
    """Return the weighted share of true triples and its 95 % Wilson interval, with the effective count."""
    observed = np.array([np.average(y, weights=w)])
    low, high = wilson(observed, np.array([w.sum() ** 2 / (w**2).sum()]))
    return float(observed[0]), float(low[0]), float(high[0])


@dataclass(frozen=True)
class KnowledgeGroup:
    """The reliability of every calibrator on a group of test triples.

    name         what training knows about the triples
    triples      number of test triples in the group
    true         number of them that are true
    observed     weighted share of true triples among them; their mean confidence, if they have confidences
    low, high    ends of the 95 % Wilson interval of `observed`, with the effective count
    calibrators  label of the calibrator -> its weighted mean probability, as `predicted`, and METRICS_OF_GROUPS; one
                 that is not defined on the group is missing
    """

    name: str
    triples: int
    true: int
    observed: float
    low: float
    high: float
    calibrators: dict[str, dict[str, float]]


def reliability_by_knowledge(
    predictions: "Predictions", graph: KnowledgeGraph, bins: int, tau: float
) -> list[KnowledgeGroup]:
    """Return the reliability of groups of test triples, by whether train has the predicate with their entities, and by
    the number of training facts of the rarer entity.

    graph  only train is used
    bins   number of bins of the calibration errors
    tau    decision threshold of the metrics
    """
    triples, train = predictions.triples, graph.train.positives
    groups = [*_by_predicate(triples, train, len(graph.predicates))]
    groups += _by_degree(triples, train, len(graph.entities), predictions.labels == 1)
    return [_group(predictions, name, rows, bins, tau) for name, rows in groups if rows.any()]


def _by_predicate(triples: Triples, train: Triples, predicates: int) -> Iterator[tuple[str, Bools]]:
    """Yield name and rows (n,) of the groups by how many of the entities have the predicate in train, on their side."""
    count = sum(
        np.isin(triples[:, end] * predicates + triples[:, 1], train[:, end] * predicates + train[:, 1]).astype(np.int64)
        for end in (0, 2)
    )
    for number, name in WITH_PREDICATE.items():
        yield name, np.asarray(count == number)


def _by_degree(triples: Triples, train: Triples, entities: int, true: Bools) -> Iterator[tuple[str, Bools]]:
    """Yield the name and the rows (n,) of three groups by degree, each with a third of the true triples."""
    degrees = np.bincount(train[:, [0, 2]].reshape(-1), minlength=entities)
    rarer: Ints = degrees[triples[:, [0, 2]]].min(axis=1)
    ends = np.unique(np.quantile(rarer[true], (1 / 3, 2 / 3), method="inverted_cdf")).astype(np.int64)
    lows, highs = [0, *(ends + 1).tolist()], [*ends.tolist(), int(rarer.max())]
    for low, high in zip(lows, highs, strict=True):
        facts = f"at most {high:,}" if low == 0 else f"{low:,} to {high:,}" if low < high else f"{low:,}"
        yield f"the rarer entity has {facts} training facts", (rarer >= low) & (rarer <= high)


def _group(predictions: "Predictions", name: str, rows: Bools, bins: int, tau: float) -> KnowledgeGroup:
    y, w = predictions.truth[rows], predictions.weights[rows]
    metrics, fits = every_metric(), {}
    for label, q in predictions.probabilities.items():
        tally = Sample(q[rows], y, w, bins, tau).tally()
        values = {name: tally.once(metrics[name].figure) for name in METRICS_OF_GROUPS}
        defined = {metric: value for metric, value in values.items() if np.isfinite(value)}
        fits[label] = {"predicted": float(np.average(q[rows], weights=w)), **defined}
    true = int((predictions.labels[rows] == 1).sum())
    return KnowledgeGroup(name, int(rows.sum()), true, *_observed(y, w), fits)


@dataclass(frozen=True)
class AllRows:
    """Accuracy, Brier score and log loss of all rows, and accuracy of the rows with unseen entities.

    rows    number of all rows
    unseen  number of the rows with an entity that training lacks
    """

    rows: int
    unseen: int
    accuracy: float
    brier: float
    log_loss: float
    unseen_accuracy: float

    @classmethod
    def of(
        cls, known: tuple[Probabilities, Labels], unseen: tuple[Probabilities, Labels], tau: float = 0.5
    ) -> "AllRows":
        """Measure the probabilities and labels (n,) of both kinds of rows together. tau: decision threshold."""
        q, labels = (np.concatenate([known[place], unseen[place]]) for place in (0, 1))
        right = (q > tau) == (labels == 1)
        of_unseen = float(right[len(known[1]) :].mean())
        return cls(len(q), len(unseen[1]), float(right.mean()), brier(q, labels), log_loss(q, labels), of_unseen)

    def figures(self) -> dict[str, float]:
        """Return the figures as metrics, whose names start with `all_rows_`."""
        return {f"all_rows_{name}": float(value) for name, value in vars(self).items()}

    def note(self, label: str) -> str:
        """Return the figures in a sentence. label: the calibrator that answers for the other rows."""
        return (
            f"All {self.rows:,} test rows, {self.unseen:,} with entities that training has not seen included: accuracy "
            f"{self.accuracy:.4f}, Brier score {self.brier:.4f}, log loss {self.log_loss:.3f}. Evidence answers for "
            f"the unseen entities, with accuracy {self.unseen_accuracy:.4f}, and {label} for the others."
        )
