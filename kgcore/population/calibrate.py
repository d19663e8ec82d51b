"""A calibrator of a population, and the number of true facts in a list."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logit
from scipy.stats import beta

from kgcore.arrays import Bools, Floats, Ints, Probabilities, Triples
from kgcore.calibration.band import CONFIDENCE, Band
from kgcore.calibration.bound import BoundCalibrator
from kgcore.calibration.per_relation import PerRelation
from kgcore.calibration.support import Support
from kgcore.config import STATED
from kgcore.population.curve import Binning, Curve, fit_curve, knots_of
from kgcore.population.survey import Survey
from kgcore.population.unknown_facts import UnknownFacts

POPULATION = "population"  # the kind of negatives of a calibrator that is fitted to a population
REPLICATES = 50
SHARED = 20  # validation facts that the map which predicates share is worth to one predicate
POINTS, POINTS_OF_PREDICATE = 1000, 48  # log-odds at which a map and its limits are stored
LOWEST = -30.0  # log-odds of a probability, below which the points of a map are rare


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

    bound       the calibrator of the survey's log-odds
    predicates  (p,) the predicates of the population, ascending
    replicates  maps of bootstrap replicates
    facts       log-odds of the validation facts (m,), and their predicates (m,)
    highest     largest probability
    """

    bound: BoundCalibrator
    predicates: Ints
    replicates: Sequence[Curve]
    facts: tuple[Floats, Ints]
    highest: float

    @property
    def supported(self) -> float:
        """The highest log-odds of a validation fact: nothing is known about higher ones."""
        return float(self.facts[0].max())

    def probabilities(self, log_odds: Floats, predicates: Ints) -> Probabilities:
        """Return the probabilities (n,) of triples with log-odds (n,) and predicates (n,)."""
        return self.bound.predict(log_odds, self.bound.model, predicates)

    def count(self, log_odds: Floats, predicates: Ints, rng: np.random.Generator) -> Count:
        """Return the number of true facts in a list of triples with log-odds (n,) and predicates (n,)."""
        drawn, spread = [], self._spread(log_odds, predicates)
        z, positions = np.minimum(log_odds, self.supported), np.searchsorted(self.predicates, predicates)
        for curve in self.replicates:
            q = expit(curve.log_odds(z, positions)).clip(max=self.highest)
            drawn.append(q.sum() + rng.standard_normal(40) * np.sqrt((q * (1 - q)).sum() + spread))
        tail = (1 - CONFIDENCE) / 2
        low, high = np.quantile(np.concatenate(drawn), [tail, 1 - tail]).clip(0, len(log_odds)).tolist()
        expected = float(self.probabilities(log_odds, predicates).sum())
        return Count(expected, min(low, expected), max(high, expected))

    def _spread(self, log_odds: Floats, predicates: Ints) -> float:
        """Return the variance of the number of true facts that comes from the map of each predicate.

        The log-odds of a predicate with m validation facts among those of its rows in the list may differ by
        1 / sqrt(m + SHARED) from the shared map: as if that map were worth SHARED facts.
        """
        q, total = self.probabilities(log_odds, predicates), 0.0
        for predicate in np.unique(predicates).tolist():
            own = predicates == predicate
            facts = (self.facts[1] == predicate) & (self.facts[0] >= log_odds[own].min())
            total += float((q[own] * (1 - q[own])).sum()) ** 2 / (facts.sum() + SHARED)
        return total


def fit_population(
    survey: Survey, true: UnknownFacts, sizes: Ints, dataset: str, rng: np.random.Generator, pooled: bool = False
) -> PopulationFit:
    """Calibrate a survey, by kgcore/population/curve.py.

    true     number of true candidates of each block
    sizes    (p,) number of candidates of each block, in the order of the predicates
    dataset  fingerprint of the graph
    pooled   whether the predicates share one map: nothing says how many true candidates each of them has

    In every bootstrap replicate the validation facts and the candidates that stand for others are drawn again, and the
    number of true candidates is drawn from its interval: see `UnknownFacts.drawn`. A pooled population may be small, so
    all of its candidates are drawn again.

    Raises FitError if a fit does not converge.
    """
    predicates = np.unique(survey.facts[:, 1])
    places = np.arange(len(predicates)) * (not pooled)
    of_candidates, of_facts = (
        places[np.searchsorted(predicates, own[:, 1])] for own in (survey.drawn.triples, survey.facts)
    )
    weights, facts = survey.drawn.weights, np.ones(len(survey.facts))
    binning = Binning.of((survey.log_odds, survey.of_facts), (of_candidates, of_facts), weights)
    knots = knots_of(survey.of_facts)
    number_of = true.together if pooled else true
    curve = fit_curve(binning.cells(weights, facts), number_of.values, knots)
    replicates = []
    for _ in range(REPLICATES):
        kept = survey.drawn.in_top & (not pooled)
        again = np.where(kept, weights, weights * rng.poisson(1.0, len(weights)))
        drawn = rng.multinomial(len(facts), facts / len(facts)).astype(np.float64)
        number = number_of.drawn(np.bincount(of_facts, drawn, len(number_of.values)).astype(np.float64), rng)
        replicates.append(fit_curve(binning.cells(again, drawn), number, knots, start=curve))
    curve, *replicates = (replace(one, constants=one.constants[places]) for one in (curve, *replicates))
    rate = float(np.clip(true.total / sizes.sum(), 1e-12, 1 - 1e-12))
    supported, highest = float(survey.of_facts.max()), (len(facts) + 1) / (len(facts) + 2)
    bound = BoundCalibrator(
        name="per_relation",
        negatives=POPULATION,
        base_rate=rate,
        model=survey.combined.fingerprint(),
        dataset=dataset,
        calibrator=_calibrator(survey, curve, predicates, supported, highest),
        base_rate_is=STATED,
        support=_support(survey, curve, replicates, predicates, supported),
        combined=survey.combined,
    )
    return PopulationFit(bound, predicates, replicates, (survey.of_facts, survey.facts[:, 1]), highest)


def _calibrator(survey: Survey, curve: Curve, predicates: Ints, supported: float, highest: float) -> PerRelation:
    """Return the map as a calibrator with points. Beyond the highest validation fact, it is constant.

    m facts cannot show a share of mistakes far below 1 / m, so no probability is above (m + 1) / (m + 2), as by
    Laplace's rule of succession.
    """
    common = float(curve.constants.mean())
    pooled = Curve(curve.knots, curve.slopes, np.array([common]))
    z = _grid(survey, supported, POINTS)
    log_odds = pooled.log_odds(z, np.zeros(len(z), dtype=np.int64))
    ends = max(LOWEST, float(log_odds.min())), min(-LOWEST, float(log_odds.max()))
    levels = np.linspace(*ends, POINTS)
    z = np.unique(np.r_[z, np.interp(levels, log_odds, z)])  # probabilities between two points are nearly linear
    offsets = curve.constants - common
    most = logit(highest) - max(0.0, float(offsets.max()))  # no predicate has a probability above the highest one
    q = expit(np.minimum(pooled.log_odds(z, np.zeros(len(z), dtype=np.int64)), most))
    relations = {p: (0.0, offset) for p, offset in zip(predicates.tolist(), offsets.tolist(), strict=True)}
    return PerRelation().set_fitted(scores=z, probabilities=q, relations=relations)


def _grid(survey: Survey, supported: float, points: int) -> Floats:
    """Return ascending log-odds: half of them at equal distances, the others at quantiles of the validation facts."""
    low = min(float(survey.log_odds.min()), float(survey.of_facts.min()))
    quantiles = np.quantile(survey.of_facts, np.linspace(0, 1, points // 2))
    return np.unique(np.r_[np.linspace(low, supported, points // 2), quantiles])


def _support(survey: Survey, curve: Curve, replicates: Sequence[Curve], predicates: Ints, supported: float) -> Support:
    """Return the limits of the probabilities: percentiles over the replicates, for each predicate.

    Where nearly all candidates are true, the replicates agree. But m facts of the predicate with as high log-odds allow
    a share of true ones of t^(1/m), with the error level t of one limit (Clopper & Pearson 1934), so the lower limit is
    at most this, or the lower limit at lower log-odds.
    """
    z, tail = _grid(survey, supported, POINTS_OF_PREDICATE), (1 - CONFIDENCE) / 2
    bands = {}
    for place, predicate in enumerate(predicates.tolist()):
        positions = np.full(len(z), place)
        values = np.stack([own.log_odds(z, positions) for own in (curve, *replicates)])
        low, high = expit(np.quantile(values, [tail, 1 - tail], axis=0))
        facts = np.sort(survey.of_facts[survey.facts[:, 1] == predicate])
        above = len(facts) - np.searchsorted(facts, z)
        low = np.maximum.accumulate(np.minimum(low, tail ** (1 / np.maximum(above, 1))))
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
    limit = float(beta.ppf(CONFIDENCE, outside + 1, total - outside)) if outside < total else 1.0
    return Lost(total, outside, limit)


def in_order(survey: Survey, fit: PopulationFit) -> Ints:
    """Return the rows of the top's candidates in the order of a list."""
    rows = np.flatnonzero(survey.drawn.in_top)
    triples, log_odds = survey.drawn.triples[rows], survey.log_odds[rows]
    return rows[list_order(fit.probabilities(log_odds, triples[:, 1]), log_odds, triples)]


def list_order(q: Probabilities, log_odds: Floats, triples: Triples) -> Ints:
    """Return the rows (n,) by probability, then log-odds, then number, from the highest down."""
    order: Ints = np.lexsort((triples[:, 2], triples[:, 1], triples[:, 0], -log_odds, -q))
    return order
