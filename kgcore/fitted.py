"""All calibrators of a run, of the score alone and of evidence, in the order in which they answer; and their audit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kgcore.arrays import Ints, Scores, Triples
from kgcore.calibrate.answering import fit_errors, held_out_figures, in_order, score_audit, thin_figures
from kgcore.calibrate.calibrated import Calibrated
from kgcore.calibrate.fit import CANDIDATES, GROUND_TRUTH, SYNTHETIC, Basis
from kgcore.calibrate.folds import row_groups
from kgcore.calibrate.sample import CalibrationSample
from kgcore.combiners.ablation import SCORE, Ablation, ablate
from kgcore.combiners.base import EvidenceSample
from kgcore.combiners.fit import evidence_sample, fit_combiners, fit_to_unlabelled
from kgcore.combiners.unseen import UnseenAnswers
from kgcore.config import CalibrateConfig
from kgcore.mixture.calibrate import MatchedCandidates, candidate_sample, fit_score_calibrators, unlabelled_figures
from kgcore.mixture.samples import MixtureData
from kgcore.registries import EVIDENCE
from kgcore.scores.table import ScoreTable, TableEvidence

Audits = dict[str, dict[str, float]]  # kind of negatives -> figures


@dataclass(frozen=True)
class Material:
    """What the calibrators of a run are fitted to.

    bases       the output of `calibration_bases` for the table and the settings
    source      (c,) the positive of each drawn validation corruption: see `row_groups`
    cold        column of the cold entities: see `row_groups`
    candidates  candidates to calibrate to; None: there are none
    evidence    of the held-out rows; None: no calibrator sees evidence
    unlabelled  the triples (N, 3) of the candidates' mixture and their evidence: see `fit_to_unlabelled`
    unseen      answers about triples with entities that training has not seen; None: these get no probability
    """

    table: ScoreTable
    config: CalibrateConfig
    bases: Mapping[str, Basis]
    source: Ints
    cold: int | None = None
    candidates: MatchedCandidates | None = None
    evidence: TableEvidence | None = None
    unlabelled: tuple[Triples, TableEvidence] | None = None
    unseen: UnseenAnswers | None = None

    def groups(self, cold: int | None = None) -> dict[str, Ints]:
        """Return the groups of the rows by kind of negatives: see `row_groups`."""
        return row_groups(self.table, self.source, self.config.weighted, cold)


@dataclass(frozen=True)
class FittedCalibrators:
    """All calibrators of a run.

    fitted    in the order in which they answer: of each kind of negatives, the first one does
    audits    figures of the samples, and those by which the calibrators are ordered
    log_odds  label of a calibrator that sees evidence -> log-odds of combiners that had not seen the row
    mixture   the candidates' mixture with such log-odds as scores; None: no calibrator sees evidence of candidates
    ablation  what each group of evidence adds to the score; None: no calibrator sees evidence of labelled triples
    """

    fitted: list[Calibrated]
    audits: Audits
    log_odds: Mapping[str, Scores]
    mixture: MixtureData | None
    ablation: Ablation | None


def samples_of(bases: Mapping[str, Basis], candidates: MatchedCandidates | None) -> dict[str, CalibrationSample]:
    """Return the calibration samples by kind of negatives."""
    samples = {kind: basis.sample for kind, basis in bases.items()}
    return samples | ({CANDIDATES: candidate_sample(candidates.data, candidates.matched)} if candidates else {})


def fit_evidence(material: Material, alone: Sequence[Calibrated]) -> FittedCalibrators:
    """Fit the calibrators that see evidence, if there is some, and put all calibrators in order.

    alone  the output of `fit_calibrators`: those of labelled triples and of corruptions that see the score alone

    Combiners are fitted to labelled triples, and to candidates; if there are neither, to positives and corruptions.

    Raises MismatchError if the parts do not belong together, FitError if a fit does not converge.
    """
    table, config, bases, evidence = material.table, material.config, material.bases, material.evidence
    labelled: Sequence[tuple[Calibrated, CalibrationSample]] = ()
    unlabelled: Sequence[tuple[Calibrated, MixtureData]] = ()
    ablation, soft = None, table.soft("valid")
    if material.candidates:
        alone = [*alone, *fit_score_calibrators(table, config, material.candidates)]
    if evidence is not None and GROUND_TRUTH in bases and not soft:
        labelled = fit_combiners(table, evidence, bases[GROUND_TRUTH], config)
        sample = evidence_sample(table, evidence, bases[GROUND_TRUTH], config)
        ablation = _ablation(sample, evidence.groups, config)
    elif evidence is not None and not (material.candidates or soft):
        labelled = fit_combiners(table, evidence, bases[SYNTHETIC], config, material.groups()[SYNTHETIC])
    if material.candidates and material.unlabelled:
        triples, seen = material.unlabelled
        unlabelled = fit_to_unlabelled(table, seen, triples, material.candidates, config)
    samples = samples_of(bases, material.candidates)
    every = [*((bound, samples[bound.negatives]) for bound in alone if bound.negatives in samples), *labelled]
    figures = _figures(material, samples, every, unlabelled)
    fitted = in_order([*alone, *(bound for bound, _ in labelled), *(bound for bound, _ in unlabelled)], figures)
    audits = {kind: score_audit(sample, soft and kind == GROUND_TRUTH) for kind, sample in samples.items()}
    audits = {kind: audit | figures.get(kind, {}) for kind, audit in audits.items()}
    hidden = next((bound.hidden for bound in fitted if bound.hidden), None)
    audits[SYNTHETIC] |= table.search_figures() | (hidden.figures() if hidden else {})
    log_odds = {bound.label: sample.scores for bound, sample in labelled}
    mixture = unlabelled[0][1] if unlabelled else None
    return FittedCalibrators(_with_unseen(fitted, material.unseen), audits, log_odds, mixture, ablation)


def _ablation(sample: EvidenceSample, groups: Sequence[str], config: CalibrateConfig) -> Ablation | None:
    """Return what each group adds to the score, if there are the score and other groups."""
    if SCORE not in groups or len(groups) == 1:
        return None
    features = {name: EVIDENCE.get(name).own(sample.names) for name in groups}
    return ablate(sample, features, np.random.default_rng(config.combine_seed))


def _figures(
    material: Material,
    samples: Mapping[str, CalibrationSample],
    every: Sequence[tuple[Calibrated, CalibrationSample]],
    unlabelled: Sequence[tuple[Calibrated, MixtureData]],
) -> Audits:
    """Return the figures by which the calibrators of each kind of negatives are ordered: kind -> figures."""
    config, cold, candidates = material.config, material.cold, material.candidates
    figures, groups = Audits(), material.groups(cold)
    for kind in [kind for kind in samples if kind != CANDIDATES]:
        rng, own = np.random.default_rng(config.combine_seed), [pair for pair in every if pair[0].negatives == kind]
        figures[kind] = held_out_figures(own, groups[kind], config.combine_folds, rng) if own else {}
        if cold is not None:
            figures[kind] |= fit_errors(own, groups[kind], rng)
    if candidates:
        alone = [(bound, candidates.data) for bound, sample in every if bound.negatives == CANDIDATES]
        figures[CANDIDATES] = unlabelled_figures([*alone, *unlabelled])
    return figures


def _with_unseen(fitted: list[Calibrated], unseen: UnseenAnswers | None) -> list[Calibrated]:
    """Give the answers about unseen entities to the calibrators that were fitted to labelled triples, as these were."""
    if unseen is None:
        return fitted
    for bound in fitted:
        if bound.negatives == GROUND_TRUTH:
            unseen.check(bound.embedding_models[0], bound.dataset)
    return [replace(bound, unseen=unseen) if bound.negatives == GROUND_TRUTH else bound for bound in fitted]


def with_thin(audits: Audits, fitted: Sequence[Calibrated], samples: Mapping[str, CalibrationSample]) -> Audits:
    """Return the audits with the support of each calibrator's high probabilities: see `thin_figures`."""
    every = {kind: dict(figures) for kind, figures in audits.items()}
    for bound in fitted:
        if bound.support is not None and bound.combined is None:
            every[bound.negatives] |= thin_figures(bound, samples[bound.negatives])
    return every
