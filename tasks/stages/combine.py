"""The parts of calibrate that fit calibrators that see evidence, and that compare all calibrators on validation."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kgcore.config import CalibrateConfig, CorruptConfig, PrepareConfig
from kgcore.registries import EVIDENCE as EVIDENCE_GROUPS
from kgcore.score_table import ScoreTable
from tasks.stages.running import StageRun
from tasks.tracking.artifacts import (
    ABLATION,
    CANDIDATE_EVIDENCE,
    COMBINED_MIXTURE,
    CORRUPTIONS,
    EVIDENCE,
    HELD_OUT_LOG_ODDS,
    MIXTURE_TRIPLES,
)

if TYPE_CHECKING:
    from kgcore.calibration.bound import BoundCalibrator
    from kgcore.calibration.fit import Candidates
    from kgcore.calibration.sample import CalibrationSample
    from kgcore.combiners.base import EvidenceSample
    from kgcore.mixture.samples import MixtureData

    Combined = tuple[list[tuple[BoundCalibrator, CalibrationSample]], list[tuple[BoundCalibrator, MixtureData]]]


def combine(
    run: StageRun,
    table: ScoreTable,
    config: CalibrateConfig,
    samples: "Mapping[str, CalibrationSample]",
    candidates: "Candidates | None",
) -> "Combined":
    """Fit the calibrators that see evidence, if there is an evidence run.

    They are fitted to labelled triples, and to candidates; if there are neither, to positives and corruptions. Return
    those of labelled triples or corruptions, and those of candidates, each with what it was fitted to.
    """
    from kgcore.calibration.combine import evidence_sample, fit_combiners, fit_to_unlabelled
    from kgcore.calibration.fit import GROUND_TRUTH, SYNTHETIC
    from kgcore.calibration.folds import row_groups

    labelled: list[tuple[BoundCalibrator, CalibrationSample]] = []
    unlabelled: list[tuple[BoundCalibrator, MixtureData]] = []
    if "evidence" not in run.inputs:
        return labelled, unlabelled
    evidence = run.load(EVIDENCE)
    if GROUND_TRUTH in samples and not table.soft("valid"):
        sample = samples[GROUND_TRUTH]
        labelled = list(fit_combiners(table, evidence, sample, config))
        _ablate(run, evidence_sample(table, evidence, sample, config, GROUND_TRUTH), evidence.groups, config)
    elif not (candidates or table.soft("valid")):
        groups = row_groups(table, run.load(CORRUPTIONS)["valid"].source, config.weighted)[SYNTHETIC]
        labelled = list(fit_combiners(table, evidence, samples[SYNTHETIC], config, run.config(CorruptConfig), groups))
    if labelled:
        run.save(HELD_OUT_LOG_ODDS, {bound.label: own.scores for bound, own in labelled})
    if candidates:
        seen, triples = run.load(CANDIDATE_EVIDENCE), run.load(MIXTURE_TRIPLES)
        unlabelled = list(fit_to_unlabelled(table, seen, triples, candidates, config))
        run.save(COMBINED_MIXTURE, unlabelled[0][1])
    return labelled, unlabelled


def validation_figures(
    run: StageRun,
    table: ScoreTable,
    config: CalibrateConfig,
    samples: "Mapping[str, CalibrationSample]",
    candidates: "Candidates | None",
    fitted: "Sequence[BoundCalibrator]",
    combined: "Combined",
) -> dict[str, dict[str, float]]:
    """Return the figures by which the calibrators of each kind of negatives are ordered: kind -> figures.

    fitted    the calibrators that see the score alone
    combined  the output of `combine`
    """
    from kgcore.calibration.answering import fit_errors, held_out_figures, unlabelled_figures
    from kgcore.calibration.fit import CANDIDATES
    from kgcore.calibration.folds import row_groups

    alone = {kind: [bound for bound in fitted if bound.negatives == kind] for kind in samples}
    cold = run.config(PrepareConfig).split_rule.cold_column
    groups = row_groups(table, run.load(CORRUPTIONS)["valid"].source, config.weighted, cold)
    figures: dict[str, dict[str, float]] = {}
    for kind, sample in samples.items():
        if kind != CANDIDATES:
            beside = [own for own in combined[0] if own[0].negatives == kind]
            every = [*((bound, sample) for bound in alone[kind]), *beside]
            rng = np.random.default_rng(config.combine_seed)
            figures[kind] = held_out_figures(every, groups[kind], config.combine_folds, rng) if every else {}
            if cold is not None:
                figures[kind] |= fit_errors(every, groups[kind], rng)
    if candidates:
        figures[CANDIDATES] = unlabelled_figures(
            [*((bound, candidates.data) for bound in alone[CANDIDATES]), *combined[1]]
        )
    return figures


def _ablate(run: StageRun, sample: "EvidenceSample", groups: Sequence[str], config: CalibrateConfig) -> None:
    """Save what each group of evidence adds to the score, if there are the score and other groups."""
    from kgcore.combiners.ablation import SCORE, ablate

    if SCORE not in groups or len(groups) == 1:
        return
    features = {name: EVIDENCE_GROUPS.get(name).own(sample.names) for name in groups}
    run.save(ABLATION, ablate(sample, features, np.random.default_rng(config.combine_seed)))
