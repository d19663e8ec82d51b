"""RDF-star and JSON-LD: no fact is added, and no link is lost without a word."""

import json
from contextlib import suppress
from pathlib import Path

import pytest

from kgcore.config import PrepareConfig
from kgcore.data.datasets.prepare import read_dataset
from kgcore.data.formats.base import TriplesFile, read_blocks
from kgcore.errors import InputError
from kgcore.measure.report.graph_findings import data_report
from tests.core.written_files import FACTS, read, written


def notes_of(path: Path) -> list[str]:
    """Return what the log says of a graph."""
    return data_report(read_dataset(PrepareConfig(dataset=str(path)), path.parent), "random")[1]


@pytest.mark.parametrize(
    "statement",
    [
        "<< :{s} :{p} :{o} >> :source :db ; :year 3 .",
        ":{s} :{p} :{o} {{| :source :db |}} .",
        ":{s} :{p} :{o} ~ _:r {{| :source :db |}} .",
        ":{s} :{p} :{o} ~ :r1 {{| :source :db |}} .",
        ":db :says << :{s} :{p} :{o} >> .",
    ],
)
def test_triples_about_triples_are_no_facts(tmp_path: Path, statement: str) -> None:
    lines = [f":{s} :{p} :{o} . " + statement.format(s=s, p=p, o=o) for s, p, o in FACTS]
    path = written(tmp_path, {"star.ttl": "@prefix : <http://e/> .\n" + "\n".join(lines)}) / "star.ttl"
    blocks = list(read_blocks(TriplesFile(path)))
    assert {tuple(row) for row in read(path)} == {tuple(f"http://e/{name}" for name in fact) for fact in FACTS}
    assert sum(block.left_out["triples_about_triples"] for block in blocks) >= len(FACTS)


def test_triples_about_triples_may_come_first(tmp_path: Path) -> None:
    reifies = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies>"
    text = (
        "_:r <http://e/source> <http://e/db> .\n"
        f"_:r {reifies} <<( <http://e/a> <http://e/p> <http://e/b> )>> .\n"
        "<http://e/a> <http://e/p> <http://e/b> .\n"
    )
    assert read(written(tmp_path, {"first.nt": text}) / "first.nt") == [("http://e/a", "http://e/p", "http://e/b")]


@pytest.mark.parametrize(
    ("context", "value", "message"),
    [
        ({}, {"@type": "Person"}, "does not define Person, so 1 links"),
        ({"p": {"@id": "http://e/p", "@type": "@id"}}, {"p": "b"}, "1 ids are relative, such as 'b'"),
        ({"p": "knows"}, {"p": {"@id": "http://e/x"}}, "does not define p, so 1 links"),
        (
            {},
            {"@graph": [{"@context": {"q": "http://e/q"}, "@id": "http://e/a"}, {"q": {"@id": "http://e/x"}}]},
            "does not define q, so 1 links",
        ),
        (
            {"g": {"@id": "http://e/g", "@container": "@graph"}},
            {"g": {"@id": "http://e/a", "q": {"@id": "http://e/x"}}},
            "does not define q, so 1 links",
        ),
    ],
)
def test_json_ld_that_would_lose_links_is_refused(
    tmp_path: Path, context: object, value: dict[str, object], message: str
) -> None:
    path = written(tmp_path, {"lost.jsonld": json.dumps({"@context": context, **value})}) / "lost.jsonld"
    with pytest.raises(InputError, match=message):
        read(path)


@pytest.mark.parametrize(
    ("context", "value"),
    [
        ({"q": None, "p": "http://e/p"}, {"q": {"@id": "http://e/y"}}),
        ({"@vocab": "http://e/"}, {"q": {"@id": "http://e/y"}}),
        ({"p": {"@id": "http://e/p", "@container": "@index"}}, {"p": {"q": {"@id": "http://e/y"}}}),
        ({"p": {"@id": "http://e/p", "@type": "@json"}}, {"p": {"q": {"r": {"@id": "x"}}}}),
        ({"p": {"@id": "http://e/p", "@context": {"q": "http://e/q"}}}, {"p": {"q": {"@id": "http://e/y"}}}),
        ({"p": "http://e/p"}, {"q": "text", "p": {"@value": "text"}}),
        ({"p": "http://e/p"}, {"p": {"@type": "@json", "@value": {"q": {"@id": "x"}}}}),
        ({"@vocab": "http://e/"}, {"p": {"@context": {"@vocab": None, "r": "http://e/r"}, "r": {"@id": "http://e/x"}}}),
        ({"q": None}, {"q": {"inner": {"@id": "http://e/y"}}}),
        ({"p": "http://e/p"}, {"note": {"value": "x"}, "p": {"@id": "http://e/y"}}),
        ({"e": "http://e/"}, {"@type": "e:Person", "e:p": {"@id": "e:y"}}),
    ],
)
def test_json_ld_whose_links_are_defined_is_read(tmp_path: Path, context: object, value: dict[str, object]) -> None:
    text = json.dumps({"@context": context, "@id": "http://e/d", **value})
    read(written(tmp_path, {"defined.jsonld": text}) / "defined.jsonld")


ODD_JSON_LD = (
    '{"@context": [3, null], "@id": ["d"]}',
    '{"@context": {"id": {"@id": "@id"}}}',
    "[[]]",
    '{"@id": 3}',
    '{"@context": {"p": {"@id": "http://e/p", "@container": {"a": 1}}}, "p": {"@id": "http://e/x"}}',
    '{"@context": {"p": {"@id": "http://e/p", "@container": [["@set"]]}}, "p": {"@id": "http://e/x"}}',
)


@pytest.mark.parametrize("text", ODD_JSON_LD)
def test_json_ld_with_other_values_is_no_traceback(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, {"odd.jsonld": text}) / "odd.jsonld"
    with suppress(InputError):
        assert read(path) == []


@pytest.mark.parametrize("ending", ["nq", "trig"])
def test_graphs_that_are_read_as_one_are_counted(tmp_path: Path, ending: str) -> None:
    iris = [[f"<http://e/{name}>" for name in fact] for fact in FACTS[:300]]
    graphs = ["<http://g/told>", "<http://g/told>", "<http://g/denied>", ""]
    lines = [
        f"{' '.join(fact)} {graph} .\n" if ending == "nq" else f"{graph} {{ {' '.join(fact)} }}\n"
        for fact, graph in zip(iris, graphs * len(iris), strict=False)
    ]
    path = written(tmp_path, {f"some.{ending}": "".join(lines), "one.nq": f"{' '.join(iris[0])} <http://g/a> .\n"})
    *_, block = read_blocks(TriplesFile(path / f"some.{ending}"))
    [doubt] = block.doubts
    assert doubt.figure == (
        "300 triples of 3 graphs are read as one graph, such as http://g/told (150), http://g/denied (75), the graph "
        f"without a name (75) (the file some.{ending})"
    )
    assert "Named graphs: " in "\n".join(notes_of(path / f"some.{ending}"))
    [block] = read_blocks(TriplesFile(path / "one.nq"))
    assert not block.doubts


PREFIXES = """
@prefix : <http://e/> . @prefix biolink: <https://w3id.org/biolink/vocab/> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix oban: <http://purl.org/oban/> . @prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix w: <http://www.wikidata.org/prop/> . @prefix wikibase: <http://wikiba.se/ontology#> .
"""


@pytest.mark.parametrize(
    "describes",
    [
        ":n{n} a biolink:Association ; biolink:subject :{s} ; biolink:predicate :{p} ; biolink:object :{o} .",
        "[] biolink:subject :{s} ; biolink:predicate :{p} ; biolink:object :{o} ; biolink:source :db .",
        ":n{n} oban:association_has_subject :{s} ; oban:association_has_predicate :{p} ; "
        "oban:association_has_object :{o} .",
        "[] a owl:Axiom ; owl:annotatedSource :{s} ; owl:annotatedProperty :{p} ; owl:annotatedTarget :{o} ; :by :me .",
        "_:n{n} rdf:subject :{s} ; rdf:predicate :{p} ; rdf:object :{o} ; :by :me .",
        ":n{n} rdf:reifies <<( :{s} :{p} :{o} )>> ; :by :me .",
    ],
)
def test_facts_that_are_only_described_are_counted(tmp_path: Path, describes: str) -> None:
    lines = [describes.format(n=n, s=s, p=p, o=o) for n, (s, p, o) in enumerate(FACTS)]
    facts = [f":{s} :{p} :{o} ." for s, p, o in FACTS]
    written(tmp_path, {"all.ttl": PREFIXES + "\n".join(lines + facts)})
    written(tmp_path, {"part.ttl": PREFIXES + "\n".join(lines + facts[7:])})
    [block] = read_blocks(TriplesFile(tmp_path / "all.ttl"))
    assert {tuple(row) for row in read(tmp_path / "all.ttl")} == {tuple(f"http://e/{n}" for n in f) for f in FACTS}
    assert not block.doubts
    [block] = read_blocks(TriplesFile(tmp_path / "part.ttl"))
    assert len(block.names) == len(FACTS) - 7
    [doubt] = block.doubts
    assert doubt.figure.startswith("7 facts are left out, for which only nodes stand, such as ")


def test_a_file_of_described_facts_alone_is_refused(tmp_path: Path) -> None:
    lines = [f":n{n} biolink:subject :{s} ; biolink:predicate :{p} ; biolink:object :{o} ; biolink:negated true ."
             for n, (s, p, o) in enumerate(FACTS)]  # fmt: skip
    written(tmp_path, {"a.ttl": PREFIXES + "\n".join(lines)})
    with pytest.raises(InputError, match=r"no triples .* about triples: write the facts that they describe as a \.tsv"):
        notes_of(tmp_path / "a.ttl")


@pytest.mark.parametrize("direct", [True, False])
def test_statements_of_wikidata_are_no_facts(tmp_path: Path, direct: bool) -> None:
    prefixes = PREFIXES + "".join(
        f"@prefix {name}: <http://www.wikidata.org/prop/{path}/> .\n"
        for name, path in (("ps", "statement"), ("pq", "qualifier"), ("wdt", "direct"), ("wdno", "novalue"))
    )
    text = prefixes + ":q a wdno:P1 .\n"
    for n, (s, p, o) in enumerate(FACTS):
        text += f":{s} w:{p} :n{n} . :n{n} wikibase:rank wikibase:NormalRank ; ps:{p} :{o} ; pq:since :{s} .\n"
        text += f":{s} {'wdt' if direct else ''}:{p} :{o} .\n" if direct or n else ""
    [block] = read_blocks(TriplesFile(written(tmp_path, {"a.ttl": text}) / "a.ttl"))
    assert len(block.names) == len(FACTS) - (not direct)
    assert block.left_out == {"triples_about_triples": 4 * len(FACTS), "triples_of_no_value": 1}
    assert bool(block.doubts) != direct


def test_only_the_assertions_of_nanopublications_are_facts(tmp_path: Path) -> None:
    text = "@prefix np: <http://www.nanopub.org/nschema#> . @prefix : <http://e/> .\n"
    for n, (s, p, o) in enumerate(FACTS):
        text += f":h{n} {{ :n{n} np:hasAssertion :a{n} ; np:hasProvenance :p{n} ; np:hasPublicationInfo :i{n} . }}\n"
        text += f":a{n} {{ :{s} :{p} :{o} . }} :p{n} {{ :a{n} :from :db . }} :i{n} {{ :n{n} :by :me . }}\n"
    [block] = read_blocks(TriplesFile(written(tmp_path, {"a.trig": text}) / "a.trig"))
    assert len(block.names) == len(FACTS)
    assert block.left_out["triples_about_triples"] == 5 * len(FACTS)
