"""Fitting every calibrator of a score table, by ground truth and by synthetic negatives."""

from typing import Any

from kgcore.calibration.base import BoundCalibrator, Calibrator
from kgcore.calibration.baselines.base_rate import BaseRate
from kgcore.calibration.baselines.uncalibrated import Uncalibrated
from kgcore.calibration.sample import CalibrationSample, ground_truth_sample, synthetic_sample
from kgcore.config import CalibrateConfig, CorruptConfig
from kgcore.registries import CALIBRATORS
from kgcore.score_table import CORRUPTION, LABELLED, ScoreTable


def calibration_samples(table: ScoreTable, config: CalibrateConfig) -> dict[str, CalibrationSample]:
    """The validation rows as samples: `synthetic`, and `ground_truth` where negatives are labelled."""
    positives, corruptions = table.rows("valid", LABELLED, 1), table.rows("valid", CORRUPTION)
    predicates = table.triples[:, 1]
    both = (table.scores[positives], table.scores[corruptions], config.base_rate, config.weighted)
    samples = {"synthetic": synthetic_sample(*both, (predicates[positives], predicates[corruptions]))}
    if table.labelled_negatives("valid"):
        labelled = table.rows("valid", LABELLED)
        samples["ground_truth"] = ground_truth_sample(
            table.scores[labelled], table.labels[labelled], predicates[labelled]
        )
    return samples


def fit_calibrators(table: ScoreTable, config: CalibrateConfig, drawn: CorruptConfig) -> list[BoundCalibrator]:
    """The two baselines, then every calibrator of the configuration by every kind of negatives there is.

    drawn  how the table's corruptions were, which the synthetic calibrators tell

    The base-rate baseline predicts the base rate that the user states. Raises FitError when a fit does not converge.
    """

    def bind(name: str, negatives: str, base_rate: float, fitted: Calibrator) -> BoundCalibrator:
        about = distribution(drawn, negatives)
        return BoundCalibrator(name, negatives, base_rate, table.model, table.dataset, fitted, corruptions=about)

    alpha = config.base_rate
    bound = [bind("uncalibrated", "none", alpha, Uncalibrated()), bind("base_rate", "none", alpha, BaseRate(alpha))]
    for negatives, sample in sorted(calibration_samples(table, config).items()):
        bound += [bind(n, negatives, sample.base_rate, CALIBRATORS.get(n).fit(sample)) for n in config.calibrators]
    return bound


def distribution(drawn: CorruptConfig, negatives: str) -> dict[str, Any] | None:
    """What synthetic negatives were drawn from, as a calibrator of these negatives tells it: strategy, sides, filtered;
    None for other negatives."""
    if negatives != "synthetic":
        return None
    return {
        "strategy": dict(drawn.calibration_strategy),
        "sides": drawn.calibration_sides,
        "filtered": drawn.calibration_filtered,
    }
