"""Gradient-boosted trees: the log-odds are a sum of the values of the leaves that the evidence reaches."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Floats, Ints
from kgcore.combiners.base import Combiner, EvidenceSample
from kgcore.registries import COMBINERS

SCORE = "score"  # the feature in which the log-odds are monotone


@COMBINERS.register("boosted_trees")
@dataclass
class BoostedTrees(Combiner):
    iterations: int = 200
    leaves: int = 15
    learning_rate: float = 0.05
    ridge: float = 1.0
    trees: list[dict[str, Any]] = field(default_factory=list)
    constant: float = 0.0

    def fit(self, sample: EvidenceSample, rng: np.random.Generator) -> Self:
        from sklearn.ensemble import HistGradientBoostingClassifier as Boosting

        d = len(sample.names)
        values = np.column_stack([sample.values, sample.predicates.astype(np.float32)])
        made = Boosting(
            learning_rate=self.learning_rate,
            max_iter=self.iterations,
            max_leaf_nodes=self.leaves,
            l2_regularization=self.ridge,
            min_samples_leaf=20,
            early_stopping=False,
            monotonic_cst=[int(name == SCORE) for name in sample.names] + [0],
            categorical_features=[False] * d + [sample.predicates.max() < 255],
            random_state=int(rng.integers(2**31)),
        ).fit(values, sample.labels, sample.weights)
        self.made = made
        return self

    def log_odds(self, values: npt.NDArray[np.float32], predicates: Ints) -> Floats:
        if not len(values):
            return np.zeros(0)
        return self.made.decision_function(np.column_stack([values, predicates.astype(np.float32)]))

    def contributions(self, values: npt.NDArray[np.float32], predicates: Ints) -> tuple[float, Floats]:
        raise NotImplementedError

    def parameters(self) -> dict[str, Any]:
        import base64
        import pickle

        return {"x": base64.b64encode(pickle.dumps(self.made)).decode()}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        import base64
        import pickle

        one = cls()
        one.made = pickle.loads(base64.b64decode(parameters["x"]))
        return one
