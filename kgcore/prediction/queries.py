"""Scores queries of one predicate with all candidates for their answers, block by block.

Blocks of queries are scored as matrix products. Such a score can differ in its last bits from that of the triple alone,
which `TrainedModel.score` gives. pairs.py searches the best pairs over all queries.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from kgcore.arrays import Ints, Triples
from kgcore.corruptions.base import OBJECT
from kgcore.graph import TripleIndex
from kgcore.models.base import LARGEST_BLOCK
from kgcore.models.blocks import MULTIPLE, block_rows, fixed_blocks
from kgcore.models.trained import TrainedModel

BLOCK_SCORES = 2**23  # scores of a block
MOST_QUERIES = 1024  # queries of a block

Move = Callable[[int], None]


@dataclass(frozen=True)
class Queries:
    """Queries (s, p, ?) or (?, p, o) of one predicate, and the candidates for their answers.

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
        own, p = self.entities[rows], np.full(len(rows), self.predicate)
        return np.stack((own, p, answers) if self.side == OBJECT else (answers, p, own), axis=1)

    def part(self, rows: slice) -> "Queries":
        """Return some of the queries."""
        return replace(self, entities=self.entities[rows], kept=None if self.kept is None else self.kept[rows])

    def excluded(self, column: Ints) -> tuple[Ints, Ints]:
        """Return what is no answer, as two arrays of equal length: the row of the query, and the column.

        column  (E,) position of each entity in `candidates`, -1 if it is not there
        """
        p = np.full(len(self.entities), self.predicate)
        if self.side == OBJECT:
            rows, found = self.left_out.objects(self.entities, p)
        else:
            rows, found = self.left_out.subjects(p, self.entities)
        columns = column[found]
        excluded = (columns >= 0) if self.kept is None else (columns >= 0) & (found != self.kept[rows])
        return rows[excluded], columns[excluded]


@torch.inference_mode()
def score_blocks(trained: TrainedModel, queries: Queries) -> Iterator[tuple[slice, torch.Tensor]]:
    """Score blocks of queries with all candidates. Yield the rows of the queries, and their scores (rows, c) float32.

    What is no answer has the score -inf.

    Memory: at most BLOCK_SCORES scores, or MULTIPLE rows of them, and LARGEST_BLOCK numbers to compute them.
    """
    model, tables = trained.model, trained.embeddings
    device, count = tables.entities.device, len(queries.candidates)
    wanted = -(-len(queries.entities) // MULTIPLE) * MULTIPLE
    rows = block_rows(min(MOST_QUERIES, wanted), BLOCK_SCORES // max(count, 1))
    candidates = tables.entities[torch.from_numpy(queries.candidates).to(device)]
    parts = torch.split(candidates, max(MULTIPLE, LARGEST_BLOCK // (rows * model.pair_width)))
    p = tables.predicates[queries.predicate].expand(rows, -1)
    levels = None if trained.cohort is None else _levels(trained, queries)
    column = np.full(len(tables.entities), -1)
    column[queries.candidates] = np.arange(count)
    start = 0
    for block, own in fixed_blocks(torch.from_numpy(queries.entities).to(device), rows):
        e = tables.entities[block]
        if queries.side == OBJECT:
            scores = torch.cat([model.score_objects(e, p, part) for part in parts], 1)[:own]
        else:
            scores = torch.cat([model.score_subjects(p, e, part) for part in parts], 1)[:own]
        taken = slice(start, start + own)
        if levels is not None:
            scores = scores - (levels[taken, None] if queries.side == OBJECT else levels)
        row, place = (torch.from_numpy(x).to(device) for x in queries.part(taken).excluded(column))
        scores[row, place] = -torch.inf
        yield taken, scores
        start += own


def _levels(trained: TrainedModel, queries: Queries) -> torch.Tensor:
    """Return the level that is subtracted: (q,) for subjects that ask, or (c,) for candidates that are subjects."""
    assert trained.cohort is not None
    subjects = queries.entities if queries.side == OBJECT else queries.candidates
    triples = np.stack((subjects, np.full(len(subjects), queries.predicate), subjects), axis=1)
    levels = trained.cohort.levels(trained.model, trained.embeddings, triples)
    return torch.from_numpy(trained.cohort.weight * levels).float().to(trained.embeddings.entities.device)


def best_answers(trained: TrainedModel, queries: Queries, on_block: Move = lambda done: None) -> tuple[Ints, Triples]:
    """Return the best answer of every query that has one: rows (n,) of the queries, and triples (n, 3).

    on_block  function that is called after each block with the number of queries so far
    """
    found = []
    for taken, scores in score_blocks(trained, queries):
        if scores.shape[1]:
            best, place = scores.max(1)
            found.append(torch.where(best > -torch.inf, place, -1).cpu().numpy())
        on_block(taken.stop)
    places = np.concatenate(found) if found else np.zeros(0, dtype=np.int64)
    rows = np.flatnonzero(places >= 0)
    return rows, queries.triples(rows, queries.candidates[places[rows]])
