"""Triples and facts that are similar to a triple: its rank among its alternatives, and the nearest known facts.

The alternatives are other objects for (s, p, ?), and other subjects for (?, p, o). The nearest facts have the same
predicate, and near subjects and objects.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from kgcore.arrays import Floats, Ints, Triples
from kgcore.data.graph import KnowledgeGraph, TripleIndex
from kgcore.embed.models.scorer import Scorer

SHORTLIST = 128  # entities with the highest f that are compared by probability
SPLITS = ("train", "valid", "test", "other")


@dataclass(frozen=True, kw_only=True)
class ProbabilityInterval:
    """A probability in [0, 1] and the ends of its 95 % confidence interval. None: there is no such number."""

    probability: float | None
    low: float | None
    high: float | None

    @property
    def text(self) -> str:
        """The probability with four decimals, or with two digits if it is small; '' without a probability."""
        return "" if self.probability is None else _digits(self.probability)

    @property
    def interval_text(self) -> str:
        """The interval, such as `0.7600 to 0.8512`; '' without an interval."""
        return "" if self.low is None or self.high is None else f"{_digits(self.low)} to {_digits(self.high)}"


@dataclass(frozen=True, kw_only=True)
class Shifted(ProbabilityInterval):
    """The probability at a base rate in (0, 1)."""

    base_rate: float


def _digits(share: float) -> str:
    return f"{share:.4f}" if share >= 0.001 or share == 0 else f"{share:.2g}"


def numbers(values: Floats) -> dict[str, float | None]:
    """Return probability, lower and upper end (3,) as the fields of a `ProbabilityInterval`: None for NaN."""
    plain = [None if np.isnan(value) else float(value) for value in values]
    return dict(zip(("probability", "low", "high"), plain, strict=True))


@dataclass(frozen=True, kw_only=True)
class Alternative(ProbabilityInterval):
    """Another entity in the place of the subject or the object. It makes no known fact.

    name   the entity
    score  score of the triple with this entity, any real number
    """

    name: str
    score: float


@dataclass(frozen=True)
class Alternatives:
    """The rank of an entity among the entities that could stand in its place.

    rank   1 + #{higher f} + #{equal f} / 2 among the entities that make no known fact: see kgcore/embed/ranking.py
    among  number of ranked entities: all that make no known fact, and the entity itself
    known  number of the other entities, which make known facts
    itself whether the pair of an entity with itself has a higher f and, though it is ranked, is none of `best`
    best   the alternatives with the highest scores, in descending order. An entity is paired with itself only if a
           training fact of the predicate does so. With a cohort, whose level depends on the
           subject, the best subjects are those of the SHORTLIST subjects with the highest f
    """

    rank: float
    among: int
    known: int
    itself: bool
    best: tuple[Alternative, ...] = ()

    @property
    def rank_text(self) -> str:
        """The rank with all its digits, such as `1,204` or `1,204.5`."""
        return f"{self.rank:,.1f}".removesuffix(".0")

    def with_best(self, names: Sequence[str], scores: Floats, probabilities: Floats, most: int) -> Self:
        """Return the rank with the best alternatives.

        names          of the shortlist
        scores         (n,) of the shortlist
        probabilities  (n, 3) its probabilities, and their lower and upper ends; NaN: none
        most           largest number of alternatives
        """
        order = np.argsort(-scores, kind="stable")[:most]
        best = (Alternative(name=names[i], score=float(scores[i]), **numbers(probabilities[i])) for i in order)
        return replace(self, best=tuple(best))


def ranked(trained: Scorer, triple: Triples, known: TripleIndex, reflexive: bool) -> list[tuple[Alternatives, Ints]]:
    """Rank the subject and the object of a triple (1, 3). Return their ranks, each with a shortlist (n,).

    A shortlist has the entities with the highest f that make no known fact, at most SHORTLIST.

    known      facts that do not count as alternatives
    reflexive  whether a shortlist may pair an entity with itself. In a rank such pairs always count
    """
    import torch  # takes more than a second to load

    from kgcore.embed.ranking import ranks_of

    sides = []
    facts = known.subjects(triple[:, 1], triple[:, 2]), known.objects(triple[:, 0], triple[:, 1])
    for scores, column, fact in zip(trained.alternatives(triple), (0, 2), facts, strict=True):
        score, partner = scores[0, triple[0, column]].item(), int(triple[0, 2 - column])
        rank = float(ranks_of(scores, triple[:, column], fact))
        others = int((fact[1] != triple[0, column]).sum())
        among = scores.shape[1] - others
        itself = not reflexive and scores[0, partner].item() > score
        if not reflexive:
            scores = scores.index_fill(1, torch.tensor([partner], device=scores.device), -torch.inf)
        best, shortlist = scores[0].topk(min(SHORTLIST, scores.shape[1]))
        sides.append((Alternatives(rank, among, others, itself), shortlist[best > -torch.inf].cpu().numpy()))
    return sides


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
class SupportingFacts:
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

    def of(self, triple: tuple[int, int, int], most: int) -> SupportingFacts:
        """Return the facts nearest to a triple, given as positions in the graph's vocabularies.

        most  largest number of facts in each of the three groups
        """
        s, p, o = triple
        facts, splits = self._of_predicate(p)
        sides = self.trained.cosines(s)[facts[:, 0]], self.trained.cosines(o)[facts[:, 2]]
        same_subject, same_object = facts[:, 0] == s, facts[:, 2] == o

        def nearest(rows: Ints) -> Facts:
            similarity = (sides[0][rows] + sides[1][rows]) / 2
            best = rows[np.argsort(-similarity, kind="stable")[:most]]
            return Facts(len(rows), tuple(self._fact(facts[i], splits[i], sides[0][i], sides[1][i]) for i in best))

        return SupportingFacts(
            same_subject=nearest(np.flatnonzero(same_subject & ~same_object)),
            same_object=nearest(np.flatnonzero(same_object & ~same_subject)),
            others=nearest(np.flatnonzero(~same_subject & ~same_object)),
        )

    def split_of(self, triple: tuple[int, int, int]) -> str:
        """Return the split of a triple that is a known fact; '' if it is not one."""
        facts, splits = self._of_predicate(triple[1])
        places = np.flatnonzero((facts == triple).all(axis=1))
        return SPLITS[splits[places[0]]] if len(places) else ""

    def _of_predicate(self, predicate: int) -> tuple[Triples, Ints]:
        facts, splits = self._sorted
        start, stop = np.searchsorted(facts[:, 1], [predicate, predicate + 1])
        return facts[start:stop], splits[start:stop]

    def _fact(self, fact: Ints, split: int, subject_similarity: float, object_similarity: float) -> Fact:
        names, both = self.graph.entities, (float(subject_similarity), float(object_similarity))
        return Fact(names[fact[0]], names[fact[2]], SPLITS[split], sum(both) / 2, *both)

    @cached_property
    def _sorted(self) -> tuple[Triples, Ints]:
        """All known facts (n, 3), each once, by predicate, subject and object; and the position in SPLITS (n,) of each.

        The position of a fact of several splits is the first one.
        """
        graph = self.graph
        parts = (graph.train.positives, graph.valid.positives, graph.test.positives, graph.other_facts)
        facts = np.concatenate(parts)
        splits = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        order = np.lexsort((splits, facts[:, 2], facts[:, 0], facts[:, 1]))
        facts, splits = facts[order], splits[order]
        first = np.r_[True, (facts[1:] != facts[:-1]).any(axis=1)]
        return facts[first], splits[first]
