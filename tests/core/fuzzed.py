"""Files and requests that hypothesis draws: good ones with damage, tables, lines of JSON. KGCAL_FUZZ says how many."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from kgcore.errors import KgcalError
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


@contextmanager
def one_sentence() -> Iterator[None]:
    """Catch an error of a user, which must have one line."""
    said = ""
    try:
        yield
    except KgcalError as error:
        said = str(error)
    assert "\n" not in said


@st.composite
def tables(draw: st.DrawFn, header: Sequence[str] = ()) -> bytes:
    """Return lines of cells, most of them with one number of columns, a mark, or a header."""
    width, separator = len(header) or draw(st.integers(1, 6)), draw(SEPARATORS)
    rows = [list(header)] if header else []
    rows += draw(st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=30))
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
def damaged(draw: st.DrawFn, good: bytes) -> bytes:
    """Return a good file in which some bytes are replaced, inserted or cut."""
    data = bytearray(good)
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(data)))
        data[start : start + draw(st.integers(0, 20))] = draw(
            st.binary(max_size=8) | CELLS.map(lambda c: c.encode("utf-8", "ignore"))
        )
    return bytes(data)


def graph_file(ending: str) -> bytes:
    """Return a good file of a graph."""
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
