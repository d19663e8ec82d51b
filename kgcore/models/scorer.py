"""The interface of a scorer: an embedding model, or a pool of several calibrated models. It gives triples scores."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from kgcore.arrays import Floats, Ints, Scores, Triples

if TYPE_CHECKING:  # torch takes more than a second to load
    import torch
    from torch import Tensor

    from kgcore.models.trained import TrainedModel

Bounds = tuple[slice, slice, Floats, Floats]


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
