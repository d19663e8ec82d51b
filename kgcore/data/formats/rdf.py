"""RDF: N-Triples, N-Quads, Turtle, TriG, RDF/XML and JSON-LD, parsed as a stream by pyoxigraph.

The name of an entity or predicate is its IRI without angle brackets; the name of a blank node is `_:` and its label.
The parser gives a blank node without a label a random one, so such a node is named by its number in the file. A blank
node belongs to its file: if there are several files, its name begins with the name of the file.
Triples whose object is a literal are left out and counted, and so is what describes another triple: triples with a
quoted triple (RDF-star), and those of a node that stands for one (rdf:Statement, owl:NegativePropertyAssertion). The
names of graphs are no part of a name; a doubt counts the triples of each graph.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import compress
from typing import Any, TypeAlias

import pyarrow as pa

from kgcore.data.formats.base import BLOCK_ROWS, COLUMNS, MOST_NAMED, Block, Doubt, Format, TriplesFile, open_packed
from kgcore.data.formats.text import BLOCK_BYTES, MARK
from kgcore.errors import InputError
from kgcore.registries import FORMATS

BEGIN, END = 2**16, 2**12  # bytes of a file that are remembered
MOST_CHECKED = 2**26  # bytes of JSON-LD whose ids and keys are checked
MOST_HEAD, MOST_ENTITY = 2**24, 4096  # bytes before the first element of XML, and of what one of its entities is
MOST_SHOWN = 3
DEFAULT = "the graph without a name"
NO_MAPS = {"@list", "@set", "@graph"}  # containers of JSON-LD that are no maps
# a file without these has no triple about a triple
ABOUT_TRIPLES = (
    *(b"<<", b"{|", b"reifies", b"rdf:annotation", b"#Statement", b":Statement", b"rdf:ID", b"NegativeProp"),
    *(b"rdf:subject", b"-ns#subject"),
)
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
# the classes of nodes that stand for a triple, asserted or denied
# the predicates that a node has if it stands for a triple, whatever its class, as in KGX
DESCRIBE = TYPE.replace("type", "subject"), TYPE.replace("type", "object")
STATEMENTS = {TYPE.replace("type", "Statement"), "http://www.w3.org/2002/07/owl#NegativePropertyAssertion"}
Terms: TypeAlias = Mapping[str, Any]
_ELEMENT = re.compile(rb"<([A-Za-z_][^\s/>]*)")
_BEFORE = re.compile(rb"<!--.*?-->|^\s+|<\?.*?\?>\s*", re.DOTALL)
_ENTITY = re.compile(rb"""<!ENTITY\s+(?:%\s+)?(\S+)\s+(?:"([^"]*)"|'([^']*)')""")
_REFERENCE = re.compile(rb"[&%]([^;#\s]+);")
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
    if syntax == RdfFormat.RDF_XML:
        _check_entities(source)
    size, reifiers = max(source.path.stat().st_size, 1), _reifiers(source, syntax)
    graphs = Counter[str]() if syntax.supports_datasets else None
    with open_packed(source.path) as (stream, file):
        ends = _Ends(stream)
        try:
            parser = parse(ends, format=syntax)  # type: ignore[arg-type]  # it only reads
            name_blank = partial(_blank, unlabelled={}, scope=source.scope)
            number, count = 1, BLOCK_ROWS
            while count == BLOCK_ROWS:
                columns, left_out, count = _some(parser, name_blank, reifiers, graphs)
                table = pa.table([pa.array(column, pa.string()) for column in columns], names=COLUMNS)
                doubts = _doubts(source, graphs or Counter())
                yield Block(table, min(file.tell() / size, 1.0), number, left_out=left_out, doubts=doubts)
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


def _check_entities(source: TriplesFile) -> None:
    """Raise InputError if entities of XML grow: a few of them can become gigabytes."""
    with open_packed(source.path) as (stream, _):
        data = stream.read(MOST_HEAD).removeprefix(MARK)
    if b"<!ENTITY" not in data and len(data) < MOST_HEAD - len(MARK):  # the whole file
        return
    head = _BEFORE.sub(b"", data)
    if not head.startswith((b"<!DOCTYPE", b"<!--")):
        return
    end = re.search(rb"\]\s*>|^[^\[]*>", head)
    if end is None:
        raise InputError(f"{source.path} has no end of its DOCTYPE in {MOST_HEAD // 2**20} MB: leave it out")
    values = {found[1]: found[2] or found[3] or b"" for found in _ENTITY.finditer(_BEFORE.sub(b"", head[: end.end()]))}
    sizes = dict.fromkeys(values, 0)
    for _ in range(len(values) + 1):  # an entity may contain others; a circle grows in each round
        sizes = {
            name: len(value) + sum(sizes.get(inner, 0) for inner in _REFERENCE.findall(value))
            for name, value in values.items()
        }
        if large := [name.decode(errors="replace") for name, size in sizes.items() if size > MOST_ENTITY]:
            raise InputError(
                f"{source.path}: the XML entity {large[0]} stands for over {MOST_ENTITY:,} bytes: write out what it "
                "stands for"
            )


def _check_json_ld(source: TriplesFile) -> None:
    """Raise InputError for what the parser of JSON-LD drops: relative ids without a base, and links without a meaning.

    A link is a key of a node whose value has an id, or a type. Its meaning is in the contexts of the nodes around it.
    """
    with open_packed(source.path) as (stream, _):
        text = stream.read(MOST_CHECKED)
    if len(text) == MOST_CHECKED:
        return
    waiting, relative, undefined = list[tuple[Any, Terms]](), list[str](), Counter[str]()
    with suppress(ValueError, RecursionError):  # the parser says where
        waiting.append((json.loads(text), {}))
    while waiting:
        value, terms = waiting.pop()
        if isinstance(value, list):
            waiting += [(each, terms) for each in value]
        elif isinstance(value, dict) and "@value" not in value:
            if any(isinstance(part, str) for part in _listed(value.get("@context"))):
                return  # the parser says that no address is opened
            terms = _within(terms, value)
            for key, inner in value.items():
                meaning, definition = _meaning(key, terms), _definition(key, terms)
                words = [word for word in _listed(inner) if isinstance(word, str)]
                if meaning == "@id" or (meaning and definition.get("@type") == "@id"):
                    relative += [word for word in words if ":" not in word and terms.get("@base") is None]
                elif meaning == "@type" or (meaning and definition.get("@type") == "@vocab"):
                    undefined.update(word for word in words if _meaning(word, terms) is None)
                elif meaning is None:
                    undefined[key] += sum(_has_id(each, terms) for each in _listed(inner))
                if key != "@context" and meaning and definition.get("@type") != "@json":
                    kinds = {kind for kind in _listed(definition.get("@container")) if isinstance(kind, str)}
                    is_map = isinstance(inner, dict) and not kinds <= NO_MAPS  # whose keys are data
                    within = _within(terms, definition)
                    waiting += [(each, within) for each in (inner.values() if is_map else [inner])]
    if relative:
        raise InputError(
            f"{source.path}: {len(relative):,} ids are relative, such as {relative[0]!r}, and nothing says to what: "
            'add "@base" to its @context'
        )
    if names := [name for name, count in undefined.items() if count]:
        raise InputError(
            f"{source.path}: its @context does not define {', '.join(names[:MOST_SHOWN])}"
            f"{', ...' * (len(names) > MOST_SHOWN)}, so {undefined.total():,} links would be lost: define each name "
            f'there, add "@vocab" for all, or leave out a key by "{names[0]}": null'
        )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _within(terms: Terms, value: Mapping[str, Any]) -> Terms:
    """Return the terms that hold inside a node, or inside the values of a term, with a context of its own."""
    if "@context" not in value:
        return terms
    for part in _listed(value["@context"]):
        terms = {**terms, **part} if isinstance(part, dict) else {}
    return terms


def _definition(key: str, terms: Terms) -> Mapping[str, Any]:
    found = terms.get(key)
    return found if isinstance(found, dict) else {}


def _meaning(word: str, terms: Terms) -> str | None:
    """Return the IRI or keyword that a key or type stands for; empty if it is to be left out, None if nothing says."""
    if word in terms and terms[word] is None:
        return ""
    found = terms.get(word, word)
    iri = str(found.get("@id", word) if isinstance(found, dict) else found)
    if isinstance(terms.get(iri), str):
        iri = terms[iri]
    if ":" in iri or iri.startswith("@"):
        return iri
    vocabulary = terms.get("@vocab")
    return f"{vocabulary}{iri}" if isinstance(vocabulary, str) else None


def _has_id(value: Any, terms: Terms) -> bool:
    """Return whether a value is a node with an id."""
    return isinstance(value, dict) and any(_meaning(key, terms) == "@id" for key in value)


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


def _reifiers(source: TriplesFile, syntax: Any) -> set[str]:
    """Return the names of the nodes that stand for a triple, but for blank nodes without a label.

    A mistake in the syntax ends the search: the next reading says where it is.
    """
    from pyoxigraph import BlankNode, Triple, parse

    text, longest = b"", max(map(len, ABOUT_TRIPLES))
    with open_packed(source.path) as (stream, _):
        while data := stream.read(BLOCK_BYTES):
            text = text[-longest:] + data  # a sign may lie in two blocks
            if any(sign in text for sign in ABOUT_TRIPLES):
                break
    if not data:
        return set()
    found, has = set[str](), {part: set[str]() for part in DESCRIBE}
    with open_packed(source.path) as (stream, _), suppress(SyntaxError):
        for quad in parse(_Ends(stream), format=syntax):  # type: ignore[arg-type]  # it only reads
            predicate, thing = quad.predicate.value, quad.object
            stands = isinstance(thing, Triple) or (predicate == TYPE and thing.value in STATEMENTS)
            if (stands or predicate in DESCRIBE) and not _RANDOM.fullmatch(quad.subject.value):
                is_blank = isinstance(quad.subject, BlankNode)
                node = _blank(quad.subject.value, {}, source.scope) if is_blank else quad.subject.value
                (found if stands else has[predicate]).add(node)
    return found | set.intersection(*has.values())


def _some(
    parser: Iterator[Any], name_blank: Callable[[str], str], reifiers: set[str], graphs: Counter[str] | None
) -> tuple[tuple[list[str], ...], Counter[str], int]:
    """Read up to BLOCK_ROWS triples: names by column, name of a count -> number left out, number read.

    reifiers  the names of the nodes that stand for a triple, to which those of these triples are added
    graphs    name of a graph -> number of triples, to which these triples are added; None: the syntax has one graph
    """
    from pyoxigraph import BlankNode, NamedNode, Triple

    subjects: list[str] = []
    predicates: list[str] = []
    objects: list[str] = []
    named: list[str] = []  # the graph of each triple
    left_out, count = Counter[str](), 0
    for count, quad in enumerate(parser, start=1):
        s, o = quad.subject, quad.object
        if isinstance(o, NamedNode | BlankNode):
            subjects.append(s.value if isinstance(s, NamedNode) else name_blank(s.value))
            predicates.append(predicate := quad.predicate.value)
            objects.append(thing := o.value if isinstance(o, NamedNode) else name_blank(o.value))
            if predicate == TYPE and thing in STATEMENTS:
                reifiers.add(subjects[-1])
            if graphs is not None:
                named.append(getattr(quad.graph_name, "value", DEFAULT))
        elif isinstance(o, Triple):
            left_out["triples_about_triples"] += 1
            reifiers.add(s.value if isinstance(s, NamedNode) else name_blank(s.value))
        else:
            left_out["triples_with_literals"] += 1
        if count == BLOCK_ROWS:
            break
    columns: tuple[list[str], ...] = subjects, predicates, objects
    if reifiers:
        kept = [s not in reifiers and o not in reifiers for s, o in zip(subjects, objects, strict=True)]
        left_out["triples_about_triples"] += kept.count(False)
        columns, named = tuple(list(compress(column, kept)) for column in columns), list(compress(named, kept))
    if graphs is not None:
        graphs.update(named)
    return columns, left_out, count


def _doubts(source: TriplesFile, graphs: Counter[str]) -> tuple[Doubt, ...]:
    """Return what is doubtful about the facts of a file. `graphs`: name of a graph -> number of triples."""
    if len(graphs) < 2:
        return ()
    examples = ", ".join(f"{name} ({count:,})" for name, count in graphs.most_common(MOST_NAMED))
    figure = f"{graphs.total():,} triples of {len(graphs):,} graphs are read as one graph, such as {examples}"
    meaning = "If some of them deny or describe what others say, give a file without their triples."
    return (Doubt("Named graphs", f"{figure} (the file {source.path.name})", meaning),)


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
