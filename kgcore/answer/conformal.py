"""Conformal prediction: lists and answer sets with a guarantee that needs no model of the scores.

Conformal selection gives a list of candidates whose expected share of false ones is at most a chosen level. Jin &
Candes, "Selection by Prediction with Conformal p-values", Journal of Machine Learning Research 24, 2023; with weights,
"Model-free Selective Inference Under Covariate Shift via Weighted Conformal p-values", arXiv 2307.09291, 2023. Bates et
al., "Testing for Outliers with Conformal p-values", Annals of Statistics 51, 2023, prove the case where the calibration
sample has negatives only, as here.

Answer sets hold the answers of a query that agree with the model well enough to contain the true answer with a chosen
probability.

Split conformal prediction (Vovk, Gammerman & Shafer, "Algorithmic Learning in a Random World", 2005): measure the
nonconformity of the true answers of held-out queries, and accept every answer whose nonconformity is at most their
quantile. Zhu et al., "Conformalized Answer Set Prediction for Knowledge Graph Embedding", arXiv 2408.08248, 2024, apply
it to embeddings of knowledge graphs. "Predicate-Conditional Conformalized Answer Sets for Knowledge Graph Embeddings",
arXiv 2505.16877, 2025, does so for each predicate (Mondrian conformal prediction).

Pure functions of scores. kgcore/answer/ finds the candidates and the queries.
"""

import math
from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Scores, Weights, as_floats, as_probabilities, as_weights
from kgcore.errors import InputError

KINDS = ("rank", "score", "gap", "softmax")


def conformal_p_values(
    candidates: Scores,
    negatives: Scores,
    rng: np.random.Generator | None = None,
    weights: tuple[Weights, Weights] | None = None,
) -> Floats:
    """Return the conformal p-values (m,) of candidates, in (0, 1]: small if hardly any negative scores as high.

        p_j = (w_j + sum_i w_i [v_i > f_j] + U_j sum_i w_i [v_i = f_j]) / (w_j + sum_i w_i)

    with the candidates' scores f_j, the negatives' scores v_i, and U_j uniform on [0, 1], which breaks ties at random
    (Jin & Candes, equation 5; the candidate itself counts in full).

    If the false candidates and the negatives are exchangeable, P(p_j <= a and j is false) <= a for every a. Negatives
    that in truth are true triples score higher, so they make the p-values larger, never too small.

    candidates  (m,) scores
    negatives   (n,) scores of triples that are known or assumed to be false; n = 0 gives p-values of 1
    rng         draws U_j; None: U_j = 1, which makes the p-values of ties larger
    weights     (m,) of the candidates and (n,) of the negatives, above 0: how many times likelier the candidates are
                than the negatives to be such a triple. None: 1, for negatives drawn as the candidates are

    Raises InputError for numbers that are not finite, and for weights that are not above 0.
    """
    scores, values = as_floats("candidates", candidates), as_floats("negatives", negatives)
    candidate_weights, negative_weights = (None, None) if weights is None else weights
    w, v = as_weights(candidate_weights, len(scores)), as_weights(negative_weights, len(values))
    order = np.argsort(values, kind="stable")
    ascending = values[order]
    below = np.r_[0.0, np.cumsum(v[order])]  # the weight of the first i negatives
    first, last = (np.searchsorted(ascending, scores, side=side) for side in ("left", "right"))
    above, equal = below[-1] - below[last], below[last] - below[first]
    ties = equal if rng is None else rng.random(len(scores)) * equal
    p: Floats = (w + above + ties) / (w + below[-1])
    return p.clip(max=1.0)  # against rounding


def benjamini_hochberg(p_values: Floats, level: float) -> Bools:
    """Return which candidates (m,) are selected, so that the expected share of false ones is at most `level`.

    Select the k smallest p-values, for the largest k whose k-th smallest p-value is at most level k / m. None: k = 0.

    Benjamini & Hochberg, "Controlling the False Discovery Rate", Journal of the Royal Statistical Society B 57, 1995.
    Conformal p-values that share their negatives depend on each other positively, which the procedure allows (Bates et
    al., theorem 2).

    p_values  (m,) in [0, 1]
    level     the level, in (0, 1)

    Raises InputError for values out of range.
    """
    p = as_probabilities(p_values)
    values, counts = np.unique(p, return_counts=True)
    return p <= benjamini_hochberg_limit(values, counts, level)


def benjamini_hochberg_limit(values: Floats, counts: Ints, level: float) -> float:
    """Return the largest p-value that `benjamini_hochberg` selects; -1 if it selects none.

    values  (v,) different p-values, ascending
    counts  (v,) number of candidates with each of them

    Raises InputError if the level is out of range.
    """
    if not 0 < level < 1:
        raise InputError(f"level is {level:g}: it must be above 0 and below 1")
    passed = np.flatnonzero(values <= level * np.cumsum(counts) / max(int(np.sum(counts)), 1))
    return float(values[passed[-1]]) if len(passed) else -1.0


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
        scores = np.where(missing, 0.0, self.own)
        values = {"rank": self.rank, "score": -scores, "gap": self.best - scores, "softmax": self.level - scores}
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
