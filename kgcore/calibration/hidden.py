"""Hidden facts among synthetic negatives: how many corruptions are true, and which of them likely are."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, ndtri

from kgcore.arrays import Floats, Probabilities, Weights
from kgcore.calibration.hidden_share import HiddenShare
from kgcore.calibration.per_relation import PerRelation
from kgcore.calibration.sample import CalibrationSample
from kgcore.combiners.unlabelled import stack_weights
from kgcore.score_table import LABELLED, ScoreTable

MOST = 0.99  # largest share that is estimated
MOST_BY_EVIDENCE = 0.999  # largest probability that evidence gives: weights are above 0
CONFIDENCE = 0.95
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

        def excess(log_factor: float) -> float:
            return float(np.average(self._capped(log_factor), weights=self.weights)) - share

        lowest = float(np.log(share / self.odds.max())) - 1e-6
        highest = float(np.log(self.most / self.odds[self.odds > 0].min()))
        return self._capped(highest if excess(highest) <= 0 else brentq(excess, lowest, highest))

    def _capped(self, log_factor: float) -> Probabilities:
        chances: Probabilities = np.minimum(np.exp(log_factor) * self.odds, self.most)
        return chances


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


def hidden_for_each(table: ScoreTable, completeness: float | None) -> float:
    """Return lambda: the number of facts that are hidden from the fit, for each validation fact.

    completeness  c, in (0, 1]: the share of the true facts that the graph knows. Then known facts (1 - c) / c facts are
                  in no split. None: not stated, and 1 is used

    Of test, the number of its facts is used, but not which they are.
    """
    valid, test = (int(table.rows(split, LABELLED, 1).sum()) for split in ("valid", "test"))
    unknown = 0.0 if completeness is None or table.facts is None else table.facts * (1 - completeness) / completeness
    return (test + unknown) / max(valid, 1)


def hidden_facts(table: ScoreTable, completeness: float | None = None) -> HiddenFacts | None:
    """Estimate how many of the corruptions of a score table are true, and which of them likely are.

    completeness  as in `hidden_for_each`

    Facts of valid and hidden facts were left out of train in the same way. So the hits v of validation facts
    (kgcore/corruptions/hits.py) show where hidden facts are: the share of true ones among the corruptions u is

        h = lambda sum v / sum u,    and with the score f and the predicate p    h(f, p) = lambda v(f, p) / u(f, p).

    v / u are the odds that tell hits from corruptions. `per_relation` estimates them: they do not decrease with the
    score, and a predicate with few hits is drawn to all others (empirical Bayes). They are scaled so that their mean is
    h. A corruption then counts as 1 - h(f, p) of a negative. If hidden facts have the scores of the positives, h(f, p)
    is h f+ / u, and these weights move fitted odds to odds (1 - h) / (1 - h r) with r = f+ / u: the formula of
    docs/explanation/hidden-facts.md. Weights are better than the formula in two ways: hidden facts need not have the
    scores of the positives, and h(f, p) has a limit, where the formula divides by 0. To count unlabelled triples as
    partly true is the idea of Elkan & Noto, KDD 2008; that the rest must not be negative is that of Kiryo et al.,
    NeurIPS 2017. The limit is 1 - s / sqrt(2 pi), where s is the relative standard error of h: if all corruptions with
    a score are true, the noise of the estimate leaves so much of them on average, and noise must not make the highest
    scores certain.

    If the table has `hidden_log_odds`, these take the place of score and predicate, by `chances_of`: a corruption
    counts as what all evidence says about it. So its weight is right for every calibrator, whatever it sees. Off-type
    corruptions, for example, are hardly ever true, whatever their scores.

    s is sqrt(2 / n) for n effective hits, (sum v)^2 / sum v^2. The 2 is that of FACTS: both facts are a random choice.
    For the same reason `per_relation` counts n / 2 hits. The interval of h is h exp(+-1.96 s).

    None if no hits were counted: known facts were not left out, as in the paper's published code. These corruptions
    stay as they are.
    """
    if table.hits is None:
        return None
    rows, positives = table.corruptions(), table.rows("valid", LABELLED, 1) & (table.hits * table.truth > 0)
    weights = np.ones(int(rows.sum())) if table.weights is None else table.weights[rows]
    hits = table.hits[positives] * table.truth[positives]
    if not len(hits) or not len(weights):
        return HiddenFacts(HiddenShare(0.0, 0.0, 0.0), np.zeros(len(weights)), weights, MOST)
    shares = np.ones(len(weights)) if table.concentrations is None else table.concentrations[rows]
    sample = CalibrationSample(
        scores=np.r_[table.scores[positives], table.scores[rows]],
        labels=np.r_[np.ones(len(hits)), np.zeros(len(weights))],
        weights=np.r_[hits, weights / weights.sum()],
        predicates=np.r_[table.triples[positives, 1], table.triples[rows, 1]],
        concentrations=np.r_[np.full(len(hits), FACTS), shares],
    )
    q = PerRelation().fit_sample(sample).calibrate_of(table.scores[rows], table.triples[rows, 1]).clip(max=1 - 1e-9)
    share = hidden_for_each(table, completeness) * float(hits.sum())
    error = float(np.sqrt(FACTS * (hits**2).sum()) / hits.sum())
    z = float(ndtri((1 + CONFIDENCE) / 2))
    ends = (min(share * float(np.exp(sign * z * error)), MOST) for sign in (0, -1, 1))
    log_odds, evidence = table.hidden_log_odds, None
    if log_odds is not None:
        evidence = log_odds[rows], float(np.average(log_odds[positives], weights=hits))
    most = 1 - error / float(np.sqrt(2 * np.pi))
    return HiddenFacts(HiddenShare(*ends), q / (1 - q), weights, most, evidence)
