"""RDF: N-Triples, N-Quads, Turtle, TriG, RDF/XML and JSON-LD, parsed as a stream by pyoxigraph.

The name of an entity or predicate is its IRI without angle brackets; the name of a blank node is `_:` and its label.
The parser gives a blank node without a label a random one, so such a node is named by its number in the file. A blank
node belongs to its file: if there are several files, its name begins with the name of the file.
Triples whose object is a literal or a quoted triple are left out and counted. The names of graphs are ignored.
"""

import json
import re
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
MOST_CHECKED = 2**26  # bytes of JSON-LD whose ids are checked
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
        _check_ids(source)
    size = max(source.path.stat().st_size, 1)
    with open_packed(source.path) as (stream, file):
        ends = _Ends(stream)
        try:
            parser = parse(ends, format=syntax)  # type: ignore[arg-type]  # it only reads
            name_blank = partial(_blank, unlabelled={}, scope=source.scope)
            number, count = 1, BLOCK_ROWS
            while count == BLOCK_ROWS:
                columns, literals, count = _some(parser, name_blank)
                table = pa.table([pa.array(column, pa.string()) for column in columns], names=COLUMNS)
                left_out = {"triples_with_literals": literals} if literals else {}
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


def _check_ids(source: TriplesFile) -> None:
    """Raise InputError if JSON-LD has relative ids, and nothing that they are relative to: the parser drops them."""
    with open_packed(source.path) as (stream, _):
        text = stream.read(MOST_CHECKED)
    if len(text) == MOST_CHECKED:
        return
    relative, waiting, words = list[str](), list[Any](), {"@id"}
    with suppress(ValueError, RecursionError):  # the parser says where
        waiting.append(json.loads(text))
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            context = value.get("@context")
            for part in context if isinstance(context, list) else [context]:
                terms = part if isinstance(part, dict) else {}
                if isinstance(part, str) or "@base" in terms:
                    return
                words |= {word for word, meaning in terms.items() if meaning == "@id"}
            relative += [own for word in words if isinstance(own := value.get(word), str) and ":" not in own]
            value = [inner for key, inner in value.items() if key != "@context"]
        waiting += value if isinstance(value, list) else []
    if relative:
        raise InputError(
            f"{source.path}: {len(relative):,} ids are relative, such as {relative[0]!r}, and nothing says to what: "
            'add "@base" to its @context'
        )


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


def _some(parser: Iterator[Any], name_blank: Callable[[str], str]) -> tuple[tuple[list[str], ...], int, int]:
    """Read up to BLOCK_ROWS triples: names by column, number of literals, number read."""
    from pyoxigraph import BlankNode, NamedNode

    subjects: list[str] = []
    predicates: list[str] = []
    objects: list[str] = []
    count = 0
    for count, quad in enumerate(parser, start=1):
        s, o = quad.subject, quad.object
        if isinstance(o, NamedNode | BlankNode) and isinstance(s, NamedNode | BlankNode):
            subjects.append(s.value if isinstance(s, NamedNode) else name_blank(s.value))
            predicates.append(quad.predicate.value)
            objects.append(o.value if isinstance(o, NamedNode) else name_blank(o.value))
        if count == BLOCK_ROWS:
            break
    return (subjects, predicates, objects), count - len(subjects), count


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
