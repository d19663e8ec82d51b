"""RDF: N-Triples, N-Quads, Turtle, TriG, RDF/XML and JSON-LD, parsed as a stream by pyoxigraph.

The name of an entity or predicate is its IRI without angle brackets; the name of a blank node is `_:` and its label.
The parser gives a blank node without a label a random one, so such a node is named by its number in the file. A blank
node belongs to its file: if there are several files, its name begins with the name of the file.
Triples whose object is a literal are left out and counted, and so is what describes another triple (RDF-star): triples
with a quoted triple, and those of the blank node that stands for one. The names of graphs are ignored.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pyarrow as pa

from kgcore.data.formats.base import BLOCK_ROWS, COLUMNS, Block, Format, TriplesFile, open_packed
from kgcore.data.formats.text import MARK
from kgcore.errors import InputError
from kgcore.registries import FORMATS

BEGIN, END = 2**16, 2**12  # bytes of a file that are remembered
MOST_CHECKED = 2**26  # bytes of JSON-LD whose ids and keys are checked
MOST_SHOWN = 3
# what a container of JSON-LD has as keys is data, unless it is one of these
_NO_MAPS = {"@list", "@set", None}
_ELEMENT = re.compile(rb"<([A-Za-z_][^\s/>]*)")
_NO_ELEMENT = re.compile(rb"<!--.*?-->|<\?.*?\?>|<!DOCTYPE[^\[>]*(\[.*?\]\s*)?>", re.DOTALL)
# a label that pyoxigraph makes: 128 random bits in hexadecimal digits, the first one a letter
_RANDOM = re.compile(r"[a-f][0-9a-f]{28,31}")


def read_rdf(source: TriplesFile, name: str) -> Iterator[Block]:
    """Yield the triples of an RDF file. `name` is that of its syntax in `pyoxigraph.RdfFormat`.

    Raises InputError, with file and line, at the first mistake in the syntax, or if `columns` is set.
    """
    from pyoxigraph import RdfFormat, parse  # not at the head: readers of all files import this module for its endings

    if option := source.first_option:
        raise InputError(f"{source.path} is RDF, and its triples have no columns: leave out {option}")
    syntax = getattr(RdfFormat, name)
    if syntax == RdfFormat.JSON_LD:
        _check_json_ld(source)
    size = max(source.path.stat().st_size, 1)
    with open_packed(source.path) as (stream, file):
        ends = _Ends(stream)
        try:
            parser = parse(ends, format=syntax)  # type: ignore[arg-type]  # it only reads
            name_blank, reifiers = partial(_blank, unlabelled={}, scope=source.scope), set[str]()
            number, count = 1, BLOCK_ROWS
            while count == BLOCK_ROWS:
                columns, left_out, count = _some(parser, name_blank, reifiers)
                table = pa.table([pa.array(column, pa.string()) for column in columns], names=COLUMNS)
                yield Block(table, min(file.tell() / size, 1.0), number, left_out=left_out)
                number += len(table)
            if syntax == RdfFormat.RDF_XML:
                ends.check_closed(source)
        except SyntaxError as error:
            what = (str(error.msg).partition(": ")[2] or str(error.msg)).partition("\n")[0]
            if "LoadDocumentCallback" in what:
                what = "its @context is an address, and kgcal opens none. Write the context into the file"
            if "No scheme found" in what and "N_" not in name:  # N-Triples and N-Quads have no base
                what = "an IRI is relative, and nothing says to what: add xml:base, or @base in Turtle"
            place = f", line {error.lineno}" if error.lineno else ""
            raise InputError(f"{source.path}{place}: {what}: it must be valid {syntax.name}") from error


def _check_json_ld(source: TriplesFile) -> None:
    """Raise InputError for what the parser of JSON-LD drops: relative ids without a base, links of undefined keys."""
    with open_packed(source.path) as (stream, _):
        text = stream.read(MOST_CHECKED)
    if len(text) == MOST_CHECKED:
        return
    waiting, terms, ids = list[Any](), dict[str, object](), {"@id"}
    relative, links = list[str](), Counter[str]()
    with suppress(ValueError, RecursionError):  # the parser says where
        waiting.append(json.loads(text))
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            for part in _listed(value.get("@context")):
                if isinstance(part, str):
                    return  # the parser says that no address is opened
                if isinstance(part, dict):
                    terms |= part
                    ids |= {term for term, meaning in part.items() if meaning == "@id"}
                    scoped = [meaning.get("@context") for meaning in part.values() if isinstance(meaning, dict)]
                    waiting += [{"@context": context} for context in scoped if context is not None]
            relative += [own for key in ids if isinstance(own := value.get(key), str) and ":" not in own]
            for key, inner in value.items():
                if key != "@context":
                    links[key] += sum(isinstance(link, dict) and "@value" not in link for link in _listed(inner))
                    waiting += _values(terms.get(key), inner)
    if relative and "@base" not in terms:
        raise InputError(
            f"{source.path}: {len(relative):,} ids are relative, such as {relative[0]!r}, and nothing says to what: "
            'add "@base" to its @context'
        )
    unknown = [key for key, count in links.items() if count and key not in terms and not key.startswith("@")]
    if (unknown := [key for key in unknown if ":" not in key]) and terms.get("@vocab") is None:
        raise InputError(
            f"{source.path}: its @context does not define {', '.join(unknown[:MOST_SHOWN])}"
            f"{', ...' * (len(unknown) > MOST_SHOWN)}, so {sum(links[key] for key in unknown):,} links have no "
            f'predicate: define each key there, add "@vocab" for all, or leave them out by "{unknown[0]}": null'
        )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _values(meaning: Any, value: Any) -> list[Any]:
    """Return what JSON-LD has under a key of this meaning. The keys of a map are data, and a value may be any JSON."""
    definition = meaning if isinstance(meaning, dict) else {}
    if definition.get("@type") == "@json":
        return []
    is_map = isinstance(value, dict) and not _NO_MAPS.issuperset(_listed(definition.get("@container")))
    return list(value.values()) if is_map else [value]


class _Ends:
    """A stream without the byte order mark, which remembers the begin and the end of what was read."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._begin, self._end = stream, b"", b""

    def read(self, size: int = -1) -> bytes:
        """Read some bytes."""
        data: bytes = self._stream.read(size)
        if not self._begin:
            data = data.removeprefix(MARK)
        if len(self._begin) < BEGIN:
            self._begin = (self._begin + data)[:BEGIN]
        self._end = (self._end + data)[-END:]
        return data

    def check_closed(self, source: TriplesFile) -> None:
        """Raise InputError if a file of XML ends before its outer element, which the parser does not notice."""
        begin = _NO_ELEMENT.sub(b"", self._begin)
        if (outer := _ELEMENT.search(begin)) and b"<!" not in begin[: outer.start()]:  # no longer comment
            closed = rb"</" + re.escape(outer[1]) + rb"\s*>(\s|<!--.*?-->)*$"
            if not re.search(closed, self._end, re.DOTALL):
                raise InputError(f"{source.path} ends before </{outer[1].decode(errors='replace')}>: it is incomplete")


def _some(
    parser: Iterator[Any], name_blank: Callable[[str], str], reifiers: set[str]
) -> tuple[tuple[list[str], ...], Counter[str], int]:
    """Read up to BLOCK_ROWS triples: names by column, name of a count -> number left out, number read.

    reifiers  labels of the blank nodes that stand for a triple, to which those of this block are added
    """
    from pyoxigraph import BlankNode, NamedNode, Triple

    subjects: list[str] = []
    predicates: list[str] = []
    objects: list[str] = []
    left_out, count = Counter[str](), 0
    for count, quad in enumerate(parser, start=1):
        s, o = quad.subject, quad.object
        if isinstance(o, Triple):
            left_out["triples_about_triples"] += 1
            reifiers |= {s.value} if isinstance(s, BlankNode) else set()
        elif reifiers and isinstance(s, BlankNode) and s.value in reifiers:
            left_out["triples_about_triples"] += 1
        elif isinstance(o, NamedNode | BlankNode):
            subjects.append(s.value if isinstance(s, NamedNode) else name_blank(s.value))
            predicates.append(quad.predicate.value)
            objects.append(o.value if isinstance(o, NamedNode) else name_blank(o.value))
        else:
            left_out["triples_with_literals"] += 1
        if count == BLOCK_ROWS:
            break
    return (subjects, predicates, objects), left_out, count


def _blank(label: str, unlabelled: dict[str, str], scope: str) -> str:
    if _RANDOM.fullmatch(label):
        label = unlabelled.setdefault(label, f"unlabelled_{len(unlabelled) + 1}")
    return f"_:{scope}{label}"


FORMATS.add("n_triples", Format("N-Triples", (".nt", ".ntriples"), partial(read_rdf, name="N_TRIPLES"), unit="triple"))
FORMATS.add("n_quads", Format("N-Quads", (".nq", ".nquads"), partial(read_rdf, name="N_QUADS"), unit="triple"))
FORMATS.add("turtle", Format("Turtle", (".ttl", ".turtle"), partial(read_rdf, name="TURTLE"), unit="triple"))
FORMATS.add("trig", Format("TriG", (".trig",), partial(read_rdf, name="TRIG"), unit="triple"))
FORMATS.add("rdf_xml", Format("RDF/XML", (".rdf", ".owl"), partial(read_rdf, name="RDF_XML"), unit="triple"))
FORMATS.add("json_ld", Format("JSON-LD", (".jsonld",), partial(read_rdf, name="JSON_LD"), unit="triple"))
