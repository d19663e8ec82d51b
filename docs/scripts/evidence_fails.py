"""Make the table of docs/explanation/evidence.md on mistakes that no strategy resembles, with known truth.

    python docs/scripts/evidence_fails.py > table.md

A triple has a score and two features of evidence, normal with standard deviation 1. Two corruption strategies are
known. The mistakes among the candidates resemble them, or they do not: see CASES. No label is used; the base rate is
stated. Columns are Brier scores on new candidates, with labels, as means of SEEDS:

one score   the best calibrator of the score alone, chosen by validation
evidence    the calibrator that sees evidence
answers     the calibrator that validation chooses
naive       gradient boosting on the positives and on the corruptions, mixed as the scores suggest
truth       the true probabilities
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit
from scipy.stats import norm

from kgcore.arrays import Floats, Labels, Probabilities
from kgcore.calibrate.calibrated import Calibrated
from kgcore.calibrate.fit import CANDIDATES, bind, terms_of
from kgcore.calibrate.validation import in_order
from kgcore.combiners.base import EvidenceSample
from kgcore.combiners.boosted_trees import BoostedTrees
from kgcore.combiners.fit import fit_to_unlabelled
from kgcore.config import CalibrateConfig
from kgcore.mixture.calibrate import MatchedCandidates, fit_matched, unlabelled_figures
from kgcore.mixture.fit import MixtureOptions
from kgcore.mixture.matched import match
from kgcore.mixture.samples import MixtureData, ScoreSample
from kgcore.scores.table import Evidence, ScoreTable, TableEvidence

FEATURES, GROUPS = ("score", "degree", "path"), ("score", "degrees", "paths")
ONE_SCORE = ("per_relation", "smoothed_isotonic", "beta")
SEEDS = range(3)
ROWS, NEW, PREDICATES, REPLICATES = 1_500, 20_000, 5, 20

Means = tuple[float, float, float]  # of the features


@dataclass(frozen=True)
class Case:
    """What the candidates are like.

    mistakes   means of the features of the mistakes
    base_rate  share of true candidates
    true       means of the features of the true candidates; those of the validation positives are TRUE
    """

    mistakes: Means
    base_rate: float = 0.5
    true: Means = (1.5, 1.0, 0.5)


TRUE: Means = (1.5, 1.0, 0.5)
STRATEGIES: dict[str, Means] = {"uniform": (-0.5, -1.0, 0.0), "typed": (0.0, 1.0, 0.0)}
CASES = {
    "like the strategy `typed`": Case(STRATEGIES["typed"]),
    "like no strategy: frequent entities": Case((0.0, 3.0, 0.5)),
    "like no strategy: frequent entities, base rate .1": Case((0.0, 3.0, 0.5), 0.1),
    "like no strategy: scores of true triples, rare entities": Case((1.5, -1.0, 0.5)),
    "the evidence of true triples": Case((0.0, 1.0, 0.5)),
    "the evidence of true triples, base rate .1": Case((0.0, 1.0, 0.5), 0.1),
    "everything as true triples": Case(TRUE),
    "true candidates a little unlike validation positives": Case((0.0, -1.0, 0.5), 0.5, (1.5, 0.5, 0.5)),
    "true candidates unlike validation positives": Case((0.0, -1.0, 0.5), 0.5, (1.5, -1.0, 0.5)),
}


def draw(means: Means, n: int, rng: np.random.Generator) -> Floats:
    """Return the features (n, 3) of triples of one kind."""
    return rng.normal(means, 1.0, size=(n, len(FEATURES)))


def candidates_of(case: Case, n: int, rng: np.random.Generator) -> tuple[Floats, Labels, Probabilities]:
    """Return the features (n, 3) of candidates, their labels (n,), and their true probabilities (n,)."""
    labels = (rng.random(n) < case.base_rate).astype(np.float64)
    values = np.where(labels[:, None] == 1, draw(case.true, n, rng), draw(case.mistakes, n, rng))
    parts = [norm.logpdf(values, means).sum(axis=1) for means in (case.true, case.mistakes)]
    return values, labels, expit(parts[0] - parts[1] + logit(case.base_rate))


def fitted(
    case: Case, rng: np.random.Generator
) -> tuple[list[Calibrated], dict[str, dict[str, float]], MatchedCandidates, Floats]:
    """Fit the calibrators to candidates without labels.

    Return those that see the score alone and then the one that sees evidence, the figures of validation, the mixture of
    the scores, and the features (N, 3) of positives, corruptions and candidates.
    """
    made = [draw(means, 2 * ROWS, rng) for means in STRATEGIES.values()]
    kinds = [draw(TRUE, ROWS, rng), *made, candidates_of(case, ROWS, rng)[0]]
    groups = [np.arange(ROWS), *(np.tile(np.arange(ROWS), 2) for _ in STRATEGIES), None]
    samples = [
        ScoreSample(own[:, 0], group, rng.integers(0, PREDICATES, len(own)))
        for own, group in zip(kinds, groups, strict=True)
    ]
    data = MixtureData(samples[0], dict(zip(STRATEGIES, samples[1:-1], strict=True)), samples[-1])
    options = MixtureOptions(case.base_rate, replicates=REPLICATES)
    candidates = MatchedCandidates(data, match(data, "constructed", options, rng), REPLICATES, 0)
    values, predicates = np.concatenate(kinds), np.concatenate([one.predicates for one in samples])  # type: ignore[misc]
    number = np.arange(len(values))
    triples = np.stack([number, predicates, number], axis=1)
    evidence = TableEvidence(number, Evidence(FEATURES, values.astype(np.float32)), GROUPS)
    empty = np.empty(0)
    table = ScoreTable(triples[:0], empty, empty, empty.astype(str), empty.astype(str), "model", "data")
    config = CalibrateConfig(base_rate=case.base_rate)
    alone = fit_matched(data, candidates.matched, ONE_SCORE, REPLICATES, rng)
    bound = [
        bind(terms_of(table, CANDIDATES, config.rate), name, one, "model", support)
        for name, (one, support) in alone.items()
    ]
    found = fit_to_unlabelled(table, evidence, triples, candidates, config)
    figures = {CANDIDATES: unlabelled_figures([*((one, data) for one in bound), *found])}
    return [*bound, *(one for one, _ in found)], figures, candidates, values


def probabilities(bound: Calibrated, values: Floats, predicates: np.ndarray) -> Probabilities:
    """Return the probabilities (n,) of triples with features (n, 3)."""
    if bound.combined is None:
        return bound.predict(values[:, 0], bound.model, predicates)
    scores = bound.combined.scores(Evidence(FEATURES, values.astype(np.float32)), predicates)
    return bound.predict(scores, bound.model, predicates)


def naive(
    case: Case, candidates: MatchedCandidates, values: Floats, new: Floats, rng: np.random.Generator
) -> Probabilities:
    """Return probabilities (n,) of gradient boosting on positives and corruptions, mixed as the scores suggest."""
    shares = candidates.matched.fit.strategies
    weights = [np.full(ROWS, case.base_rate / ROWS)]
    weights += [np.full(2 * ROWS, (1 - case.base_rate) * max(shares[name], 1e-3) / 2 / ROWS) for name in STRATEGIES]
    labels = np.repeat([1.0, 0.0], [ROWS, 2 * ROWS * len(STRATEGIES)])
    weight = np.concatenate(weights)
    used = values[: len(labels)].astype(np.float32)
    nowhere = np.zeros(len(used), dtype=np.int64)
    sample = EvidenceSample(FEATURES, used, labels, weight / weight.mean(), nowhere)
    fit = BoostedTrees(trees=60, leaves=8).fit(sample, rng)
    return expit(fit.log_odds(new.astype(np.float32), np.zeros(len(new), dtype=np.int64)))


def measure(case: Case, seed: int) -> list[float]:
    """Return the columns of the table for one seed."""
    rng = np.random.default_rng(seed)
    bound, figures, candidates, values = fitted(case, rng)
    new, labels, truth = candidates_of(case, NEW, rng)
    predicates = rng.integers(0, PREDICATES, NEW)

    def brier(q: Probabilities) -> float:
        return float(np.mean((q - labels) ** 2))

    def answering(some: Sequence[Calibrated]) -> float:
        return brier(probabilities(in_order(some, figures)[0], new, predicates))

    own = figures[CANDIDATES]
    alone = min(bound[:-1], key=lambda one: own[f"held_out_brier_{one.shown_name}"])
    found = [brier(probabilities(one, new, predicates)) for one in (alone, bound[-1])]
    return [*found, answering(bound), brier(naive(case, candidates, values, new, rng)), brier(truth)]


def main() -> None:
    """Print the table."""
    print("| mistakes among the candidates | one score | evidence | answers | naive | truth |")
    print("|---|---|---|---|---|---|")
    for title, case in CASES.items():
        cells = np.mean([measure(case, seed) for seed in SEEDS], axis=0)
        print(f"| {title} | {' | '.join(f'{cell:.4f}' for cell in cells)} |", flush=True)


if __name__ == "__main__":
    main()
