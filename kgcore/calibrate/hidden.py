"""Hidden facts among synthetic negatives: how many corruptions are true, and which of them likely are."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, ndtri

from kgcore.arrays import Floats, Probabilities, Weights
from kgcore.base_rate import HiddenShare
from kgcore.calibrate.logistic import stack_weights
from kgcore.calibrate.per_relation import PerRelation
from kgcore.calibrate.sample import CalibrationSample
from kgcore.calibrate.support import CONFIDENCE
from kgcore.data.completeness import ENDS
from kgcore.scores.table import LABELLED, ScoreTable

MOST = 0.99  # largest share that is estimated
MOST_BY_EVIDENCE = 0.999  # largest probability that evidence gives: weights are above 0
FACTS = 2.0  # a hit depends on two facts: the one that is corrupted, and the one that is hit


@dataclass(frozen=True)
class HiddenFacts:
    """The estimated hidden facts among the corruptions of a score table.

    share    how many of the corruptions are true
    odds     (m,) at least 0, up to a factor: the share of true ones among the corruptions with this predicate and score
    weights  (m,) the number of drawn corruptions that each corruption stands for
    most     the largest probability that a corruption is true, in [0, 1), that predicate and score give
    evidence log-odds (m,) of the evidence that the corruptions are true, and the mean log-odds of the hits; None: it is
             not known. It replaces `odds`
    """

    share: HiddenShare
    odds: Floats
    weights: Weights
    most: float
    evidence: tuple[Floats, float] | None = None

    def chances(self, share: float) -> Probabilities:
        """Return the probabilities (m,) that the corruptions are true, whose weighted mean is `share`.

        Those that predicate and score give are at most `most`. If `share` is above it, they are all `most`.
        """
        if share <= 0 or not self.odds.any():
            return np.zeros(len(self.odds))
        if self.evidence is not None:
            return chances_of(self.evidence[0], self.weights, self.evidence[1], share)
        return capped(self.odds, self.weights, share, self.most)


def capped(odds: Floats, weights: Weights, share: float, most: float = 1.0) -> Probabilities:
    """Return min(c odds, most) (m,), with c so that the mean with these weights (m,) is `share`.

    odds   at least 0, some above 0
    share  in (0, 1). If it is above the mean with `most` for all odds above 0, the result is that
    """

    def scaled(log_factor: float) -> Probabilities:
        probabilities: Probabilities = np.minimum(np.exp(log_factor) * odds, most)
        return probabilities

    def excess(log_factor: float) -> float:
        return float(np.average(scaled(log_factor), weights=weights)) - share

    lowest = float(np.log(share / odds.max())) - 1e-6
    highest = float(np.log(most / odds[odds > 0].min()))
    return scaled(highest if excess(highest) <= 0 else brentq(excess, lowest, highest, xtol=1e-12))


def chances_of(log_odds: Floats, weights: Weights, of_hits: float, share: float) -> Probabilities:
    """Return the probabilities expit(a z + b) (m,), a >= 0, that corruptions with the log-odds z are true.

    weights  (m,) of the corruptions
    of_hits  mean log-odds of the hits
    share    h, in (0, 1): how many of the corruptions are true. The weighted mean of the probabilities is h, but for
             their limit MOST_BY_EVIDENCE

    a and b minimise the logistic risk without labels, E_u[log(1 + exp(a z + b))] - h E_v[a z + b], over the corruptions
    u and the hits v: see kgcore/combiners/unlabelled.py. If evidence tells nearly all hits from the others, a is large.
    Raises FitError if the fit does not converge.
    """
    [a], b = stack_weights(np.array([[of_hits]]), log_odds[:, None], share, weights)
    chances: Probabilities = expit(a * log_odds + b).clip(max=MOST_BY_EVIDENCE)
    return chances


def hidden_hits(table: ScoreTable) -> Floats:
    """Return lambda v (ENDS, n): value, lower and upper end of the hits of all facts like each validation fact.

    v are the hits of a score table, and lambda is the number of hidden facts for each validation fact with its
    predicate. Of all V validation facts, V_p have the predicate p, and T facts are in test; of test, only this number
    is used. If the graph knows K_p facts with p and a share c_p of the true ones (`table.completeness`), then

        lambda = T / V + U_p / V_p,    U_p = K_p (1 - c_p) / c_p.

    A completeness of all predicates gives the sum of U_p over the predicates in valid, which is divided in proportion
    to V_p. Nothing stated is c = 1.

    In a split by cold entities, valid has all known facts of some entities e, and test has those of other entities. A
    corruption that keeps e can only be a hidden fact of e: it is in no split, and there are (1 - c_p) / c_p of them for
    each validation fact. Only a corruption that replaces e can be any hidden fact. So with the hits v of both kinds,

        lambda v = (1 - c_p) / c_p v_keep + (T / V + U_p / V_p) v_replace.

    This assumes that hidden facts are hit as validation facts are. A strategy that draws known answers only, such as
    `typed`, never draws a cold entity, but it can draw others that have hidden facts: v_replace does not show these.
    """
    assert table.hits is not None
    p, size = table.triples[:, 1], int(table.triples[:, 1].max()) + 1
    valid = np.bincount(p[table.rows("valid", LABELLED, 1)], minlength=size)
    unknown = missing = np.zeros((ENDS, size))
    if table.completeness is not None:
        seen = np.flatnonzero(valid)
        missing[:, seen] = table.completeness.missing(seen)
        unknown = missing * table.completeness.known[:size]
        if not table.completeness.by_predicate:
            unknown = unknown.sum(axis=1, keepdims=True) * valid / valid.sum()
    each = table.rows("test", LABELLED, 1).sum() / max(valid.sum(), 1) + unknown / np.maximum(valid, 1)
    hits: Floats = each[:, p] * table.hits.sum(axis=1)
    if table.cold is not None:
        replaced = table.cold // 2
        hits = each[:, p] * table.hits[:, replaced] + missing[:, p] * table.hits[:, 1 - replaced]
    return hits * table.truth


def hidden_facts(table: ScoreTable) -> HiddenFacts | None:
    """Estimate how many of the corruptions of a score table are true, and which of them likely are.

    Facts of valid and hidden facts were left out of train in the same way. So the hits v of validation facts
    (kgcore/embed/corruptions/base.py) show where hidden facts are: the share of true ones among the corruptions u is

        h = sum lambda v / sum u,    and with the score f and the predicate p    h(f, p) = lambda v(f, p) / u(f, p).

    `hidden_hits` has lambda v. lambda v / u are the odds that tell hits from corruptions. `per_relation` estimates
    them: they do not decrease with the score, and a predicate with few hits is drawn to all others (empirical Bayes).
    They are scaled so that their mean is h. A corruption then counts as 1 - h(f, p) of a negative. If hidden facts have
    the scores of the positives, h(f, p) is h f+ / u, and these weights move fitted odds to odds (1 - h) / (1 - h r)
    with r = f+ / u: the formula of docs/explanation/hidden-facts.md. Weights are better than the formula in two ways:
    hidden facts need not have the scores of the positives, and h(f, p) has a limit, where the formula divides by 0.
    To count unlabelled triples as partly true is the idea of Elkan & Noto, KDD 2008; that the rest must not be negative
    is that of Kiryo et al., NeurIPS 2017. The limit is 1 - s / sqrt(2 pi), where s is the relative standard error of h:
    if all corruptions with a score are true, the noise of the estimate leaves so much of them on average, and noise
    must not make the highest scores certain.

    If the table has `hidden_log_odds`, these take the place of score and predicate, by `chances_of`: a corruption
    counts as what all evidence says about it. So its weight is right for every calibrator, whatever it sees. Off-type
    corruptions, for example, are hardly ever true, whatever their scores. The evidence is learned without a
    completeness. If predicates have different ones, it moves by log(lambda / mean lambda).

    s is sqrt(2 / n) for n effective hits, (sum v)^2 / sum v^2. The 2 is that of FACTS: both facts are a random choice.
    For the same reason `per_relation` counts n / 2 hits. The interval of h is h exp(+-1.96 s), with the h of both ends
    of the completeness.

    None if no hits were counted: known facts were not left out, as in the paper's published code. These corruptions
    stay as they are.
    """
    if table.hits is None:
        return None
    rows, expected = table.corruptions(), hidden_hits(table)
    positives = expected[0] > 0
    weights = np.ones(int(rows.sum())) if table.weights is None else table.weights[rows]
    if not positives.any() or not len(weights):
        return HiddenFacts(HiddenShare(0.0, 0.0, 0.0), np.zeros(len(weights)), weights, MOST)
    shares, drawn = expected[:, positives].sum(axis=1), (table.hits.sum(axis=1) * table.truth)[positives]
    hits, of_corruptions = expected[0, positives] * (drawn.sum() / shares[0]), table.triples[rows, 1]
    concentrations = np.ones(len(weights)) if table.concentrations is None else table.concentrations[rows]
    sample = CalibrationSample(
        scores=np.r_[table.scores[positives], table.scores[rows]],
        labels=np.r_[np.ones(len(hits)), np.zeros(len(weights))],
        weights=np.r_[hits, weights / weights.sum()],
        predicates=np.r_[table.triples[positives, 1], of_corruptions],
        concentrations=np.r_[np.full(len(hits), FACTS), concentrations],
    )
    q = PerRelation().fit_sample(sample).calibrate_of(table.scores[rows], of_corruptions).clip(max=1 - 1e-9)
    error = float(np.sqrt(FACTS * (hits**2).sum()) / hits.sum())
    z = float(ndtri((1 + CONFIDENCE) / 2))
    ends = (min(own * float(np.exp(sign * z * error)), MOST) for own, sign in zip(shares, (0, -1, 1), strict=True))
    most, evidence = 1 - error / float(np.sqrt(2 * np.pi)), None
    if table.hidden_log_odds is not None:
        own = table.triples[positives, 1]
        raw, moved = (np.bincount(own, values, int(of_corruptions.max()) + 1) for values in (drawn, hits))
        move = np.log(np.divide(moved, raw, out=np.ones(len(raw)), where=raw > 0))
        of_hits = float(np.average(table.hidden_log_odds[positives] + move[own], weights=hits))
        evidence = table.hidden_log_odds[rows] + move[of_corruptions], of_hits
    return HiddenFacts(HiddenShare(*ends), q / (1 - q), weights, most, evidence)
