"""Boosted trees: a sum of small decision trees on the evidence."""

from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Floats, Ints
from kgcore.combiners.base import Combiner, EvidenceSample
from kgcore.combiners.forest import MOST_LEAVES, Forest
from kgcore.evidence.table import Grid
from kgcore.registries import COMBINERS

if TYPE_CHECKING:  # loaded when it fits or answers
    from lightgbm import Booster, Dataset

MOST_CATEGORIES = 250  # predicates with a category of their own
FEWEST_DRAWN = 4  # features for a split
FEWEST_ROWS = 10  # of a predicate with a category of its own
ALONE = 100_000  # rows up to which one thread fits the trees: two wait for each other on a machine with other work
FOLDS = ((3_000, 5), (100_000, 3))  # up to this number of rows, this number of folds; one held-out fifth above
PATIENCE = 30  # trees without a lower log loss on the held-out rows, after which a fit stops
ROWS_AT_ONCE = 2**16  # bounds the memory of answers
# features in which the trees never fall (1), or never rise (-1)
DIRECTIONS = {"score": 1, "subject_held_out": -1, "object_held_out": -1}


@COMBINERS.register("boosted_trees")
class BoostedTrees(Combiner):
    """Gradient boosting of decision trees (Friedman 2001), monotone in the features of DIRECTIONS.

    LightGBM fits the trees (Ke et al., NeurIPS 2017), and the fitted combiner is its text. The predicate is a category;
    predicates beyond the 250 most frequent ones share one. The fit gives positives and negatives the same sum of
    weights, and then adds the log-odds of the sample's base rate: weights of 1 to 1,000 would leave the rare label
    without a say in where the trees split. The number of trees is the mean of the best ones on held-out folds of the
    sample. The trees are the same for any number of threads. A feature that is known for all rows of the fit counts as
    0 where it is not known.

    Contributions are Shapley values: at a split on a feature that is not known, the expectation follows both sides, by
    their numbers of rows in the fit (TreeSHAP: Lundberg, Erion & Lee 2018, algorithm 1).

    rate        learning rate, above 0
    most_trees  largest number of trees
    trees       number of trees; None: chosen on held-out folds
    leaves      largest number of leaves of a tree, 2 to 32
    fewest      smallest number of rows of a leaf; at most a fiftieth of the sample
    ridge       penalty of squared leaf values
    share       each split takes the best feature of this share of them, drawn at random, or of FEWEST_DRAWN; above 0,
                at most 1. Trees differ more, and their sum is more accurate (Breiman 2001)
    """

    model_: str
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
        import torch  # noqa: F401  # it brings libgomp, which LightGBM needs, to machines without it
        from lightgbm import Dataset, train

        balanced = sample.balanced()
        predicates, counts = np.unique(sample.predicates, return_counts=True)
        frequent = np.argsort(-counts, kind="stable")[:MOST_CATEGORIES]
        self.categories_ = np.sort(predicates[frequent][counts[frequent] >= FEWEST_ROWS]).astype(np.int64)
        self.shift_ = sample.prior
        settings = self._settings(sample, rng)
        columns = self._columns(sample.values, sample.predicates)
        category = [len(sample.names)]
        rows = Dataset(columns, balanced.labels, weight=balanced.weights, categorical_feature=category, params=settings)
        trees = self._number_of_trees(balanced, rows, settings, rng) if self.trees is None else self.trees
        self.model_ = train(settings, rows, trees).model_to_string()
        for read in ("booster_", "forest_"):
            self.__dict__.pop(read, None)
        return self

    def tuned(self) -> Self:
        trees = self.booster_.num_trees()
        return type(self)(self.rate, self.most_trees, self.leaves, self.fewest, self.ridge, self.share, trees)

    def log_odds(self, values: npt.NDArray[np.float32], predicates: Ints) -> Floats:
        return self._predicted(values, predicates, raw_score=True) + self.shift_

    def contributions(self, values: npt.NDArray[np.float32], predicates: Ints) -> tuple[float, Floats]:
        *parts, constant = self._predicted(values, predicates, pred_contrib=True).T
        return float(constant[0]) + self.shift_, np.stack(parts, axis=1)

    def bounds(self, grid: Grid) -> tuple[Floats, Floats]:
        [category] = self._category(np.array([grid.tile.predicate])).tolist()
        low, high = self.forest_.bounds(grid, category)
        return low + self.shift_, high + self.shift_

    def parameters(self) -> dict[str, Any]:
        return {"shift": self.shift_, "categories": self.categories_.tolist(), "model": self.model_}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        built = cls()
        built.shift_, built.model_ = parameters["shift"], parameters["model"]
        built.categories_ = np.array(parameters["categories"], dtype=np.int64)
        return built

    @cached_property
    def booster_(self) -> "Booster":
        """LightGBM's model, read from its text."""
        import torch  # noqa: F401  # it brings libgomp, which LightGBM needs, to machines without it
        from lightgbm import Booster

        return Booster(model_str=self.model_)

    @cached_property
    def forest_(self) -> Forest:
        """The trees as sets of leaves."""
        trees = self.booster_.dump_model()["tree_info"]
        return Forest.of(trees, self.booster_.num_feature() - 1, len(self.categories_))

    def _predicted(self, values: npt.NDArray[np.float32], predicates: Ints, **what: bool) -> Floats:
        """Return what LightGBM computes of rows, on one thread: tiles have as many threads as there are cores."""
        parts = []
        for first in range(0, len(values), ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            columns = self._columns(values[rows], predicates[rows])
            parts.append(np.asarray(self.booster_.predict(columns, num_threads=1, **what)))
        return np.concatenate(parts) if parts else np.zeros(0)

    def _category(self, predicates: Ints) -> Ints:
        """Return the category of each predicate (n,); -1: it has no category of its own."""
        if not len(self.categories_):
            return np.full(len(predicates), -1, dtype=np.int64)
        place = np.minimum(np.searchsorted(self.categories_, predicates), len(self.categories_) - 1)
        return np.where(self.categories_[place] == predicates, place, -1)

    def _columns(self, values: npt.NDArray[np.float32], predicates: Ints) -> npt.NDArray[np.float32]:
        """Return the features and the category (n, d + 1)."""
        category = self._category(predicates)
        return np.column_stack([values, np.where(category < 0, np.nan, category).astype(np.float32)])

    def _settings(self, sample: EvidenceSample, rng: np.random.Generator) -> dict[str, object]:
        """Return the settings of LightGBM."""
        return {
            "objective": "binary",
            "learning_rate": self.rate,
            "num_leaves": min(self.leaves, MOST_LEAVES),
            "min_data_in_leaf": max(1, min(self.fewest, len(sample) // 50)),
            "lambda_l2": self.ridge,
            "feature_fraction_bynode": min(1.0, max(self.share, FEWEST_DRAWN / (1 + len(sample.names)))),
            "monotone_constraints": [*(DIRECTIONS.get(name, 0) for name in sample.names), 0],
            "boost_from_average": False,
            "seed": int(rng.integers(2**31)),
            "num_threads": 1 if len(sample) <= ALONE else 0,
            "deterministic": True,
            "force_row_wise": True,
            "feature_pre_filter": False,
            # the categories of few rows have a say, as numbers of few rows have
            "cat_l2": 0.0,
            "min_data_per_group": FEWEST_ROWS,
            "max_cat_threshold": 64,
            "verbosity": -1,
        }

    def _number_of_trees(
        self, sample: EvidenceSample, rows: "Dataset", settings: dict[str, object], rng: np.random.Generator
    ) -> int:
        """Return the number of trees with the lowest log loss on held-out folds: the mean over the folds."""
        from lightgbm import early_stopping, train

        number = next((folds for most, folds in FOLDS if len(sample) <= most), 1)
        fold, best = sample.folds(max(number, 5), rng), list[int]()
        for held in range(number):
            parts = [np.flatnonzero(mask) for mask in (fold == held, fold != held)]
            if min(len(np.unique(sample.labels[part])) for part in parts) < 2:
                continue
            held_out, kept = (rows.subset(part.tolist()) for part in parts)
            stop = early_stopping(PATIENCE, verbose=False)
            best.append(train(settings, kept, self.most_trees, [held_out], callbacks=[stop]).best_iteration)
        return max(1, round(float(np.mean(best)))) if best else min(self.most_trees, 20)
