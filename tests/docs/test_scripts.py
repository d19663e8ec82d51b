"""The scripts that make the tables of the documentation: the options they run with, and the tables they print."""

import json
import sys
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from flows.cli.main import whole_app
from kgcore.config import CorruptConfig, EvaluateConfig, EvidenceConfig, TrainConfig
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.models.base import Embeddings
from kgcore.embed.models.trained import TrainedModel
from kgcore.measure.evaluation.predictions import Predictions
from tests.docs.commands import unknown_words
from tests.docs.scripts import script
from tests.pipeline.command import CHECKOUT

app = whole_app()

MEASURED = {"brier": 0.0714, "log_loss": 0.25, "accuracy": 0.9, "smooth_ece": 0.01, "auroc": 0.95}
CALIBRATED = dict.fromkeys(("platt", "isotonic", "per_relation"), MEASURED)
RESULTS = {"metrics": {"ground_truth": CALIBRATED, "synthetic": CALIBRATED}, "seconds": {"train": 67.0}}


def test_no_script_hides_a_module_that_libraries_import() -> None:
    """The folder of a script is the first place where Python looks for modules. Numba imports `coverage` if it can."""
    scripts = {path.stem for folder in ("docs/scripts", "benchmarks") for path in (CHECKOUT / folder).glob("*.py")}
    assert not scripts & {*sys.stdlib_module_names, *packages_distributions(), "coverage"}


def test_the_plan_of_large_graphs_is_that_of_its_script() -> None:
    page = (CHECKOUT / "docs/how-to/plan-a-large-graph.md").read_text(encoding="utf-8")
    assert "\n\n{}\n\n".format("\n".join(script("plan").rows())) in page


@pytest.mark.parametrize(("name", "arguments"), [("ablation", ("wn11", "typed")), ("seeds", ("wn11", "best"))])
def test_a_script_makes_its_table(
    name: str, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []

    def run(options: list[str]) -> dict[str, Any]:
        asked.append(options)
        return RESULTS

    module = script(name)
    monkeypatch.setattr(module, "run", run)
    module.table(*arguments)
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert asked
    assert all(not unknown_words(app, " ".join(["kgcal", "run", *options])) for options in asked)
    assert len({row.count("|") for row in rows}) == 1
    assert all(".0714" in row for row in rows[2:])


def test_the_table_of_seeds_varies_everything_random(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    module = script("seeds")
    monkeypatch.setattr(module, "run", lambda options: asked.append(options) or RESULTS)
    module.table("wn11", "default")
    options = {name for kind in (TrainConfig, CorruptConfig, EvaluateConfig) for name in kind.model_fields}
    seeds = [f"--{name.replace('_', '-')}" for name in options if name.endswith("seed")]
    assert len(seeds) == 3
    for number, one in enumerate(asked):
        assert [one[one.index(name) + 1] for name in seeds] == [str(number)] * 3


def test_the_ablation_reads_the_results_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    module = script("ablation")

    def command(arguments: list[str], standalone_mode: bool) -> None:
        assert arguments[0] == "run"
        Path(arguments[arguments.index("--json") + 1]).write_text(json.dumps(RESULTS), encoding="utf-8")

    monkeypatch.setattr(module, "app", command)
    assert module.run(["--dataset", "wn11"]) == RESULTS


def test_the_tables_of_evidence_have_a_cell_for_each_kind_of_negatives(
    small_graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = script("evidence")
    monkeypatch.setattr(module, "SEEDS", range(1))
    trained = TrainedModel("transe", 4, Embeddings(torch.randn(40, 4), torch.randn(3, 4)))
    names, made = module.samples(small_graph, trained)
    assert set(made) == {"labels", *module.STRATEGIES}
    cells = module.line(names, made, ("score", "rules")).split(" | ")
    assert len(cells) == 1 + len(module.STRATEGIES)
    assert all(0 < float(number) < 1 for cell in cells[1:] for number in cell.split(" → "))
    assert len(module.betrayed(names, made, "score").split(" | ")) == len(module.STRATEGIES)
    grouped = {group for groups in module.ROWS.values() for group in groups}
    assert grouped == set(EvidenceConfig().evidence)


def test_the_table_of_three_seeds_shows_what_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    module = script("evidence_seeds")
    options = module.options("wn11", module.GRAPH, 2)
    assert not unknown_words(app, " ".join(["kgcal", "run", *options]))
    assert options.count("2") == len(module.SEEDS_OF)
    audit = {"held_out_brier_beta": 0.08, "held_out_brier_boosted_trees": 0.05, "held_out_brier_per_relation": 0.07}
    assert module.answering({"ece": 0.0, **audit}) == ("boosted_trees", "per_relation")
    bars = module.BARS["wn11", "labels"]
    cells = module.in_words([[0.05, 0.2, 0.93, 0.01], [0.06, 0.2, 0.92, 0.02]], bars).split(" | ")
    assert cells[0] == "**0.0550 ± 0.0071**"
    assert [cell.startswith("**") for cell in cells] == [True, True, True, True]
    assert "**" not in module.in_words([[0.05, 0.17, 0.93, 0.01]], bars)


def test_the_reliability_of_relations_counts_large_ones_only() -> None:
    module, n = script("evidence_seeds"), 400
    triples = np.stack([np.arange(n), np.repeat([0, 1, 2], [200, 150, 50]), np.arange(n)], axis=1)
    labels = np.tile([0.0, 1.0], n // 2)
    q = np.where(triples[:, 1] == 1, 0.9, 0.5)
    predictions = Predictions(triples, labels, np.ones(n), q, {"a.b": q}, {}, {}, [], synthetic_negatives=False)
    error, off = module.by_relation(predictions, "a.b")
    assert off == 0.5
    assert error == pytest.approx(0.4 * 150 / 350, abs=0.02)
