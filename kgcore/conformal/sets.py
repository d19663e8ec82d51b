"""Answer sets: the answers of a query that agree with the model well enough to contain the true answer with a chosen
probability.

Split conformal prediction (Vovk, Gammerman & Shafer, "Algorithmic Learning in a Random World", 2005): measure the
nonconformity of the true answers of held-out queries, and accept every answer whose nonconformity is at most their
quantile. Zhu et al., "Conformalized Answer Set Prediction for Knowledge Graph Embedding", arXiv 2408.08248, 2024, apply
it to embeddings of knowledge graphs. "Predicate-Conditional Conformalized Answer Sets for Knowledge Graph Embeddings",
arXiv 2505.16877, 2025, does so for each predicate (Mondrian conformal prediction).
"""

import math
from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Floats, Ints
from kgcore.errors import InputError

KINDS = ("rank", "score", "gap", "softmax")


@dataclass(frozen=True)
class Standing:
    """Where the true answers of queries stand among the candidates.

    own    (n,) score of the true answer; -inf if it is not among the candidates
    best   (n,) highest score of a candidate
    level  (n,) log sum exp of the scores of all candidates
    rank   (n,) 1 + number of candidates with a higher score
    """

    own: Floats
    best: Floats
    level: Floats
    rank: Ints

    def nonconformity(self, kind: str) -> Floats:
        """Return the nonconformity (n,) of the true answers; inf if they are not among the candidates.

        rank     the rank
        score    -f
        gap      best f - f
        softmax  -log( exp f / sum exp f ), over the candidates

        Raises InputError for another kind.
        """
        if kind not in KINDS:
            raise InputError(f"the nonconformity is {kind!r}: it must be one of {', '.join(KINDS)}")
        missing = np.isneginf(self.own)
        own = np.where(missing, 0.0, self.own)
        values = {"rank": self.rank, "score": -own, "gap": self.best - own, "softmax": self.level - own}
        return np.where(missing, np.inf, values[kind])


def conformal_quantile(nonconformity: Floats, coverage: float) -> float:
    """Return the largest nonconformity that an answer set accepts.

    It is the ceil((n + 1) coverage)-th smallest of the n values, or inf if n is too small. If the queries are
    exchangeable with a further one, the answer set of that one contains its true answer with a probability of at least
    `coverage` and, without ties, at most coverage + 1 / (n + 1).

    nonconformity  (n,) of the true answers of held-out queries
    coverage       in (0, 1)

    Raises InputError if the coverage is out of range.
    """
    if not 0 < coverage < 1:
        raise InputError(f"coverage is {coverage:g}: it must be above 0 and below 1")
    place = math.ceil((len(nonconformity) + 1) * coverage - 1e-9)
    return float(np.sort(nonconformity)[place - 1]) if place <= len(nonconformity) else math.inf


@dataclass(frozen=True)
class SetRule:
    """Which answers of a query the answer set accepts.

    kind      measure of nonconformity: one of KINDS
    quantile  the largest nonconformity that is accepted; inf accepts every entity
    coverage  the probability that the set contains the true answer
    queries   number of validation queries behind the quantile
    pooled    whether they are of several predicates, because the predicate has too few
    is_typed  whether the candidates are the entities of the predicate's domain or range; if not, all entities
    """

    kind: str
    quantile: float
    coverage: float
    queries: int
    pooled: bool
    is_typed: bool
