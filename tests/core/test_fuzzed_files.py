"""Readers of any bytes: a graph, or one sentence that says what is wrong; never another error."""

import bz2
import gzip
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.labels import read_labels
from kgcore.data.datasets.prepare import prepare
from kgcore.data.formats.base import endings, read_candidates
from kgcore.measure.report.graph_findings import findings, graph_page, shape_of
from tests.core.fuzzed import FUZZ, damaged, graph_file, objects, one_sentence, tables


def read_all(place: str, columns: Sequence[str]) -> None:
    """Read a file as a graph with its report, as candidates, and as labels."""
    spec = find_dataset(place)
    assert spec.folder is not None
    prepared = prepare(spec, spec.folder, tuple(columns))
    shape = shape_of(prepared.graph)
    graph_page(prepared.graph, shape, findings(prepared.graph, shape, prepared.counts, both=prepared.both))


@pytest.mark.parametrize("ending", [*endings(), ".tsv.gz", ".jsonl.bz2"])
def test_any_bytes_are_a_graph_or_refused_in_one_sentence(tmp_path: Path, ending: str) -> None:
    kinds = st.one_of(damaged(graph_file(Path(f"x{ending}").suffixes[0])), tables(), objects(), st.binary(max_size=60))
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
            with one_sentence():
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
        with one_sentence():
            read_all(str(tmp_path), ())

    reads()
