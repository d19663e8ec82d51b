"""Cohort normalisation: the score of a triple minus a level, computed from the scores of other objects."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from kgcore.arrays import Floats, Ints, Triples
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.models.base import LARGEST_BLOCK, MULTIPLE, Embeddings, Model, block_rows, fixed_blocks

COHORT_ROWS = 256  # subjects per block


@dataclass(frozen=True)
class Cohort:
    """Cohort-normalised scores:

        f'(s, p, o) = f(s, p, o) - weight level(s, p)
        level(s, p) = T log( 1/|C_p| sum_{c in C_p} exp(f(s, p, c) / T) )

    The cohort C_p of a predicate p is a set of objects that p has in training. A high score means little for a subject
    that scores high with every object of the cohort, and much for a subject that scores low with all of them. With
    weight 0 the score is f. With weight 1 and temperature T = 1 it is the log-likelihood of the object in a
    choice among the cohort, up to a constant for each p. As T goes to 0, the level becomes the maximum over
    the cohort; for large T, the mean.

    Rosenberg et al., "The Use of Cohort Normalized Scores for Speaker Verification", ICSLP 1992. Conneau et al., "Word
    Translation Without Parallel Data", ICLR 2018, equation 3, subtract half of the mean similarity of the nearest
    neighbours, to reduce the scores of hubs.

    weight       weight of the level, from 0 to 1
    temperature  T, above 0, in units of the score
    members      (n,) the entities of all cohorts, one cohort after the other
    starts       (R + 1,) the position in `members` where the cohort of each predicate starts, then n
    """

    weight: float
    temperature: float
    members: Ints
    starts: Ints

    def levels(self, model: Model, tables: Embeddings, triples: Triples) -> Floats:
        """Return level(s, p) of each triple, computed once for each distinct (s, p): (n, 3) -> (n,) float64."""
        pairs, place = np.unique(triples[:, 1::-1], axis=0, return_inverse=True)
        found = np.empty(len(pairs))
        first = np.searchsorted(pairs[:, 0], np.arange(len(self.starts)))
        for predicate in np.unique(pairs[:, 0]).tolist():
            members = self.members[self.starts[predicate] : self.starts[predicate + 1]]
            size = len(members)
            cohort = tables.entities[_ids(np.resize(members, size + -size % MULTIPLE), tables)]
            rows = block_rows(COHORT_ROWS, LARGEST_BLOCK // (len(cohort) * model.pair_width))
            p, own = tables.predicates[predicate].expand(rows, -1), slice(first[predicate], first[predicate + 1])
            levels = []
            for block, count in fixed_blocks(_ids(pairs[own, 1], tables), rows):
                scores = model.score_objects(tables.entities[block], p, cohort)[:count, :size].double()
                level = (scores / self.temperature).logsumexp(1) - np.log(size)
                levels.append(level * self.temperature)
            found[own] = torch.cat(levels).cpu().numpy()
        return found[place.ravel()]


def _ids(entities: Ints, tables: Embeddings) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(entities)).to(tables.entities.device)


def draw_cohort(
    graph: KnowledgeGraph, size: int, weight: float, temperature: float, rng: np.random.Generator
) -> Cohort:
    """Draw the cohort of every predicate: its objects in training, or `size` of them if there are more.

    The draw is without replacement. For a predicate without training triples, it is from all entities. Memory: at most
    `size` numbers per predicate.
    """
    seen = np.unique(graph.train.positives[:, 1:], axis=0)
    places = np.searchsorted(seen[:, 0], np.arange(len(graph.predicates) + 1))
    cohorts = []
    for start, end in pairwise(places):
        pool = seen[start:end, 1] if end > start else np.arange(len(graph.entities))
        cohorts.append(pool if len(pool) <= size else np.sort(rng.choice(pool, size, replace=False)))
    lengths = [len(cohort) for cohort in cohorts]
    return Cohort(weight, temperature, np.concatenate(cohorts), np.concatenate([[0], np.cumsum(lengths)]))
