"""Files whose truth is known: which ones are unlike the calibration triples, and how false the lists of `--fdr` are.

usage: files.py DATASET CALIBRATOR [--truth FILE] [--kinds KIND:SHARE ...] [--rows N ...] [--seeds N]

KGCAL_HOME has a finished run on DATASET. The script draws files of N rows. SHARE of the rows are true: facts of test,
or of the file --truth, whose facts DATASET lacks. The other rows are corruptions by the strategy KIND. The kind `own`
stands for the negatives of the calibrator: labelled negatives of test, or corruptions by its strategy.
"""

import argparse

import numpy as np
import pandas as pd

from kgcore.answer.answers import FEWEST_NEGATIVES, Negatives
from kgcore.answer.calibrated_model import CalibratedModel
from kgcore.answer.conformal import benjamini_hochberg_limit, conformal_p_values
from kgcore.answer.population.likeness import CalibrationTriples
from kgcore.arrays import Bools, Ints, Scores, Triples
from kgcore.data.graph import TripleIndex
from kgcore.embed.corruptions.base import Mixture, corrupt, subject_shares
from tasks.jobs.find_model import Ask, counted_sample, find_calibrated_model

LEVELS = (0.1, 0.2)
KINDS = ("own:0.5", "own:0.2", "own:0.05", "uniform:0.5", "typed:0.5", "typed:0.2", "near_miss:0.5", "nearest:0.3")


def parsed() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("calibrator")
    parser.add_argument("--truth", default="")
    parser.add_argument("--kinds", nargs="+", default=KINDS)
    parser.add_argument("--rows", nargs="+", type=int, default=(1_500,))
    parser.add_argument("--seeds", type=int, default=4)
    return parser.parse_args()


def main() -> None:
    """Print a row for each kind and number of rows."""
    asked = parsed()
    found = find_calibrated_model(Ask(dataset=asked.dataset, calibrator=asked.calibrator))
    model, reference = found.model, CalibrationTriples(found.model)
    negatives, facts = Negatives.of(counted_sample(found.model_id, model)), facts_of(model, asked.truth)
    known = model.graph.index(model.graph.all_known.triples, facts)
    lists = " | ".join(f"false at {level}" for level in LEVELS)
    print(f"| kind | share true | rows | expected / true | AUROC | unlike at base rate / at best share | {lists} |")
    for kind in asked.kinds:
        name, share = kind.split(":")
        for size in asked.rows:
            figures = []
            for seed in range(1_000, 1_000 + asked.seeds):
                rng = np.random.default_rng(seed)
                true = rng.permutation(facts)[: int(size * float(share))]
                false = false_rows(model, name, true, size - len(true), known, rng)
                rows = np.unique(np.concatenate([true, false]), axis=0)
                scores, is_true = model.trained.score(rows), model.graph.index(true).contains(rows)
                q = model.calibrator.predict(scores, model.calibrator.model, rows[:, 1])
                at_rate, at_least = (reference.difference(rows, rate) for rate in (model.calibrator.base_rate, None))
                lists = [share_of_false(negatives, rows[:, 1], scores, ~is_true, level) for level in LEVELS]
                unlike = [not own.alike for own in (at_rate, at_least)]
                figures.append([q.sum(), is_true.sum(), at_rate.auroc, *unlike, *lists])
            mean = np.mean(figures, axis=0)
            false_shares = " | ".join(f"{value:.2f}" for value in mean[5:])
            shown = (
                f"{mean[0]:,.0f} / {mean[1]:,.0f} | {mean[2]:.2f} | {mean[3]:.2f} / {mean[4]:.2f} | {false_shares} |"
            )
            print(f"| {name} | {share} | {size:,} | {shown}", flush=True)


def facts_of(model: CalibratedModel, truth: str) -> Triples:
    """Return the true triples (n, 3) of files: of test, or of a file of hidden facts."""
    graph = model.graph
    if not truth:
        return graph.test.positives
    columns = ["subject", "predicate", "object"]
    numbers, known = graph.number(
        pd.read_csv(truth, sep="\t", names=columns, dtype=str, keep_default_na=False, quoting=3)
    )
    facts = np.unique(numbers[known], axis=0)
    return facts[~graph.index(graph.train.positives, graph.valid.positives).contains(facts)]


def false_rows(
    model: CalibratedModel, kind: str, true: Triples, count: int, known: TripleIndex, rng: np.random.Generator
) -> Triples:
    """Return about `count` false triples of a kind."""
    graph, made = model.graph, model.calibrator.corruptions
    if kind == "own" and made is None:
        return rng.permutation(graph.test.negatives)[:count]
    strategy = Mixture(graph, made.strategy if kind == "own" and made is not None else {kind: 1.0})
    if strategy.by_model:
        strategy.see(model.trained.embedding_models[0])
    shares = subject_shares(graph, "both" if made is None else made.sides)
    return corrupt(true[rng.integers(len(true), size=count)], 1, strategy, rng, shares, known).triples


def share_of_false(negatives: Negatives, predicates: Ints, scores: Scores, is_false: Bools, level: float) -> float:
    """Return the share of false triples among those that `--fdr` selects; 0 if it selects none."""
    p = np.full(len(scores), np.nan)
    for predicate in np.unique(predicates).tolist():
        own, others = predicates == predicate, negatives.scores.get(predicate, np.zeros(0))
        if len(others) >= FEWEST_NEGATIVES:
            p[own] = conformal_p_values(scores[own], others)
    values, counts = np.unique(p[~np.isnan(p)], return_counts=True)
    selected = p <= benjamini_hochberg_limit(values, counts, level)
    return float(is_false[selected].mean()) if selected.any() else 0.0


if __name__ == "__main__":
    main()
