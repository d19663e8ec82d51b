"""Measure whether intervals with evidence cover, for docs/explanation/evidence.md: real evidence, known truth.

    python docs/scripts/evidence_coverage.py wn11 fb13 > table.md

The evidence is that of a run of evidence_seeds.py with names. Gradient boosting that is fitted to the labels of valid
and test says, for each triple, the probability of being true. From now on this is the truth: all labels are drawn from
it anew. If it were fitted to test alone, it would be surer of test triples than of validation triples, and the true
validation triples would not be a sample of the true candidates.
`labels`: calibrators are fitted to the drawn labels of valid, as `kgcal run` does. `no label`: the validation triples
that are drawn as true are the known positives, and half of test are candidates without labels, with their base rate
stated. Both are measured on the other half of test. `coverage`: the share of triples whose 95 % interval contains the
true share of positives at their log-odds: the mean of the true probabilities of the NEAR nearest log-odds. Columns are
means over SEEDS.
"""

import sys
from dataclasses import dataclass, replace

import numpy as np
from ablation import run
from evidence_seeds import EVIDENCE, options
from scipy.special import expit

from kgcore.arrays import Bools, Labels, Probabilities
from kgcore.calibrate.calibrated import Calibrated
from kgcore.calibrate.fit import GROUND_TRUTH, calibration_bases
from kgcore.calibrate.sample import CalibrationSample
from kgcore.combiners.base import EvidenceSample
from kgcore.combiners.boosted_trees import BoostedTrees
from kgcore.combiners.fit import evidence_sample, fit_combiners, fit_to_unlabelled
from kgcore.config import CalibrateConfig
from kgcore.measure.metrics.base import Sample
from kgcore.measure.metrics.reliability import smooth_ece
from kgcore.mixture.calibrate import MatchedCandidates
from kgcore.mixture.fit import MixtureOptions
from kgcore.mixture.matched import match
from kgcore.mixture.samples import MixtureData, ScoreSample
from kgcore.scores.table import LABELLED, Evidence, ScoreTable, TableEvidence
from tasks.tracking.artifacts import CANDIDATE_EVIDENCE, MIXTURE, MIXTURE_TRIPLES, SCORES
from tasks.tracking.artifacts import EVIDENCE as LABELLED_EVIDENCE
from tasks.tracking.store import open_store

SEEDS, NEAR, REPLICATES = range(3), 401, 50


@dataclass(frozen=True)
class World:
    """A data set whose truth is known.

    table     its score table
    evidence  of its labelled triples
    truth     (n,) the probability of each row of the table; NaN: it has no evidence
    mixture   the scores of the mixture of the run: positives, corruptions of each strategy, and candidates
    drawn     their evidence
    triples   their triples
    """

    table: ScoreTable
    evidence: TableEvidence
    truth: Probabilities
    mixture: MixtureData
    drawn: TableEvidence
    triples: np.ndarray


def world(dataset: str) -> World:
    """Return the world of a data set."""
    runs, store = run(options(dataset, EVIDENCE["with names"], 0))["runs"], open_store()
    table, evidence = store.load(runs["score"], SCORES), store.load(runs["evidence"], LABELLED_EVIDENCE)
    labelled = table.rows("valid", LABELLED) | table.rows("test", LABELLED)
    every = np.isin(np.arange(len(table)), evidence.rows)
    own, labels = evidence.at(labelled), table.labels[labelled]
    sample = EvidenceSample(own.names, own.values, labels, np.ones(len(own)), table.triples[labelled, 1])
    fitted = BoostedTrees().fit(sample, np.random.default_rng(0))
    truth = np.full(len(table), np.nan)
    truth[every] = expit(fitted.log_odds(evidence.at(every).values, table.triples[every, 1]))
    mixture, triples = store.load(runs["match"], MIXTURE), store.load(runs["match"], MIXTURE_TRIPLES)
    return World(table, evidence, truth, mixture, store.load(runs["evidence"], CANDIDATE_EVIDENCE), triples)


def fit_to_labels(own: World, labels: Labels) -> tuple[Calibrated, CalibrationSample]:
    """Return the calibrator that is fitted to the drawn labels (n,) of valid, and the sample of its log-odds."""
    config, table = CalibrateConfig(calibrators=("boosted_trees",)), replace(own.table, labels=labels)
    basis = calibration_bases(table, config)[GROUND_TRUTH]
    rows = evidence_sample(table, own.evidence, basis, config)
    return fit_combiners(rows, own.evidence, basis, config, table.model)[0]


def fit_without(own: World, labels: Labels, chosen: Bools, rng: np.random.Generator) -> Calibrated:
    """Return the calibrator that is fitted to positives, the drawn ones of valid, and to unlabelled candidates.

    chosen  mask (n,) of the rows that are candidates
    """
    table, data = own.table, own.mixture
    positive = table.rows("valid", LABELLED) & (labels == 1)
    places = {tuple(triple): place for place, triple in enumerate(table.triples[positive].tolist())}
    place_of = np.array([places.get(tuple(triple), -1) for triple in own.triples[: len(data.positives)].tolist()])
    ends, negatives, kept = len(data.positives), {}, []
    for name, made in data.negatives.items():  # those of positives that are drawn as true
        assert made.groups is not None
        rows = place_of[made.groups] >= 0
        negatives[name] = replace(made.part(rows), groups=place_of[made.groups[rows]])
        kept.append(ends + np.flatnonzero(rows))
        ends += len(made)
    corrupted, predicates = np.concatenate(kept), table.triples[:, 1]
    mixture = MixtureData(
        ScoreSample(table.scores[positive], np.arange(int(positive.sum())), predicates[positive]),
        negatives,
        ScoreSample(table.scores[chosen], predicates=predicates[chosen]),
    )
    parts = [own.evidence.at(positive), own.drawn.evidence.rows(corrupted), own.evidence.at(chosen)]
    values = np.concatenate([part.values for part in parts])
    triples = np.concatenate([table.triples[positive], own.triples[corrupted], table.triples[chosen]])
    config = CalibrateConfig(calibrators=("boosted_trees",), base_rate=float(own.truth[chosen].mean()))
    matched = match(mixture, "test", MixtureOptions(config.rate.value, replicates=REPLICATES), rng)
    evidence = TableEvidence(np.arange(len(values)), Evidence(parts[0].names, values), own.evidence.groups)
    known = MatchedCandidates(mixture, matched, REPLICATES, 0)
    return fit_to_unlabelled(table, evidence, triples, known, config)[0][0]


def measure(own: World, bound: Calibrated, labels: Labels, asked: Bools) -> list[float]:
    """Return Brier score, that of the truth, smooth ECE, coverage and width on the rows of a mask (n,)."""
    assert bound.combined is not None
    predicates, truth = own.table.triples[asked, 1], own.truth[asked]
    z = bound.combined.scores(own.evidence.at(asked), predicates)
    q = bound.predict(z, bound.model, predicates)
    low, high = bound.interval(z, q, predicates)
    order = np.argsort(z)
    share = np.convolve(truth[order], np.full(NEAR, 1 / NEAR), "valid")
    inner = order[NEAR // 2 : -(NEAR // 2)]
    covered = float(np.mean((low[inner] <= share) & (share <= high[inner])))
    briers = [float(np.mean(truth * (1 - p) ** 2 + (1 - truth) * p**2)) for p in (q, truth)]
    return [*briers, smooth_ece(Sample(q, labels[asked]).tally()), covered, float(np.mean(high - low))]


def main(datasets: list[str]) -> None:
    """Print the table."""
    print("| | fitted to | Brier | of the truth | smooth ECE | coverage | width |\n|---|---|---|---|---|---|---|")
    for name in datasets:
        own = world(name)
        test = own.table.rows("test", LABELLED)
        found: dict[str, list[list[float]]] = {"labels": [], "no label": []}
        for seed in SEEDS:
            rng = np.random.default_rng(seed)
            labels = (rng.random(len(own.truth)) < np.nan_to_num(own.truth)).astype(np.float64)
            candidates = test & (rng.random(len(test)) < 0.5)
            fits = fit_to_labels(own, labels)[0], fit_without(own, labels, candidates, rng)
            for kind, bound in zip(found, fits, strict=True):
                found[kind].append(measure(own, bound, labels, test & ~candidates))
        for kind, rows in found.items():
            brier, best, error, covered, width = np.mean(rows, axis=0)
            cells = f"{brier:.4f} | {best:.4f} | {error:.4f} | {covered:.3f} | {width:.3f}"
            print(f"| {name} | {kind} | {cells} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
