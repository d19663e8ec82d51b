"""The rank of a triple among its alternatives: other objects for (s, p, ?), other subjects for (?, p, o)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Floats, Ints, Triples
from kgcore.graph import TripleIndex
from kgcore.models.scorer import Scorer
from kgcore.prediction.estimate import Estimate, numbers

SHORTLIST = 128  # entities with the highest f that are compared by probability


@dataclass(frozen=True, kw_only=True)
class Alternative(Estimate):
    """Another entity in the place of the subject or the object. It makes no known fact.

    name   the entity
    score  score of the triple with this entity, any real number
    """

    name: str
    score: float


@dataclass(frozen=True)
class Alternatives:
    """The rank of an entity among the entities that could stand in its place.

    rank   1 + #{higher f} + #{equal f} / 2 among the entities that make no known fact: see kgcore/ranking.py
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
    best: tuple[Alternative, ...]

    @property
    def rank_text(self) -> str:
        """The rank with all its digits, such as `1,204` or `1,204.5`."""
        return f"{self.rank:,.1f}".removesuffix(".0")


@dataclass(frozen=True)
class Ranked:
    """The rank of an entity, and the entities with the highest f that make no known fact: at most SHORTLIST."""

    rank: float
    among: int
    known: int
    itself: bool
    shortlist: Ints

    def alternatives(self, names: Sequence[str], scores: Floats, probabilities: Floats, most: int) -> Alternatives:
        """Return the rank with the best alternatives.

        scores         (n,) of the shortlist
        probabilities  (n, 3) its probabilities, and their lower and upper ends; NaN: none
        most           largest number of alternatives
        """
        order = np.argsort(-scores, kind="stable")[:most]
        best = (
            Alternative(name=names[self.shortlist[i]], score=float(scores[i]), **numbers(probabilities[i]))
            for i in order
        )
        return Alternatives(self.rank, self.among, self.known, self.itself, tuple(best))


def ranked(trained: Scorer, triple: Triples, known: TripleIndex, reflexive: bool) -> tuple[Ranked, Ranked]:
    """Rank the subject and the object of a triple (1, 3).

    known      facts that do not count as alternatives
    reflexive  whether a shortlist may pair an entity with itself. In a rank such pairs always count
    """
    import torch  # takes more than a second to load

    from kgcore.ranking import ranks_of

    sides = []
    facts = known.subjects(triple[:, 1], triple[:, 2]), known.objects(triple[:, 0], triple[:, 1])
    for scores, column, fact in zip(trained.alternatives(triple), (0, 2), facts, strict=True):
        own, partner = scores[0, triple[0, column]].item(), int(triple[0, 2 - column])
        rank = float(ranks_of(scores, triple[:, column], fact))
        others = int((fact[1] != triple[0, column]).sum())
        among = scores.shape[1] - others
        itself = not reflexive and scores[0, partner].item() > own
        if not reflexive:
            scores = scores.index_fill(1, torch.tensor([partner], device=scores.device), -torch.inf)
        best, shortlist = scores[0].topk(min(SHORTLIST, scores.shape[1]))
        sides.append(Ranked(rank, among, others, itself, shortlist[best > -torch.inf].cpu().numpy()))
    return sides[0], sides[1]
