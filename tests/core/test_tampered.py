"""Tampered model folders: each is refused with one sentence, by an InputError or a MismatchError, and never answers."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file

import kgcore
from kgcore.calibrate.sample import ground_truth_sample
from kgcore.embed.models.base import Embeddings
from kgcore.embed.models.cohort import draw_cohort
from kgcore.embed.models.trained import TrainedModel
from kgcore.errors import InputError, KgcalError
from kgcore.registries import MODELS
from kgcore.storage.folders import read_model, write_model
from kgcore.wings.external.calibrator import SCORE_CALIBRATOR_FILE, ScoreCalibrator
from kgcore.wings.imports.files import read_table
from tests.core.calibrated_models import trained_on, with_calibrator, write_calibrated
from tests.core.populations import graph_with_labels

HUGE = 10**400
NOTHING_ELSE = ["null", "[]", '"x"', "7", "[" * 3000 + "]" * 3000, '{"a":' * 3000 + "1" + "}" * 3000, "", "{", "\ud800"]
# key, dots between keys -> values that are refused
VALUES: dict[str, list[Any]] = {
    "format": [11, "12", None],
    "name": ["evil", None, [], 3],
    "negatives": ["evil", None, 1],
    "model": [None, 5, []],
    "dataset": [None, 5],
    "fitted_at": [2, float("nan"), "0.5", [], HUGE],
    "rate": [None, [], 0.5, {}, {"value": 0.5, "more": 1}],
    "rate.value": [2, 0, 1, -0.5, float("nan"), float("inf"), "0.5", None, [], True, HUGE],
    "rate.low": [0.9, -1, float("nan"), "0.1", HUGE],
    "rate.origin": ["evil", None, 1],
    "corruptions": [[], 3, {"strategy": 1}],
    "hidden": [[], {"share": 2, "low": 0, "high": 1}, {"share": float("nan"), "low": 0, "high": 0.5}],
    "parameters": [None, [], {}, "x", {"a": 1}, {"scores": [[]]}],
    "parameters.further": [1],
    "parameters.scores": [None, [], ["x"], [1, float("nan")], [HUGE], "abc", 3],
    "parameters.probabilities": [None, [], ["0.5"], [0.5, 2], [float("inf")], 0.5],
    "support": [[], {}, 3, "x"],
    "support.band": [None, [], {}],
    "support.band.low": [None, [], [2.0], ["x"], [float("nan")]],
    "support.rows": [None, [], {"x": [1, 2]}, {"0": 3}, {"0": []}],
    "support.relations": [None, [], {"0": None}],
    "mixture": [[], 3, {}, "x"],
    "scorer": [[], 3, {}, {"scorer": "evil"}],
    "unseen": [[], 3, {}, {"format": 4}],
}
MODEL_VALUES: dict[str, list[Any]] = {
    "model": ["evil", None, [], 3],
    "k": [0, -3, "8", None, 7, HUGE, 2**40],
    "options": [None, [], 3, {"evil": 1}, {"norm": "x"}, {"norm": float("nan")}],
    "inverse": ["yes", 3, True],
    "cohort": [[], 3, {}, {"weight": 2, "temperature": 1}],
    "cohort.temperature": [0, -1, float("nan"), "x", None],
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written")
    graph = graph_with_labels()
    trained = replace(trained_on(graph), cohort=draw_cohort(graph, 20, 0.5, 1.0, np.random.default_rng(1)))
    sample = ground_truth_sample(trained.score(graph.valid.triples), graph.valid.labels, graph.valid.triples[:, 1])
    write_calibrated(folder, with_calibrator(trained, graph, sample, "isotonic"))
    assert kgcore.load(folder)
    return folder


def refused(folder: Path) -> None:
    with pytest.raises(KgcalError) as caught:
        kgcore.load(folder)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def changed(place: Path, key: str, value: Any) -> None:
    data = inner = json.loads(place.read_text())
    *parents, last = key.split(".")
    for name in parents:
        inner = inner[name]
    inner[last] = value
    place.write_text(json.dumps(data))


@pytest.mark.parametrize("name", ["calibrator.json", "model/model.json", "graph/graph.json"])
def test_json_of_another_kind_is_refused(written: Path, tmp_path: Path, name: str) -> None:
    copytree(written, tmp_path / "copy")
    for text in NOTHING_ELSE:
        (tmp_path / "copy" / name).write_text(text, encoding="utf-8", errors="surrogatepass")
        refused(tmp_path / "copy")


@pytest.mark.parametrize(
    ("name", "key", "values"),
    [("calibrator.json", *item) for item in VALUES.items()]
    + [("model/model.json", *own) for own in MODEL_VALUES.items()]
    + [("graph/graph.json", "labelled_base_rate", [None, 0.3, {}, {"value": 2}, {"value": "0.3"}])],
)
def test_values_out_of_range_are_refused(written: Path, tmp_path: Path, name: str, key: str, values: list[Any]) -> None:
    copytree(written, tmp_path / "copy")
    original = (written / name).read_text()
    for value in values:
        (tmp_path / "copy" / name).write_text(original)
        changed(tmp_path / "copy" / name, key, value)
        refused(tmp_path / "copy")


def test_the_value_and_its_place_are_named(written: Path, tmp_path: Path) -> None:
    copytree(written, tmp_path / "copy")
    changed(tmp_path / "copy" / "calibrator.json", "rate.value", 2)
    with pytest.raises(InputError, match=r"copy cannot be read: rate\.value is 2: .*less than"):
        kgcore.load(tmp_path / "copy")


@pytest.mark.parametrize(
    ("key", "value"), [("rate.value", 0.4), ("negatives", "none"), ("fitted_at", 0.01), ("support.rows", {})]
)
def test_a_file_that_was_edited_is_refused_though_its_values_could_be(
    written: Path, tmp_path: Path, key: str, value: Any
) -> None:
    copytree(written, tmp_path / "copy")
    changed(tmp_path / "copy" / "calibrator.json", key, value)
    with pytest.raises(InputError, match=r"calibrator\.json was changed after it was written"):
        kgcore.load(tmp_path / "copy")


def transposed(tables: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return tables | {"entities": tables["entities"].T.contiguous()}


def reshaped(tables: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The same bytes, so that the fingerprint of the numbers alone is the same."""
    return tables | {"entities": tables["entities"].reshape(tables["entities"].shape[::-1])}


def as_halves(tables: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return tables | {"entities": tables["entities"].view(torch.float16)}


def as_whole_numbers(tables: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return tables | {"entities": tables["entities"].view(torch.int32)}


def moved(tables: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The last entity becomes the first predicate: the bytes of both tables together are the same."""
    first = torch.cat([tables["entities"][-1:], tables["predicates"]])
    return tables | {"entities": tables["entities"][:-1].contiguous(), "predicates": first}


def more(tables: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return tables | {"shared.evil": torch.zeros(0)}


def outside(tables: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return tables | {"cohort.members": tables["cohort.members"] + 1000}


def fewer(tables: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: table for name, table in tables.items() if name != "entities"}


@pytest.mark.parametrize(
    "change", [transposed, reshaped, as_halves, as_whole_numbers, moved, more, outside, fewer], ids=lambda f: f.__name__
)
def test_a_table_of_another_shape_or_type_is_refused(
    written: Path, tmp_path: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]
) -> None:
    copytree(written, tmp_path / "copy")
    place = tmp_path / "copy" / "model" / "embeddings.safetensors"
    save_file(change(load_file(place)), place)
    refused(tmp_path / "copy")


def test_names_and_ids_of_a_graph_are_checked(written: Path, tmp_path: Path) -> None:
    for name, table in {
        "entities": pa.table({"name": pa.array([None] * 120, pa.string())}),
        "predicates": pa.table({"name": pa.array([1, 2, 3])}),
        "train": pa.table({"s": [10**9], "p": [0], "o": [-1], "label": [1]}),
        "valid": pa.table({"s": ["x"], "p": [0], "o": [0], "label": [1]}),
        "test": pa.table({"x": [1]}),
    }.items():
        copytree(written, tmp_path / name)
        pq.write_table(table, tmp_path / name / "graph" / f"{name}.parquet")
        refused(tmp_path / name)


@pytest.mark.parametrize("name", MODELS.names())
def test_every_model_is_read_as_it_was_written(name: str, tmp_path: Path) -> None:
    model, rng = MODELS.get(name)(8), np.random.default_rng(0)
    shared = {key: torch.from_numpy(own).float() for key, own in model.initial_shared(rng).items()}
    tables = torch.randn(5, model.entity_width).abs(), torch.randn(2, model.predicate_width).abs()
    trained = TrainedModel(name, 8, Embeddings(*tables, shared))
    write_model(tmp_path, trained)
    assert read_model(tmp_path).fingerprint() == trained.fingerprint()


@pytest.mark.parametrize("text", ["null", "[]", '{"format": 2}', '{"format": 2, "calibrator": null}'])
def test_a_calibrator_of_scores_is_checked(tmp_path: Path, text: str) -> None:
    (tmp_path / SCORE_CALIBRATOR_FILE).write_text(text)
    with pytest.raises(InputError, match="cannot be read: "):
        ScoreCalibrator.read(tmp_path)


def test_an_array_that_claims_petabytes_is_refused_by_its_header(tmp_path: Path) -> None:
    place = tmp_path / "huge.npy"
    header = {"descr": "<f4", "fortran_order": False, "shape": (2**41, 1024)}
    with place.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.write(b"\0" * 64)
    with pytest.raises(InputError, match=r"huge\.npy cannot be read as an array of numbers"):
        read_table(place)
