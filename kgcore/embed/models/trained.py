"""A trained model: a scoring function, its trained tables, and a cohort if its scores are normalised.

With inverse predicates, its score is the mean over both directions of a triple.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from torch import Tensor

from kgcore.arrays import Floats, Ints, Scores, Triples
from kgcore.embed.models.base import (
    LARGEST_BLOCK,
    MULTIPLE,
    SCORE_ROWS,
    Embeddings,
    Model,
    QueryModel,
    block_rows,
    fixed_blocks,
)
from kgcore.embed.models.cohort import Cohort
from kgcore.embed.models.scorer import Bounds, Scorer
from kgcore.registries import MODELS
from kgcore.registry import build

if TYPE_CHECKING:
    from kgcore.wings.fast_cpu.scores import Tiling

MOST_LEVELS = 2**24  # levels that are kept: 128 MiB
COSINES_AT_ONCE = 2**14  # entities whose products with another one are in memory at a time
# numbers of the predicates of a block: beyond it, memory for a RESCAL block takes longer than its score
GATHERED = 2**21
SUBJECTS_AT_ONCE, OBJECTS_AT_ONCE = 256, 4096  # of a tile of scores
BLOCK_SCORES = 2**23  # scores of a block of queries
MARGIN = 1e-4  # relative: a score of a tile is at most so far from that of the triple alone
MOST_QUERIES = 1024  # queries of a block


class BothWays(Model):
    """A model with the score 1/2 (f(s, p, o) + f(o, p', s)), where p', the inverse of p, has its own embedding.

    Lacroix et al., "Canonical Tensor Decomposition for Knowledge Base Completion", ICML 2018, section 4.1, learn p to
    predict objects and p' to predict subjects, so that a triple has two scores. This model takes their mean, as SimplE
    does (Kazemi & Poole, NeurIPS 2018).
    Embeddings: entities as in f; the embedding of a predicate is that of p in f, then that of p'. Range: as in f.
    """

    def __init__(self, model: Model) -> None:
        super().__init__(model.k)
        self.model, self.shared = model, model.shared

    @property
    def entity_width(self) -> int:
        return self.model.entity_width

    @property
    def predicate_width(self) -> int:
        return 2 * self.model.predicate_width

    @property
    def pair_width(self) -> int:
        return self.model.pair_width

    def initial_shared(self, rng: np.random.Generator) -> Mapping[str, Floats]:
        return self.model.initial_shared(rng)

    def bound(self, shared: Mapping[str, Tensor]) -> Self:
        model = super().bound(shared)
        model.model = self.model.bound(shared)
        return model

    def score(self, subjects: Tensor, predicates: Tensor, objects: Tensor) -> Tensor:
        p, inverse = predicates.chunk(2, -1)
        return (self.model.score(subjects, p, objects) + self.model.score(objects, inverse, subjects)) / 2

    def score_objects(self, subjects: Tensor, predicates: Tensor, candidates: Tensor) -> Tensor:
        (p, inverse), f = predicates.chunk(2, -1), self.model
        return (f.score_objects(subjects, p, candidates) + f.score_subjects(inverse, subjects, candidates)) / 2

    def score_subjects(self, predicates: Tensor, objects: Tensor, candidates: Tensor) -> Tensor:
        (p, inverse), f = predicates.chunk(2, -1), self.model
        return (f.score_subjects(p, objects, candidates) + f.score_objects(objects, inverse, candidates)) / 2


def folded(tables: Embeddings) -> Embeddings:
    """Return the tables for `BothWays`: each row of predicates (R, 2 w) is a predicate, then its inverse.

    tables  predicates are (2 R, w): first the R predicates, then their R inverses
    """
    return Embeddings(tables.entities, torch.cat(tables.predicates.chunk(2), -1), tables.shared)


@dataclass(frozen=True)
class TrainedModel(Scorer):
    """A scoring function with its trained tables, and the settings from which the scoring function is built.

    name     registered name of the scoring function
    k        embedding size
    options  name -> value of the options that the user set. Early versions stored a bool as 1 or 0
    inverse  whether the model scores triples in both directions, with inverse predicates: `BothWays`
    cohort   the cohort that normalises the scores; None = no normalisation: kgcore/embed/models/cohort.py
    """

    name: str
    k: int
    embeddings: Embeddings
    options: Mapping[str, float | bool] = field(default_factory=dict)
    inverse: bool = False
    cohort: Cohort | None = None

    @property
    def model(self) -> Model:
        """The scoring function with its shared numbers. Raises InputError if the name or an option is unknown."""
        return (BothWays(self._inner) if self.inverse else self._inner).bound(self.embeddings.shared)

    @property
    def _inner(self) -> Model:
        """The scoring function of one direction."""
        return build(MODELS.get(self.name), self.options, self.k).bound(self.embeddings.shared)

    @cached_property
    def _score_rows(self) -> Callable[[Tensor], Tensor]:
        """The function that scores triples (n, 3): compiled loops, or the formula where they do not fit."""
        from kgcore.wings.fast_cpu.scores import fast_scores

        tables, ways = self.embeddings, 2 if self.inverse else 1
        parts = [part.contiguous() for part in tables.predicates.chunk(ways, -1)]
        loops = [loop for part in parts if (loop := fast_scores(self.name, self._inner, tables.entities, part))]
        if not loops:
            model = self.model
            return lambda triples: model.score(*tables.rows_of(triples))
        if len(loops) == 1:
            return loops[0]
        return lambda triples: (loops[0](triples) + loops[1](triples.flip(1))) / 2

    def __getstate__(self) -> dict[str, object]:
        """Return what another process needs: compiled loops do not travel."""
        return {name: value for name, value in vars(self).items() if name != "_score_rows"}

    @property
    def embedding_models(self) -> "tuple[TrainedModel, ...]":
        return (self,)

    def to(self, device: torch.device) -> "TrainedModel":
        """Return the same model with its tables on that device."""
        return replace(self, embeddings=self.embeddings.to(device))

    def fingerprint(self) -> str:
        """Return the sha256 of name, k, options, `inverse`, every number of the tables, and the cohort.

        A calibrator stores the fingerprint of the model that it was fitted to.
        """
        inverse = ("inverse",) if self.inverse else ()  # keeps the old fingerprints of models without inverses
        digest = hashlib.sha256(repr((self.name, self.k, sorted(self.options.items()), *inverse)).encode())
        shared = [tensor for _, tensor in sorted(self.embeddings.shared.items())]
        for table in (self.embeddings.entities, self.embeddings.predicates, *shared):
            digest.update(np.ascontiguousarray(table.detach().cpu().numpy()).data)  # no copy: it may be mapped
        if self.cohort is not None:
            digest.update(repr((self.cohort.weight, self.cohort.temperature)).encode())
            for numbers in (self.cohort.members, self.cohort.starts):
                digest.update(np.ascontiguousarray(numbers).data)
        return digest.hexdigest()

    @torch.inference_mode()
    def score(self, triples: Triples, rows: int | None = None) -> Scores:
        """Return the scores (n,) float64 of triples (n, 3): f, or the normalised f' if there is a cohort. Ranks use f.

        rows  as in `raw_score`

        On one machine, a triple has the same score, to the last bit, whichever triples are scored with it.
        """
        return self.normalise(self.raw_score(triples, rows), triples)

    @torch.inference_mode()
    def normalise(self, raw: Scores, triples: Triples) -> Scores:
        """Return the scores f' (n,) of triples (n, 3) from their raw scores f (n,). Without a cohort, f' is f."""
        return raw if self.cohort is None else raw - self.cohort.weight * self.levels(triples)

    @torch.inference_mode()
    def raw_score(self, triples: Triples, rows: int | None = None) -> Scores:
        """Return the raw scores f (n,) float64 of triples (n, 3), without the cohort.

        rows  triples per block; None = SCORE_ROWS, or fewer if they do not fit in LARGEST_BLOCK numbers, or if the
              embeddings of their predicates do not fit in GATHERED numbers
        """
        model, tables = self.model, self.embeddings
        rows = rows or block_rows(SCORE_ROWS, min(LARGEST_BLOCK // model.pair_width, GATHERED // model.predicate_width))
        ids = torch.from_numpy(np.ascontiguousarray(triples)).to(tables.entities.device)
        found = tables.entities.new_empty(len(ids))
        for start, (block, count) in zip(range(0, len(ids), rows), fixed_blocks(ids, rows), strict=True):
            # A kept result would lie in memory that the next block then could not use again while it is in the cache.
            found[start : start + count] = self._score_rows(block)[:count]
        return found.cpu().numpy().astype(np.float64)

    def levels(self, triples: Triples) -> Floats:
        """Return the cohort level (n,) of each triple's subject and predicate, 0 without a cohort.

        Each level is computed once and kept, if the graph has at most MOST_LEVELS pairs of entity and predicate.
        """
        if self.cohort is None:
            return np.zeros(len(triples))
        if self._known_levels is None:
            return self.cohort.levels(self.model, self.embeddings, triples)
        places = triples[:, 1], triples[:, 0]
        missing = np.isnan(self._known_levels[places])
        if missing.any():
            new = self.cohort.levels(self.model, self.embeddings, triples[missing])
            self._known_levels[places[0][missing], places[1][missing]] = new
        return self._known_levels[places]

    @cached_property
    def _known_levels(self) -> Floats | None:
        """The levels (R, E) computed so far, NaN for the others; None if there are too many to keep."""
        shape = len(self.embeddings.predicates), len(self.embeddings.entities)
        return np.full(shape, np.nan) if shape[0] * shape[1] <= MOST_LEVELS else None

    @property
    def normalised(self) -> bool:
        """Return whether scores are cohort-normalised. `alternatives` gives f, before the normalisation."""
        return self.cohort is not None

    @property
    def sizes(self) -> tuple[int, int]:
        return len(self.embeddings.entities), len(self.embeddings.predicates)

    def tiles(self, subjects: Ints, predicate: int, objects: Ints) -> Iterator[Bounds]:
        tables, width = self.embeddings, self.model.pair_width
        levels, device = self._subtracted(predicate, subjects), tables.entities.device
        wide = max(1, min(OBJECTS_AT_ONCE, LARGEST_BLOCK // width))
        high = max(1, min(SUBJECTS_AT_ONCE, LARGEST_BLOCK // (width * wide)))
        others, ids = torch.from_numpy(objects).to(device), torch.from_numpy(subjects).to(device)
        for top in range(0, len(ids), high):
            s = tables.entities.index_select(0, ids[top : top + high])
            p = tables.predicates[predicate].expand(len(s), -1)
            rows = slice(top, top + len(s))
            for left in range(0, len(others), wide):
                candidates = tables.entities.index_select(0, others[left : left + wide])
                with torch.inference_mode():
                    scores = self._score_pairs(s, p, candidates, as_objects=True).double().cpu().numpy()
                margin = MARGIN * np.maximum(1.0, np.abs(scores))
                bounds = (scores - margin) - levels[rows, None], (scores + margin) - levels[rows, None]
                yield rows, slice(left, left + len(candidates)), *bounds

    @torch.inference_mode()
    def answers(
        self, predicate: int, entities: Ints, candidates: Ints, *, as_objects: bool
    ) -> Iterator[tuple[slice, Tensor]]:
        """Score queries with all candidates for their answers, as `Scorer.answers` does, float32.

        Memory: at most BLOCK_SCORES scores, or MULTIPLE rows of them, and LARGEST_BLOCK numbers to compute them.
        """
        tables = self.embeddings
        device = tables.entities.device
        wanted = -(-len(entities) // MULTIPLE) * MULTIPLE
        rows = block_rows(min(MOST_QUERIES, wanted), BLOCK_SCORES // max(len(candidates), 1))
        possible = tables.entities.index_select(0, torch.from_numpy(candidates).to(device))
        p = tables.predicates[predicate].expand(rows, -1)
        subjects = entities if as_objects else candidates
        levels = torch.from_numpy(self._subtracted(predicate, subjects)).float().to(device)
        start = 0
        for block, count in fixed_blocks(torch.from_numpy(entities).to(device), rows):
            e = tables.entities.index_select(0, block)
            scores, taken = self._score_all(e, p, possible, rows, as_objects)[:count], slice(start, start + count)
            if self.cohort is not None:
                scores = scores - (levels[taken, None] if as_objects else levels)
            yield taken, scores
            start += count

    @torch.inference_mode()
    def alternatives(self, triple: Triples, rows: int = 1) -> tuple[Tensor, Tensor]:
        """Score triples (n, 3), as `Scorer.alternatives` does a single one, without the cohort: (n, E) and (n, E).

        rows  at least n; it sets how many entities are scored at a time: see `filtered_ranks`
        """
        tables = self.embeddings
        s, p, o = tables.rows_of(torch.from_numpy(np.ascontiguousarray(triple)).to(tables.entities.device))
        as_subjects = self._score_all(o, p, tables.entities, rows, as_objects=False)
        return as_subjects, self._score_all(s, p, tables.entities, rows, as_objects=True)

    def _score_all(
        self, entities: Tensor, predicates: Tensor, candidates: Tensor, rows: int, as_objects: bool
    ) -> Tensor:
        """Score queries (q, ...) with all candidates, as many at a time as fit for `rows` queries: (q, c)."""
        parts = torch.split(candidates, max(MULTIPLE, LARGEST_BLOCK // (rows * self.model.pair_width)))
        return torch.cat([self._score_pairs(entities, predicates, part, as_objects) for part in parts], 1)

    def _score_pairs(self, entities: Tensor, predicates: Tensor, candidates: Tensor, as_objects: bool) -> Tensor:
        """Score queries of entities (q, ...) and predicates with candidates (c, ...): (q, c)."""
        if self.tiling is not None and len(entities) * len(candidates) >= self.tiling.least:
            from kgcore.wings.fast_cpu.scores import by_tiles, mean_of

            queries = self.queries(entities, predicates, as_objects)
            return mean_of([by_tiles(self.tiling, points, candidates) for points in queries])
        if as_objects:
            return self.model.score_objects(entities, predicates, candidates)
        return self.model.score_subjects(predicates, entities, candidates)

    @cached_property
    def tiling(self) -> "Tiling | None":
        """The tiles of the model's comparison on a CPU; None: it has none."""
        from kgcore.wings.fast_cpu.scores import tiling_of

        tables, inner = self.embeddings, self._inner
        if not isinstance(inner, QueryModel):
            return None
        return tiling_of(inner.comparator.name, inner.comparator.pairs, tables.entities, tables.predicates)

    def queries(self, entities: Tensor, predicates: Tensor, as_objects: bool) -> list[Tensor]:
        """Return the points to compare candidates with, of a model with queries: (q, d), one for each direction.

        entities    (q, entity_width) subjects of queries for objects, or objects of queries for subjects
        predicates  (q, predicate_width)
        as_objects  whether the candidates are objects
        """
        inner = self._inner
        assert isinstance(inner, QueryModel)
        ways = predicates.chunk(2 if self.inverse else 1, -1)
        sides = (inner.object_query(entities, ways[0]), inner.subject_query(ways[-1], entities))
        if not as_objects:
            sides = (inner.subject_query(ways[0], entities), inner.object_query(entities, ways[-1]))
        return list(sides[: len(ways)])

    def _subtracted(self, predicate: int, subjects: Ints) -> Floats:
        """Return what the cohort subtracts from each subject's scores (n,): 0 without a cohort."""
        if self.cohort is None:
            return np.zeros(len(subjects))
        return self.cohort.weight * self.levels(np.stack([subjects, np.full_like(subjects, predicate), subjects], 1))

    def cosines(self, entity: int) -> Floats:
        table = self.embeddings.entities
        # a product with a matrix rounds differently by where the table is in the memory
        parts = [(rows * table[entity]).sum(1) for rows in torch.split(table, COSINES_AT_ONCE)]
        products = torch.cat(parts).double().cpu().numpy()
        cosines: Floats = (products / (self._norms * self._norms[entity])).clip(-1, 1)
        return cosines

    @cached_property
    def _norms(self) -> Floats:
        norms: Floats = self.embeddings.entities.norm(dim=1).double().cpu().numpy()
        return np.maximum(norms, np.finfo(np.float32).tiny)
