"""A trained model: a scoring function, its trained tables, and a cohort if its scores are normalised."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch

from kgcore.arrays import Floats, Ints, Scores, Triples
from kgcore.models import pair_scores
from kgcore.models.base import LARGEST_BLOCK, Embeddings, Model
from kgcore.models.blocks import SCORE_ROWS, block_rows, fixed_blocks
from kgcore.models.cohort import Cohort
from kgcore.models.inverse import BothWays
from kgcore.models.scorer import Bounds, Scorer
from kgcore.registries import MODELS
from kgcore.registry import build

MOST_LEVELS = 2**24  # levels that are kept: 128 MiB
COSINES_AT_ONCE = 2**14  # entities whose products with another one are in memory at a time
GATHERED = (
    2**21
)  # numbers of the predicates of a block: beyond it, memory for a RESCAL block takes longer than its score


@dataclass(frozen=True)
class TrainedModel(Scorer):
    """A scoring function with its trained tables, and the settings from which the scoring function is built.

    name     registered name of the scoring function
    k        embedding size
    options  name -> value of the options that the user set. Early versions stored a bool as 1 or 0
    inverse  whether the model scores triples in both directions, with inverse predicates: kgcore/models/inverse.py
    cohort   the cohort that normalises the scores; None = no normalisation: kgcore/models/cohort.py
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
        model = build(MODELS.get(self.name), self.options, self.k)
        return (BothWays(model) if self.inverse else model).bound(self.embeddings.shared)

    @cached_property
    def _prepared(self) -> tuple[Model, Embeddings]:
        """The scoring function and the tables that score many triples in the least time."""
        with torch.inference_mode():
            model, predicates = self.model.prepared(self.embeddings.predicates)
        return model, replace(self.embeddings, predicates=predicates)

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
            digest.update(np.ascontiguousarray(table.detach().cpu().numpy()).tobytes())
        if self.cohort is not None:
            digest.update(repr((self.cohort.weight, self.cohort.temperature)).encode())
            for numbers in (self.cohort.members, self.cohort.starts):
                digest.update(np.ascontiguousarray(numbers).tobytes())
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
        model, tables = self._prepared
        rows = rows or block_rows(SCORE_ROWS, min(LARGEST_BLOCK // model.pair_width, GATHERED // model.predicate_width))
        ids = torch.from_numpy(np.ascontiguousarray(triples)).to(tables.entities.device)
        found = tables.entities.new_empty(len(ids))
        for start, (block, count) in zip(range(0, len(ids), rows), fixed_blocks(ids, rows), strict=True):
            # A kept result would lie in memory that the next block then could not use again while it is in the cache.
            found[start : start + count] = model.score(*tables.rows_of(block))[:count]
        scores: Scores = found.cpu().numpy().astype(np.float64)
        return scores

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
        levels: Floats = self._known_levels[places]
        return levels

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
        return pair_scores.tiles(self, subjects, predicate, objects)

    def answers(
        self, predicate: int, entities: Ints, candidates: Ints, *, as_objects: bool
    ) -> Iterator[tuple[slice, torch.Tensor]]:
        return pair_scores.answers(self, predicate, entities, candidates, as_objects)

    def alternatives(self, triple: Triples) -> tuple[torch.Tensor, torch.Tensor]:
        return pair_scores.candidate_scores(self.model, self.embeddings, triple, 1)

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
