"""The scores of the rows of an audit, their likelihood ratios, and the facts from the least probable one.

A likelihood ratio says how much more likely the scores of a row are among planted errors than among training facts.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from scipy.special import logit
from scipy.stats import rankdata
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from kgcore.arrays import Bools, Floats, Ints, Probabilities, Scores
from kgcore.calibrate.beta import Beta
from kgcore.calibrate.sample import ground_truth_sample
from kgcore.calibrate.support import Band
from kgcore.errors import InputError
from kgcore.measure.metrics.base import Estimate
from kgcore.wings.audit.plan import KEPT, AuditPlan
from kgcore.wings.audit.sample import largest_share

if TYPE_CHECKING:
    from kgcore.embed.models.trained import TrainedModel

PARTS = 5  # the classifier that scores the rows of one part is fitted on the other parts
CATEGORIES = 30  # most frequent predicates, which the classifier tells apart; more of them would fit noise
TREES = {"max_iter": 100, "learning_rate": 0.06, "max_depth": 4, "min_samples_leaf": 50, "early_stopping": False}
_EDGE = 1e-9


@dataclass(frozen=True)
class RowScores:
    """The scores of N rows. A row is seen by the models that were trained on it.

    Scores of different models and predicates cannot be compared. Their places can: the place of a score is the logit of
    r / (N_p + 1), where r is its rank, from the lowest, among the scores that the same model gives to the N_p rows of
    the predicate.

    seen          (N,) mean score by the models that have seen the row
    unseen        (N,) score by the model that has not; NaN for a row that every model has seen
    seen_place    (N,) mean place of the scores in `seen`
    unseen_place  (N,) place of `unseen`; NaN where `unseen` is NaN
    """

    seen: Scores
    unseen: Scores
    seen_place: Floats
    unseen_place: Floats


def score_rows(plan: AuditPlan, models: "Iterable[TrainedModel]") -> RowScores:
    """Score all rows of an audit.

    models  the model of each fold, in the order of the folds. Only one model at a time is held in memory
    """
    size, predicates, number = len(plan.triples), plan.triples[:, 1], 0
    seen, seen_place = np.zeros(size), np.zeros(size)
    unseen, unseen_place = np.full(size, np.nan), np.full(size, np.nan)
    for number, model in enumerate(models, 1):
        scores = model.score(plan.triples)
        place, left_out = _places(scores, predicates), plan.fold == number - 1
        for sums, left_out_values, values in ((seen, unseen, scores), (seen_place, unseen_place, place)):
            sums[~left_out] += values[~left_out]
            left_out_values[left_out] = values[left_out]
    models_of = np.where(plan.fold == KEPT, number, number - 1)
    return RowScores(seen / models_of, unseen, seen_place / models_of, unseen_place)


def _places(scores: Scores, predicates: Ints) -> Floats:
    """Return the place (n,) of each score among the scores of its predicate: see `RowScores`. Ties share their mean."""
    places = np.empty(len(scores))
    order = np.argsort(predicates, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(predicates[order])) + 1):
        places[rows] = logit(rankdata(scores[rows]) / (len(rows) + 1))
    return places


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
    ratios = np.full((3, len(planted)), np.nan)
    if tested.any():
        ratios[:, tested] = _ratios(columns[tested], planted[tested], seed)
    if not tested.all():
        ratios[:, ~tested] = _ratios(columns[:, :2], planted, seed)[:, ~tested]
    return Ratios(*ratios)


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


@dataclass(frozen=True)
class AuditedFacts:
    """All training facts of a graph, with the evidence for and against them.

    plan    its rows are the training facts and the planted errors
    scores  the scores of the rows
    ratios  their likelihood ratios
    """

    plan: AuditPlan
    scores: RowScores
    ratios: Ratios

    def largest_share(self) -> Estimate:
        """Return the largest share of wrong facts that the scores allow: see `largest_share`."""
        return largest_share(self.ratios.value, self.plan.planted)

    def wrong(self, error_rate: float) -> Probabilities:
        """Return the probability that each fact is wrong (n,), if the share `error_rate` of all facts is wrong."""
        return self._wrong(error_rate, self.ratios.value)

    def table(self, error_rate: float) -> pa.Table:
        """Return the facts as a table, from the least probable one.

        error_rate  share of wrong facts that the probabilities assume, in [0, 1]

        subject, predicate, object  names
        fold             the fold whose model has not seen the fact, from 1; missing if every model has seen it
        seen_score       mean score f(s, p, o) by the models that have seen the fact
        unseen_score     score by the model that has not; missing if every model has seen it
        probability      that the fact is true
        low, high        95 % confidence interval of the probability
        expected_wrong   expected number of wrong facts from the first row to this one: the sum of 1 - probability

        Facts of equal probability are sorted by their `seen_place`, the lowest first.
        """
        order = np.lexsort([self._of_facts(self.scores.seen_place), -self._of_facts(self.ratios.value)])
        high, value, low = (
            1 - self._wrong(error_rate, ratios)[order]
            for ratios in (self.ratios.low, self.ratios.value, self.ratios.high)
        )
        fold = self.plan.fold[order]
        kept: Bools = fold == KEPT
        columns = {
            "fold": pa.array(fold + 1, mask=kept),
            "seen_score": pa.array(self.scores.seen[order]),
            "unseen_score": pa.array(self.scores.unseen[order], mask=kept),
            "probability": pa.array(value),
            "low": pa.array(low),
            "high": pa.array(high),
            "expected_wrong": pa.array(np.cumsum(1 - value)),
        }
        table = pa.Table.from_pandas(self.plan.graph.names_of(self.plan.triples[order]), preserve_index=False)
        for name, column in columns.items():
            table = table.append_column(name, column)
        return table

    def _of_facts(self, values: Floats) -> Floats:
        return values[: self.plan.facts]

    def _wrong(self, error_rate: float, ratios: Floats) -> Probabilities:
        """Return min(1, error_rate x ratio) of the facts (n,)."""
        wrong: Probabilities = np.zeros(self.plan.facts)
        if error_rate > 0:
            wrong = np.minimum(error_rate * self._of_facts(ratios), 1.0)
        return wrong
