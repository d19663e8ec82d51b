"""The components that docs/contributing.md shows: each is one new file, and one run uses all of them."""

import importlib
import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from flows.cli.main import whole_app
from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.prepare import prepare
from kgcore.embed.models.base import Embeddings
from kgcore.embed.models.trained import TrainedModel
from kgcore.evidence.base import Source
from kgcore.evidence.table import Features
from kgcore.registries import CALIBRATORS, DATASETS, EVIDENCE, FORMATS, LOSSES, METRICS, MODELS, STRATEGIES
from tests.core.drawn import graph_of
from tests.docs.pages import CHECKOUT, blocks_of

FILES = {b.runner[1]: b.text for b in blocks_of(CHECKOUT / "docs" / "contributing.md") if b.runner[0] == "file"}
NAMES = {MODELS: "scaled", LOSSES: "squared_hinge", CALIBRATORS: "halves", STRATEGIES: "training_subjects"}
OPTIONS = {"dataset": "clan", "size": 300, "model": "scaled", "loss": "squared_hinge", "calibrators": "halves"}
OPTIONS |= {"calibration-strategy": "training_subjects", "k": 8, "epochs": 2, "bootstrap-replicates": 50}


@pytest.fixture
def new_files(tmp_path: Path) -> Iterator[None]:
    """Write the files outside the packages that they extend; remove them when the test ends."""
    for name, text in FILES.items():
        path = tmp_path / "beside" / name
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
        importlib.import_module(".".join(Path(name).parent.parts)).__path__.append(str(path.parent))
    importlib.invalidate_caches()
    yield
    for name in FILES:
        importlib.import_module(".".join(Path(name).parent.parts)).__path__.pop()
        sys.modules.pop(name.removesuffix(".py").replace("/", "."), None)
    for registry, component in (
        *NAMES.items(),
        (DATASETS, "clan"),
        (METRICS, "spread"),
        (FORMATS, "arrows"),
        (EVIDENCE, "loops"),
    ):
        with suppress(KeyError):  # the test did not use it
            registry.remove(component)


@pytest.mark.usefixtures("home", "new_files")
def test_one_file_of_each_kind_goes_through_a_run(tmp_path: Path) -> None:
    target = tmp_path / "results.json"
    arguments = [part for name, value in OPTIONS.items() for part in (f"--{name}", str(value))]
    done = CliRunner().invoke(whole_app(), ["run", *arguments, "--json", str(target)])
    assert done.exit_code == 0, done.output
    results = json.loads(target.read_text(encoding="utf-8"))
    assert (results["dataset"], results["model"], results["loss"]) == ("clan", "scaled", "squared_hinge")
    for negatives in ("ground_truth", "synthetic"):
        measured = results["metrics"][negatives]["halves"]
        assert 0 < measured["brier"] < 0.5
        assert 0 < measured["spread"] <= 1


@pytest.mark.usefixtures("new_files")
def test_a_new_group_of_evidence_is_computed() -> None:
    facts = np.array([(0, 0, 0), (0, 0, 1), (1, 0, 1)])
    trained = TrainedModel("distmult", 1, Embeddings(torch.ones(2, 1), torch.ones(1, 1)))
    evidence = Features.of(Source(graph_of(facts.tolist(), 2), trained), ["loops"]).evidence(facts)
    assert evidence.values.tolist() == [[1, 0], [0, 1], [1, 0]]


@pytest.mark.usefixtures("new_files")
def test_a_new_file_format_is_read(tmp_path: Path) -> None:
    rows = [f"e{i % 5} --r{i % 2}--> e{(i * 3 + 1) % 7}" for i in range(60)]
    (tmp_path / "mine.arrows").write_text("\n".join(rows), encoding="utf-8")
    prepared = prepare(find_dataset(str(tmp_path / "mine.arrows")), tmp_path)
    assert prepared.counts["drawn_from_rows"] == 60
    assert prepared.graph.predicates == ["r0", "r1"]
