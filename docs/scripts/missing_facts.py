"""Lists of missing facts whose truth is known: how many facts are expected in them, and how many are true.

usage: missing_facts.py DATASET TRUTH [--predicates N] [--seeds N] [--plot PICTURE]

KGCAL_HOME has a finished run on DATASET, a folder from which the facts of the file TRUTH were left out. So they are
missing facts that are known to be true. The completeness is stated as it is: known facts / (known facts + TRUTH). Two
lists are compared: calibrated to corruptions, as the calibrators of the run are, and to the missing facts themselves.

--predicates  the N predicates with the most facts in TRUTH; 0: the whole graph
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from kgcore.answer.calibrated_model import CalibratedModel
from kgcore.answer.domains import Domains
from kgcore.answer.population.calibration import Calibration
from kgcore.answer.population.draw import DrawSize, ranked_by
from kgcore.answer.population.population import Population, stated_facts
from kgcore.answer.population.survey import survey
from kgcore.answer.question import Question
from kgcore.arrays import Bools, Floats, Triples
from kgcore.data.graph import KnowledgeGraph, TripleIndex
from tasks.jobs.find_model import Ask, find_calibrated_model

LENGTHS = (20, 100, 300, 1_000, 3_000)
DRAWN = 4  # of these lengths
AT_LEAST = 5  # validation facts of a predicate
FEWEST_EXPECTED = 1.0  # true facts in a list of one predicate that counts


def main() -> None:
    """Print expected and true numbers, and draw them."""
    asked = parsed()
    model = find_calibrated_model(Ask(dataset=asked.dataset)).model
    graph = model.graph
    truth = facts_of(graph, asked.truth)
    population = population_of(graph, truth, asked.predicates)
    wanted = [block.predicate for block in population.blocks]
    truth = truth[np.isin(truth[:, 1], wanted)]
    known_facts = np.isin(graph.all_known.triples[:, 1], wanted).sum()
    complete = known_facts / (known_facts + len(truth))
    print(
        f"{graph.name}: {population.sizes.sum():,} candidates of {len(wanted)} predicates, {len(truth):,} true, "
        f"{len(population.positives):,} validation facts, completeness {complete:.4f}"
    )
    before = lists_by_corruptions(model, population, graph.index(truth))
    print("calibrated to corruptions:", "  ".join(f"{n:,}: {e:,.1f} / {t:,}" for n, e, t in before))
    for seed in range(asked.seeds):
        calibration = calibrated(model, population, complete, seed)
        lists = list(lists_of(calibration, graph.index(truth).contains, seed))
        shown = "  ".join(f"{n:,}: {e:,.1f} [{low:,.0f}, {high:,.0f}] / {t:,}" for n, e, low, high, t in lists)
        print(f"calibrated to the missing facts, seed {seed}: {shown}")
        print("    ", by_predicate(calibration, graph.index(truth).contains, seed))
    if asked.plot:
        draw_picture(Path(asked.plot), before[:DRAWN], lists[:DRAWN])


def parsed() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("truth")
    parser.add_argument("--predicates", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--plot", default="")
    return parser.parse_args()


def facts_of(graph: KnowledgeGraph, path: str) -> Triples:
    """Return the facts (n, 3) of a file that the graph lacks, with names of the graph."""
    columns = ["subject", "predicate", "object"]
    names = pd.read_csv(path, sep="\t", names=columns, dtype=str, keep_default_na=False, quoting=3)
    numbers, known = graph.number(names)
    truth = np.unique(numbers[known], axis=0)
    missing: Triples = truth[~graph.all_known.contains(truth)]
    return missing


def population_of(graph: KnowledgeGraph, truth: Triples, number: int) -> Population:
    """Return the missing facts of the whole graph, or of the predicates with the most true ones."""
    domains = Domains(graph)
    if not number:
        population = Population.asked(domains, None, AT_LEAST)
        assert population is not None
        return population
    counts = np.bincount(truth[:, 1], minlength=len(graph.predicates))
    valid = np.bincount(graph.valid.positives[:, 1], minlength=len(graph.predicates))
    order = [p for p in np.argsort(-counts, kind="stable").tolist() if valid[p] >= AT_LEAST]
    return Population.of_predicates(domains, order[:number])


def calibrated(model: CalibratedModel, population: Population, complete: float, seed: int) -> Calibration:
    """Calibrate the embedding model to the population, without a store."""
    trained = model.trained
    while hasattr(trained, "trained"):
        trained = trained.trained
    rng = np.random.default_rng(seed)
    made = survey(population, [trained], DrawSize(), rng)
    true = stated_facts(population, f"{complete:.6f}", None)
    return Calibration.of(population, made, [trained], true, rng)


def lists_of(
    calibration: Calibration, is_true: Callable[[Triples], Bools], seed: int
) -> Iterator[tuple[int, float, float, float, int]]:
    """Yield length, expected number with its interval, and true number of the first facts."""
    triples, _ = calibration.most_probable(Question(), max(LENGTHS))
    log_odds = calibration.model.trained.score(triples)
    for n in LENGTHS:
        if n <= len(triples):
            count = calibration.fit.count(log_odds[:n], triples[:n, 1], np.random.default_rng(seed))
            yield n, *count.ends, int(is_true(triples[:n]).sum())


def by_predicate(calibration: Calibration, is_true: Callable[[Triples], Bools], seed: int) -> str:
    """Return how often the interval of a list of one predicate holds the number of true facts."""
    held: list[bool] = []
    near: list[bool] = []
    for block in calibration.population.blocks:
        triples, _ = calibration.ranked(block, 100)
        log_odds = calibration.model.trained.score(triples)
        q = calibration.fit.probabilities(log_odds, triples[:, 1])
        for n in (20, 100):
            if n <= len(triples) and q[:n].sum() >= FEWEST_EXPECTED:
                count = calibration.fit.count(log_odds[:n], triples[:n, 1], np.random.default_rng(seed))
                true = int(is_true(triples[:n]).sum())
                held.append(count.low <= true <= count.high)
                near.append(abs(count.expected - true) <= 2 * standard_error(q[:n], count.low, count.high))
    if not held:
        return "no list of one predicate has an expected true fact"
    shares = f"{np.mean(held):.1%} of the intervals and {np.mean(near):.1%} of two standard errors hold"
    return f"{shares}, of {len(held)} lists of 20 or 100 facts of one predicate"


def standard_error(q: Floats, low: float, high: float) -> float:
    """Return the standard error of a number of true facts: that of its interval, and at least that of chance."""
    return max((high - low) / 4, float(np.sqrt((q * (1 - q)).sum())))


def lists_by_corruptions(
    model: CalibratedModel, population: Population, truth: TripleIndex
) -> list[tuple[int, float, int]]:
    """Return length, expected and true number of the first facts by the calibrator of the run."""
    blocks = [Question(predicate=block.predicate) for block in population.blocks]
    found = np.concatenate([ranked_by(model, population, question, max(LENGTHS)) for question in blocks])
    scores = model.trained.score(found)
    q = model.calibrator.predict(scores, model.trained.fingerprint(), found[:, 1])
    order = np.lexsort((-scores, -q))
    true: Bools = truth.contains(found[order])
    return [(n, float(q[order[:n]].sum()), int(true[:n].sum())) for n in LENGTHS if n <= len(found)]


def draw_picture(
    path: Path, before: list[tuple[int, float, int]], after: list[tuple[int, float, float, float, int]]
) -> None:
    """Draw which share of the first facts is expected to be true, and which share is, for both lists."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(8, 3.4), dpi=150, sharey=True)
    ends = [(100 * (e - low) / n, 100 * (high - e) / n) for n, e, low, high, _ in after]
    lists = [
        ("calibrated to corruptions", [row[:3] for row in before], None),
        ("calibrated to the missing facts", [(n, e, t) for n, e, _, _, t in after], np.array(ends).T),
    ]
    for axes, (title, rows, errors) in zip(panels, lists, strict=True):
        places, share = np.arange(len(rows)), [(100 * e / n, 100 * t / n) for n, e, t in rows]
        expected, true = zip(*share, strict=True)
        axes.bar(
            places - 0.2, expected, 0.38, color="white", edgecolor="C0", hatch="///", label="expected", yerr=errors
        )
        axes.bar(places + 0.2, true, 0.38, color="C0", label="true")
        axes.set_xticks(places, [f"first {n:,}" for n, _, _ in rows], fontsize=8)
        axes.set_title(title, fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("% of the rows of the list")
    panels[1].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    main()
