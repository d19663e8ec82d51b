"""A calibrator of a population, and the number of true facts in a list."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, gammainccinv, logit

from kgcore.answer.population.curve import TAU, TAU_OF_MAP, Cells, LogOddsCurve, fit_curve, knots_of
from kgcore.answer.population.population import UnknownFacts
from kgcore.answer.population.survey import Survey
from kgcore.arrays import Bools, Floats, Ints, Probabilities, Triples
from kgcore.base_rate import BaseRate
from kgcore.calibrate.calibrated import Calibrated, Terms
from kgcore.calibrate.fit import bind
from kgcore.calibrate.per_relation import PerRelation
from kgcore.calibrate.support import CONFIDENCE, TAIL, Band, Support, lower_limits

POPULATION = "population"  # the kind of negatives of a calibrator that is fitted to a population
REPLICATES = 50
MISFIT = 1 / 3  # standard deviation of the log-odds of a predicate's list from the map that predicates share
POINTS, POINTS_OF_PREDICATE = 1000, 48  # log-odds at which a map and its limits are stored
MOST_STEP = 20.0  # largest decrease of the log-odds of candidates below the top
LEAST_FACTOR = 0.01  # of the slopes of a predicate, so that its probabilities have an order
LOWEST = -30.0  # log-odds of a probability: no data show a lower one
LIKELY, CERTAIN = 0.16, 0.0005  # error levels: of a limit that is likely to hold, and of one that a statement breaks


@dataclass(frozen=True)
class Count:
    """The number of true facts in a list: its expected value, and a 95 % interval.

    The interval counts the finite number of validation facts, the sample of candidates, the interval of the
    completeness, how far the map of a predicate may be from the one that predicates share, and chance: each fact of the
    list is true or false.
    """

    expected: float
    low: float
    high: float

    @property
    def ends(self) -> tuple[float, float, float]:
        """Return the expected number, the lower and the upper end."""
        return self.expected, self.low, self.high


@dataclass(frozen=True)
class PopulationFit:
    """A survey that is calibrated to a number of true candidates.

    survey      the survey, with the log-odds that the map is about
    bound       the calibrator of these log-odds
    predicates  (p,) the predicates of the population, ascending
    replicates  maps of bootstrap replicates
    supported   highest log-odds of a validation fact: nothing is known about higher ones
    highest     largest probability
    true        (p,) number of true candidates of each predicate that the map is fitted to
    unknown     the number of true candidates, those that are not in the map among them: the stated one, unless the
                candidates contradict it
    """

    survey: Survey
    bound: Calibrated
    predicates: Ints
    replicates: Sequence[LogOddsCurve]
    supported: float
    highest: float
    true: Floats
    unknown: UnknownFacts

    def probabilities(self, log_odds: Floats, predicates: Ints) -> Probabilities:
        """Return the probabilities (n,) of triples with log-odds (n,) and predicates (n,)."""
        return self.bound.predict(log_odds, self.bound.model, predicates)

    def count(self, log_odds: Floats, predicates: Ints, rng: np.random.Generator) -> Count:
        """Return the number of true facts in a list of triples with log-odds (n,) and predicates (n,).

        The log-odds of the rows of a predicate differ by a common error from the map, with the standard deviation
        MISFIT: predicates share the shape of the map, and more facts do not make the error smaller. It is less for a
        list with a large share of the predicate's true facts, as their number is given.
        """
        z, places, drawn = np.minimum(log_odds, self.supported), np.searchsorted(self.predicates, predicates), []
        for curve in self.replicates:
            q = expit(curve.log_odds(z, places)).clip(max=self.highest)
            sums, variances = (np.bincount(places, values, len(self.true)) for values in (q, q * (1 - q)))
            left = np.clip(1 - sums / self.true, 0, 1)
            spread = np.sqrt((variances + (MISFIT * left * variances) ** 2).sum())
            drawn.append(q.sum() + rng.standard_normal(40) * spread)
        low, high = np.quantile(np.concatenate(drawn), [TAIL, 1 - TAIL]).clip(0, len(log_odds)).tolist()
        expected = float(self.probabilities(log_odds, predicates).sum())
        return Count(expected, min(low, expected), max(high, expected))


def fit_population(
    survey: Survey, true: UnknownFacts, sizes: Ints, dataset: str, rng: np.random.Generator, groups: Ints | None = None
) -> PopulationFit:
    """Calibrate a survey, by kgcore/answer/population/curve.py.

    true     number of true candidates of each block, or of each group
    sizes    (p,) number of candidates of each block, in the order of the predicates
    dataset  fingerprint of the graph
    groups   (p,) the group of each predicate of a file: the predicates of one share a map. None: it is no file, and
             each predicate has its own map

    The map is fitted to the candidates of the top, which are all drawn, and to the validation facts with scores as
    high. Their share of the facts is the share of the true candidates that is in the top. The few drawn candidates
    below the top stand for too many others to say how many have as strong evidence as the top. Their log-odds become
    less by a constant, with which they have the other true candidates in all.

    In every bootstrap replicate the validation facts are drawn again, those of two entities together, and the number of
    true candidates is drawn from its interval: see `UnknownFacts.drawn`. Then each predicate gets the map that its own
    facts show. A file may be small, so all of its candidates are drawn again.

    Raises FitError if a fit does not converge.
    """
    predicates, top = np.unique(survey.facts[:, 1]), survey.top()
    maps = np.arange(len(predicates)) if groups is None else groups
    of_candidates, of_facts, of_every = (
        maps[np.searchsorted(predicates, rows[:, 1])] for rows in (top.drawn.triples, top.facts, survey.facts)
    )
    below = [top is not survey and np.isfinite(survey.drawn.lowest.get(p, -np.inf)) for p in predicates.tolist()]
    shares = partial(_shares, of_every, survey.facts_in_top, np.bincount(maps, below) > 0)
    weights, drawn, pairs = top.drawn.weights, np.ones(len(survey.facts)), _pairs(survey.facts)
    in_map = np.ones(len(drawn), dtype=bool) if top is survey else survey.facts_in_top
    kept = top.drawn.in_top & (groups is None)
    cells = Cells.of((top.log_odds, top.of_facts), (of_candidates, of_facts), weights)
    knots = knots_of(top.of_facts)
    rate = float(np.clip(true.total / sizes.sum(), 1e-12, 1 - 1e-12))  # the stated one, contradicted or not
    if groups is None and top.drawn.in_top.all():
        true = _allowed(true, shares(drawn), (top.of_facts, of_facts), (top.log_odds, of_candidates))
    number = true.values * shares(drawn)
    counted = cells.counted(weights, drawn[in_map])
    curve = fit_curve(counted, number, knots).of_each_predicate(counted, number, TAU_OF_MAP)
    replicates, size = [], int(pairs.max()) + 1
    for _ in range(REPLICATES):
        again = weights.copy()
        again[~kept] *= rng.poisson(1.0, int((~kept).sum()))
        drawn = rng.multinomial(size, np.full(size, 1 / size)).astype(np.float64)[pairs]
        numbers = true.drawn(np.bincount(of_every, drawn, len(number)).astype(float), rng) * shares(drawn)
        counted = cells.counted(again, drawn[in_map])
        replicates.append(fit_curve(counted, numbers, knots, start=curve).of_each_predicate(counted, numbers, TAU))
    curve, *replicates = (each.at(maps) for each in (curve, *replicates))
    supported, highest = float(top.of_facts.max()), (len(top.facts) + 1) / (len(top.facts) + 2)
    if top is not survey:
        survey = survey.lowered(_step(survey, curve, predicates, supported, true.total - number.sum()))
    bound = bind(
        Terms(negatives=POPULATION, rate=BaseRate(rate), dataset=dataset),
        "per_relation",
        _calibrator(survey, curve, predicates, supported, highest),
        survey.combined,
        _support(survey, curve, replicates, predicates, supported),
    )
    return PopulationFit(survey, bound, predicates, replicates, supported, highest, number[maps], true)


def _pairs(facts: Triples) -> Ints:
    """Return the number (m,) of the pair of entities of each fact (m, 3), in the order in which the pairs occur.

    A fact, its mirror image and its inverse have nearly the same evidence, so they are no independent observations.
    """
    ends = np.sort(facts[:, [0, 2]], axis=1)
    _, first, pairs = np.unique(ends, axis=0, return_index=True, return_inverse=True)
    numbers: Ints = np.argsort(np.argsort(first))[pairs.reshape(-1)]
    return numbers


def _shares(maps: Ints, in_top: Bools, below: Bools, drawn: Floats) -> Floats:
    """Return the share of the true candidates of each map (p,) in the top: (t + .5) / (n + 1) of n facts."""
    every, inside = (np.bincount(maps, weights, len(below)) for weights in (drawn, drawn * in_top))
    return np.where(below, (inside + 0.5) / (every + 1), 1.0)


def _allowed(
    true: UnknownFacts, share: Floats, facts: tuple[Floats, Ints], candidates: tuple[Floats, Ints]
) -> UnknownFacts:
    """Return the numbers of true candidates, no more of them than the candidates of the top allow.

    true               what is stated
    share              (p,) of the true candidates of each predicate that is in the top
    facts, candidates  of the top, as `most_true` takes them

    A number is contradicted if it is above the limit of `most_true` with the error level CERTAIN, and an interval if
    its lower end is. If one number is stated for all predicates, the same holds for the sum of the others. The
    candidates say how many true ones there can be at most, and not how many there are: on graphs whose truth is known,
    they were a quarter of the limit with the level LIKELY to all of it. `UnknownFacts.at_most` takes three quarters.
    """
    low, high = true.low * share, true.high * share
    most, limits = most_true(facts, candidates, len(low), (LIKELY, CERTAIN))
    others = low <= limits
    if not true.by_predicate and others.any():
        rows = [(z[others[own]], 0 * own[others[own]]) for z, own in (facts, candidates)]
        [most_of_others], [limit] = most_true(rows[0], rows[1], 1, (LIKELY, CERTAIN))
        if high[others].sum() > limit:
            parts = high[others] / high[others].sum()
            most[others], limits[others] = most_of_others * parts, np.minimum(limits[others], limit * parts)
    return true.at_most(most / share, limits / share)


def most_true(
    facts: tuple[Floats, Ints], candidates: tuple[Floats, Ints], number: int, levels: Sequence[float]
) -> Floats:
    """Return upper limits (l, p) of the number of true candidates of each predicate.

    facts       log-odds (m,) of validation facts, and the positions (m,) of their predicates, from 0 to p - 1
    candidates  the same (n,) of all candidates
    number      p
    levels      (l,) error levels of both parts of a limit

    True candidates have log-odds like the facts. If k of m facts of a predicate have log-odds of at least z, then of A
    true candidates A k / m have, and they are at most the U candidates with such log-odds. So A is at most the upper
    limit of a Poisson variable that is U, divided by the lower limit of the share k / m (Clopper & Pearson 1934). The
    result is the least of these limits over the z of all facts; infinite without facts.
    """
    limits = []
    for place in range(number):
        of_facts, of_candidates = (np.sort(z[places == place]) for z, places in (facts, candidates))
        above, ranks = (len(z) - np.searchsorted(z, of_facts) for z in (of_candidates, of_facts))
        sizes = np.full(len(of_facts), len(of_facts))
        of_levels = (gammainccinv(above + 1.0, level) / lower_limits(ranks, sizes, level) for level in levels)
        limits.append([limit.min(initial=np.inf) for limit in of_levels])
    return np.array(limits).T


def _step(survey: Survey, curve: LogOddsCurve, predicates: Ints, supported: float, expected: float) -> float:
    """Return by how much the log-odds of candidates below the top are to be less, so that `expected` are true."""
    rest = ~survey.drawn.in_top
    z, weights = survey.log_odds[rest], survey.drawn.weights[rest]
    places = np.searchsorted(predicates, survey.drawn.triples[rest, 1])

    def excess(step: float) -> float:
        return float(weights @ expit(curve.log_odds(np.minimum(z - step, supported), places))) - expected

    low, high = -survey.folded.step, MOST_STEP  # log-odds never fall with the score
    if excess(low) <= 0 or excess(high) >= 0:
        return low if excess(low) <= 0 else high
    return float(brentq(excess, low, high, xtol=1e-6))


def _calibrator(survey: Survey, curve: LogOddsCurve, predicates: Ints, supported: float, highest: float) -> PerRelation:
    """Return the map as a calibrator with points. Beyond the highest validation fact, it is constant.

    m facts cannot show a share of mistakes far below 1 / m, so no probability is above (m + 1) / (m + 2), as by
    Laplace's rule of succession.
    """
    common, factors = float(curve.constants.mean()), np.maximum(curve.factors, LEAST_FACTOR)
    pooled = LogOddsCurve(curve.knots, curve.slopes, np.array([common]), np.ones(1))
    z = _grid(survey, supported, POINTS)
    log_odds = np.clip(pooled.log_odds(z, np.zeros(len(z), dtype=np.int64)), LOWEST, -LOWEST)
    levels = np.linspace(log_odds.min(), log_odds.max(), POINTS)
    z = np.unique(np.r_[z, np.interp(levels, log_odds, z)])  # probabilities between two points are nearly linear
    offsets, ends = curve.constants - factors * common, (LOWEST, float(logit(highest)))  # of every predicate
    least, most = (np.append((end - offsets) / factors, end) for end in ends)
    q = expit(np.clip(pooled.log_odds(z, np.zeros(len(z), dtype=np.int64)), least.max(), most.min()))
    own = zip(predicates.tolist(), (factors - 1).tolist(), offsets.tolist(), strict=True)
    relations = {predicate: (slope, offset) for predicate, slope, offset in own}
    return PerRelation().set_fitted(scores=z, probabilities=q, relations=relations)


def _grid(survey: Survey, supported: float, points: int) -> Floats:
    """Return ascending log-odds: half of them at equal distances, the others at quantiles of the validation facts."""
    low = min(float(survey.log_odds.min()), float(survey.of_facts.min()))
    quantiles = np.quantile(survey.of_facts, np.linspace(0, 1, points // 2))
    return np.unique(np.r_[np.linspace(low, supported, points // 2), quantiles])


def _support(
    survey: Survey, curve: LogOddsCurve, replicates: Sequence[LogOddsCurve], predicates: Ints, supported: float
) -> Support:
    """Return the limits of the probabilities: percentiles over the replicates, for each predicate.

    Where nearly all candidates are true, the replicates agree. But m facts of the predicate with as high log-odds allow
    a share of true ones of t^(1/m), with the error level t of one limit (Clopper & Pearson 1934), so the lower limit is
    at most this, or the lower limit at lower log-odds.
    """
    z, bands = _grid(survey, supported, POINTS_OF_PREDICATE), {}
    for place, predicate in enumerate(predicates.tolist()):
        positions = np.full(len(z), place)
        values = np.stack([each.log_odds(z, positions) for each in (curve, *replicates)])
        low, high = expit(np.maximum(np.quantile(values, [TAIL, 1 - TAIL], axis=0), LOWEST))
        facts = np.sort(survey.of_facts[survey.facts[:, 1] == predicate])
        above = len(facts) - np.searchsorted(facts, z)
        low = np.maximum.accumulate(np.minimum(low, TAIL ** (1 / np.maximum(above, 1))))
        bands[predicate] = Band(z, low, high)
    size = int(predicates.max()) + 1
    facts = np.bincount(survey.facts[:, 1], minlength=size)
    rows = {p: (int(facts[p]), int(facts[p])) for p in predicates.tolist()}  # candidates are never too few
    return Support(bands[int(predicates[0])], bands, rows)


@dataclass(frozen=True)
class Lost:
    """How many of the true facts a list should hold and cannot, because the evidence of their triples is not weighed.

    likely   validation facts that are as probable as the last row of the list
    outside  those of them whose scores are too low
    limit    upper 95 % limit of the share of the true facts that are lost (Clopper & Pearson 1934); 0: none is
    """

    likely: int = 0
    outside: int = 0
    limit: float = 0.0


def lost_share(likely: Bools, weighed: Bools) -> Lost:
    """Return what a list loses, from the validation facts (m,).

    likely   whether a fact is as probable as the last row of the list
    weighed  whether its score is so high that its evidence would be weighed
    """
    total, outside = int(likely.sum()), int((likely & ~weighed).sum())
    [not_lost] = lower_limits(np.array([total - outside]), np.array([total]), 1 - CONFIDENCE)
    return Lost(total, outside, 1 - float(not_lost))


def in_order(survey: Survey, fit: PopulationFit) -> Ints:
    """Return the rows of the top's candidates in the order of a list."""
    rows = np.flatnonzero(survey.drawn.in_top)
    triples, log_odds = survey.drawn.triples[rows], survey.log_odds[rows]
    return rows[list_order(fit.probabilities(log_odds, triples[:, 1]), log_odds, triples)]


def list_order(q: Probabilities, log_odds: Floats, triples: Triples) -> Ints:
    """Return the rows (n,) by probability, then log-odds, then number, from the highest down."""
    return np.lexsort((triples[:, 2], triples[:, 1], triples[:, 0], -log_odds, -q))
