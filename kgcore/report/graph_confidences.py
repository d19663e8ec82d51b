"""The confidences of a graph: their distribution, each predicate's, and what they mean for the figures that follow."""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Floats, Ints, Probabilities
from kgcore.graph import KnowledgeGraph, Split
from kgcore.report.graph_findings import Finding

BINS = 10
FEW_VALUES = 10  # confidences with so few distinct values are classes rather than a scale
MOST_CERTAIN = 0.9  # with a larger share of the confidences 0 or 1, they are hardly more than labels


@dataclass(frozen=True)
class PredicateConfidences:
    """The confidences of the training triples of a predicate. `zeros` and `ones` are the shares of exactly 0 and 1."""

    name: str
    facts: int
    mean: float
    deviation: float
    zeros: float
    ones: float


@dataclass(frozen=True)
class Confidences:
    """The confidences of the training triples, all in [0, 1].

    shares       share of the triples in each of BINS bins of equal width
    quantiles    the 10 %, 50 % and 90 % quantiles
    values       number of distinct values
    zeros, ones  shares of exactly 0 and 1
    predicates   largest first
    constant     mean squared error of the mean confidence of train on the true triples of test
    by_relation  the same for the mean of each predicate
    """

    shares: tuple[float, ...]
    quantiles: tuple[float, float, float]
    values: int
    zeros: float
    ones: float
    predicates: tuple[PredicateConfidences, ...]
    constant: float
    by_relation: float


def confidences_of(graph: KnowledgeGraph) -> Confidences | None:
    """Measure the confidences of a graph. None: its training triples have none."""
    own = graph.train.confidences
    if own is None:
        return None
    predicates, size = graph.train.triples[:, 1], len(graph.predicates)
    counts = np.bincount(predicates, minlength=size)
    means = _means(predicates, own, counts)
    spread = np.sqrt(np.maximum(_means(predicates, (own - means[predicates]) ** 2, counts), 0))
    zeros, ones = (_means(predicates, (own == end).astype(np.float64), counts) for end in (0, 1))
    rows = (
        PredicateConfidences(graph.predicates[p], int(counts[p]), *(float(c[p]) for c in (means, spread, zeros, ones)))
        for p in np.argsort(-counts, kind="stable")
    )
    low, middle, high = (float(value) for value in np.quantile(own, (0.1, 0.5, 0.9)))
    true = _true(graph.test)
    target = true.truth
    return Confidences(
        shares=tuple(float(share) for share in np.histogram(own, BINS, (0, 1))[0] / len(own)),
        quantiles=(low, middle, high),
        values=len(np.unique(own)),
        zeros=float((own == 0).mean()),
        ones=float((own == 1).mean()),
        predicates=tuple(rows),
        constant=float(((target - own.mean()) ** 2).mean()),
        by_relation=float(((target - means[true.triples[:, 1]]) ** 2).mean()),
    )


def confidence_findings(found: Confidences | None) -> list[Finding]:
    """Return the findings about the confidences; an empty list without confidences."""
    if found is None:
        return []
    low, middle, high = found.quantiles
    certain = found.zeros + found.ones
    return [
        Finding(
            "Confidences",
            f"median {middle:.3g}, 80 % from {low:.3g} to {high:.3g}; {found.values:,} different values",
            "The Brier score and the log loss are measured against them: a probability is right if it equals the "
            "expected confidence."
            + (" With so few values, they are classes rather than a scale." if found.values <= FEW_VALUES else ""),
        ),
        Finding(
            "Confidences of 0 and 1",
            f"{found.zeros:.1%} are 0, and {found.ones:.1%} are 1",
            "A triple with confidence 0 counts as false, and one with confidence 1 as true: training and the "
            "calibrators take them as sure."
            + (" Almost all are sure: the confidences say little more than labels." if certain > MOST_CERTAIN else ""),
            certain > MOST_CERTAIN,
        ),
        Finding(
            "Confidences without a model",
            f"on test, the mean confidence of train has the mean squared error {found.constant:.4f}, and the mean of "
            f"each predicate {found.by_relation:.4f}",
            "A Brier score (ground truth) of a model that knows more than the predicate is below the second figure.",
        ),
    ]


def _true(split: Split) -> Split:
    """Return the triples of a split that are not labelled false."""
    return split if split.confidences is not None else split.part(split.labels == 1)


def _means(predicates: Ints, values: Probabilities, counts: Ints) -> Floats:
    """Return the mean of the values of each predicate; 0 for a predicate without triples."""
    means: Floats = np.bincount(predicates, values, len(counts)) / np.maximum(counts, 1)
    return means
