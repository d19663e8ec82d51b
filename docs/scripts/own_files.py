"""Files of candidates whose truth is known, calibrated to their own rows: expected and true numbers.

usage: own_files.py DATASET TRUTH [--pairs] [--predicates N] [--seeds N] [--rows N]

KGCAL_HOME has a finished run on DATASET, a folder from which the facts of the file TRUTH were left out. The true rows
of a file are such facts, the others corruptions of them: another subject or object, which a fact of the predicate has.
The share of true rows of the whole file is stated. It is .3 for every predicate (`alike`), or drawn for each of them
from 0, .02, .1, .3 and .7 (`different`).

--pairs       one file of all missing facts in place of these
--predicates  the N predicates with the most facts in TRUTH; 0: all
"""

import argparse

import numpy as np
from missing_facts import facts_of, lists_of, population_of

from kgcore.answer.domains import Domains
from kgcore.answer.pairs import PairBlock
from kgcore.answer.population.calibration import Calibration
from kgcore.answer.population.draw import DrawSize
from kgcore.answer.population.population import Population, stated_facts, unstored
from kgcore.answer.population.survey import survey
from kgcore.arrays import Triples
from kgcore.data.graph import TripleIndex
from tasks.jobs.find_model import Ask, find_calibrated_model

SHARES = (0.0, 0.02, 0.1, 0.3, 0.7)


def main() -> None:
    """Print a line for each file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("truth")
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--predicates", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=1_500)
    asked = parser.parse_args()
    model = find_calibrated_model(Ask(dataset=asked.dataset)).model
    graph, trained = model.graph, model.trained
    while hasattr(trained, "trained"):
        trained = trained.trained
    facts = facts_of(graph, asked.truth)
    population = population_of(graph, facts, asked.predicates)
    facts = facts[np.isin(facts[:, 1], [block.predicate for block in population.blocks])]
    truth = graph.index(facts)
    for seed in range(asked.seeds):
        rng = np.random.default_rng(seed)
        if asked.pairs:
            files = {"pairs": np.concatenate([pairs_of(block) for block in population.blocks])}
        else:
            alike = rng.permutation(facts)[: round(0.3 * asked.rows)]
            files = {"alike": np.concatenate([alike, corrupted(alike, 7 * len(alike) // 3, truth, rng)])}
            files["different"] = different(facts, asked.rows, truth, rng)
        for kind, rows in files.items():
            rows = unstored(graph, graph.index(rows).triples)
            of_file = Population.of_rows(Domains(graph), rows, 1)
            assert of_file is not None
            stated = stated_facts(of_file, "", f"{truth.contains(rows).mean():.6f}")
            made = survey(of_file, [trained], DrawSize(), rng)
            print(kind, seed, described(Calibration.of(of_file, made, [trained], stated, rng), truth), flush=True)


def pairs_of(block: PairBlock) -> Triples:
    """Return all pairs of a block as triples."""
    subjects, objects = np.meshgrid(block.subjects, block.objects, indexing="ij")
    return np.stack([subjects.ravel(), np.full(subjects.size, block.predicate), objects.ravel()], axis=1)


def different(facts: Triples, size: int, truth: TripleIndex, rng: np.random.Generator) -> Triples:
    """Return about `size` rows, whose predicates have shares of true ones that are drawn from SHARES."""
    predicates, counts = np.unique(facts[:, 1], return_counts=True)
    parts = []
    for predicate, number in zip(predicates, np.ceil(size * np.sqrt(counts) / np.sqrt(counts).sum()), strict=True):
        own = rng.permutation(facts[facts[:, 1] == predicate])
        true = min(round(rng.choice(SHARES) * number), len(own))
        parts += [own[:true], corrupted(own, int(number) - true, truth, rng)]
    return np.concatenate(parts)


def corrupted(facts: Triples, count: int, truth: TripleIndex, rng: np.random.Generator) -> Triples:
    """Return at most `count` triples: facts (n, 3) with a subject or an object of another fact of the predicate."""
    rows = np.repeat(facts[rng.permutation(len(facts))], 1 + 2 * count // len(facts), axis=0)
    for predicate in np.unique(rows[:, 1]):
        places = np.flatnonzero(rows[:, 1] == predicate)
        others = truth.triples[truth.triples[:, 1] == predicate]
        others = others[rng.integers(len(others), size=len(places))]
        column = rng.choice([0, 2], len(places))
        rows[places, column] = others[np.arange(len(places)), column]
    false = rows[~truth.contains(rows) & (rows[:, 0] != rows[:, 2])]
    return rng.permutation(false)[:count]


def described(calibration: Calibration, truth: TripleIndex) -> str:
    """Return expected and true numbers of a file, of its predicates and of its rows above .9; or of its lists."""
    rows = calibration.survey.drawn.triples
    if len(rows) > 100_000:
        lists = lists_of(calibration, truth.contains, 0)
        return "  ".join(f"{n:,}: {e:,.1f} [{low:,.0f}, {high:,.0f}] / {t:,}" for n, e, low, high, t in lists)
    q = calibration.fit.probabilities(calibration.survey.log_odds, rows[:, 1])
    is_true, predicates = truth.contains(rows), np.unique(rows[:, 1])
    counts = [calibration.count(rows[rows[:, 1] == predicate]) for predicate in predicates]
    numbers = [int(is_true[rows[:, 1] == predicate].sum()) for predicate in predicates]
    held = sum(one.low <= true <= one.high for one, true in zip(counts, numbers, strict=True))
    apart = sum(abs(one.expected - true) for one, true in zip(counts, numbers, strict=True))
    whole, loss = calibration.count(rows), np.where(is_true, -np.log(q), -np.log1p(-q)).sum()
    return (
        f"{len(rows):,} rows: {whole.expected:.1f} [{whole.low:.0f}, {whole.high:.0f}] / {is_true.sum()}, log loss "
        f"{loss:.1f}, above .9: {q[q > 0.9].sum():.1f} / {is_true[q > 0.9].sum()}, {held} of {len(counts)} intervals "
        f"of predicates hold, sum of errors {apart:.1f}"
    )


if __name__ == "__main__":
    main()
