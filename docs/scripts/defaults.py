"""Measure calibrators and corruption rules on the score tables of docs/scripts/default_scores.py, and choose defaults.

    python docs/scripts/defaults.py measure CACHE 2     # processes; writes one file of results for each table
    python docs/scripts/defaults.py show CACHE

A *case* is a table, a kind of labelled negatives and a base rate. In each case every calibrator is fitted to the
labelled rows of valid, and to synthetic samples of several rules, and measured on test. With constructed negatives, and
at the base rate .1, the relations have unequal base rates: their log-odds are normal around those of the case, with
standard deviation 1. The *regret* of a calibrator in a case is its metric less the best one of all calibrators; the
regret of a rule is the metric with its corruptions less that with the labels. Regrets are averaged over the cases of a
data set first, then over data sets. A choice is made again for each data set, without it.
"""

import json
import sys
from collections.abc import Mapping
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from default_scores import STRATEGIES
from scipy.special import expit, logit

from kgcore.calibrate.sample import CalibrationSample, base_rate_weights, ground_truth_sample, synthetic_sample
from kgcore.measure.metrics.base import Sample
from kgcore.measure.metrics.classification import accuracy
from kgcore.measure.metrics.proper import brier, log_loss
from kgcore.measure.metrics.reliability import debiased_rmsce
from kgcore.registries import CALIBRATORS

KINDS = ("labelled", "random", "relational", "plausible", "hard")
BASE_RATES, UNEQUAL = (0.5, 0.1), 1.0
LABELS, FORMER = "labels", "typed=0.9,uniform=0.1"
RULES = (
    FORMER,
    *("relational", "uniform", "typed", "similar", "nearest", "near_miss"),
    *(f"typed={0.9 - share:.1f},uniform=0.1,similar={share}" for share in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)),
    *(f"typed={1 - share:.1f},similar={share}" for share in (0.3, 0.5, 0.7)),
    "typed=0.4,uniform=0.3,similar=0.3",
    "uniform=0.5,similar=0.5",
    "relational=0.3,similar=0.7",
    *(f"typed={0.9 - share:.1f},uniform=0.1,near_miss={share}" for share in (0.1, 0.2, 0.4)),
    "typed=0.4,uniform=0.3,near_miss=0.3",
    "typed=0.5,near_miss=0.5",
    "typed=0.4,uniform=0.2,similar=0.2,near_miss=0.2",
    "typed=0.6,uniform=0.1,nearest=0.3",
)
FULL = (FORMER, "typed=0.5,similar=0.5")  # rules with which every calibrator is measured; the others with FEW of them
FEW = ("smoothed_isotonic", "beta", "per_relation")
MOST = 30_000  # corruptions of a synthetic sample


class Rows(NamedTuple):
    """Scores, labels and predicates (n,) of labelled triples."""

    scores: np.ndarray
    labels: np.ndarray
    predicates: np.ndarray


Case = tuple[str, str, float]  # table, model, base rate


def labelled_rows(arrays: Mapping[str, np.ndarray], split: str, kind: str) -> Rows:
    """Return the positives of a split with the negatives of a kind."""
    kinds = KINDS[1:] if kind == "mixed" else (kind,)
    parts = [(f"{split}.positives", 1)] + [(f"{split}.{own}", 0) for own in kinds]
    scores = [arrays[f"{key}.scores"] for key, _ in parts]
    labels = [np.full(len(own), float(label)) for own, (_, label) in zip(scores, parts, strict=True)]
    predicates = [arrays[f"{key}.predicates"] for key, _ in parts]
    return Rows(np.concatenate(scores), np.concatenate(labels), np.concatenate(predicates))


def unequal(rows: Rows, base_rate: float, seed: int) -> Rows:
    """Leave out positives or negatives of each relation at random, so that it has a base rate of its own."""
    rng = np.random.default_rng(seed)
    rates = expit(logit(base_rate) + UNEQUAL * rng.normal(size=100_000))  # valid and test have the same
    rng = np.random.default_rng(len(rows.scores))
    kept = np.zeros(len(rows.scores), dtype=bool)
    for predicate in np.unique(rows.predicates):
        own = [rng.permutation(np.flatnonzero((rows.predicates == predicate) & (rows.labels == y))) for y in (0, 1)]
        odds = rates[predicate] / (1 - rates[predicate])
        positives = min(len(own[1]), len(own[0]) * odds)
        counts = np.floor([positives / odds + rng.random(), positives + rng.random()]).astype(int)
        for part, number in zip(own, counts, strict=True):
            kept[part[:number]] = True
    return Rows(*(column[kept] for column in rows))


def synthetic(arrays: Mapping[str, np.ndarray], rule: str, base_rate: float) -> CalibrationSample:
    """Return the positives of valid with corruptions by a rule such as `typed=0.9,uniform=0.1`."""
    rng, scores, predicates = np.random.default_rng(1), [], []
    for part in rule.split(","):
        name, _, share = part.partition("=")
        found = arrays[f"corruptions.{name}.scores"]
        most = min(MOST, 20 * len(arrays["valid.positives.scores"]))
        drawn = rng.permutation(len(found))[: int(float(share or 1) * most)]
        scores.append(found[drawn])
        predicates.append(arrays[f"corruptions.{name}.predicates"][drawn])
    both = arrays["valid.positives.predicates"], np.concatenate(predicates)
    return synthetic_sample(arrays["valid.positives.scores"], np.concatenate(scores), base_rate, predicates=both)


def measured(path: Path) -> list[dict[str, object]]:
    """Return a row for each case, choice of negatives and calibrator of a table."""
    arrays, found = dict(np.load(path)), []
    kinds = [kind for kind in KINDS if f"test.{kind}.scores" in arrays]
    name, model = path.name.split(".")[:2]

    def measure(
        case: tuple[str, str, float], negatives: str, sample: CalibrationSample, tests: dict[str, Rows]
    ) -> None:
        for calibrator in CALIBRATORS.names() if negatives in (LABELS, *FULL) else FEW:
            fitted = CALIBRATORS.get(calibrator)().fit_sample(sample)
            for kind, test in tests.items():
                weights = base_rate_weights(test.labels, case[2])
                q = fitted.calibrate_of(test.scores, test.predicates)
                row = {"table": case[0], "model": case[1], "base_rate": case[2], "kind": kind, "negatives": negatives}
                row |= {"calibrator": calibrator, "brier": brier(q, test.labels, weights)}
                tally = Sample(q, test.labels, weights).tally()
                row |= {"log_loss": log_loss(q, test.labels, weights), "error": debiased_rmsce(tally)}
                found.append(row | {"accuracy": accuracy(q > 0.5, test.labels, weights)})

    for base_rate in BASE_RATES:
        tests, seed = {}, sum(map(ord, name))
        for kind in [*kinds, "mixed"]:
            split = {own: labelled_rows(arrays, own, kind) for own in ("valid", "test")}
            if kind != "labelled" or base_rate != 0.5:
                split = {own: unequal(rows, base_rate, seed) for own, rows in split.items()}
            tests[kind], valid = split["test"], split["valid"]
            sample = ground_truth_sample(valid.scores, valid.labels, valid.predicates, base_rate)
            measure((name, model, base_rate), LABELS, sample, {kind: tests[kind]})
        for rule in RULES:
            measure((name, model, base_rate), rule, synthetic(arrays, rule, base_rate), tests)
    return found


def write(path: Path) -> None:
    """Measure a table and write its results."""
    target = path.with_suffix(".json")
    if not target.exists():
        target.write_text(json.dumps(measured(path)))
        print(target, flush=True)


def regrets(found: pd.DataFrame, choice: str, metric: str = "brier") -> pd.DataFrame:
    """Return mean regrets of the values of the column `choice`: a row for each data set, a column for each value."""
    case = ["table", "model", "base_rate", "kind"]
    wide = found.pivot(index=case, columns=choice, values=metric)
    wide = wide.sub(wide.min(axis=1) if LABELS not in wide else wide[LABELS], axis=0).drop(
        columns=LABELS, errors="ignore"
    )
    return wide.groupby(wide.index.get_level_values("table").str.replace(r"-\d+-\d+$", "", regex=True)).mean()


def show(found: pd.DataFrame, choice: str, title: str) -> None:
    """Print mean and largest regret of each choice, and the choices without each data set that need no model."""
    own = regrets(found, choice)
    table = own.T.assign(mean=own.mean(), largest=own.max(), log_loss=regrets(found, choice, "log_loss").mean())
    for name in ("error", "accuracy"):
        table[name] = found.groupby(choice)[name].mean()
    print(f"\n**{title}**\n\n| | {' | '.join(map(str, table.columns)).replace('_', ' ')} |")
    print("|---" * (len(table.columns) + 1) + "|")
    for name, row in table.sort_values("mean").iterrows():
        print(f"| `{name}` | {' | '.join(f'{value:.4f}' for value in row)} |")
    free = own[[name for name in own if "near" not in str(name)]]
    for words, best in (("mean", pd.DataFrame.mean), ("largest", pd.DataFrame.max)):
        left_out = {name: best(free.drop(name)).idxmin() for name in free.index}
        cells = "; ".join(f"{name}: `{chosen}`, {own.loc[name, chosen]:.4f}" for name, chosen in left_out.items())
        print(f"\nThe smallest {words} regret without each data set, and its regret on it: {cells}")


def main(cache: Path) -> None:
    """Print all tables."""
    found = pd.DataFrame([row for path in sorted(cache.glob("*.json")) for row in json.loads(path.read_text())])
    show(found[found.negatives == LABELS], "calibrator", "Calibrators, labelled negatives")
    for rule in FULL:
        show(found[found.negatives == rule], "calibrator", f"Calibrators, synthetic negatives, {rule}")
    for calibrator in FEW:
        own = found[found.calibrator == calibrator]
        show(own[own.kind == "labelled"], "negatives", f"Rules, {calibrator}, the data sets' own labels")
        show(own[own.kind != "labelled"], "negatives", f"Rules, {calibrator}, constructed negatives")
    print("\n| share of test facts |", " | ".join(STRATEGIES), "|\n|---" + "|---" * len(STRATEGIES) + "|")
    for path in sorted(cache.glob("*.transe.npz")):
        arrays = np.load(path)
        cells = " | ".join(f"{arrays[f'corruptions.{name}.facts']:.4f}" for name in STRATEGIES)
        print(f"| {path.name.split('.')[0]} | {cells} |")


if __name__ == "__main__":
    command, cache = sys.argv[1], Path(sys.argv[2])
    if command == "measure":
        with get_context("spawn").Pool(int(sys.argv[3])) as pool:
            pool.map(write, sorted(cache.glob("*.npz")), 1)
    else:
        main(cache)
