"""Any bytes as a file of scores, any numbers as scores, any change of a model: answers, or one sentence."""

import json
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kgcore
from kgcore.answer.loaded import LoadedModel
from kgcore.calibrate.sample import ground_truth_sample
from kgcore.config import EvaluateConfig
from kgcore.errors import KgcalWarning
from kgcore.storage.folders import SEAL, seal_of
from kgcore.wings.external.calibrator import ScoreCalibrator
from kgcore.wings.external.fit import fit_and_measure
from kgcore.wings.external.rows import read_scores
from tests.core.calibrated_models import trained_on, with_calibrator, write_calibrated
from tests.core.fuzzed import CELLS, FUZZ, damaged, one_sentence, tables
from tests.core.populations import graph_with_labels
from tests.core.scored_rows import config_of, table_of_scores, written

ENDINGS = (".csv", ".tsv", ".parquet")
NAMES = ("f", "y", "w", "r", "split")
FEW = EvaluateConfig(bootstrap_replicates=50)
NUMBERS = st.one_of(
    st.floats(),
    st.integers(-3, 3).map(float),
    st.sampled_from([5e-324, 1e-310, 1e154, -1e308, 2.0**53, 0.1 + 0.2, -0.0]),
)


def silent(title: str, steps: int) -> Any:
    return nullcontext(lambda done: None)


def answered(path: Path, **settings: object) -> None:
    """Fit the calibrators to a file of scores, and answer the file, or refuse it in one sentence."""
    with one_sentence(), warnings.catch_warnings():
        warnings.simplefilter("ignore", KgcalWarning)
        config = config_of(folds=3, **settings)
        for calibrator in fit_and_measure(read_scores(path, config), config, FEW, silent).calibrators:
            for table, _ in calibrator.answer_file(path, config.score, config.relation):
                has_interval = calibrator.bound.support is not None  # the baselines have none
                ends = ("low", "probability", "high") if has_interval else ("probability",) * 3
                in_order(*(table[name].to_numpy() for name in ends))


def in_order(low: Any, q: Any, high: Any) -> None:
    """Require probabilities with their intervals."""
    assert ((low >= 0) & (low <= q) & (q <= high) & (high <= 1)).all()


@pytest.mark.parametrize("ending", ENDINGS)
def test_any_bytes_are_scores_or_refused_in_one_sentence(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"s{ending}"
    good = written(tmp_path, path.name, table_of_scores(np.random.default_rng(0), 40)).read_bytes()
    columns = {"weight": st.sampled_from(["", "w", "f"]), "relation": st.sampled_from(["", "r", "y"])}
    rates = st.none() | st.floats(1e-9, 1 - 1e-9)

    @FUZZ
    @given(damaged(good) | tables(("f", "y", "w", "r")), st.fixed_dictionaries(columns | {"base_rate": rates}))
    def reads(data: bytes, settings: dict[str, Any]) -> None:
        path.write_bytes(data)
        answered(path, **settings)

    reads()


@pytest.mark.parametrize("scale", ["any", "probability"])
def test_any_numbers_are_scores_or_refused_in_one_sentence(tmp_path: Path, scale: str) -> None:
    rows = st.lists(st.tuples(NUMBERS, st.booleans(), NUMBERS, st.sampled_from("ab")), min_size=1, max_size=40)

    @FUZZ
    @given(rows, st.booleans(), st.none() | st.floats(1e-9, 1 - 1e-9))
    def reads(values: list[tuple[float, bool, float, str]], weighted: bool, base_rate: float | None) -> None:
        columns = dict(zip(NAMES, zip(*values, strict=True), strict=False))
        path = written(tmp_path, "s.parquet", pa.table(columns))
        answered(path, weight="w" if weighted else "", relation="r", base_rate=base_rate, scale=scale)

    reads()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a calibrated model, with that of a calibrator of scores."""
    folder = tmp_path_factory.mktemp("written")
    graph = graph_with_labels()
    trained, valid = trained_on(graph), graph.valid
    sample = ground_truth_sample(trained.score(valid.triples), valid.labels, valid.triples[:, 1])
    write_calibrated(folder / "model", with_calibrator(trained, graph, sample, "per_relation"))
    path = written(folder, "s.csv", table_of_scores(np.random.default_rng(0)))
    config = config_of(relation="r")
    fit_and_measure(read_scores(path, config), config, FEW, silent).calibrators[-1].write(folder / "scores")
    return folder


def ask_model(folder: Path) -> None:
    model = kgcore.load(folder)
    assert isinstance(model, LoadedModel)
    graph = graph_with_labels()
    names = [[graph.entities[s], graph.predicates[p], graph.entities[o]] for s, p, o in graph.valid.triples[:9]]
    found = model.predict(names)
    assert found.loc[found["reason"].notna(), ["low", "probability", "high"]].isna().all(axis=None)
    answers = found[found["reason"].isna()]
    in_order(*(answers[name].to_numpy() for name in ("low", "probability", "high")))


def ask_scores(folder: Path) -> None:
    q, low, high = ScoreCalibrator.read(folder).calibrate(np.linspace(-9, 9, 9), np.arange(9) % 4)
    in_order(low, q, high)


@st.composite
def changed(draw: st.DrawFn, text: str) -> str:
    """Return JSON in which some values, at any depth, are replaced or left out, with or without a seal that fits."""
    data = json.loads(text)
    values = st.recursive(CELLS | st.none() | st.booleans() | NUMBERS | st.integers(), st.lists, max_leaves=4)
    for _ in range(draw(st.integers(1, 3))):
        inner, above = data, None
        while isinstance(inner, dict | list) and inner and (above is None or draw(st.booleans())):
            above, key = inner, draw(st.sampled_from([*inner] if isinstance(inner, dict) else range(len(inner))))
            inner = inner[key]
        if above is None:
            continue
        if draw(st.booleans()):
            above[key] = draw(values)
        else:
            del above[key]
    if SEAL in data and draw(st.booleans()):
        data |= {SEAL: seal_of({key: value for key, value in data.items() if key != SEAL})}
    return json.dumps(data)


@pytest.mark.parametrize(
    ("part", "file", "ask"),
    [
        *[("model", name, ask_model) for name in ("calibrator.json", "model/model.json", "graph/graph.json")],
        *[("model", f"graph/{name}.parquet", ask_model) for name in ("entities", "train", "valid")],
        ("model", "model/embeddings.safetensors", ask_model),
        ("scores", "score_calibrator.json", ask_scores),
    ],
)
def test_any_change_of_a_folder_is_answered_or_refused(
    folder: Path, tmp_path: Path, part: str, file: str, ask: Callable[[Path], None]
) -> None:
    copytree(folder / part, tmp_path / "copy")
    place, good = tmp_path / "copy" / file, (folder / part / file).read_bytes()
    changes = changed(good.decode()).map(str.encode) if place.suffix == ".json" else st.nothing()

    @FUZZ
    @given(changes | damaged(good))
    def asks(data: bytes) -> None:
        place.write_bytes(data)
        with one_sentence():
            ask(tmp_path / "copy")

    asks()
