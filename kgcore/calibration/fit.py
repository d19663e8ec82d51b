"""Fit the configured calibrators to a score table, on labelled and on synthetic negatives, and to candidates."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kgcore.calibration.base import Calibrator
from kgcore.calibration.baselines.base_rate import ConstantBaseRate
from kgcore.calibration.baselines.uncalibrated import Uncalibrated
from kgcore.calibration.bound import BoundCalibrator, CorruptionSettings
from kgcore.calibration.even import evenly_weighted
from kgcore.calibration.hidden import HiddenFacts, hidden_facts
from kgcore.calibration.matched import Matched, fit_matched
from kgcore.calibration.sample import CalibrationSample, ground_truth_sample, soft_sample, synthetic_sample
from kgcore.calibration.support import Support
from kgcore.config import ESTIMATED, STATED, CalibrateConfig, CorruptConfig
from kgcore.mixture.samples import MixtureData
from kgcore.registries import BASELINES, CALIBRATORS
from kgcore.score_table import LABELLED, ScoreTable

GROUND_TRUTH, SYNTHETIC = "ground_truth", "synthetic"
CONSTANTS = ("constant", "constant_by_relation")  # baselines of triples with confidences
CANDIDATES = "candidates"  # the kind of negatives of a calibrator that is fitted to candidates


def calibration_samples(table: ScoreTable, config: CalibrateConfig) -> dict[str, CalibrationSample]:
    """Return the validation rows as calibration samples, by kind of negatives.

    `synthetic` holds the positives and the corruptions, which count as far as they are estimated to be false: see
    `hidden_facts`, which reads the completeness of the table, not that of the configuration. It is weighted to the base
    rate of the configuration, unless `config.weighted` is False. `ground_truth` holds the labelled triples, and exists
    only if some negatives are labelled. It is weighted to `table.labelled_base_rate`, if the table has one.

    If the rows have confidences, `ground_truth` holds every stored triple with its confidence as a soft label, and in
    `synthetic` a positive counts with its confidence.
    """
    hidden = hidden_facts(table)
    samples = {SYNTHETIC: synthetic_of(table, config, hidden, hidden.share.share if hidden else 0.0)}
    if table.soft("valid"):
        stored = table.rows("valid", LABELLED)
        samples[GROUND_TRUTH] = soft_sample(table.scores[stored], table.truth[stored], table.triples[stored, 1])
    elif table.labelled_negatives("valid"):
        samples[GROUND_TRUTH] = labelled_sample(table)
    return samples


def labelled_sample(table: ScoreTable) -> CalibrationSample:
    """Return the labelled rows of valid as a sample, weighted to `table.labelled_base_rate`, if the table has one."""
    rows = table.rows("valid", LABELLED)
    counts = None if table.weights is None else table.weights[rows]
    columns = table.scores[rows], table.labels[rows], table.triples[rows, 1]
    return ground_truth_sample(*columns, table.labelled_base_rate, counts)


def synthetic_of(
    table: ScoreTable, config: CalibrateConfig, hidden: HiddenFacts | None, share: float
) -> CalibrationSample:
    """Return the sample `synthetic` of `calibration_samples` if a share of the corruptions, by weight, is true.

    hidden  which corruptions are likely true; None: nobody knows, and all of them count as false
    share   in [0, 1)
    """
    soft, predicates = table.soft("valid"), table.triples[:, 1]
    positives, corruptions = table.rows("valid", LABELLED, 1), table.corruptions()
    if soft:
        positives &= table.truth > 0
    counts = None if table.weights is None else table.weights[corruptions]
    if hidden is not None and share > 0:
        counts = hidden.weights * (1 - hidden.chances(share))
    return synthetic_sample(
        table.scores[positives],
        table.scores[corruptions],
        config.alpha,
        config.weighted,
        (predicates[positives], predicates[corruptions]),
        counts,
        confidences=table.truth[positives] if soft else None,
        concentrations=None if table.concentrations is None else table.concentrations[corruptions],
    )


def ends_of(table: ScoreTable, config: CalibrateConfig, hidden: HiddenFacts | None) -> tuple[CalibrationSample, ...]:
    """Return the samples `synthetic` at both ends of the interval of the hidden share; none if the share is 0."""
    if hidden is None or not hidden.share.share:
        return ()
    return tuple(synthetic_of(table, config, hidden, end) for end in (hidden.share.low, hidden.share.high))


def support_of(sample: CalibrationSample, by_predicate: bool, ends: Sequence[CalibrationSample] = ()) -> Support:
    """Return the support of a sample, with the lower limits of a second sample and the upper limits of a third.

    ends  the two samples, which have the same rows with other weights; empty: the sample has its own limits. Their
          scores are not used
    """
    own = Support.fit(sample, by_predicate)
    if not ends:
        return own
    low, high = (Support.fit(replace(end, scores=sample.scores), by_predicate) for end in ends)
    return own.widened(low, high)


def base_rate_of(sample: CalibrationSample, negatives: str, config: CalibrateConfig) -> float:
    """Return the base rate of a sample from `calibration_samples`, in (0, 1).

    Weights of synthetic negatives give the base rate of the configuration. It is returned itself, because the share
    that is computed from the weights differs in the last bits.
    """
    return config.alpha if negatives == SYNTHETIC and config.weighted else sample.base_rate


@dataclass(frozen=True)
class Candidates:
    """The candidates to calibrate to.

    data        their scores, and those of positives and corruptions
    matched     the fit of their mixture. Its base rate is that of the calibration
    replicates  bootstrap replicates for the limits of the probabilities, at least 20
    seed        seed of the bootstrap
    """

    data: MixtureData
    matched: Matched
    replicates: int
    seed: int


def fit_calibrators(
    table: ScoreTable, config: CalibrateConfig, corrupt: CorruptConfig, candidates: Candidates | None = None
) -> list[BoundCalibrator]:
    """Fit the baselines, then every calibrator of the configuration on each kind of negatives.

    corrupt     the settings with which the table's corruptions were drawn. A calibrator on synthetic negatives stores
                them.
    candidates  the candidates that every calibrator is fitted to, too; None: there are none

    The base_rate baseline predicts the base rate of the configuration. If the validation rows have confidences, two
    more baselines predict their mean, of all and of each relation. Raises FitError if a fit does not converge.
    """

    def bind(
        name: str, negatives: str, base_rate: float, fitted: Calibrator, support: Support | None = None
    ) -> BoundCalibrator:
        labelled = negatives == GROUND_TRUTH or name in CONSTANTS
        return _bound(
            (name, negatives, base_rate),
            table,
            fitted,
            support,
            corruptions=corruption_settings(corrupt, negatives),
            base_rate_is=ESTIMATED if labelled else config.base_rate_is,
            limits=None if labelled else config.limits,
            hidden=hidden.share if hidden and negatives == SYNTHETIC else None,
            mixture=candidates.matched if candidates and negatives == CANDIDATES else None,
        )

    alpha, hidden = config.alpha, hidden_facts(table)
    bound = [bind(name, "none", alpha, fitted) for name, fitted in baselines(alpha).items()]
    if candidates is not None:
        rng = np.random.default_rng(candidates.seed)
        made = fit_matched(candidates.data, candidates.matched, config.score_calibrators, candidates.replicates, rng)
        bound += [bind(name, CANDIDATES, alpha, one, limits) for name, (one, limits) in made.items()]
    samples = calibration_samples(table, config)
    if table.soft("valid"):
        mean = samples[GROUND_TRUTH].base_rate
        for name in CONSTANTS:
            bound.append(bind(name, "none", mean, BASELINES.get(name)().fit_sample(samples[GROUND_TRUTH])))
    for negatives, sample in sorted(samples.items()):
        ends = ends_of(table, config, hidden) if negatives == SYNTHETIC else ()
        base_rate = base_rate_of(sample, negatives, config)
        fitted = fit_each(sample, config.score_calibrators, sample, ends)
        bound += [bind(name, negatives, base_rate, *both) for name, both in fitted.items()]
    return bound


def fit_labelled(table: ScoreTable, names: Sequence[str], rng: np.random.Generator) -> list[BoundCalibrator]:
    """Fit the two baselines and each named calibrator to the labelled rows of valid alone.

    They are fitted at the stated base rate `table.labelled_base_rate` or, if it is None, at the share of true rows by
    weight. If rows have different weights, the confidence limits are those of `evenly_weighted`.

    Raises FitError if a fit does not converge.
    """
    sample, stated = labelled_sample(table), table.labelled_base_rate
    alpha, base_rate_is = (sample.base_rate, ESTIMATED) if stated is None else (stated, STATED)
    fitted: dict[str, tuple[Calibrator, Support | None]] = {name: (own, None) for name, own in baselines(alpha).items()}
    fitted |= fit_each(sample, names, evenly_weighted(sample, rng))
    kinds = {name: (name, GROUND_TRUTH if name in names else "none", alpha) for name in fitted}
    return [_bound(kinds[name], table, *both, base_rate_is=base_rate_is) for name, both in fitted.items()]


def _bound(
    kind: tuple[str, str, float], table: ScoreTable, fitted: Calibrator, support: Support | None, **notes: Any
) -> BoundCalibrator:
    """Bind a calibrator to the model and the data set of a table. kind: its name, its negatives, its base rate."""
    return BoundCalibrator(*kind, table.model, table.dataset, fitted, support=support, **notes)


def baselines(alpha: float) -> dict[str, Calibrator]:
    """Return the sigmoid of the score and the constant base rate alpha, in (0, 1), by name."""
    return {"uncalibrated": Uncalibrated().set_fitted(), "base_rate": ConstantBaseRate().set_fitted(alpha=alpha)}


def fit_each(
    sample: CalibrationSample,
    names: Sequence[str],
    counted: CalibrationSample,
    ends: Sequence[CalibrationSample] = (),
) -> dict[str, tuple[Calibrator, Support]]:
    """Fit each named calibrator to a sample. Return name -> the calibrator and its support.

    counted  the sample whose rows the support counts: `sample`, or rows with equal weights in each label that represent
             it
    ends     as in `support_of`
    """
    fitted = {name: CALIBRATORS.get(name)().fit_sample(sample) for name in names}
    kinds = {calibrator.by_predicate for calibrator in fitted.values()}
    support = {by_predicate: support_of(counted, by_predicate, ends) for by_predicate in kinds}
    return {name: (calibrator, support[calibrator.by_predicate]) for name, calibrator in fitted.items()}


def corruption_settings(corrupt: CorruptConfig, negatives: str) -> CorruptionSettings | None:
    """Return the corruption settings that a calibrator stores: None unless its negatives are `synthetic`."""
    if negatives != "synthetic":
        return None
    return CorruptionSettings(
        strategy=dict(corrupt.calibration_strategy),
        sides=corrupt.calibration_sides,
        filtered=corrupt.calibration_filtered,
    )
