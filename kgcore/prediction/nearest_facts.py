"""The known facts that are nearest to a triple: the same predicate, and near subjects and objects."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kgcore.arrays import Ints, Triples
from kgcore.graph import KnowledgeGraph
from kgcore.models.scorer import Scorer

SPLITS = ("train", "valid", "test", "other")


@dataclass(frozen=True)
class Fact:
    """A known fact that resembles a triple.

    subject, object     its names; its predicate is that of the triple
    split               train, valid, test, or other: in none of them. The model was fitted to facts of train only
    similarity          mean of the next two, in [-1, 1]
    subject_similarity  similarity of its subject and the subject of the triple, in [-1, 1]; 1: the same direction
    object_similarity   the same for the objects
    """

    subject: str
    object: str
    split: str
    similarity: float
    subject_similarity: float
    object_similarity: float


@dataclass(frozen=True)
class Facts:
    """A number of known facts, and the nearest of them, in descending order of their similarity."""

    count: int
    nearest: tuple[Fact, ...]


@dataclass(frozen=True)
class Support:
    """The known facts with the predicate p of a triple (s, p, o), without the triple itself.

    same_subject  the facts (s, p, *)
    same_object   the facts (*, p, o)
    others        the facts with another subject and another object
    """

    same_subject: Facts
    same_object: Facts
    others: Facts


@dataclass(frozen=True)
class NearestFacts:
    """Finds the known facts that are nearest to a triple in the space of a model.

    The similarity of two entities is the cosine of their embeddings; an ensemble takes the mean over its members.
    Every model has one vector for each entity, so this definition serves all of them. The similarity of a fact
    (s', p, o') and a triple (s, p, o) is

        (cos(e_s, e_s') + cos(e_o, e_o')) / 2

    Janik & Costabello, "Explaining Link Predictions in Knowledge Graph Embedding Models with Influential Examples",
    arXiv 2212.02651, also take as examples the facts whose subjects and objects are neighbours in the latent space.
    The facts resemble the triple; nobody has measured that they are the cause of its score.
    """

    trained: Scorer
    graph: KnowledgeGraph

    def of(self, triple: tuple[int, int, int], most: int) -> Support:
        """Return the facts nearest to a triple, given as positions in the graph's vocabularies.

        most  largest number of facts in each of the three groups
        """
        s, p, o = triple
        start, stop = np.searchsorted(self._facts[:, 1], [p, p + 1])
        facts, splits = self._facts[start:stop], self._splits[start:stop]
        sides = self.trained.cosines(s)[facts[:, 0]], self.trained.cosines(o)[facts[:, 2]]
        same_subject, same_object = facts[:, 0] == s, facts[:, 2] == o

        def nearest(rows: Ints) -> Facts:
            similarity = (sides[0][rows] + sides[1][rows]) / 2
            best = rows[np.argsort(-similarity, kind="stable")[:most]]
            return Facts(len(rows), tuple(self._fact(facts[i], splits[i], sides[0][i], sides[1][i]) for i in best))

        return Support(
            same_subject=nearest(np.flatnonzero(same_subject & ~same_object)),
            same_object=nearest(np.flatnonzero(same_object & ~same_subject)),
            others=nearest(np.flatnonzero(~same_subject & ~same_object)),
        )

    def split_of(self, triple: tuple[int, int, int]) -> str:
        """Return the split of a triple that is a known fact; '' if it is not one."""
        start, stop = np.searchsorted(self._facts[:, 1], [triple[1], triple[1] + 1])
        found = np.flatnonzero((self._facts[start:stop] == triple).all(axis=1))
        return SPLITS[self._splits[start + found[0]]] if len(found) else ""

    def _fact(self, fact: Ints, split: int, subject_similarity: float, object_similarity: float) -> Fact:
        names, both = self.graph.entities, (float(subject_similarity), float(object_similarity))
        return Fact(names[fact[0]], names[fact[2]], SPLITS[split], sum(both) / 2, *both)

    @cached_property
    def _facts(self) -> Triples:
        """All known facts (n, 3), each once, sorted by predicate, then subject, then object."""
        return self._sorted[0]

    @cached_property
    def _splits(self) -> Ints:
        """The position in SPLITS (n,) of each fact; the first one for a fact of several splits."""
        return self._sorted[1]

    @cached_property
    def _sorted(self) -> tuple[Triples, Ints]:
        graph = self.graph
        parts = (graph.train.positives, graph.valid.positives, graph.test.positives, graph.other_facts)
        facts = np.concatenate(parts)
        splits = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        order = np.lexsort((splits, facts[:, 2], facts[:, 0], facts[:, 1]))
        facts, splits = facts[order], splits[order]
        first = np.r_[True, (facts[1:] != facts[:-1]).any(axis=1)]
        return facts[first], splits[first]
