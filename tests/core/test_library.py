"""The functions of `kgcore`: what they read and refuse, what they load, and that their examples run."""

import doctest
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import kgcore as kg
from kgcore import library
from kgcore.answer import measured
from kgcore.answer.measured import MeasuredModel
from kgcore.base_rate import BaseRate
from kgcore.config import TrainConfig, race
from kgcore.data.datasets.family import write_genealogy
from kgcore.errors import InputError, MismatchError
from kgcore.library import ReadGraph
from tests.docs.pages import Block, blocks_for

FINDER = doctest.DocTestFinder(exclude_empty=True)
EXAMPLES = [example for module in (library, measured) for example in FINDER.find(module) if example.examples]
LIGHT = """
import sys, kgcore as kg
assert {"read", "train", "calibrate", "load"} <= set(dir(kg)), dir(kg)
assert not {"torch", "numpy", "pandas"} & set(sys.modules)
import kgcore.data.datasets.prepare, kgcore.calibrate.sample
assert "kgcore.library" not in sys.modules
assert kg.calibrate is sys.modules["kgcore.library"].calibrate
assert not {"prefect", "mlflow", "optuna", "rich"} & set(sys.modules)
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def graph(cache: Path) -> ReadGraph:
    return kg.read("family", size=300, folder=cache)


@pytest.fixture(scope="module")
def calibrated(graph: ReadGraph) -> MeasuredModel:
    model = kg.train(graph, "transe", k=16, epochs=5, progress=False)
    return kg.calibrate(model, graph, base_rate="0.1:0.3", calibrators=["platt", "isotonic"], calibration_eta=3)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name.rpartition(".")[2])
def test_the_example_runs(example: doctest.DocTest, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "CACHE", cache)
    monkeypatch.chdir(cache)
    assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.parametrize("block", blocks_for(__file__), ids=lambda block: block.page)
@pytest.mark.usefixtures("quick_trees")
def test_the_documented_example_runs(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").mkdir()
    write_genealogy(tmp_path / "mine", 200, 1)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(race, "contenders", lambda rows, entities, predicates: {"short": TrainConfig(k=8, epochs=9)})
    exec(block.text, {})
    assert "ground_truth.per_relation" in capsys.readouterr().out


def test_every_function_has_an_example() -> None:
    shown = {example.name.rpartition(".")[2] for example in EXAMPLES}
    assert {*kg.__all__, "evaluate"} <= shown


@pytest.mark.long
def test_the_import_is_light_and_the_names_are_those_of_the_functions() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_library_that_is_not_installed_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kgcore.library", None)
    with pytest.raises(ImportError, match=r"kgcore.train needs .*: pip install 'kgcal\[train\]'"):
        kg.train  # noqa: B018


def test_tables_are_read_as_files_are(graph: ReadGraph, cache: Path) -> None:
    tables = {
        name: graph.names_of(split.triples).assign(label=split.labels.astype(int))
        for name, split in (("train", graph.train), ("valid", graph.valid), ("test", graph.test))
    }
    again = kg.read(tables, name="family")
    assert again.training_fingerprint() == graph.training_fingerprint()
    assert again.test_fingerprint() == graph.test_fingerprint()
    one = kg.read(tables["train"].drop(columns="label"), valid_share=0.2)
    assert (one.name, len(one.valid.positives) > len(one.test.positives) > 0) == ("graph", True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda graph: kg.read("family", sise=3), "unknown setting 'sise': did you mean size?"),
        (lambda graph: kg.read(pd.DataFrame({"subject": ["a"]})), "has no column"),
        (
            lambda graph: kg.read(pd.DataFrame({"subject": ["a", ["b"]]})),
            "the table train has a column that is no text",
        ),
        (lambda graph: kg.read("family", split="time:3"), "the data set family has splits"),
        (
            lambda graph: replace(graph, labelled_base_rate=BaseRate(0.3)).with_labels("labels.tsv"),
            "the graph has labels already: give all of them at once to the graph without labels",
        ),
        (lambda graph: graph.with_labels(pd.DataFrame({"subject": ["a"]})), "has no column"),
        (lambda graph: kg.train(graph, epoch=3), "unknown setting 'epoch': did you mean epochs?"),
        (lambda graph: kg.train(graph, k=-1), "k is -1: it must be at least 1"),
        (lambda graph: kg.train(graph, "tranze"), "unknown model 'tranze'"),
        (lambda graph: kg.train(graph, preset="fast"), "unknown preset 'fast'"),
        (lambda graph: kg.train(graph, device="gpu"), "there is no device 'gpu'"),
        (lambda graph: kg.train(graph, zzzz=1), "unknown setting 'zzzz': the known ones are model, "),
        (lambda graph: kg.train(graph, "transe", k=4, epochs=1, device=None), "there is no device None"),
        (lambda graph: kg.train("mine"), "the graph is of the type str: it must be the result of kgcore.read"),
        (lambda graph: kg.calibrate(graph, graph), "the model is of the type ReadGraph: it must be the result of"),
        (lambda graph: kg.load(None), "the folder is of the type NoneType: it must be a path"),
        (lambda graph: graph.with_labels([1, 2]), "labels is of the type list: it must be a file or a table"),
    ],
)
def test_a_mistake_is_a_sentence(graph: ReadGraph, call, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(graph)


def test_mistakes_of_calibration_are_sentences(calibrated: MeasuredModel, graph: ReadGraph, cache: Path) -> None:
    [model] = calibrated.calibrated.trained.embedding_models
    for settings, message in (
        ({"base_rates": 0.1}, "did you mean base_rate?"),
        ({"base_rate": 2}, "base_rate is 2: it must be above 0 and below 1"),
        ({"negatives": "candidates"}, "no calibrator has negatives of the kind 'candidates': leave out negatives"),
    ):
        with pytest.raises(InputError, match=message):
            kg.calibrate(model, graph, calibrators="platt", calibration_eta=3, **settings)
    with pytest.raises(MismatchError, match="trained on other triples"):
        kg.calibrate(model, kg.read("family", size=300, graph_seed=1, folder=cache))
    with pytest.raises(InputError, match="no calibrator 'beta'"):
        calibrated["beta"]


def test_a_stated_base_rate_that_the_labels_do_not_have_is_told(
    calibrated: MeasuredModel, graph: ReadGraph, caplog: pytest.LogCaptureFixture
) -> None:
    [model] = calibrated.calibrated.trained.embedding_models
    told = "ground_truth.platt answers: its probabilities are at the base rate of the labels: for the stated one, 0.1,"
    settings = {"calibrators": "platt", "calibration_eta": 3, "progress": False}
    fitted = kg.calibrate(model, graph, base_rate=0.1, negatives="ground_truth", **settings)
    assert round(fitted.base_rate, 3) == 0.501
    assert told in caplog.text
    caplog.clear()
    kg.calibrate(model, graph, base_rate=0.1, negatives="synthetic", **settings)
    kg.calibrate(model, graph, base_rate=0.5, **settings)
    kg.calibrate(model, graph, **settings)
    assert caplog.text == ""


def test_rows_with_names_are_read_by_their_names(calibrated: MeasuredModel) -> None:
    class Row(NamedTuple):
        object: str
        predicate: str
        subject: str

    triples = pd.DataFrame([("person_1", "parent_of", "person_2")], columns=["subject", "predicate", "object"])
    expected = calibrated.predict(triples)
    for asked in ([Row("person_2", "parent_of", "person_1")], triples.to_records(index=False), triples.to_numpy()):
        pd.testing.assert_frame_equal(calibrated.predict(asked)[expected.columns], expected, check_exact=True)
    with pytest.raises(InputError, match="the subject is of the type int: it must be text"):
        calibrated.answers(2, "parent_of")


def test_a_saved_model_answers_to_the_last_bit(
    calibrated: MeasuredModel, graph: ReadGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = graph.names_of(graph.test.triples[:40])
    for label in ("ground_truth.isotonic", "synthetic.platt"):
        calibrated[label].save(tmp_path / label)
        pd.testing.assert_frame_equal(
            kg.load(tmp_path / label).predict(asked), calibrated[label].predict(asked), check_exact=True
        )
    before = kg.load(tmp_path / "synthetic.platt").predict(asked)
    calibrated["ground_truth.isotonic"].save(tmp_path / "synthetic.platt")  # it replaces a model, and nothing else
    assert not kg.load(tmp_path / "synthetic.platt").predict(asked).equals(before)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ground_truth.isotonic", "synthetic.platt"]
    assert sorted(path.name for path in (tmp_path / "synthetic.platt").iterdir()) == [
        "calibrator.json",
        "graph",
        "model",
    ]
    (tmp_path / "new" / "er").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "new" / "er")
    calibrated["synthetic.platt"].save(tmp_path / "link")
    (tmp_path / "link" / ".gitkeep").touch()
    calibrated["ground_truth.isotonic"].save(tmp_path / "new" / "er")
    assert (tmp_path / "link").is_symlink()
    assert kg.load(tmp_path / "link").label == "ground_truth.isotonic"
    calibrated.save(tmp_path / "a" / "b")
    monkeypatch.setenv("HOME", str(tmp_path))
    calibrated.save("~/home")
    assert kg.load("~/home").label == kg.load(tmp_path / "home").label == calibrated.label
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "calibrator.json").write_text("mine")
    with pytest.raises(InputError, match="mine is no folder of a model: name a new or an empty folder"):
        calibrated.save(tmp_path / "mine")
    assert (tmp_path / "mine" / "calibrator.json").read_text() == "mine"
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file"):
        calibrated.save(tmp_path / "file")


def test_what_it_says_of_itself(calibrated: MeasuredModel, graph: ReadGraph) -> None:
    [model] = calibrated.calibrated.trained.embedding_models
    assert repr(graph).splitlines()[0] == "graph family: 322 entities, 10 predicates"
    assert repr(model).splitlines()[0] == "model transe: self_adversarial, k=16, 322 entities, 10 predicates"
    synthetic = calibrated["synthetic.platt"]
    first, brier, _ = repr(synthetic).splitlines()
    assert first == "calibrated model of family: synthetic.platt, base rate 0.179 [0.1, 0.3], stated"
    table = synthetic.evaluate(bootstrap_replicates=50)
    assert brier == f"Brier score on test: {table.loc['synthetic.platt', 'brier']:.4f}"
    assert "labelled negatives" in table.attrs["about"]
    assert isinstance(synthetic.plot_reliability(bins=5, bootstrap_replicates=50), Figure)
    assert synthetic["isotonic"].label == "synthetic.isotonic"


def test_whole_numbers_among_text_are_written_as_whole_numbers() -> None:
    """Pandas reads a column block by block: 1 becomes 1.0 in a block with a missing value."""
    subjects = [1.0, "1", "x", 2, 2.5, np.float32(3)] * 9
    names = pd.DataFrame({"subject": subjects, "predicate": "p", "object": [f"y{i % 8}" for i in range(54)]})
    assert set(kg.read(names).entities) == {"1", "x", "2", "2.5", "3", *(f"y{i}" for i in range(8))}


@pytest.mark.parametrize("name", ["../part", "/tmp/part", 1, "a" * 300])
def test_the_name_of_a_table_is_no_path(name: Any) -> None:
    facts = pd.DataFrame([(f"a{i}", "p", f"b{i % 7}") for i in range(60)], columns=["subject", "predicate", "object"])
    with pytest.raises(InputError, match="the names are train, and perhaps valid and test"):
        kg.read({"train": facts, name: facts})


def test_a_baseline_has_no_diagram_and_models_are_told_apart(calibrated: MeasuredModel) -> None:
    with pytest.raises(InputError, match="base_rate is a baseline, which has no diagram"):
        calibrated["base_rate"].plot_reliability()
    assert len({calibrated, calibrated["base_rate"], calibrated}) == 2
    with pytest.raises(InputError, match="base_rate is 'x'"):
        calibrated.explain("person_1", "parent_of", "person_2", base_rate="x")


def test_an_interval_of_the_base_rate_is_given_once(graph: ReadGraph) -> None:
    with pytest.raises(InputError, match="leave out base_rate_low and base_rate_high"):
        kg.calibrate(kg.train(graph, "transe", k=4, epochs=1), graph, base_rate="0.1:0.2", base_rate_low=0.3)
