"""The part of calibrate that fits calibrators that see evidence."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kgcore.config import CalibrateConfig
from kgcore.registries import EVIDENCE as EVIDENCE_GROUPS
from kgcore.score_table import ScoreTable
from tasks.stages.running import StageRun
from tasks.tracking.artifacts import (
    ABLATION,
    CANDIDATE_EVIDENCE,
    COMBINED_MIXTURE,
    EVIDENCE,
    HELD_OUT_LOG_ODDS,
    MIXTURE_TRIPLES,
)

if TYPE_CHECKING:
    from kgcore.calibration.bound import BoundCalibrator
    from kgcore.calibration.fit import Candidates
    from kgcore.calibration.sample import CalibrationSample
    from kgcore.combiners.base import EvidenceSample


def combine(
    run: StageRun,
    table: ScoreTable,
    config: CalibrateConfig,
    samples: "Mapping[str, CalibrationSample]",
    candidates: "Candidates | None",
    fitted: "Sequence[BoundCalibrator]",
) -> "tuple[list[BoundCalibrator], dict[str, dict[str, float]]]":
    """Fit the calibrators that see evidence, to labelled triples and to candidates, if there is an evidence run.

    Return them, and the figures by which they are compared with `fitted`, the calibrators that see the score alone.
    """
    from kgcore.calibration.answering import labelled_figures, unlabelled_figures
    from kgcore.calibration.combine import fit_combiners, fit_to_unlabelled, labelled_sample
    from kgcore.calibration.fit import CANDIDATES, GROUND_TRUTH

    if "evidence" not in run.inputs:
        return [], {}
    figures: dict[str, dict[str, float]] = {}
    combined, alone = [], {kind: [one for one in fitted if one.negatives == kind] for kind in samples}
    if GROUND_TRUTH in samples and not table.soft("valid"):
        sample, rng = samples[GROUND_TRUTH], np.random.default_rng(config.combine_seed)
        evidence = run.load(EVIDENCE)
        made = fit_combiners(table, evidence, sample, config)
        _ablate(run, labelled_sample(table, evidence, sample), evidence.groups, config)
        run.save(HELD_OUT_LOG_ODDS, {bound.label: own.scores for bound, own in made})
        every = [*((one, sample) for one in alone[GROUND_TRUTH]), *made]
        figures[GROUND_TRUTH] = labelled_figures(every, config.combine_folds, rng)
        combined += [bound for bound, _ in made]
    if candidates:
        seen, triples = run.load(CANDIDATE_EVIDENCE), run.load(MIXTURE_TRIPLES)
        found = fit_to_unlabelled(table, seen, triples, candidates, config)
        run.save(COMBINED_MIXTURE, found[0][1])
        figures[CANDIDATES] = unlabelled_figures([*((one, candidates.data) for one in alone[CANDIDATES]), *found])
        combined += [bound for bound, _ in found]
    return combined, figures


def _ablate(run: StageRun, sample: "EvidenceSample", groups: Sequence[str], config: CalibrateConfig) -> None:
    """Save what each group of evidence adds to the score, if there are the score and other groups."""
    from kgcore.combiners.ablation import SCORE, ablate

    if SCORE not in groups or len(groups) == 1:
        return
    features = {name: EVIDENCE_GROUPS.get(name).own(sample.names) for name in groups}
    run.save(ABLATION, ablate(sample, features, np.random.default_rng(config.combine_seed)))
