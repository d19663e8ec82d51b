"""Fit the configured calibrators to a score table, on labelled and on synthetic negatives."""

from kgcore.calibration.base import Calibrator
from kgcore.calibration.baselines.base_rate import BaseRate
from kgcore.calibration.baselines.uncalibrated import Uncalibrated
from kgcore.calibration.bound import BoundCalibrator, CorruptionSettings
from kgcore.calibration.sample import CalibrationSample, ground_truth_sample, synthetic_sample
from kgcore.calibration.support import Support
from kgcore.config import ESTIMATED, CalibrateConfig, CorruptConfig
from kgcore.registries import CALIBRATORS
from kgcore.score_table import CORRUPTION, LABELLED, ScoreTable


def calibration_samples(table: ScoreTable, config: CalibrateConfig) -> dict[str, CalibrationSample]:
    """Return the validation rows as calibration samples, by kind of negatives.

    `synthetic` holds the positives and the corruptions. It is weighted to the base rate of the configuration, unless
    `config.weighted` is False. `ground_truth` holds the labelled triples, and exists only if some negatives are
    labelled. It is weighted to `table.labelled_base_rate`, if the table has one.
    """
    positives, corruptions = table.rows("valid", LABELLED, 1), table.rows("valid", CORRUPTION)
    predicates = table.triples[:, 1]
    scores = (table.scores[positives], table.scores[corruptions])
    both_predicates = (predicates[positives], predicates[corruptions])
    samples = {"synthetic": synthetic_sample(*scores, config.alpha, config.weighted, both_predicates)}
    if table.labelled_negatives("valid"):
        labelled = table.rows("valid", LABELLED)
        samples["ground_truth"] = ground_truth_sample(
            table.scores[labelled], table.labels[labelled], predicates[labelled], table.labelled_base_rate
        )
    return samples


def fit_calibrators(table: ScoreTable, config: CalibrateConfig, corrupt: CorruptConfig) -> list[BoundCalibrator]:
    """Fit the two baselines, then every calibrator of the configuration on each kind of negatives.

    corrupt  the settings with which the table's corruptions were drawn. A calibrator on synthetic negatives stores
             them.

    The base_rate baseline predicts the base rate of the configuration. Raises FitError if a fit does not converge.
    """

    def bind(
        name: str, negatives: str, base_rate: float, fitted: Calibrator, support: Support | None = None
    ) -> BoundCalibrator:
        corruptions = corruption_settings(corrupt, negatives)
        belongs_to = (base_rate, table.model, table.dataset)
        origin = ESTIMATED if negatives == "ground_truth" else config.base_rate_is
        return BoundCalibrator(
            name, negatives, *belongs_to, fitted, corruptions=corruptions, base_rate_is=origin, support=support
        )

    alpha = config.alpha
    bound = [
        bind("uncalibrated", "none", alpha, Uncalibrated().set_fitted()),
        bind("base_rate", "none", alpha, BaseRate().set_fitted(alpha=alpha)),
    ]
    for negatives, sample in sorted(calibration_samples(table, config).items()):
        fitted = {name: CALIBRATORS.get(name)().fit_sample(sample) for name in config.calibrators}
        support = {kind: Support.fit(sample, kind) for kind in {one.by_predicate for one in fitted.values()}}
        bound += [
            bind(name, negatives, sample.base_rate, one, support[one.by_predicate]) for name, one in fitted.items()
        ]
    return bound


def corruption_settings(corrupt: CorruptConfig, negatives: str) -> CorruptionSettings | None:
    """Return the corruption settings that a calibrator stores: None unless its negatives are `synthetic`."""
    if negatives != "synthetic":
        return None
    return CorruptionSettings(
        strategy=dict(corrupt.calibration_strategy),
        sides=corrupt.calibration_sides,
        filtered=corrupt.calibration_filtered,
    )
