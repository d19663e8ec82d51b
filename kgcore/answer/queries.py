"""Scores queries of one predicate with all candidates for their answers, block by block.

Blocks of queries are scored as matrix products. Such a score can differ in its last bits from that of the triple alone,
which `Scorer.score` gives. pairs.py searches the best pairs over all queries.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from kgcore.arrays import Ints, Triples
from kgcore.data.graph import TripleIndex
from kgcore.embed.corruptions.base import OBJECT
from kgcore.embed.models.scorer import Scorer

Move = Callable[[int], None]


@dataclass(frozen=True)
class PredicateQueries:
    """PredicateQueries (s, p, ?) or (?, p, o) of one predicate, and the candidates for their answers.

    predicate   p
    side        what is asked for: OBJECT in (s, p, ?), SUBJECT in (?, p, o)
    entities    (q,) s or o of each query
    candidates  (c,) different entities, the possible answers
    left_out    triples that are no answers, such as the known facts
    kept        (q,) an entity for each query that is an answer even so; None: no such entities
    """

    predicate: int
    side: int
    entities: Ints
    candidates: Ints
    left_out: TripleIndex
    kept: Ints | None = None

    def triples(self, rows: Ints, answers: Ints) -> Triples:
        """Return the triples (n, 3) of queries and answers: the row of each query (n,), and an entity (n,)."""
        asking, p = self.entities[rows], np.full(len(rows), self.predicate)
        return np.stack((asking, p, answers) if self.side == OBJECT else (answers, p, asking), axis=1)

    def part(self, rows: slice) -> "PredicateQueries":
        """Return some of the queries."""
        return replace(self, entities=self.entities[rows], kept=None if self.kept is None else self.kept[rows])

    def excluded(self, column: Ints) -> tuple[Ints, Ints]:
        """Return what is no answer, as two arrays of equal length: the row of the query, and the column.

        column  (E,) position of each entity in `candidates`, -1 if it is not there
        """
        p = np.full(len(self.entities), self.predicate)
        if self.side == OBJECT:
            rows, answers = self.left_out.objects(self.entities, p)
        else:
            rows, answers = self.left_out.subjects(p, self.entities)
        columns = column[answers]
        excluded = (columns >= 0) if self.kept is None else (columns >= 0) & (answers != self.kept[rows])
        return rows[excluded], columns[excluded]


@torch.inference_mode()
def score_blocks(trained: Scorer, queries: PredicateQueries) -> Iterator[tuple[slice, torch.Tensor]]:
    """Score blocks of queries with all candidates. Yield the rows of the queries, and their scores (rows, c).

    What is no answer has the score -inf. Memory: that of `Scorer.answers`.
    """
    column = np.full(queries.left_out.num_entities, -1)
    column[queries.candidates] = np.arange(len(queries.candidates))
    asked = queries.predicate, queries.entities, queries.candidates
    for taken, scores in trained.answers(*asked, as_objects=queries.side == OBJECT):
        row, place = (torch.from_numpy(x).to(scores.device) for x in queries.part(taken).excluded(column))
        scores[row, place] = -torch.inf
        yield taken, scores


def best_answers(trained: Scorer, queries: PredicateQueries) -> tuple[Ints, Triples]:
    """Return the best answer of every query that has one: rows (n,) of the queries, and triples (n, 3)."""
    blocks = []
    for _, scores in score_blocks(trained, queries):
        if scores.shape[1]:
            best, place = scores.max(1)
            blocks.append(torch.where(best > -torch.inf, place, -1).cpu().numpy())
    places = np.concatenate(blocks) if blocks else np.zeros(0, dtype=np.int64)
    rows = np.flatnonzero(places >= 0)
    return rows, queries.triples(rows, queries.candidates[places[rows]])
