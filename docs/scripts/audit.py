"""Make the tables of docs/how-to/audit-stored-facts.md: facts with known errors, found and counted by `kgcal audit`.

    python docs/scripts/audit.py family wn11 > tables.md
    python docs/scripts/audit.py wn11:--k=100 > table.md        # one data set, one model, with its options

A twentieth of the training facts is replaced by typed corruptions. `kgcal audit` lists the facts; `kgcal run` and
`kgcal predict` score them by a model that was trained on all of them. The precision is the share of replaced facts
among the first 5 % of each list. For the share of wrong facts, 100 samples of 200 facts are drawn and labelled.
Finished runs are re-used.
"""

import shlex
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from ablation import run

from flows.cli.main import whole_app
from kgcore.arrays import Bools, Triples
from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.fetch import fetch
from kgcore.data.datasets.prepare import prepare
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.typed import Typed
from kgcore.measure.metrics.reliability import wilson
from kgcore.wings.audit.sample import draw_sample, sampled_share, stratify
from tasks.workspace.settings import ensure_home, mirror

app = whole_app()

MODELS = {
    "family": (
        "--model=transe",
        "--model=complex",
        "--model=complex --lp-weight=0 --epochs=100",
        "--model=distmult --lp-weight=0 --epochs=100",
    ),
    "wn11": ("--model=transe",),
}
ERRORS, LABELS, SAMPLES = 0.05, 200, 100
NAMES = ["subject", "predicate", "object"]


def with_errors(graph: KnowledgeGraph, rng: np.random.Generator) -> tuple[Triples, Bools]:
    """Return the training facts, in which a share ERRORS is replaced by typed corruptions, and which are replaced.

    Each replaced fact has another subject or another object that the predicate has in training. It is not a known fact.
    """
    triples, strategy = graph.train.positives.copy(), Typed(graph)
    left = rng.choice(len(triples), round(ERRORS * len(triples)), replace=False)
    wrong = np.zeros(len(triples), dtype=bool)
    for _ in range(100):
        column = 2 * rng.integers(0, 2, len(left))
        drawn = triples[left]
        for place in (0, 2):
            own = column == place
            drawn[own, place] = strategy.draw(drawn[own], place, 1, rng)[:, 0]
        _, first = np.unique(drawn, axis=0, return_index=True)
        taken = graph.all_known.contains(drawn) | graph.index(triples[wrong]).contains(drawn)
        good = np.isin(np.arange(len(left)), first) & ~taken
        triples[left[good]], wrong[left[good]] = drawn[good], True
        left = left[~good]
    return triples, wrong


def write(graph: KnowledgeGraph, triples: Triples, folder: Path) -> None:
    """Write the graph with these training facts as a data set in a folder."""
    folder.mkdir()
    for name, rows in (("train", triples), ("valid", graph.valid.triples), ("test", graph.test.triples)):
        frame = graph.names_of(rows)
        if name != "train" and graph.labelled:
            frame["label"] = np.where(getattr(graph, name).labels == 1, "1", "-1")
        frame.to_csv(folder / f"{name}.txt", sep="\t", header=False, index=False)


def kgcal(*words: str) -> None:
    """Run a command. Its output goes to standard error."""
    print("kgcal", *words, file=sys.stderr, flush=True)
    stdout, sys.stdout = sys.stdout, sys.stderr
    try:
        app([*words], standalone_mode=False)
    finally:
        sys.stdout = stdout


def table(dataset: str, models: tuple[str, ...]) -> None:
    """Print a row for each model: precision of both lists, expected errors, and the labelled samples."""
    spec = find_dataset(dataset)
    graph = prepare(spec, fetch(spec, ensure_home() / "datasets", mirror(), 2_000, 0)).graph
    triples, wrong = with_errors(graph, np.random.default_rng(0))
    truth = graph.names_of(triples).assign(wrong=wrong)
    print(f"\n**{dataset}**: {wrong.sum():,} of {len(wrong):,} training facts are wrong\n")
    print("| model | in-sample | audit | ratio | expected | found | estimated share | covered | width |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / f"{dataset}-with-errors"
        write(graph, triples, folder)
        for options in models:
            print(f"| {options.replace('--', '').replace('=', ' ')} | {row(folder, options, truth)} |", flush=True)


def row(folder: Path, options: str, truth: pd.DataFrame) -> str:
    """Return the cells of one model."""
    data = ["--dataset", str(folder), *shlex.split(options)]
    seen, unseen = folder.parent / "seen.parquet", folder.parent / "unseen.parquet"
    run_id = run([*data, "--bootstrap-replicates", "50"])["runs"]["calibrate"]
    kgcal("predict", str(folder / "train.txt"), "--model", run_id, "--at-least", "0", "-o", str(seen))
    kgcal("audit", *data, "-o", str(unseen))
    first = round(ERRORS * len(truth))
    by_score = pd.read_parquet(seen).merge(truth, on=NAMES).sort_values("score", kind="stable")
    audited = pd.read_parquet(unseen).merge(truth, on=NAMES)  # keeps the order of the list
    assert len(by_score) == len(audited) == len(truth)
    before, after = by_score["wrong"].head(first).mean(), audited["wrong"].head(first).mean()
    expected, found = audited["expected_wrong"][first - 1], int(audited["wrong"].head(first).sum())
    estimate = (1 - audited["probability"]).mean()
    covered, width = repeated(audited)
    cells = [f"{before:.3f}", f"{after:.3f}", f"{after / before:.1f}", f"{expected:.0f}", f"{found}"]
    return " | ".join([*cells, f"{100 * estimate:.1f} %", f"{covered} of {SAMPLES}", f"{width:.2f}"])


def repeated(audited: pd.DataFrame) -> tuple[int, float]:
    """Return how many intervals hold the true share, and their width in widths of a simple random sample's interval."""
    wrong, strata = audited["wrong"].to_numpy(), stratify(1 - audited["probability"].to_numpy(dtype=float))
    covered, widths, simple = 0, [], []
    for seed in range(SAMPLES):
        rng = np.random.default_rng(seed)
        rows = draw_sample(strata, LABELS, rng)
        share = sampled_share(strata.of[rows], strata.counts, wrong[rows])
        covered += share.low <= wrong.mean() <= share.high
        widths.append(share.high - share.low)
        plain = wilson(wrong[rng.choice(len(wrong), LABELS, replace=False)].mean(keepdims=True), np.array([LABELS]))
        simple.append(float(plain[1] - plain[0]))
    return covered, float(np.mean(widths) / np.mean(simple))


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        name, _, chosen = argument.partition(":")
        table(name, (chosen,) if chosen else MODELS[name])
