"""Likelihood ratios: how much more likely the scores of a row are among planted errors than among training facts."""

from dataclasses import dataclass

import numpy as np
from scipy.special import logit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from kgcore.arrays import Bools, Floats, Ints
from kgcore.audit.plan import AuditPlan
from kgcore.audit.row_scores import RowScores
from kgcore.calibration.band import Band
from kgcore.calibration.beta import Beta
from kgcore.calibration.sample import ground_truth_sample
from kgcore.errors import InputError

PARTS = 5  # the classifier that scores the rows of one part is fitted on the other parts
CATEGORIES = 30  # most frequent predicates, which the classifier tells apart; more of them would fit noise
TREES = {"max_iter": 100, "learning_rate": 0.06, "max_depth": 4, "min_samples_leaf": 50, "early_stopping": False}
_EDGE = 1e-9


@dataclass(frozen=True)
class Ratios:
    """Likelihood ratios of the rows of an audit.

    The ratio of a row is g(x) / f(x): x are the scores of the row, g is their density among planted errors, and f their
    density among the training facts, right and wrong ones. If errors are scored as planted errors are, and the share w
    of the training facts is wrong, a training fact is wrong with the probability w g(x) / f(x), by Bayes' rule.

    value      (n + m,) the ratio of each row, at least 0
    low, high  (n + m,) its 95 % confidence interval; `high` may be infinite
    """

    value: Floats
    low: Floats
    high: Floats


def likelihood_ratios(plan: AuditPlan, scores: RowScores, seed: int) -> Ratios:
    """Learn the likelihood ratio of each row.

    A classifier tells planted errors from training facts, by the places of their scores (`RowScores`) and by their
    predicate. It is gradient boosting of trees, in which a higher place never makes an error more likely. The rows are
    divided into PARTS parts, and a classifier that was fitted without a part scores its rows. Beta calibration turns
    these scores into the probability r of "planted". Then g(x) / f(x) = r / (1 - r) n / m. `Band` gives confidence
    limits of the share of training facts among rows of similar scores; the intervals of the ratios come from these
    limits.

    A second classifier does without `unseen_place`. It gives the ratio of a fact that every model has seen.

    seed  seed of the parts

    Raises InputError for fewer than PARTS facts or planted errors.
    """
    predicates, planted = _categories(plan.triples[:, 1]), plan.planted
    tested = ~np.isnan(scores.unseen_place)
    columns = np.stack([predicates, scores.seen_place, scores.unseen_place], axis=1)
    found = np.full((3, len(planted)), np.nan)
    if tested.any():
        found[:, tested] = _ratios(columns[tested], planted[tested], seed)
    if not tested.all():
        found[:, ~tested] = _ratios(columns[:, :2], planted, seed)[:, ~tested]
    return Ratios(*found)


def _ratios(columns: Floats, planted: Bools, seed: int) -> Floats:
    """Return the ratios of the rows and their limits (3, N).

    columns  (N, c) number of the predicate, and places
    planted  (N,) which rows are planted errors
    """
    errors, facts = int(planted.sum()), int((~planted).sum())
    if min(errors, facts) < PARTS:
        raise InputError(
            f"{facts:,} facts that a model can be trained without, and {errors:,} planted errors: an audit needs at "
            f"least {PARTS} of each"
        )
    trees = HistGradientBoostingClassifier(
        **TREES, categorical_features=[0], monotonic_cst=[0] + [-1] * (columns.shape[1] - 1), random_state=seed
    )
    parts = StratifiedKFold(PARTS, shuffle=True, random_state=seed)
    guess = cross_val_predict(trees, columns, planted, cv=parts, method="predict_proba")[:, 0].clip(_EDGE, 1 - _EDGE)
    sample = ground_truth_sample(logit(guess), (~planted).astype(np.float64))  # higher = rather a training fact
    low, high = Band.fit(sample).limits(sample.scores)
    fact = Beta().fit_sample(sample).calibrate(sample.scores).clip(_EDGE, 1 - _EDGE)
    odds = facts / errors
    value = (1 - fact) / fact * odds
    with np.errstate(divide="ignore"):
        least, most = (1 - high) / high * odds, (1 - low) / low * odds
    return np.stack([value, np.minimum(least, value), np.maximum(most, value)])


def _categories(predicates: Ints) -> Ints:
    """Return the predicate (N,) of each row as a category: 0 for the most frequent one, at most CATEGORIES."""
    _, inverse, counts = np.unique(predicates, return_inverse=True, return_counts=True)
    rank = np.empty(len(counts), dtype=np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return np.minimum(rank, CATEGORIES)[inverse]
