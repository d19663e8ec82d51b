"""The interface of a scorer: an embedding model, or a pool of several calibrated models. It gives triples scores."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

import numpy as np

from kgcore.arrays import Floats, Ints, Scores, Triples

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from kgcore.embed.models.trained import TrainedModel

Bounds = tuple[slice, slice, Floats, Floats]
TRIPLES_AT_ONCE = 2**18  # scored triples of a block


class Scorer(ABC):
    """Gives triples scores. A calibrator maps these scores to probabilities.

    `score` states the score of a triple. The other methods score many triples at once to rank them; such a score may
    differ from that of `score` in its last bits.
    """

    @property
    def normalised(self) -> bool:
        """Return whether `alternatives` gives scores before a normalisation, unlike the other methods."""
        return False

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, int]:
        """Return the numbers of entities and of predicates."""

    @property
    @abstractmethod
    def embedding_models(self) -> "tuple[TrainedModel, ...]":
        """Return the models whose scores it needs, first the one whose score is the main evidence."""

    @abstractmethod
    def score(self, triples: Triples) -> Scores:
        """Return the scores (n,) float64 of triples (n, 3): any real numbers, higher is more plausible.

        On one machine, a triple has the same score, to the last bit, whichever triples are scored with it.
        """

    @abstractmethod
    def fingerprint(self) -> str:
        """Return the sha256 of everything that a score depends on."""

    @abstractmethod
    def to(self, device: "torch.device") -> Self:
        """Return the same scorer with its tables on that device."""

    @abstractmethod
    def tiles(self, subjects: Ints, predicate: int, objects: Ints) -> Iterator[Bounds]:
        """Bound the scores of all pairs of n subjects and m objects of a predicate, tile by tile.

        Yield the slice of the subjects, the slice of the objects, and two arrays of float64: the score of a pair that
        `score` gives is not below the first and not above the second.
        """

    @abstractmethod
    def answers(
        self, predicate: int, entities: Ints, candidates: Ints, *, as_objects: bool
    ) -> Iterator[tuple[slice, "Tensor"]]:
        """Score queries with all candidates for their answers, block by block.

        entities    (q,) the subject of each query (s, p, ?), or the object of each query (?, p, o)
        candidates  (c,) entities
        as_objects  whether the candidates are objects: the queries are (s, p, ?)

        Yield the slice of the queries, and their scores (rows, c), which the caller may overwrite.
        """

    @abstractmethod
    def alternatives(self, triple: Triples) -> tuple["Tensor", "Tensor"]:
        """Score a triple (1, 3) with every entity as its subject, and with every entity as its object: (1, E) twice."""

    @abstractmethod
    def cosines(self, entity: int) -> Floats:
        """Return the cosine of the embedding of an entity with those of all entities: (E,) in [-1, 1]."""


class PointwiseScorer(Scorer, ABC):
    """A scorer whose every method scores triples with `score`, also if it ranks many of them.

    The calibrator of a member of an ensemble, or a combiner of evidence, may be steep. Then a difference in the last
    bits of a model's score could change the rank of a triple.
    """

    def tiles(self, subjects: Ints, predicate: int, objects: Ints) -> Iterator[Bounds]:
        for left in range(0, len(objects), TRIPLES_AT_ONCE):
            columns = slice(left, min(left + TRIPLES_AT_ONCE, len(objects)))
            for rows in _blocks(len(subjects), columns.stop - columns.start):
                scores = self._scores(subjects[rows], predicate, objects[columns])
                yield rows, columns, scores, scores

    def answers(
        self, predicate: int, entities: Ints, candidates: Ints, *, as_objects: bool
    ) -> Iterator[tuple[slice, "Tensor"]]:
        import torch

        for rows in _blocks(len(entities), len(candidates)):
            own = entities[rows]
            scores = (
                self._scores(own, predicate, candidates)
                if as_objects
                else self._scores(candidates, predicate, own).T.copy()
            )
            yield rows, torch.from_numpy(scores)

    def alternatives(self, triple: Triples) -> tuple["Tensor", "Tensor"]:
        import torch

        [[s, p, o]] = triple
        every, subject, object_ = np.arange(self.sizes[0]), np.array([s]), np.array([o])
        as_subjects, as_objects = self._scores(every, p, object_).T.copy(), self._scores(subject, p, every)
        return torch.from_numpy(as_subjects), torch.from_numpy(as_objects)

    def _scores(self, subjects: Ints, predicate: int, objects: Ints) -> Floats:
        """Return the scores (n, m) of all pairs of subjects (n,) and objects (m,)."""
        s, o = np.repeat(subjects, len(objects)), np.tile(objects, len(subjects))
        scores = self.score(np.stack([s, np.full(len(s), predicate), o], axis=1))
        return scores.reshape(len(subjects), len(objects))


def _blocks(rows: int, columns: int) -> Iterator[slice]:
    """Divide rows into blocks of at most TRIPLES_AT_ONCE pairs, but of at least one row."""
    high = max(1, TRIPLES_AT_ONCE // max(columns, 1))
    for start in range(0, rows, high):
        yield slice(start, min(start + high, rows))
