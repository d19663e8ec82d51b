"""Gradient-boosted trees: the log-odds are a sum of the values of the leaves that the evidence reaches."""

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import logit

from kgcore.arrays import Floats, Ints
from kgcore.combiners.base import Combiner, EvidenceSample
from kgcore.combiners.trees import LEAF, Trees
from kgcore.registries import COMBINERS

SCORE = "score"  # the feature in which the log-odds are non-decreasing
ROWS_OF_A_TREE = 15
FEWEST_TREES = 20
SMOOTHING = 10.0  # rows with the share of all rows that are added to those of a predicate


@COMBINERS.register("boosted_trees")
class BoostedTrees(Combiner):
    """Boosting of the weighted log loss (Friedman 2001), fitted by scikit-learn's histogram-based gradient boosting.

    The log-odds are non-decreasing in the feature `score`. The predicate is one more numeric feature: the log-odds of
    its share of positives by weight in the sample, smoothed towards that of all rows.

    iterations     most trees. A sample has one tree for each ROWS_OF_A_TREE rows, if it has fewer
    leaves         most leaves of a tree
    learning_rate  factor of the value of each leaf
    ridge          L2 penalty of the values of the leaves
    fewest         fewest rows of a leaf
    """

    def __init__(
        self,
        iterations: int = 200,
        leaves: int = 15,
        learning_rate: float = 0.05,
        ridge: float = 1.0,
        fewest: int = 20,
    ) -> None:
        self.iterations, self.leaves, self.learning_rate = iterations, leaves, learning_rate
        self.ridge, self.fewest = ridge, fewest

    def fit(self, sample: EvidenceSample, rng: np.random.Generator) -> Self:
        from sklearn.ensemble import HistGradientBoostingClassifier  # takes long to load

        self.rates_, self.rate_ = _rates(sample)
        boosting = HistGradientBoostingClassifier(
            learning_rate=self.learning_rate,
            max_iter=min(self.iterations, max(FEWEST_TREES, len(sample) // ROWS_OF_A_TREE)),
            max_leaf_nodes=self.leaves,
            l2_regularization=self.ridge,
            min_samples_leaf=self.fewest,
            early_stopping=False,
            monotonic_cst=[*(int(name == SCORE) for name in sample.names), 0],
            random_state=int(rng.integers(2**31)),
        )
        columns = self._columns(sample.values, sample.predicates)
        columns[:, np.isnan(columns).all(axis=0)] = 0  # boosting refuses a feature that no row has; no tree uses it
        boosting.fit(columns, sample.labels, sample.weights)
        self.trees_ = _trees(boosting)
        self.constant_ = float(np.ravel(boosting._baseline_prediction)[0])
        return self

    def log_odds(self, values: npt.NDArray[np.float32], predicates: Ints) -> Floats:
        total: Floats = self.constant_ + self.trees_.sum(self._columns(values, predicates))
        return total

    def contributions(self, values: npt.NDArray[np.float32], predicates: Ints) -> tuple[float, Floats]:
        constant, parts = self.trees_.contributions(self._columns(values, predicates))
        return self.constant_ + constant, parts

    def _columns(self, values: npt.NDArray[np.float32], predicates: Ints) -> npt.NDArray[np.float32]:
        """Return the features (n, d + 1): the evidence, then the predicate's."""
        known = np.append(self.rates_, self.rate_)
        own = known[np.minimum(predicates, len(self.rates_))]
        return np.column_stack([values, own.astype(np.float32)])

    def parameters(self) -> dict[str, Any]:
        return {
            "constant": self.constant_,
            "rate": self.rate_,
            "rates": self.rates_.tolist(),
            "trees": self.trees_.to_json(),
        }

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        made = cls()
        made.constant_, made.rate_ = parameters["constant"], parameters["rate"]
        made.rates_, made.trees_ = np.array(parameters["rates"], np.float64), Trees.from_json(parameters["trees"])
        return made


def _rates(sample: EvidenceSample) -> tuple[Floats, float]:
    """Return the smoothed log-odds of the positives' share of each predicate (R,), and that of all rows."""
    share = float(np.average(sample.labels, weights=sample.weights))
    every = np.bincount(sample.predicates, sample.weights)
    positive = np.bincount(sample.predicates, sample.weights * sample.labels)
    rates: Floats = logit((positive + SMOOTHING * share) / (every + SMOOTHING))
    return rates, float(logit(share))


def _trees(boosting: Any) -> Trees:
    """Return the trees of a fitted HistGradientBoostingClassifier.

    scikit-learn has no public access to the nodes of these trees. A test compares the sums with its decision function.
    """
    tables = [tree.nodes for [tree] in boosting._predictors]
    roots = np.cumsum([0, *map(len, tables)])[:-1]
    shift = np.repeat(roots, [len(table) for table in tables])
    nodes = np.concatenate(tables)
    leaf, place = nodes["is_leaf"].astype(bool), np.arange(len(nodes))
    return Trees(
        roots=roots.astype(np.int64),
        features=np.where(leaf, LEAF, nodes["feature_idx"]).astype(np.int64),
        thresholds=np.where(leaf, 0.0, nodes["num_threshold"]),
        missing=nodes["missing_go_to_left"].astype(bool),
        left=np.where(leaf, place, nodes["left"] + shift).astype(np.int64),
        right=np.where(leaf, place, nodes["right"] + shift).astype(np.int64),
        values=np.where(leaf, nodes["value"], 0.0),
        cover=nodes["count"].astype(np.float64),
    )
