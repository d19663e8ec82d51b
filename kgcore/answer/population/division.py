"""How many of the true candidates of a file each predicate has.

A base rate or a completeness says how many candidates of a file are true in all. The predicates may have very different
shares of them: of a model's suggestions, nearly all of one predicate may be true, and none of another.

The log-odds of a predicate's candidates are a mixture of those of validation facts and those of corruptions, which
stand for the mistakes: see kgcore/mixture. Its likelihood says how large the share of true candidates is. With the
share pi_g of each group g of predicates, the prior is

    logit pi_g ~ Normal(mu + lambda x_g, sigma^2),    x_g = log (share of the facts / share of the candidates).

With lambda = 1, true candidates are divided among the predicates as the facts are; with lambda = 0, as the candidates
are. lambda, mu and sigma maximise the marginal likelihood (empirical Bayes: Efron & Morris, JASA 70, 1975), and mu is
near the logit of the stated share of all. The posterior means are moved by a common step of the log-odds, so that their
sum is the stated one.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import compress, product

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, logsumexp

from kgcore.answer.population.fit import most_true
from kgcore.answer.population.population import Population, UnknownFacts
from kgcore.answer.population.survey import Survey
from kgcore.arrays import Bools, Floats, Ints, Triples
from kgcore.calibrate.support import TAIL
from kgcore.config import CorruptConfig
from kgcore.embed.corruptions.base import Mixture, corrupt, subject_shares
from kgcore.mixture.em import solve
from kgcore.mixture.interval import base_rate_interval
from kgcore.mixture.matched import FEWEST, GRID, on_grid
from kgcore.mixture.samples import MixtureData, ScoreSample, bin_edges, count, number_of_bins

STRATEGY = "typed"
CORRUPTIONS = 300  # of each predicate
CLEAN = 0.5  # largest share of true ones among corruptions that stand for mistakes, as a part of that of the candidates
CANDIDATES = 20_000  # drawn from those of a large file
ERROR = 0.5  # standard deviation of the log-odds of a share: the mistakes of a file are not quite like corruptions
SOFT = 0.15  # log-odds over which the likelihood falls beyond the most true candidates that there can be
NEAR = 0.5  # standard deviation of mu from the logit of the stated share
MOST_SPREAD = 2.0  # scale of the prior of sigma
LEAST_TRUE = 0.5  # true candidates of a group
_TINY = 1e-300
_SLOPES, _AWAY, _SPREADS = (0.0, 0.5, 1.0), np.linspace(-2, 2, 17), np.geomspace(0.05, 4, 16)


def divided(
    population: Population,
    survey: Survey,
    score: Callable[[Triples], Floats],
    true: UnknownFacts,
    rng: np.random.Generator,
) -> tuple[Ints, UnknownFacts]:
    """Return the group (p,) of each predicate of a file, from 0, and the number of true candidates of each group.

    score  returns the log-odds (n,) of the evidence about triples (n, 3)
    true   the stated number of true candidates. Its sum alone counts

    A predicate with at least FEWEST candidates and FEWEST validation facts is a group of its own, if fewer of its
    corruptions than of all candidates are true. The others are one group.
    """
    sizes, facts = population.sizes, population.counts(survey.facts)
    own = np.minimum(sizes, facts) >= FEWEST
    false, hits = _corruptions(population, survey.facts, own, rng)
    own &= hits <= CLEAN * true.total / sizes.sum()
    groups = np.where(own, np.cumsum(own) - 1, own.sum())
    together = true.grouped(groups)
    if len(together.values) == 1:
        return groups, together
    of_group = np.zeros(len(population.graph.predicates), dtype=np.int64)
    of_group[[block.predicate for block in population.blocks]] = groups
    weights, rows = survey.drawn.weights, np.arange(len(survey.drawn))
    if np.ptp(weights):  # of a large file, the most promising candidates alone are all drawn
        rows = rng.choice(rows, CANDIDATES, p=weights / weights.sum())
    samples = [
        ScoreSample(z, predicates=of_group[triples[:, 1]])
        for z, triples in (
            (survey.of_facts, survey.facts),
            (score(false), false),
            (survey.log_odds[rows], survey.drawn.triples[rows]),
        )
    ]
    data = MixtureData(samples[0], {STRATEGY: samples[1]}, samples[2])
    shares = Shares.of(data, np.bincount(groups, sizes).astype(np.float64), true.total, int(own.sum()))
    factor = shares.numbers / np.maximum(together.values, 1e-300)
    values, low, high = (factor * ends for ends in (together.values, together.low, together.high))
    return groups, replace(together, values=values, low=low, high=high, spreads=shares.spreads)


def _corruptions(
    population: Population, facts: Triples, chosen: Bools, rng: np.random.Generator
) -> tuple[Triples, Floats]:
    """Return CORRUPTIONS (n, 3) of the facts of some predicates, and the share (p,) of them that are held-out facts.

    chosen  (p,) mask of these predicates

    Held-out facts are left out. Their share, (k + 1) / (n + 2), is about that of the hidden facts among the others.
    """
    graph, predicates = population.graph, [block.predicate for block in compress(population.blocks, chosen)]
    drawn = [rng.choice(np.flatnonzero(facts[:, 1] == predicate), CORRUPTIONS) for predicate in predicates]
    rows = np.concatenate([np.zeros(0, dtype=np.int64), *drawn])
    shares = subject_shares(graph, CorruptConfig().calibration_sides)
    trained = graph.index(graph.train.positives)
    made = corrupt(facts[rows], 1, Mixture(graph, {STRATEGY: 1.0}), rng, shares, trained).triples
    is_hit = graph.all_known.contains(made)
    return made[~is_hit], (population.counts(made[is_hit]) + 1) / (population.counts(made) + 2)


@dataclass(frozen=True)
class Shares:
    """The true candidates of each group.

    numbers  (g,) expected number
    spreads  (g,) standard deviation of its logarithm
    """

    numbers: Floats
    spreads: Floats

    @classmethod
    def of(cls, data: MixtureData, sizes: Floats, total: float, alone: int) -> "Shares":
        """Estimate the numbers of true candidates.

        data   the log-odds of facts, of corruptions, and of candidates or a random part of them. The group of a row
               stands for its predicate
        sizes  (g,) number of candidates of each group
        total  number of true candidates of all groups
        alone  number of groups of one predicate, which are the first ones. The log-odds of several predicates cannot be
               compared, so they say nothing about the last group
        """
        facts, candidates = ((rows.scores, rows.predicates) for rows in (data.positives, data.candidates))
        [most] = most_true(facts, candidates, len(sizes), (TAIL,))  # type: ignore[arg-type]
        drawn = np.maximum(np.bincount(candidates[1], minlength=len(sizes)), 1)  # type: ignore[arg-type]
        most = logit(np.clip(most / drawn, 1e-6, 1 - 1e-6))
        most[alone:] = -GRID[0]
        near = -0.5 * ((GRID[:, None] - GRID) / ERROR) ** 2
        near -= logsumexp(near, axis=1, keepdims=True)
        known = np.zeros((len(sizes), len(GRID)))
        known[:alone] = [_likelihood(data, group, near) for group in range(alone)]
        known -= np.logaddexp(0, (GRID - most[:, None]) / SOFT)
        number = np.bincount(data.positives.predicates, minlength=len(sizes)) + 0.5  # type: ignore[arg-type]
        apart = np.log(number / number.sum() / (sizes / sizes.sum()))
        posterior = _posterior(known, apart, float(logit(total / sizes.sum())))
        means = posterior @ expit(GRID)
        variances = np.maximum(posterior @ GRID**2 - (posterior @ GRID) ** 2, 0)
        log_odds = logit(means)
        limits = np.maximum(most, log_odds)

        def numbers(step: float) -> Floats:
            moved: Floats = sizes * expit(np.minimum(log_odds + step, limits))
            return moved

        ends = -30.0, 30.0
        within = numbers(ends[0]).sum() < total < numbers(ends[1]).sum()
        step = float(brentq(lambda one: numbers(one).sum() - total, *ends)) if within else ends[1]
        return cls(np.maximum(numbers(step), LEAST_TRUE), np.sqrt(variances) * (1 - means))


def _likelihood(data: MixtureData, group: int, near: Floats) -> Floats:
    """Return the log-likelihood of the share of a group at the log-odds GRID, which may be off by ERROR.

    near  logarithms of the probabilities of an error, from each point of GRID to each other one
    """
    own = data.of_relations([group])
    if own is None or min(len(own.positives), len(own.candidates)) < FEWEST:
        return np.zeros(len(GRID))
    counts = count(own, bin_edges(own, number_of_bins(own)))
    _, profile = base_rate_interval(counts, solve(counts), 2 * TAIL)
    likelihood: Floats = logsumexp(near + on_grid(profile), axis=1)
    return likelihood


def _posterior(known: Floats, apart: Floats, stated: float) -> Floats:
    """Return the posterior probabilities (g, m) of the log-odds GRID (m,) of each group's share.

    known   (g, m) log-likelihoods
    apart   (g,) the x of the prior
    stated  logit of the stated share of all candidates
    """
    likelihood: Floats = np.exp(known - known.max(axis=1, keepdims=True))
    best, posterior = -np.inf, likelihood
    for slope, spread in product(_SLOPES, _SPREADS):
        away = GRID - stated - _AWAY[:, None] - slope * apart[:, None, None]  # (g, means, m)
        prior = np.exp(-0.5 * (away / spread) ** 2)
        joint = prior * likelihood[:, None] / np.maximum(prior.sum(axis=-1, keepdims=True), _TINY)
        each = np.maximum(joint.sum(axis=-1), _TINY)
        penalty = 0.5 * ((spread / MOST_SPREAD) ** 2 + (_AWAY / NEAR) ** 2)
        values = np.log(each).sum(axis=0) - penalty
        place = int(values.argmax())
        if values[place] > best:
            best, posterior = float(values[place]), joint[:, place] / each[:, place, None]
    return posterior
