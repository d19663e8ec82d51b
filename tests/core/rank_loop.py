"""The filtered rank of a triple by a loop over every corruption, as an oracle."""

import numpy as np

from kgcore.models.trained import TrainedModel


def rank_by_loop(trained: TrainedModel, triple: np.ndarray, column: int, facts: set, entities: int) -> float:
    better = equal = 0
    own = trained.score(triple[None])[0]
    for entity in range(entities):
        other = triple.copy()
        other[column] = entity
        if entity == triple[column] or tuple(other.tolist()) in facts:
            continue
        score = trained.score(other[None])[0]
        better += score > own
        equal += score == own
    return 1 + better + equal / 2
