"""Boosted trees: a sum of small decision trees on the evidence."""

from functools import cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from kgcore.arrays import Floats, Ints, Labels
from kgcore.combiners.base import Combiner, EvidenceSample
from kgcore.combiners.bins import Bins
from kgcore.combiners.folds import sample_folds
from kgcore.combiners.forest import bounds_of
from kgcore.combiners.shapley import Shapley
from kgcore.combiners.trees import MOST_LEAVES, Split, Trees
from kgcore.evidence.grid import Grid
from kgcore.registries import COMBINERS

if TYPE_CHECKING:  # a fit needs it, an answer does not
    from sklearn.ensemble import HistGradientBoostingClassifier

MOST_CATEGORIES = 250  # predicates with a category of their own: scikit-learn has at most 255
FEWEST_DRAWN = 4  # features for a split
FEWEST_ROWS = 10  # of a predicate with a category of its own
ALONE = 10_000  # rows up to which one thread fits the trees
FOLDS = ((3_000, 5), (100_000, 3))  # up to this number of rows, this number of folds; one held-out fifth above


@COMBINERS.register("boosted_trees")
class BoostedTrees(Combiner):
    """Gradient boosting of decision trees (Friedman 2001), non-decreasing in the score.

    scikit-learn's HistGradientBoostingClassifier fits the trees; then they are arrays (kgcore/combiners/trees.py). The
    predicate is a category; predicates beyond the 250 most frequent ones share one. The fit gives positives and
    negatives the same sum of weights, and then adds the log-odds of the sample's base rate: weights of 1 to 1,000
    would leave the rare label without a say in where the trees split. The number of trees is the mean of the best ones
    on held-out folds of the sample.

    rate        learning rate, above 0
    most_trees  largest number of trees
    trees       number of trees; None: chosen on held-out folds
    leaves      largest number of leaves of a tree, 2 to 32
    fewest      smallest number of rows of a leaf; at most a fiftieth of the sample
    ridge       penalty of squared leaf values
    share       each split takes the best feature of this share of them, drawn at random, or of FEWEST_DRAWN; above 0,
                at most 1. Trees differ more, and their sum is more accurate (Breiman 2001)
    """

    trees_: Trees
    shift_: float
    categories_: Ints

    def __init__(
        self,
        rate: float = 0.08,
        most_trees: int = 400,
        leaves: int = 16,
        fewest: int = 20,
        ridge: float = 2.0,
        share: float = 0.25,
        trees: int | None = None,
    ) -> None:
        self.rate, self.most_trees, self.trees = rate, most_trees, trees
        self.leaves, self.fewest, self.ridge, self.share = leaves, fewest, ridge, share

    def fit(self, sample: EvidenceSample, rng: np.random.Generator) -> Self:
        balanced = sample.balanced()
        found, counts = np.unique(sample.predicates, return_counts=True)
        frequent = np.argsort(-counts, kind="stable")[:MOST_CATEGORIES]
        self.categories_ = np.sort(found[frequent][counts[frequent] >= FEWEST_ROWS]).astype(np.int64)
        self.shift_ = sample.prior
        bins = Bins.of(sample.values)
        columns = self._columns(balanced, bins)
        trees = self._number_of_trees(balanced, columns, rng) if self.trees is None else self.trees
        model = self._model(balanced, trees, rng)
        _fit(model, columns, balanced.labels, sample_weight=balanced.weights)
        fitted = _arrays(model, bins, len(self.categories_))
        self._set(fitted.with_covers(sample.values, self._category(sample.predicates), balanced.weights))
        return self

    def tuned(self) -> Self:
        trees = self.trees_.shape.trees
        return type(self)(self.rate, self.most_trees, self.leaves, self.fewest, self.ridge, self.share, trees)

    def log_odds(self, values: npt.NDArray[np.float32], predicates: Ints) -> Floats:
        return self.trees_.sums(values, self._category(predicates)) + self.shift_

    def contributions(self, values: npt.NDArray[np.float32], predicates: Ints) -> tuple[float, Floats]:
        constant, found = self.shapley_.contributions(values, self._category(predicates))
        return constant + self.shift_, found

    def bounds(self, grid: Grid) -> tuple[Floats, Floats]:
        [category] = self._category(np.array([grid.tile.predicate])).tolist()
        low, high = bounds_of(self.trees_, grid, category)
        return low + self.shift_, high + self.shift_

    def parameters(self) -> dict[str, Any]:
        return {"shift": self.shift_, "categories": self.categories_.tolist(), "trees": self.trees_.to_json()}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        built = cls()
        built.shift_ = parameters["shift"]
        built.categories_ = np.array(parameters["categories"], dtype=np.int64)
        built._set(Trees.from_json(parameters["trees"]))
        return built

    def _set(self, trees: Trees) -> None:
        self.trees_, self.shapley_ = trees, Shapley(trees)

    def _category(self, predicates: Ints) -> Ints:
        """Return the category of each predicate (n,); -1: it has no category of its own."""
        if not len(self.categories_):
            return np.full(len(predicates), -1, dtype=np.int64)
        place = np.minimum(np.searchsorted(self.categories_, predicates), len(self.categories_) - 1)
        return np.where(self.categories_[place] == predicates, place, -1)

    def _columns(self, sample: EvidenceSample, bins: Bins) -> Floats:
        """Return the category and the bins of the features (n, 1 + d). scikit-learn would move a later category."""
        category = self._category(sample.predicates)
        return np.column_stack([np.where(category < 0, np.nan, category), bins.codes(sample.values)])

    def _model(self, sample: EvidenceSample, trees: int, rng: np.random.Generator) -> "HistGradientBoostingClassifier":
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier(
            learning_rate=self.rate,
            max_iter=trees,
            max_leaf_nodes=min(self.leaves, MOST_LEAVES),
            min_samples_leaf=max(1, min(self.fewest, len(sample) // 50)),
            l2_regularization=self.ridge,
            max_features=min(1.0, max(self.share, FEWEST_DRAWN / (1 + len(sample.names)))),
            categorical_features=[0] if len(self.categories_) else None,
            monotonic_cst=[0, *(int(name == "score") for name in sample.names)],
            early_stopping=False,
            random_state=int(rng.integers(2**31)),
        )

    def _number_of_trees(self, sample: EvidenceSample, columns: Floats, rng: np.random.Generator) -> int:
        """Return the number of trees with the lowest log loss on held-out folds: the mean over the folds."""
        number = next((folds for rows, folds in FOLDS if len(sample) <= rows), 1)
        fold = sample_folds(sample, max(number, 5), rng)
        best = []
        for own in range(number):
            held, kept = fold == own, fold != own
            if min(len(np.unique(sample.labels[rows])) for rows in (held, kept)) < 2:
                continue
            model = self._model(sample, self.most_trees, rng)
            model.set_params(early_stopping=True, n_iter_no_change=30, scoring="loss", tol=0.0)
            weights = {"sample_weight": sample.weights[kept], "sample_weight_val": sample.weights[held]}
            seen = columns[kept]
            seen[:, np.isnan(seen).all(axis=0)] = 0.0  # scikit-learn needs a number in each column
            _fit(model, seen, sample.labels[kept], X_val=columns[held], y_val=sample.labels[held], **weights)
            best.append(int(np.argmax(model.validation_score_)))
        return max(1, round(float(np.mean(best)))) if best else min(self.most_trees, 20)


def _fit(model: "HistGradientBoostingClassifier", columns: Floats, labels: Labels, **given: Any) -> None:
    """Fit the trees: with one thread up to ALONE rows, otherwise with all threads of OpenMP. The result is the same.

    The threads meet thousands of times in a fit, and wait for each other without leaving their cores. On few rows, two
    threads save a sixth of the time, but take five times as long if another process needs one of their cores.
    """
    with _openmp().limit(limits=1 if len(labels) <= ALONE else None):
        model.fit(columns, labels, **given)


@cache
def _openmp() -> ThreadpoolController:
    """Return what sets the number of OpenMP's threads."""
    return ThreadpoolController().select(user_api="openmp")


def _arrays(model: "HistGradientBoostingClassifier", bins: Bins, num_categories: int) -> Trees:
    """Return the trees of a fitted model, whose column 0 is the category. Covers are numbers of rows."""
    num_features = len(bins.ends)
    splits: list[Split | None] = []
    values: list[float] = []
    covers: list[float] = []
    for (predictor,) in model._predictors:
        nodes, sets = predictor.nodes, predictor.raw_left_cat_bitsets
        left = [0]
        while left:  # preorder: a node, what is below its first child, what is below its second child
            node = nodes[left.pop()]
            covers.append(float(node["count"]))
            values.append(float(node["value"]) if node["is_leaf"] else 0.0)
            if node["is_leaf"]:
                splits.append(None)
                continue
            left += [int(node["right"]), int(node["left"])]
            missing_left, column = bool(node["missing_go_to_left"]), int(node["feature_idx"])
            if node["is_categorical"]:
                words = sets[int(node["bitset_idx"])]
                categories = sum(int(word) << 32 * place for place, word in enumerate(words))
                splits.append(Split(num_features, 0.0, missing_left, categories))
            else:
                threshold = bins.threshold(column - 1, float(node["num_threshold"]))
                splits.append(Split(column - 1, threshold, missing_left))
    start = float(np.ravel(model._baseline_prediction)[0])
    return Trees(num_features, num_categories, tuple(splits), np.array(values), np.array(covers), start)
