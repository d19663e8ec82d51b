"""`kgcore.load`: a calibrated model from files answers as the model that was written, and names what is wrong."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import kgcore
from kgcore.answer.answers import ANSWERS, Answers
from kgcore.answer.calibrated_model import CalibratedModel
from kgcore.calibrate.sample import synthetic_sample
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.models.cohort import draw_cohort
from kgcore.errors import InputError, MismatchError
from tests.core.calibrated_models import trained_on, with_calibrator, write_calibrated
from tests.core.populations import graph_with_labels
from tests.few_trees import few_trees

NAMES = ["subject", "predicate", "object"]


def calibrated(graph: KnowledgeGraph, name: str = "isotonic", **settings: object) -> CalibratedModel:
    """Train a small model with a cohort, and fit a calibrator to its scores at the base rate 0.4."""
    trained = replace(trained_on(graph, **settings), cohort=draw_cohort(graph, 20, 0.5, 1.0, np.random.default_rng(1)))
    scores, predicates = trained.score(graph.valid.triples), graph.valid.triples[:, 1]
    noise = np.random.default_rng(2).normal(0, scores.std(), len(scores))
    true = scores + noise > np.median(scores)  # labels that the scores predict
    sample = synthetic_sample(scores[true], scores[~true], 0.4, predicates=(predicates[true], predicates[~true]))
    return with_calibrator(trained, graph, sample, name, "synthetic", 0.4)


@pytest.fixture
def candidates(small_graph: KnowledgeGraph) -> pd.DataFrame:
    """Return test triples, then one triple with an unknown subject and one with two unknown names."""
    frame = small_graph.names_of(small_graph.test.triples)
    unknown = pd.DataFrame([["?", "p0", "e1"], ["e1", "?", "!"]], columns=NAMES)
    return pd.concat([frame, unknown], ignore_index=True)


@pytest.mark.parametrize(("model", "calibrator"), [("transe", "platt"), ("complex", "per_relation")])
def test_a_model_from_files_has_the_answers_of_the_model_that_was_written(
    small_graph: KnowledgeGraph, candidates: pd.DataFrame, tmp_path: Path, model: str, calibrator: str
) -> None:
    written = calibrated(small_graph, calibrator, model=model)
    write_calibrated(tmp_path, written)
    loaded = kgcore.load(tmp_path)
    assert (loaded.dataset, loaded.label, loaded.base_rate) == ("small", f"synthetic.{calibrator}", 0.4)
    expected = Answers(written, threshold=0.5, at_least=5).table(pa.Table.from_pandas(candidates)).to_pandas()
    answers = loaded.predict(candidates)
    assert list(answers.columns) == [*NAMES, *ANSWERS]
    for name in ("score", "probability", "low", "high"):
        np.testing.assert_array_equal(answers[name], expected[name])
    for name in ("decision", "known", "reason"):
        assert answers[name].isna().tolist() == expected[name].isna().tolist()
        assert answers[name].dropna().tolist() == expected[name].dropna().tolist()
    assert list(answers["reason"].tail(2)) == ["unknown subject", "unknown predicate and object"]


def test_arguments_change_the_answers_as_their_definitions_say(
    small_graph: KnowledgeGraph, candidates: pd.DataFrame, tmp_path: Path
) -> None:
    write_calibrated(tmp_path, calibrated(small_graph, "platt"))
    loaded = kgcore.load(tmp_path)
    before = loaded.predict(candidates)["probability"]
    after = loaded.predict(candidates, base_rate=0.1, threshold=0.2)
    shift = before / (1 - before) / (after["probability"] / (1 - after["probability"]))
    np.testing.assert_allclose(shift.dropna(), (0.4 / 0.6) / (0.1 / 0.9), rtol=1e-9)
    assert (after["decision"].dropna() == (after["probability"].dropna() > 0.2)).all()
    pd.testing.assert_series_equal(loaded.predict(candidates, base_rate=0.4)["probability"], before)
    pd.testing.assert_series_equal(loaded.predict(candidates)["probability"], before)  # nothing was kept
    few = loaded.predict(candidates, at_least=10_000)
    assert few["probability"].isna().all()
    assert set(few["reason"].head(len(small_graph.test))) == {"too little calibration data for the predicate"}


def test_columns_have_the_same_types_whatever_is_missing(
    small_graph: KnowledgeGraph, candidates: pd.DataFrame, tmp_path: Path
) -> None:
    write_calibrated(tmp_path, calibrated(small_graph))
    loaded = kgcore.load(tmp_path)
    kinds = [str(kind) for kind in loaded.predict(candidates)[list(ANSWERS)].dtypes]
    assert kinds == ["float64"] * 4 + ["boolean"] * 2 + ["str"] * 2
    for part in (candidates.head(5), candidates.tail(2), candidates.head(0)):
        assert [str(kind) for kind in loaded.predict(part)[list(ANSWERS)].dtypes] == kinds


def test_the_index_and_further_columns_are_kept(
    small_graph: KnowledgeGraph, candidates: pd.DataFrame, tmp_path: Path
) -> None:
    write_calibrated(tmp_path, calibrated(small_graph))
    loaded = kgcore.load(tmp_path)
    frame = candidates[["object", "subject", "predicate"]].assign(note=[{"any": "thing"}] * len(candidates))
    frame.index = pd.Index(["same label"] * len(frame))
    answers = loaded.predict(frame)
    assert list(answers.columns) == ["object", "subject", "predicate", "note", *ANSWERS]
    assert answers.index.equals(frame.index)
    expected = loaded.predict(candidates)["probability"].to_numpy()
    for same in (answers, loaded.predict(candidates.astype("category")), loaded.predict(candidates.astype(object))):
        np.testing.assert_array_equal(same["probability"], expected)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("object", None, "the candidates have no column object: they must have subject, predicate, object"),
        ("low", [0.1, 0.2], "already have the columns low of the answers: leave them out"),
        ("subject", ["e1", None], "row 2 has no subject: every triple needs a subject, a predicate and an object"),
        ("subject", [None, None], "row 1 has no subject"),
        ("predicate", ["p1", float("nan")], "row 2 has no predicate"),
        ("subject", [1, 2], "row 1 has the subject 1 (int): names must be UTF-8 text"),
        ("object", ["e1", 2.5], "row 2 has the object 2.5 (float): names must be UTF-8 text"),
        ("object", ["e1", "\ud800"], "row 2 has the object '\\ud800' (str): names must be UTF-8 text"),
        ("object", [b"e1", b"e2"], "row 1 has the object b'e1' (bytes): names must be UTF-8 text"),
    ],
)
def test_a_fault_in_the_candidates_is_named_with_its_row(
    small_graph: KnowledgeGraph, tmp_path: Path, column: str, values: list[object] | None, message: str
) -> None:
    write_calibrated(tmp_path, calibrated(small_graph))
    frame = pd.DataFrame([["e1", "p0", "e2"], ["e3", "p1", "e4"]], columns=NAMES, dtype=object)
    frame = frame.drop(columns=column) if values is None else frame.assign(**{column: pd.Series(values, dtype=object)})
    with pytest.raises(InputError) as error:
        kgcore.load(tmp_path).predict(frame)
    assert message in str(error.value)


@pytest.mark.parametrize("kind", [list, iter, tuple])
def test_triples_may_come_from_what_is_read_once(small_graph: KnowledgeGraph, tmp_path: Path, kind: Any) -> None:
    write_calibrated(tmp_path, calibrated(small_graph))
    loaded, triples = kgcore.load(tmp_path), [("e1", "p0", "e2"), ("e3", "p1", "e4")] * 2
    pd.testing.assert_frame_equal(loaded.predict(kind(triples)), loaded.predict(pd.DataFrame(triples, columns=NAMES)))


@pytest.mark.parametrize("candidates", [{("e1", "p0", "e2")}, None, "e1", Path("x.tsv")])
def test_what_has_no_order_of_triples_is_refused(small_graph: KnowledgeGraph, tmp_path: Path, candidates: Any) -> None:
    write_calibrated(tmp_path, calibrated(small_graph))
    with pytest.raises(InputError, match="the candidates must be a frame, or triples in an order, such as a list"):
        kgcore.load(tmp_path).predict(candidates)


@pytest.mark.parametrize("row", [None, 5, "abc", ("e1", "p0")])
def test_a_row_that_is_no_triple_is_named(small_graph: KnowledgeGraph, tmp_path: Path, row: Any) -> None:
    write_calibrated(tmp_path, calibrated(small_graph))
    with pytest.raises(InputError, match=r"candidate 1 is .*: it must be a subject, a predicate and an object"):
        kgcore.load(tmp_path).predict([("e1", "p0", "e2"), row])


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"base_rate": 1.0}, "base_rate is 1: it must be above 0 and below 1"),
        ({"base_rate": "0.5"}, "base_rate is '0.5': it must be a number above 0 and below 1"),
        ({"base_rate": (0.2, 0.4)}, r"base_rate is \(0.2, 0.4\): it must be a number above 0 and below 1"),
        ({"base_rate": 10**400}, "base_rate is 10000.*: it must be above 0 and below 1"),
        ({"threshold": 1.5}, "threshold is 1.5: it must be at least 0 and at most 1"),
        ({"at_least": -1}, "at_least is -1: it must be at least 0"),
    ],
)
def test_an_argument_out_of_range_is_refused(
    small_graph: KnowledgeGraph, candidates: pd.DataFrame, tmp_path: Path, argument: dict[str, float], message: str
) -> None:
    write_calibrated(tmp_path, calibrated(small_graph))
    with pytest.raises(InputError, match=message):
        kgcore.load(tmp_path).predict(candidates, **argument)


@pytest.mark.parametrize(
    ("file", "part"),
    [("calibrator.json", "calibrator.json"), ("model/model.json", "model"), ("graph/test.parquet", "graph")],
)
def test_a_folder_without_a_file_is_refused(small_graph: KnowledgeGraph, tmp_path: Path, file: str, part: str) -> None:
    write_calibrated(tmp_path, calibrated(small_graph))
    (tmp_path / file).unlink()
    with pytest.raises(InputError, match=f"has no complete {part}: download a version of a registered model"):
        kgcore.load(tmp_path)
    with pytest.raises(InputError, match="is not a folder"):
        kgcore.load(tmp_path / "none")


@pytest.mark.parametrize(
    "file", ["calibrator.json", "model/model.json", "model/embeddings.safetensors", "graph/train.parquet"]
)
def test_a_damaged_file_is_reported_without_a_traceback(small_graph: KnowledgeGraph, tmp_path: Path, file: str) -> None:
    write_calibrated(tmp_path, calibrated(small_graph))
    (tmp_path / file).write_bytes((tmp_path / file).read_bytes()[:20])
    with pytest.raises(InputError, match="cannot be read"):
        kgcore.load(tmp_path)


@pytest.mark.parametrize("part", ["model", "graph"])
def test_files_of_two_models_are_not_mixed(small_graph: KnowledgeGraph, tmp_path: Path, part: str) -> None:
    other = replace(small_graph, entities=[*small_graph.entities[:-1], "another"])
    write_calibrated(tmp_path / "one", calibrated(small_graph))
    write_calibrated(tmp_path / "two", calibrated(other, seed=1))
    for path in (tmp_path / "two" / part).iterdir():
        path.replace(tmp_path / "one" / part / path.name)
    with pytest.raises(MismatchError, match=rf"was fitted to the {part} \w+, but the {part} there is"):
        kgcore.load(tmp_path / "one")


LOAD_AND_IMPORT_ALL = """
import importlib, pkgutil, sys
from pathlib import Path
import kgcore
assert 'torch' not in sys.modules
kgcore.load(sys.argv[1])
from kgcore.data.formats.base import read_candidates
list(read_candidates(Path(sys.argv[2])))
print([name for name in ('prefect', 'mlflow', 'tasks', 'flows', 'pyoxigraph') if name in sys.modules])

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in ('prefect', 'mlflow', 'tasks', 'flows'):
            raise ModuleNotFoundError(f'No module named {name!r}')

sys.meta_path.insert(0, Absent())
names = [m.name for m in pkgutil.walk_packages(kgcore.__path__, 'kgcore.')]
for name in names:
    importlib.import_module(name)
print(len(names))
"""


@pytest.mark.long
def test_kgcore_needs_neither_prefect_nor_mlflow_and_torch_only_when_a_model_is_loaded(
    small_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    """In one process, as its imports take seconds: a model is loaded, then every module of kgcore is imported.

    Loading imports neither Prefect nor MLflow, and reading a text file no parser of RDF. Afterwards the process cannot
    import Prefect and MLflow.
    """
    write_calibrated(tmp_path, calibrated(small_graph))
    text = tmp_path / "candidates.tsv"
    text.write_text("e1\tp0\te2\n")
    command = [sys.executable, "-c", LOAD_AND_IMPORT_ALL, str(tmp_path), str(text)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    imported, modules = done.stdout.splitlines()
    assert imported == "[]"
    assert int(modules) > 40


def test_a_loaded_model_ranks_discovers_and_explains(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    write_calibrated(tmp_path, calibrated(small_graph))
    loaded = kgcore.load(tmp_path)
    ranked = loaded.answers("e1", "p0", top=5)
    assert ranked["score"].is_monotonic_decreasing
    pd.testing.assert_frame_equal(
        loaded.predict(ranked[NAMES])[["score", "probability"]], ranked[["score", "probability"]], check_flags=False
    )
    assert "about triples like validation facts and their corruptions, at the base rate 0.4" in ranked.attrs["about"]
    assert loaded.answers(predicate="p0", object="e1", top=40)["known"].any()
    first = ranked.iloc[0]
    explanation = loaded.explain(first["subject"], "p0", first["object"])
    assert (explanation.score, explanation.probability) == (first["score"], first["probability"])
    with pytest.raises(InputError, match="give one of them"):
        loaded.answers("e1", "p0", "e2")
    with pytest.raises(InputError, match="has no entity 'x'"):
        loaded.discover("x")
    with pytest.raises(InputError, match="top is 0: it must be at least 1"):
        loaded.answers("e1", "p0", top=0)


def test_a_loaded_model_lists_missing_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their probabilities need a statement of how many are true; their order does not depend on it."""
    few_trees(monkeypatch)
    write_calibrated(tmp_path, calibrated(graph_with_labels()))
    loaded = kgcore.load(tmp_path)
    ranked = loaded.discover(predicate="p1", top=7)
    assert len(ranked) == 7
    assert not ranked["known"].any()
    assert ranked["probability"].isna().all()
    assert (ranked["reason"] == "the base rate of the candidates is not stated").all()
    stated = loaded.discover(predicate="p1", top=7, completeness=0.9)
    assert stated["probability"].is_monotonic_decreasing
    assert stated["probability"].notna().all()
    by_rate = loaded.discover(top=50, base_rate=1e-3)
    assert by_rate["probability"].is_monotonic_decreasing
    query = loaded.discover("e3", "p1", top=4, completeness="0.8:0.95")
    assert (query["low"] <= query["probability"]).all()
    answers = loaded.answers("e3", "p1", top=30, completeness="0.8:0.95")
    assert answers["score"].is_monotonic_decreasing
    assert answers["probability"].is_monotonic_decreasing
    assert answers["known"].any()
    columns = [*NAMES, "probability", "low", "high", "flag"]
    missing = answers[~answers["known"]].reset_index(drop=True)[columns].head(4)
    pd.testing.assert_frame_equal(missing, query[columns])
    made = loaded.explain(*query[NAMES].iloc[0], completeness="0.8:0.95")
    assert (made.probability, made.low, made.high) == tuple(query[["probability", "low", "high"]].iloc[0])
    assert made.about in made.sentences
    number = r"(\S+) \((\S+) to (\S+)\) of them true by the stated completeness 0.8:0.95"
    [counts] = re.findall(number, made.about)
    middle, low, high = map(float, counts)
    assert low < middle < high
    odds = (1 - 0.8) / 0.8 / ((1 - 0.95) / 0.95)  # a completeness c means (1 - c) / c unknown facts for a known one
    assert high / low == pytest.approx(odds, rel=0.1)
    by_rate = loaded.discover(predicate="p1", top=1, base_rate="0.001:0.01")
    made = loaded.explain(*by_rate[NAMES].iloc[0], base_rate="0.001:0.01", missing=True)
    assert made.probability == by_rate["probability"].iloc[0]
    with pytest.raises(InputError, match="nothing says how many of the"):
        loaded.explain(*by_rate[NAMES].iloc[0], missing=True)
    with pytest.raises(InputError, match="there are no probabilities: state completeness or base_rate"):
        loaded.discover(above=0.5)
