"""Calibrators that see evidence beside the score: a combiner, and a calibrator of its log-odds."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kgcore.arrays import Bools, Probabilities, Scores
from kgcore.calibration.bound import BoundCalibrator
from kgcore.calibration.sample import CalibrationSample
from kgcore.calibration.support import Support
from kgcore.combiners.base import EvidenceSample
from kgcore.combiners.combined import Combined
from kgcore.combiners.cross_fit import cross_fit
from kgcore.config import ESTIMATED, CalibrateConfig
from kgcore.errors import MismatchError
from kgcore.evidence.table import TableEvidence
from kgcore.registries import CALIBRATORS, COMBINERS
from kgcore.score_table import LABELLED, ScoreTable

RECALIBRATOR = "smoothed_isotonic"  # the calibrator of a combiner's log-odds
GROUND_TRUTH = "ground_truth"


def fit_combiners(
    table: ScoreTable, evidence: TableEvidence, sample: CalibrationSample, config: CalibrateConfig
) -> Sequence[tuple[BoundCalibrator, Scores]]:
    """Fit each combiner of the configuration to the labelled validation rows, and a calibrator to its log-odds.

    sample  these rows with their weights: see `calibration_samples`

    The calibrator and its confidence limits are fitted to log-odds of combiners that have not seen the row: of
    `combine_folds` parts of the rows, a combiner that is fitted to the others judges each. Return the calibrators, and
    these log-odds (n,) of the rows.

    Raises MismatchError if a row has no evidence, FitError if a fit does not converge.
    """
    rows = table.rows("valid", LABELLED)
    known, predicates = evidence.at(rows), table.triples[rows, 1]
    seen = EvidenceSample(known.names, known.values, sample.labels, sample.weights, predicates)
    fitted = []
    for name in config.combiners:
        rng = np.random.default_rng(config.combine_seed)
        combiner, log_odds = cross_fit(COMBINERS.get(name), seen, config.combine_folds, rng)
        combined = Combined(name, evidence.groups, known.names, table.model, combiner)
        held_out = replace(sample, scores=log_odds)
        bound = BoundCalibrator(
            name=RECALIBRATOR,
            negatives=GROUND_TRUTH,
            base_rate=sample.base_rate,
            model=combined.fingerprint(),
            dataset=table.dataset,
            calibrator=CALIBRATORS.get(RECALIBRATOR)().fit_sample(held_out),
            base_rate_is=ESTIMATED,
            support=Support.fit(held_out, by_predicate=False),
            combined=combined,
        )
        fitted.append((bound, log_odds))
    return fitted


def table_probabilities(
    bound: BoundCalibrator, table: ScoreTable, rows: Bools, evidence: TableEvidence | None = None
) -> Probabilities:
    """Return the probabilities (n,) of the rows of a score table that a mask chooses.

    evidence  of these rows; required if the calibrator sees evidence

    Raises MismatchError if the calibrator belongs to another model, or if a row has no evidence.
    """
    predicates = table.triples[rows, 1]
    if bound.combined is None:
        return bound.predict(table.scores[rows], table.model, predicates)
    if evidence is None or bound.combined.model != table.model:
        raise MismatchError(
            f"the calibrator {bound.label} needs the evidence of model {bound.combined.model[:12]}, but the scores "
            f"come from model {table.model[:12]}"
        )
    scores = bound.combined.scores(evidence.at(rows), predicates)
    return bound.predict(scores, bound.model, predicates)
