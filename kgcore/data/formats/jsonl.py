"""JSON Lines, as KGX writes edges: one JSON object a line, whose keys are the columns of a table."""

import json
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa

from kgcore.data.formats.base import COLUMNS, Block, Format, TriplesFile
from kgcore.data.formats.columns import find_columns
from kgcore.data.formats.text import MARK, check_text, whole_lines
from kgcore.errors import InputError, first_line
from kgcore.registries import FORMATS

APOC = "jq -r 'select(.type == \"relationship\") | [.start.id, .label, .end.id] | @tsv' FILE > edges.tsv"
NAMING = ("id", "@id", "name", "label")  # keys of an object whose values name it; the first one that it has does


def read_json_lines(source: TriplesFile) -> Iterator[Block]:
    """Yield the blocks of a file of JSON objects. A key that a line lacks, or null, is an empty value.

    Raises InputError, with file and line, for a line that is no JSON object, and as `find_columns` does.
    """
    seen, line = _keys(source) if source.further else dict[str, None](), 1
    for data, done in whole_lines(source.path):
        check_text(source.path, data, line)
        lines = data.removeprefix(MARK).decode().removesuffix("\n").split("\n")
        rows = {number: _object(source, number, text) for number, text in enumerate(lines, start=line) if text.strip()}
        seen |= dict.fromkeys(key for row in rows.values() for key in row)
        keys = list(seen)
        found = find_columns(source, keys, named=True)
        columns = {name: keys[place] for name, place in found.names.items()}
        texts = {
            name: [_text(source, number, name, row, key) for number, row in rows.items()]
            for name, key in columns.items()
        }
        blank = tuple(number for number in range(line, line + len(lines)) if number not in rows)
        table = pa.table({name: pa.array(column, pa.string()) for name, column in texts.items()})
        yield Block(table, done, line, blank, unread=found.unread)
        line += len(lines)


def _keys(source: TriplesFile) -> dict[str, None]:
    """Return all keys of a file, so that every block has the same columns. Lines with faults are left for later."""
    seen = dict[str, None]()
    for data, _ in whole_lines(source.path):
        for text in filter(str.strip, data.removeprefix(MARK).decode(errors="replace").split("\n")):
            with suppress(ValueError, RecursionError):
                row = json.loads(text)
                seen |= dict.fromkeys(row) if isinstance(row, dict) else {}
    return seen


class _Row(dict[str, object]):
    """The values of a JSON object by key. Of a key that occurs twice, in `twice`, readers take different values."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        self.twice = {key for key, count in Counter(key for key, _ in pairs).items() if count > 1}


def _object(source: TriplesFile, line: int, text: str) -> _Row:
    try:
        value = json.loads(text, object_pairs_hook=_Row)
        json.dumps(value, ensure_ascii=False).encode() if "\\u" in text else None  # half of a pair of surrogates
    except (ValueError, RecursionError) as error:
        mend = _as_lines(text) or f"{first_line(error)}: it must be a JSON object"
        raise InputError(f"{source.path}, line {line}: {mend}") from error
    if not isinstance(value, _Row):
        mend = _as_lines(text) or "it must be a JSON object, such as an edge of KGX"
        raise InputError(f"{source.path}, line {line}: {mend}")
    return value


def _as_lines(text: str) -> str:
    """Return how to mend a line that is a part of a list, or of an object of several lines; empty if it is neither."""
    text = text.strip()
    if text.startswith("[") or text.endswith(","):
        return "the line is part of a list: write each object of the list as a line, as `jq -c '.[]' FILE` does"
    if text == "{":
        return "the object has several lines: write each object as one line, as `jq -c . FILE` does"
    return ""


def _instead(key: str, value: list[object] | dict[str, object]) -> str:
    """Return what to write in place of a list or an object."""
    if isinstance(value, list):
        return f"a list of {len(value):,}: write a line for each of its values, with text as {key}"
    texts = [inner for inner, of_inner in value.items() if isinstance(of_inner, str | int)]
    inner = next((name for name in NAMING if name in texts), texts[0] if texts else "")
    if not inner:
        return f"an object: write text as {key}"
    return f"an object: write the value of its key {inner} in its place: " + json.dumps({key: value[inner]})[1:-1]


def _text(source: TriplesFile, line: int, name: str, row: _Row, key: str) -> str:
    """Return a value as text: numbers and truth values, and in further columns lists and objects, as JSON."""
    value = row.get(key)
    wrong = ""
    of_apoc = name in COLUMNS and row.get("type") == "relationship" and row.keys() >= {"label", "start", "end"}
    if of_apoc and isinstance(value, dict):
        wrong = f"is an object of APOC: write the relationships as a table: {APOC}"
    elif of_apoc and key == "type":
        wrong = "is only 'relationship': give --columns start,label,end, and leave out lines of nodes"
    elif name in COLUMNS and isinstance(value, list | dict):
        wrong = f"is {_instead(key, value)}"
    elif name in COLUMNS and isinstance(value, float) and not math.isfinite(value):
        wrong = f"is {value}: write text, or null"
    elif key in row.twice:
        wrong = f"is given twice, by the key {key}: leave out one"
    if wrong:
        raise InputError(f"{source.path}, line {line}: {name} {wrong}")
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


FORMATS.add("jsonl", Format("JSON Lines", (".jsonl", ".ndjson"), read_json_lines))
