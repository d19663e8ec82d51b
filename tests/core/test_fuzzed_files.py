"""Readers of any bytes: a graph, or one sentence that says what is wrong; never another error."""

import bz2
import gzip
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.labels import read_labels
from kgcore.data.datasets.prepare import prepare
from kgcore.data.formats.base import endings, read_candidates
from kgcore.errors import InputError
from kgcore.measure.report.graph_findings import findings, graph_page, shape_of
from tests.core.graph_files import TEXTS

EXAMPLES = int(os.environ.get("KGCAL_FUZZ", "10"))  # for each ending
FUZZ = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
ROWS = [(f"http://x.org/e{i % 9}", f"http://x.org/p{i % 2}", f"http://x.org/e{(5 * i + 1) % 9}") for i in range(60)]
CELLS = st.one_of(
    st.sampled_from(["a", "b", "p", "", " ", "subject", "predicate", "object", "label", "negated", "source", "target"]),
    st.sampled_from(
        ["true", "1", "0.5", "#", '"', "_:b", "<x:y>", "\\ud800", "NA", "id", ":TYPE", "\u2028", "\x85", "é"]
    ),
    st.text(max_size=5),
)
SEPARATORS = st.sampled_from(["\t", ",", ", ", ";", " ", "|"])


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    """Return lines of cells, most of them with one number of columns, a mark, or a header."""
    width, separator = draw(st.integers(1, 6)), draw(SEPARATORS)
    rows = draw(st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=30))
    rows += draw(st.lists(st.lists(CELLS, max_size=7), max_size=2))
    text = draw(st.sampled_from(["", "\ufeff", "# a comment\n", "\n"])) + "\n".join(separator.join(row) for row in rows)
    return (text + draw(st.sampled_from(["", "\n", "\r\n\n", "\t\n"]))).encode(errors="ignore")


def objects() -> st.SearchStrategy[bytes]:
    """Return lines of JSON, most of them objects with the keys of a triple."""
    values = st.recursive(CELLS | st.none() | st.booleans() | st.floats() | st.integers(), st.lists, max_leaves=4)
    keys = st.sampled_from(
        ["subject", "predicate", "object", "negated", "label", "id", "@id", "@context", "http://x/p"]
    )
    line = (st.dictionaries(keys, values, max_size=5) | values).map(json.dumps)
    return st.lists(line, max_size=12).map(lambda found: "\n".join(found).encode())


@st.composite
def damaged(draw: st.DrawFn, ending: str) -> bytes:
    """Return a good file in which some bytes are replaced, inserted or cut."""
    data = bytearray(good(ending))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(data)))
        data[start : start + draw(st.integers(0, 20))] = draw(
            st.binary(max_size=8) | CELLS.map(lambda c: c.encode("utf-8", "ignore"))
        )
    return bytes(data)


def good(ending: str) -> bytes:
    if ending == ".parquet":
        stream = pa.BufferOutputStream()
        pq.write_table(pa.table(dict(zip(("s", "p", "o"), zip(*ROWS, strict=True), strict=True))), stream)
        return stream.getvalue().to_pybytes()
    text = (
        TEXTS.get(ending)
        or TEXTS.get(f"{ending}.gz")
        or TEXTS[{".owl": ".rdf", ".ndjson": ".jsonl"}.get(ending, ".nt")]
    )
    return text(ROWS).encode()


def read_all(place: str, columns: Sequence[str]) -> None:
    """Read a file as a graph with its report, as candidates, and as labels."""
    spec = find_dataset(place)
    assert spec.folder is not None
    prepared = prepare(spec, spec.folder, tuple(columns))
    shape = shape_of(prepared.graph)
    graph_page(prepared.graph, shape, findings(prepared.graph, shape, prepared.counts, both=prepared.both))


@pytest.mark.parametrize("ending", [*endings(), ".tsv.gz", ".jsonl.bz2"])
def test_any_bytes_are_a_graph_or_refused_in_one_sentence(tmp_path: Path, ending: str) -> None:
    kinds = st.one_of(damaged(Path(f"x{ending}").suffixes[0]), tables(), objects(), st.binary(max_size=60))
    columns = st.sampled_from([(), ("1", "2", "3"), ("1", "2", "3", "4"), ("subject", "object", "label")])
    pack = {".gz": gzip.compress, ".bz2": bz2.compress}.get(Path(ending).suffix, bytes)

    @FUZZ
    @given(kinds, columns)
    def reads(data: bytes, chosen: tuple[str, ...]) -> None:
        path = tmp_path / f"mine{ending}"
        path.write_bytes(pack(data))
        for reader in (
            lambda: read_all(str(path), chosen),
            lambda: list(read_candidates(path)),
            lambda: read_labels(path),
        ):
            with suppress(InputError):
                reader()

    reads()


@pytest.mark.parametrize("name", ["entity2id.txt", "relation2id.txt", "train2id.txt"])
def test_any_bytes_in_a_folder_of_openke_are_a_graph_or_refused(tmp_path: Path, name: str) -> None:
    folder = {"entity2id.txt": "2\na\t0\nb\t1\n", "relation2id.txt": "1\np\t0\n", "train2id.txt": "1\n0 1 0\n"}

    @FUZZ
    @given(st.one_of(tables(), st.binary(max_size=60), st.from_regex(r"\d\n(\d\t?\d? ?\d\n){0,4}").map(str.encode)))
    def reads(data: bytes) -> None:
        for file, text in folder.items():
            (tmp_path / file).write_bytes(data if file == name else text.encode())
        with suppress(InputError):
            read_all(str(tmp_path), ())

    reads()
