"""The filtered rank of a triple by a loop over every corruption, as an oracle."""

import numpy as np

from kgcore.embed.models.trained import TrainedModel


def rank_by_loop(trained: TrainedModel, triple: np.ndarray, column: int, facts: set, entities: int) -> float:
    others = []
    for entity in range(entities):
        other = triple.copy()
        other[column] = entity
        if entity != triple[column] and tuple(other.tolist()) not in facts:
            others.append(other)
    [own, *scores] = trained.score(np.array([triple, *others]))
    return 1 + sum(score > own for score in scores) + sum(score == own for score in scores) / 2
