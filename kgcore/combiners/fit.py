"""Calibrators that see evidence beside the score (a combiner, and a calibrator of its log-odds); all those of a run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Labels, Scores, Triples
from kgcore.calibrate.calibrated import Calibrated
from kgcore.calibrate.fit import CANDIDATES, GROUND_TRUTH, SYNTHETIC, Basis, bind, terms_of
from kgcore.calibrate.sample import CalibrationSample
from kgcore.calibrate.validation import (
    HeldOut,
    fit_errors,
    held_out,
    held_out_figures,
    in_order,
    row_groups,
    score_audit,
    thin_figures,
)
from kgcore.combiners.ablation import SCORE, Ablation, ablate
from kgcore.combiners.base import Combined, Combiner, EvidenceSample
from kgcore.combiners.joined import Stack
from kgcore.combiners.unlabelled import Rows, fit_unlabelled
from kgcore.combiners.unseen import UnseenAnswers
from kgcore.config import CalibrateConfig
from kgcore.errors import FitError
from kgcore.evidence.twins import UnknownTwins
from kgcore.mixture.calibrate import (
    MatchedCandidates,
    candidate_sample,
    fit_matched,
    fit_score_calibrators,
    unlabelled_figures,
)
from kgcore.mixture.fit import MixtureOptions
from kgcore.mixture.matched import match
from kgcore.mixture.samples import MixtureData
from kgcore.registries import CALIBRATORS, COMBINERS, EVIDENCE
from kgcore.scores.table import LABELLED, ScoreTable, TableEvidence

FOLDS = 5  # of cross-fitting
FOLDS_OF_CANDIDATES = 3  # of candidates, whose many combiners take long
CORRUPTIONS_OF_A_POSITIVE = 5  # that a combiner is fitted to, if negatives are corruptions: see `_few`
MOST_FITTED_ROWS = 150_000  # then
RECALIBRATOR = "beta"  # the calibrator of a combiner's log-odds
Audits = dict[str, dict[str, float]]  # kind of negatives -> figures


@dataclass(frozen=True)
class Material:
    """What the calibrators of a run are fitted to.

    bases       the output of `calibration_bases` for the table and the settings
    source      (c,) the positive of each drawn validation corruption: see `row_groups`
    cold        column of the cold entities: see `row_groups`
    candidates  candidates to calibrate to; None: no candidates
    evidence    of the held-out rows; None: no calibrator sees evidence
    twins       unknown triples with a twin in train, and their evidence; None: combiners are fitted without them
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
    twins: tuple[UnknownTwins, TableEvidence] | None = None
    unlabelled: tuple[Triples, TableEvidence] | None = None
    unseen: UnseenAnswers | None = None

    def groups(self, cold: int | None = None) -> dict[str, Ints]:
        """Return the groups of the rows by kind of negatives: see `row_groups`."""
        return row_groups(self.table, self.source, self.config.weighted, cold)


@dataclass(frozen=True)
class FittedCalibrators:
    """All calibrators of a run.

    fitted    by kind of negatives: see `in_order`. Of each kind, the first one answers
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


def fit_combiners(
    rows: EvidenceSample, evidence: TableEvidence, basis: Basis, config: CalibrateConfig, model: str
) -> Sequence[tuple[Calibrated, CalibrationSample]]:
    """Fit each combiner of the configuration to validation rows, and a calibrator to its log-odds.

    rows   the rows of the basis with their evidence, from `evidence_sample`, and then rows that only combiners see
    basis  the labelled rows, or the positives and the corruptions: see `calibration_bases`. To corruptions, a combiner
           is fitted to CORRUPTIONS_OF_A_POSITIVE, on average, and to at most MOST_FITTED_ROWS rows
    model  fingerprint of the embedding model

    The calibrator and its confidence limits are fitted to log-odds of combiners that have not seen the row: of
    `combine_folds` parts of the rows, a combiner that is fitted to the others judges each. With `combine_rounds` above
    1, the mean of such combiners answers: see `cross_fit`. Return the calibrators, and the sample with these log-odds
    as scores.

    Raises FitError if a fit does not converge.
    """
    fitted = []
    for name in config.combiners:
        rng = np.random.default_rng(config.combine_seed)
        used = _few(rows.labels, rng) if basis.terms.negatives == SYNTHETIC else None
        combiner, kind, log_odds = cross_fit(
            name, COMBINERS.get(name)(), rows, rng, config.combine_folds, config.combine_rounds, used
        )
        combined = Combined(name, evidence.groups, rows.names, model, combiner, kind, evidence.others)
        held_out = basis.scored(log_odds[: len(basis.sample.labels)])
        recalibrator = CALIBRATORS.get(RECALIBRATOR)().fit_sample(held_out.sample)
        fitted.append((held_out.bind(RECALIBRATOR, recalibrator, combined), held_out.sample))
    return fitted


def _few(labels: Labels, rng: np.random.Generator) -> Bools:
    """Choose at random at most MOST_FITTED_ROWS rows (n,), with at most CORRUPTIONS_OF_A_POSITIVE negatives each."""
    positives, negatives = float(labels.sum()), float((1 - labels).sum())
    own = min(positives, MOST_FITTED_ROWS / (1 + CORRUPTIONS_OF_A_POSITIVE))
    chances = np.where(labels == 1, own / max(positives, 1), CORRUPTIONS_OF_A_POSITIVE * own / max(negatives, 1))
    return rng.random(len(labels)) < chances


def evidence_sample(
    table: ScoreTable, evidence: TableEvidence, basis: Basis, config: CalibrateConfig, groups: Ints | None = None
) -> EvidenceSample:
    """Return the rows of a basis with their evidence. Raises MismatchError if a row has no evidence.

    groups  (n,) the group of each row: see `row_groups`; None: each row is a group
    """
    rows, sample = table.rows("valid", LABELLED), basis.sample
    if basis.terms.negatives == SYNTHETIC:
        rows = table.positives(config.weighted) | table.corruptions()
    known = evidence.at(rows)
    return EvidenceSample(known.names, known.values, sample.labels, sample.weights, table.triples[rows, 1], groups)


def beside_twins(sample: EvidenceSample, twins: UnknownTwins, evidence: TableEvidence) -> EvidenceSample:
    """Return a sample and, after it, unknown triples with a twin (k), each as two rows: a positive and a negative.

    The two share the mean weight of a positive of the sample, by the chance that the triple is true.
    """
    count, values = len(twins.triples), evidence.evidence.values
    weight = sample.weights[sample.labels == 1].mean()
    weights = np.r_[sample.weights, weight * twins.chances, weight * (1 - twins.chances)]
    groups = np.arange(len(sample)) if sample.groups is None else sample.groups
    return EvidenceSample(
        sample.names,
        np.concatenate([sample.values, values, values]),
        np.r_[sample.labels, np.ones(count), np.zeros(count)],
        weights / weights.mean(),
        np.r_[sample.predicates, np.tile(twins.triples[:, 1], 2)],
        np.r_[groups, np.tile(groups.max() + 1 + np.arange(count), 2)],
    )


def fit_to_unlabelled(
    table: ScoreTable,
    evidence: TableEvidence,
    triples: Triples,
    candidates: MatchedCandidates,
    config: CalibrateConfig,
) -> Sequence[tuple[Calibrated, MixtureData]]:
    """Fit each combiner of the configuration to candidates without labels, and a calibrator to its log-odds.

    evidence    of `triples`
    triples     (N, 3) positives, the corruptions of each strategy, candidates, and labelled candidates, in this order
    candidates  their scores, and their mixture at the base rate of the configuration

    The mixture is fitted again to log-odds of combiners that have not seen the triple or its positive. So are the
    calibrator and its confidence limits. Return the calibrators, and the samples of these mixtures. Labels of
    candidates count in the mixture, not in the combiner.

    Raises FitError if a fit does not converge.
    """
    data = candidates.data
    lengths = [len(data.positives), *map(len, data.negatives.values()), len(data.candidates), len(data.labelled)]
    ends = np.cumsum(lengths)
    _, same = np.unique(triples, axis=0, return_inverse=True)
    same = same.reshape(-1)
    fitted = []
    for name in config.combiners:
        rng = np.random.default_rng(config.combine_seed)
        parts = [
            Rows(evidence.evidence.values[start:end], triples[start:end, 1], groups)
            for start, end, groups in zip(ends - lengths, ends, _groups(data, same, lengths), strict=True)
        ]
        *kinds, labelled = parts
        features, rounds, rate = evidence.evidence.names, config.combine_rounds, config.rate.value
        stack, held_out = fit_unlabelled(
            name, COMBINERS.get(name), features, kinds, rate, FOLDS_OF_CANDIDATES, rng, rounds
        )
        log_odds = data.with_scores([*held_out, stack.log_odds(labelled.values, labelled.predicates)])
        combined = Combined(name, evidence.groups, features, table.model, stack, "stack", evidence.others)
        options = MixtureOptions(rate, replicates=candidates.replicates)
        matched = match(log_odds, candidates.matched.source, options, rng, candidates.matched.notes)
        [(calibrator, support)] = fit_matched(log_odds, matched, [RECALIBRATOR], candidates.replicates, rng).values()
        terms = terms_of(table, CANDIDATES, config.rate, matched)
        fitted.append((bind(terms, RECALIBRATOR, calibrator, combined, support), log_odds))
    return fitted


def _groups(data: MixtureData, same: Ints, lengths: Sequence[int]) -> Iterator[Ints]:
    """Yield the group of each row of each sample. Corruptions and equal candidates are in their positive's group."""
    start, own = 0, same[: lengths[0]]
    for sample, length in zip((*data.components, data.candidates, data.labelled.sample), lengths, strict=True):
        yield same[start : start + length] if sample.groups is None else own[sample.groups]
        start += length


def cross_fit(
    name: str,
    combiner: Combiner,
    sample: EvidenceSample,
    rng: np.random.Generator,
    folds: int = FOLDS,
    rounds: int = 1,
    used: Bools | None = None,
) -> tuple[Combiner, str, Floats]:
    """Fit a combiner to all rows, and then with the settings which that fit chose to all rows but those of each fold.

    Return the combiner, its registered name as in `Combined`, and log-odds (n,) that are fair to the rows: each from
    combiners that were fitted without the row's fold. A one-score calibrator that is fitted to them sees the errors
    that the combiner makes on new triples; on its own rows it makes fewer.

    name    registered name of the combiner
    folds   number of folds K, at least 2. Rows of one group are in one fold
    rounds  number of divisions into folds R, at least 1. With one, the combiner of all rows is returned. With more, it
            is the mean of the R K combiners of the folds, which varies less from sample to sample (bagging: Breiman
            1996), and the log-odds of a row are the mean of the R combiners that have not seen it
    used    (n,) the rows that combiners are fitted to; None: all. All rows get log-odds

    The combiners of the folds have (K - 1) / K of the rows. So with one round the log-odds are a little less accurate
    than those of the returned combiner, and a calibrator fitted to them is a little too cautious; with more rounds,
    they are the mean of fewer combiners, with the same effect. Raises FitError if the rows without a fold have one
    label only.
    """
    used = np.ones(len(sample), dtype=bool) if used is None else used
    fitted, log_odds = combiner.fit(sample if used.all() else sample.part(used), rng), np.zeros(len(sample))
    members = []
    for _ in range(rounds):
        for held, member in _of_folds(fitted, sample, rng, folds, used):
            log_odds[held] += member.log_odds(sample.values[held], sample.predicates[held]) / rounds
            members.append(member)
    if rounds == 1:
        return fitted, name, log_odds
    return Stack.mean(name, members), "stack", log_odds


def _of_folds(
    fitted: Combiner, sample: EvidenceSample, rng: np.random.Generator, folds: int, used: Bools
) -> Iterator[tuple[Ints, Combiner]]:
    """Yield the rows of each fold, and the combiner that is fitted to all others that are used."""
    fold = sample.folds(folds, rng)
    for own in np.unique(fold):
        kept = sample.part((fold != own) & used)
        if len(np.unique(kept.labels)) < 2:
            raise FitError(
                f"the {len(sample):,} rows cannot be divided into {folds} folds: the rows without one fold have one "
                "label only; use more labelled rows, or fewer folds"
            )
        yield np.flatnonzero(fold == own), fitted.tuned().fit(kept, rng)


def samples_of(bases: Mapping[str, Basis], candidates: MatchedCandidates | None) -> dict[str, CalibrationSample]:
    """Return the calibration samples by kind of negatives."""
    samples = {kind: basis.sample for kind, basis in bases.items()}
    return samples | ({CANDIDATES: candidate_sample(candidates.data, candidates.matched)} if candidates else {})


def fit_evidence(material: Material, alone: Sequence[Calibrated]) -> FittedCalibrators:
    """Fit the calibrators of candidates, and those that see evidence; put all calibrators in order, and audit them.

    alone  the output of `fit_calibrators`: those of labelled triples and of corruptions that see the score alone

    Combiners are fitted to labelled triples if enough are false, and to candidates; otherwise, to positives and
    corruptions.

    Raises MismatchError if the parts do not belong together, FitError if a fit does not converge.
    """
    table, config, bases, evidence = material.table, material.config, material.bases, material.evidence
    with_evidence: Sequence[tuple[Calibrated, CalibrationSample]] = ()
    unlabelled: Sequence[tuple[Calibrated, MixtureData]] = ()
    ablation, soft = None, table.soft("valid")
    if material.candidates:
        alone = [*alone, *fit_score_calibrators(table, config, material.candidates)]
    kind = GROUND_TRUTH if table.combines_labels else SYNTHETIC
    few_labels = kind == SYNTHETIC and GROUND_TRUTH in bases and not soft
    if few_labels:
        from kgcore.combiners.few_labels import beside_corruptions, compared, fitted_to_labels

    if evidence is not None and not soft and (kind == GROUND_TRUTH or not material.candidates):
        own_groups = None if kind == GROUND_TRUTH else material.groups()[kind]
        rows = evidence_sample(table, evidence, bases[kind], config, own_groups)
        fitted_rows = rows if material.twins is None else beside_twins(rows, *material.twins)
        with_evidence = fit_combiners(fitted_rows, evidence, bases[kind], config, table.model)
        if few_labels:
            again = fitted_to_labels(with_evidence, evidence, table, bases[GROUND_TRUTH], config.weighted)
            with_evidence = [*with_evidence, *again]
        ablation = _ablation(rows, evidence.groups, config) if kind == GROUND_TRUTH else None
    if material.candidates and material.unlabelled:
        triples, seen = material.unlabelled
        unlabelled = fit_to_unlabelled(table, seen, triples, material.candidates, config)
    samples = samples_of(bases, material.candidates)
    every = [*((bound, samples[bound.negatives]) for bound in alone if bound.negatives in samples), *with_evidence]
    audits = {kind: score_audit(sample, soft and kind == GROUND_TRUTH) for kind, sample in samples.items()}
    groups, held = material.groups(material.cold), dict[str, HeldOut]()
    for kind in bases:
        rng, of_kind = np.random.default_rng(config.combine_seed), [pair for pair in every if pair[0].negatives == kind]
        if not of_kind:
            continue
        held[kind] = held_out(of_kind, groups[kind], config.combine_folds, rng)
        audits[kind] |= held_out_figures(of_kind, *held[kind])
        audits[kind] |= {} if material.cold is None else fit_errors(of_kind, groups[kind], rng)
    if few_labels and len(held) == len(bases):
        audits[GROUND_TRUTH] |= compared(every, held, table, evidence)
    if material.candidates:
        see_score = [(bound, material.candidates.data) for bound, _ in every if bound.negatives == CANDIDATES]
        audits[CANDIDATES] |= unlabelled_figures([*see_score, *unlabelled])
    fitted = in_order([*alone, *(bound for bound, _ in with_evidence), *(bound for bound, _ in unlabelled)], audits)
    fitted = beside_corruptions(fitted, bases[SYNTHETIC].sample) if few_labels else fitted
    hidden = next((bound.hidden for bound in fitted if bound.hidden), None)
    audits[SYNTHETIC] |= table.search_figures() | (hidden.figures() if hidden else {})
    log_odds = {bound.label: sample.scores for bound, sample in with_evidence}
    mixture = unlabelled[0][1] if unlabelled else None
    return FittedCalibrators(_with_unseen(fitted, material.unseen), audits, log_odds, mixture, ablation)


def _ablation(sample: EvidenceSample, groups: Sequence[str], config: CalibrateConfig) -> Ablation | None:
    """Return what each group adds to the score, if there are the score and other groups."""
    if SCORE not in groups or len(groups) == 1:
        return None
    features = {name: EVIDENCE.get(name).own(sample.names) for name in groups}
    return ablate(sample, features, np.random.default_rng(config.combine_seed))


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
