"""Fit the configured calibrators to a score table, on labelled and on synthetic negatives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kgcore.arrays import Scores
from kgcore.base_rate import ESTIMATED, BaseRate
from kgcore.calibrate.base import Calibrator, Constant, Uncalibrated
from kgcore.calibrate.calibrated import Calibrated, CorruptionSettings, FittedCandidates, FittedScorer, Terms
from kgcore.calibrate.hidden import HiddenFacts, hidden_facts
from kgcore.calibrate.sample import (
    CalibrationSample,
    evenly_weighted,
    ground_truth_sample,
    soft_sample,
    synthetic_sample,
)
from kgcore.calibrate.support import Support
from kgcore.config import CalibrateConfig, CorruptConfig
from kgcore.registries import BASELINES, CALIBRATORS
from kgcore.scores.table import LABELLED, ScoreTable

GROUND_TRUTH, SYNTHETIC = "ground_truth", "synthetic"
CONSTANTS = ("constant", "constant_by_relation")  # baselines of triples with confidences
CANDIDATES = "candidates"  # the kind of negatives of a calibrator that is fitted to candidates
BASELINE = "none"  # the kind of negatives of a baseline
BASELINES_OF_SCORES = ("uncalibrated", "base_rate")


def bind(
    terms: Terms, name: str, calibrator: Calibrator, scorer: str | FittedScorer, support: Support | None = None
) -> Calibrated:
    """Return a fitted map with the terms of its fit. Every calibrated thing is made here.

    name    registered name of the calibrator or the baseline
    scorer  what gives the scores: the fingerprint of an embedding model, or a fitted scorer
    """
    behind = (scorer, None) if isinstance(scorer, str) else (scorer.fingerprint(), scorer)
    return Calibrated(
        **vars(terms), name=name, calibrator=calibrator, model=behind[0], scorer=behind[1], support=support
    )


@dataclass(frozen=True)
class Basis:
    """What calibrators of one kind of negatives are fitted to.

    sample   the rows
    terms    what the probabilities are about
    ends     the rows, with the weights at the lower and at the upper end of the interval of the hidden share; empty:
             nothing is hidden
    counted  the rows that confidence limits count: those of `sample`, or others with equal weights in each label that
             represent it
    """

    sample: CalibrationSample
    terms: Terms
    ends: tuple[CalibrationSample, ...] = ()
    counted: CalibrationSample | None = None
    _supports: dict[bool, Support] = field(default_factory=dict, init=False, repr=False, compare=False)

    def scored(self, scores: Scores) -> "Basis":
        """Return the same rows with other scores (n,)."""
        return replace(self, sample=replace(self.sample, scores=scores))

    def bind(self, name: str, calibrator: Calibrator, scorer: str | FittedScorer) -> Calibrated:
        """Return a calibrator with this registered name that was fitted to `sample`, with its confidence limits.

        The limits are those of `counted`. With `ends`, the lower limits are those of the first sample, and the upper
        limits those of the second.
        """
        by_predicate = calibrator.by_predicate
        if by_predicate not in self._supports:
            support = Support.fit(self.counted or self.sample, by_predicate)
            low_high = [Support.fit(replace(end, scores=self.sample.scores), by_predicate) for end in self.ends]
            self._supports[by_predicate] = support.widened(*low_high) if low_high else support
        return bind(self.terms, name, calibrator, scorer, self._supports[by_predicate])


def calibration_bases(
    table: ScoreTable, config: CalibrateConfig, corrupt: CorruptConfig | None = None
) -> dict[str, Basis]:
    """Return the validation rows as what calibrators are fitted to, by kind of negatives.

    corrupt  the settings with which the corruptions were drawn, which synthetic calibrators store; None: not known

    `synthetic` holds the positives and the corruptions, which count as far as they are estimated to be false: see
    `hidden_facts`, which reads the completeness of the table, not that of the configuration. It is weighted to the base
    rate of the configuration, unless `config.weighted` is False. `ground_truth` holds the labelled triples, and exists
    only if some negatives are labelled. It is weighted to `table.labelled_base_rate`, if the table has one.

    If the rows have confidences, `ground_truth` holds every stored triple with its confidence as a soft label, and in
    `synthetic` a positive counts with its confidence.
    """
    hidden, labelled = hidden_facts(table), None
    if table.soft("valid"):
        stored = table.rows("valid", LABELLED)
        labelled = soft_sample(table.scores[stored], table.truth[stored], table.triples[stored, 1])
    elif table.labelled_negatives("valid"):
        labelled = labelled_sample(table)
    bases = {} if labelled is None else {GROUND_TRUTH: Basis(labelled, _estimated(table, labelled))}
    share = hidden.share if hidden else None
    every = synthetic_of(table, config, hidden, share.share if share else 0.0)
    ends = (share.low, share.high) if share and share.share else ()
    terms = replace(
        terms_of(table, SYNTHETIC, config.rate if config.weighted else replace(config.rate, value=every.base_rate)),
        corruptions=None if corrupt is None else CorruptionSettings.of(corrupt),
        hidden=share,
    )
    return bases | {SYNTHETIC: Basis(every, terms, tuple(synthetic_of(table, config, hidden, end) for end in ends))}


def terms_of(table: ScoreTable, negatives: str, rate: BaseRate, mixture: FittedCandidates | None = None) -> Terms:
    """Return the terms of calibrators of the table's graph at a base rate."""
    return Terms(negatives=negatives, rate=rate, dataset=table.dataset, mixture=mixture)


def _estimated(table: ScoreTable, sample: CalibrationSample) -> Terms:
    """Return the terms of calibrators at the base rate of the labelled rows."""
    rate = table.labelled_base_rate or BaseRate(sample.base_rate, origin=ESTIMATED)
    return terms_of(table, GROUND_TRUTH, rate)


def labelled_sample(table: ScoreTable) -> CalibrationSample:
    """Return the labelled rows of valid as a sample, weighted to `table.labelled_base_rate`, if the table has one."""
    rows = table.rows("valid", LABELLED)
    counts = None if table.weights is None else table.weights[rows]
    columns = table.scores[rows], table.labels[rows], table.triples[rows, 1]
    return ground_truth_sample(*columns, table.labelled_share, counts)


def synthetic_of(
    table: ScoreTable, config: CalibrateConfig, hidden: HiddenFacts | None, share: float
) -> CalibrationSample:
    """Return the sample `synthetic` of `calibration_bases` if a share of the corruptions, by weight, is true.

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
        config.rate.value,
        config.weighted,
        (predicates[positives], predicates[corruptions]),
        counts,
        confidences=table.truth[positives] if soft else None,
        concentrations=None if table.concentrations is None else table.concentrations[corruptions],
    )


def fit_calibrators(table: ScoreTable, config: CalibrateConfig, bases: Mapping[str, Basis]) -> list[Calibrated]:
    """Fit the baselines, then every calibrator of the configuration on each kind of negatives.

    bases  the output of `calibration_bases`

    The base_rate baseline predicts the base rate of the configuration. If the validation rows have confidences, two
    more baselines predict their mean, of all and of each relation. Raises FitError if a fit does not converge.
    """
    fitted = _baselines(terms_of(table, BASELINE, config.rate), table.model)
    if table.soft("valid"):
        sample, terms = bases[GROUND_TRUTH].sample, replace(bases[GROUND_TRUTH].terms, negatives=BASELINE)
        constants = {name: BASELINES.get(name)().fit_sample(sample) for name in CONSTANTS}
        fitted += [bind(terms, name, constant, table.model) for name, constant in constants.items()]
    for _, basis in sorted(bases.items()):
        for name in config.score_calibrators:
            fitted.append(basis.bind(name, CALIBRATORS.get(name)().fit_sample(basis.sample), table.model))
    return fitted


def fit_labelled(table: ScoreTable, names: Sequence[str], rng: np.random.Generator) -> list[Calibrated]:
    """Fit the two baselines and each named calibrator to the labelled rows of valid alone.

    They are fitted at the stated base rate `table.labelled_base_rate` or, if it is None, at the share of true rows by
    weight. If rows have different weights, the confidence limits are those of `evenly_weighted`.

    Raises FitError if a fit does not converge.
    """
    sample = labelled_sample(table)
    terms = _estimated(table, sample)
    basis = Basis(sample, terms, counted=evenly_weighted(sample, rng))
    baselines = _baselines(replace(terms, negatives=BASELINE), table.model)
    maps = {name: CALIBRATORS.get(name)().fit_sample(sample) for name in names}
    return baselines + [basis.bind(name, fitted, table.model) for name, fitted in maps.items()]


def _baselines(terms: Terms, model: str) -> list[Calibrated]:
    """Return the sigmoid of the score, and the constant base rate."""
    maps = (Uncalibrated().set_fitted(), Constant().set_fitted(mean=terms.base_rate))
    return [bind(terms, name, fitted, model) for name, fitted in zip(BASELINES_OF_SCORES, maps, strict=True)]
