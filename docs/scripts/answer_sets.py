"""Make the table of docs/explanation/discovery.md: coverage and size of the answer sets of `--coverage 0.9` on test.

    python docs/scripts/answer_sets.py wn18rr fb15k-237

Each row trains a model for a few minutes, calibrates answer sets on validation, and measures them on all test queries.
KGCAL_HOME and KGCAL_MIRROR say where the data sets are, as for `kgcal run`.
"""

import sys

import torch

from kgcore.answer.answer_sets import AnswerSets, coverage_of
from kgcore.answer.domains import Domains
from kgcore.config import TrainConfig
from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.fetch import fetch
from kgcore.data.datasets.prepare import prepare
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import OBJECT, SUBJECT
from kgcore.embed.models.trained import TrainedModel
from kgcore.embed.training.loop import train
from tasks.workspace.settings import ensure_home, mirror

COVERAGE = 0.9
COMPLEX = TrainConfig(model="complex", loss="multiclass_nll", k=100, lp_power=3.0)
SETTINGS = {
    "wn18rr": COMPLEX.replace(epochs=20, learning_rate=0.02, training_eta=100, lp_weight=0.05),
    "fb15k-237": COMPLEX.replace(epochs=10, learning_rate=0.01, training_eta=50, lp_weight=0.01),
}
SIDES = {OBJECT: "(s, p, ?)", SUBJECT: "(?, p, o)"}


def row(graph: KnowledgeGraph, trained: TrainedModel, side: int, is_typed: bool) -> str:
    """Return a row of the table."""
    sets = AnswerSets(trained, graph, Domains(graph, is_typed), side, COVERAGE)
    rules = {predicate: sets.rule(sets.group(predicate)) for predicate in range(len(graph.predicates))}
    found = coverage_of(sets, graph.test.positives, rules)
    own = sum(not rule.pooled for rule in rules.values())
    kinds = [rule.kind for rule in rules.values()]
    used = ", ".join(f"{kind} {kinds.count(kind)}" for kind in sorted(set(kinds)))
    return (
        f"| {graph.name} | {SIDES[side]} | {'typed' if is_typed else 'all'} | {found.queries:,} | {found.covered:.3f} "
        f"| {found.size:,.0f} of {len(graph.entities):,} | {own} of {len(rules)} | {used} |"
    )


def main(names: list[str]) -> None:
    """Print the table."""
    print("| data set | query | candidates | test queries | coverage | mean set size | own quantile | measures |")
    print("|---|---|---|---|---|---|---|---|")
    for name in names:
        spec = find_dataset(name)
        graph = prepare(spec, fetch(spec, ensure_home() / "datasets", mirror(), 0, 0)).graph
        trained = train(graph, SETTINGS[name], torch.device("cpu")).model
        for is_typed in (True, False):
            for side in SIDES:
                print(row(graph, trained, side, is_typed), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
