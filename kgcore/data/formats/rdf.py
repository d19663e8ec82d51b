"""RDF: N-Triples, N-Quads, Turtle, TriG, RDF/XML and JSON-LD, parsed as a stream by pyoxigraph.

The name of an entity or predicate is its IRI without angle brackets; the name of a blank node is `_:` and its label.
The parser gives a blank node without a label a random one, so such a node is named by its number in the file. A blank
node belongs to its file: if there are several files, its name begins with the name of the file.
Triples whose object is a literal are left out and counted, and so is what describes another triple: triples with a
quoted triple (RDF-star), and those of a node that stands for one: rdf:Statement, axioms and denials of OWL, statements
of Wikidata, associations of Biolink. A doubt counts the triples that are only described, and no facts of the file. The
names of graphs are no part of a name; a doubt counts the triples of each graph.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import compress, islice
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
UNLABELLED = "unlabelled_"  # in the name of a blank node without a label
NO_MAPS = {"@list", "@set", "@graph"}  # containers of JSON-LD that are no maps
# a file without these has no triple about a triple
ABOUT_TRIPLES = (
    *(b"<<", b"{|", b"reifies", b"rdf:annotation", b"#Statement", b":Statement", b"rdf:ID", b"NegativeProp"),
    *(b"rdf:subject", b"-ns#subject", b"biolink:subject", b"vocab/subject", b"association_has", b"annotatedSource"),
    *(b"prop/statement/", b"nanopub.org/nschema"),
)
RDF, OWL = "http://www.w3.org/1999/02/22-rdf-syntax-ns#", "http://www.w3.org/2002/07/owl#"
WIKIBASE = "http://wikiba.se/"
TYPE = f"{RDF}type"
# the predicates that a node has if it stands for a triple, whatever its class -> the part of the triple
PARTS = {
    **dict(zip(map(f"{RDF}{{}}".format, COLUMNS), COLUMNS, strict=True)),
    **dict(zip(map("https://w3id.org/biolink/vocab/{}".format, COLUMNS), COLUMNS, strict=True)),
    **dict(zip(map("http://purl.org/oban/association_has_{}".format, COLUMNS), COLUMNS, strict=True)),
    **dict(zip(map(f"{OWL}annotated{{}}".format, ("Source", "Property", "Target")), COLUMNS, strict=True)),
}
# the classes of nodes that stand for a triple, asserted or denied, or that describe one
STATEMENTS = {f"{RDF}Statement", f"{OWL}Axiom", f"{OWL}NegativePropertyAssertion"}
STATEMENTS |= {f"{WIKIBASE}ontology#Statement", f"{WIKIBASE}ontology#Reference"}
OF_STATEMENT, DIRECT, NO_VALUE = "/prop/statement/", "/prop/direct/", "/prop/novalue/"  # in IRIs of Wikidata
NANOPUBLICATION = "http://www.nanopub.org/nschema#"  # its predicates begin so
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
    size, about = max(source.path.stat().st_size, 1), _about(source, syntax)
    graphs = Counter[str]() if syntax.supports_datasets else None
    with open_packed(source.path) as (stream, file):
        ends = _Ends(stream)
        try:
            parser = parse(ends, format=syntax)  # type: ignore[arg-type]  # it only reads
            name_node = _namer(source)
            number, count = 1, BLOCK_ROWS
            while count == BLOCK_ROWS:
                columns, left_out, count = _some(parser, name_node, about, graphs)
                table = pa.table([pa.array(column, pa.string()) for column in columns], names=COLUMNS)
                doubts = tuple(_doubts(source, about, graphs or Counter()))
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


@dataclass
class _About:
    """What a file says about triples.

    nodes      names of the nodes that stand for a triple, but for blank nodes without a label
    graphs     names of the graphs that describe the assertions of nanopublications
    described  hash of a triple that is described, and that was not read as a fact so far -> the node that stands for it
    statements  names of the statements of Wikidata, if the file has no direct facts
    """

    nodes: set[str] = field(default_factory=set)
    graphs: set[str] = field(default_factory=set)
    described: dict[int, str] = field(default_factory=dict)
    statements: set[str] = field(default_factory=set)
    direct: bool = False

    def note(self, quad: Any, parts: dict[str, dict[str, str]], name: Callable[[Any], str]) -> None:
        """Note what a quad says about triples. `parts`: node -> the parts of the triple that it stands for, so far."""
        from pyoxigraph import Literal, NamedNode, Triple

        predicate, thing = quad.predicate.value, quad.object
        node = name(quad.subject)
        if isinstance(thing, Triple) or (predicate == TYPE and thing.value in STATEMENTS) or OF_STATEMENT in predicate:
            self.nodes.add(node)
        self.direct |= DIRECT in predicate
        if OF_STATEMENT in predicate and not isinstance(thing, Literal):
            self.statements.add(node)
        if isinstance(thing, Triple):
            self._describe(node, (name(thing.subject), thing.predicate.value, name(thing.object)))
        if predicate.startswith(NANOPUBLICATION) and isinstance(quad.graph_name, NamedNode):
            self.graphs |= {quad.graph_name.value} | ({thing.value} if not predicate.endswith("Assertion") else set())
        if predicate in PARTS:
            of_node = parts.setdefault(node, {})
            of_node[PARTS[predicate]] = "" if isinstance(thing, Literal | Triple) else name(thing)
            if of_node.keys() >= {"subject", "object"}:
                self.nodes.add(node)
            if len(of_node) == len(COLUMNS):
                self._describe(node, tuple(of_node[part] for part in COLUMNS))
                del parts[node]

    def _describe(self, node: str, triple: tuple[str, ...]) -> None:
        if all(value and not _is_unlabelled(value) for value in triple):
            self.described[hash(triple)] = " ".join(triple) if _is_unlabelled(node) else node


def _about(source: TriplesFile, syntax: Any) -> _About:
    """Return what a file says about triples. A mistake in the syntax ends the search: the next reading says where."""
    from pyoxigraph import parse

    text, longest, about = b"", max(map(len, ABOUT_TRIPLES)), _About()
    with open_packed(source.path) as (stream, _):
        while data := stream.read(BLOCK_BYTES):
            text = text[-longest:] + data  # a sign may lie in two blocks
            if any(sign in text for sign in ABOUT_TRIPLES):
                break
    if data:
        parts, name = dict[str, dict[str, str]](), _namer(source)
        with open_packed(source.path) as (stream, _), suppress(SyntaxError):
            for quad in parse(_Ends(stream), format=syntax):  # type: ignore[arg-type]  # it only reads
                about.note(quad, parts, name)
        about.nodes = {node for node in about.nodes if not _is_unlabelled(node)}
    if not about.direct:
        about.described |= {hash(node): node for node in about.statements}
    return about


def _some(
    parser: Iterator[Any], name: Callable[[Any], str], about: _About, graphs: Counter[str] | None
) -> tuple[tuple[list[str], ...], Counter[str], int]:
    """Read up to BLOCK_ROWS triples: names by column, name of a count -> number left out, number read.

    about   what the file says about triples, to which the nodes of these triples that stand for one are added
    graphs  name of a graph -> number of triples, to which these triples are added; None: the syntax has one graph
    """
    from pyoxigraph import BlankNode, NamedNode, Triple

    subjects: list[str] = []
    predicates: list[str] = []
    objects: list[str] = []
    named: list[str] = []  # the graph of each triple
    left_out, count = Counter[str](), 0
    for count, quad in enumerate(parser, start=1):
        s, predicate, o = quad.subject, quad.predicate.value, quad.object
        graph = "" if graphs is None else getattr(quad.graph_name, "value", DEFAULT)
        if isinstance(o, Triple):
            left_out["triples_about_triples"] += 1
            about.nodes.add(name(s))
        elif graph in about.graphs:
            left_out["triples_about_triples"] += 1
        elif not isinstance(o, NamedNode | BlankNode):
            left_out["triples_with_literals"] += 1
        elif predicate == TYPE and NO_VALUE in o.value:
            left_out["triples_of_no_value"] += 1
        else:
            subjects.append(subject := s.value if isinstance(s, NamedNode) else name(s))
            predicates.append(predicate)
            objects.append(thing := o.value if isinstance(o, NamedNode) else name(o))
            named.append(graph)
            stands = predicate in PARTS and _is_unlabelled(subject)
            if stands or (predicate == TYPE and thing in STATEMENTS):
                about.nodes.add(subject)
        if count == BLOCK_ROWS:
            break
    columns: tuple[list[str], ...] = subjects, predicates, objects
    if nodes := about.nodes:
        kept = [s not in nodes and o not in nodes for s, o in zip(subjects, objects, strict=True)]
        left_out["triples_about_triples"] += kept.count(False)
        columns, named = tuple(list(compress(column, kept)) for column in columns), list(compress(named, kept))
    if about.described:
        for triple in zip(*columns, strict=True):
            about.described.pop(hash(triple), None)
    if graphs is not None:
        graphs.update(named)
    return columns, left_out, count


def _doubts(source: TriplesFile, about: _About, graphs: Counter[str]) -> Iterator[Doubt]:
    """Yield what is doubtful about the facts of a file. `graphs`: name of a graph -> number of triples."""
    if len(graphs) > 1:
        examples = ", ".join(f"{name} ({count:,})" for name, count in graphs.most_common(MOST_NAMED))
        figure = f"{graphs.total():,} triples of {len(graphs):,} graphs are read as one graph, such as {examples}"
        meaning = "If some of them deny or describe what others say, give a file without their triples."
        yield Doubt("Named graphs", f"{figure} (the file {source.path.name})", meaning)
    if about.described:
        nodes = islice(about.described.values(), MOST_SHOWN)
        figure = f"{len(about.described):,} facts are left out, for which only nodes stand, such as {', '.join(nodes)}"
        meaning = "If such a node does not deny its fact, write the fact as a triple, too."
        yield Doubt("Described facts", f"{figure} (the file {source.path.name})", meaning)


def _is_unlabelled(name: str) -> bool:
    return name.startswith("_:") and UNLABELLED in name


def _namer(source: TriplesFile) -> Callable[[Any], str]:
    """Return the function that names the nodes of a file."""
    from pyoxigraph import BlankNode

    unlabelled: dict[str, str] = {}

    def name(node: Any) -> str:
        if not isinstance(node, BlankNode):
            return str(node.value)
        label = node.value
        if _RANDOM.fullmatch(label):
            label = unlabelled.setdefault(label, f"{UNLABELLED}{len(unlabelled) + 1}")
        return f"_:{source.scope}{label}"

    return name


FORMATS.add("n_triples", Format("N-Triples", (".nt", ".ntriples"), partial(read_rdf, name="N_TRIPLES"), unit="triple"))
FORMATS.add("n_quads", Format("N-Quads", (".nq", ".nquads"), partial(read_rdf, name="N_QUADS"), unit="triple"))
FORMATS.add("turtle", Format("Turtle", (".ttl", ".turtle"), partial(read_rdf, name="TURTLE"), unit="triple"))
FORMATS.add("trig", Format("TriG", (".trig",), partial(read_rdf, name="TRIG"), unit="triple"))
FORMATS.add("rdf_xml", Format("RDF/XML", (".rdf", ".owl"), partial(read_rdf, name="RDF_XML"), unit="triple"))
FORMATS.add("json_ld", Format("JSON-LD", (".jsonld",), partial(read_rdf, name="JSON_LD"), unit="triple"))
