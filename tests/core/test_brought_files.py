"""Files as people of the field bring them: read as they mean, or refused with the option or edit that mends them.

The graph is always the same. What differs is the tool that wrote it, or what went wrong on the way.
"""

import bz2
import json
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.draw import SplitDraw
from kgcore.data.datasets.prepare import Prepared, prepare
from kgcore.errors import InputError
from kgcore.measure.report.data import Finding, drawn_notes
from kgcore.measure.report.graph_findings import findings, shape_of
from tests.core.graph_files import comma_separated, lines, packed

Row = tuple[str, str, str]
RNG = np.random.default_rng(7)
WORDS = ("treats", "causes", "located_in", "interacts_with")
ROWS: list[Row] = sorted(
    {
        (f"e{s}", WORDS[p], f"e{o}")
        for s, p, o in zip(*(RNG.integers(0, n, 500) for n in (60, 4, 60)), strict=True)
        if s < o
    }
)


def read(place: Path, columns: tuple[str, ...] = ()) -> Prepared:
    spec = find_dataset(str(place))
    assert spec.folder is not None
    return prepare(spec, spec.folder, columns)


def facts_of(prepared: Prepared) -> set[Row]:
    graph = prepared.graph
    return set(graph.names_of(graph.all_known.triples).itertuples(index=False, name=None))


def written(folder: Path, name: str, text: str) -> Path:
    packed(folder / name, text.encode())
    return folder / name


def table(header: Sequence[str], separator: str = ",") -> str:
    """Write the rows under a header: cells of the header that are no part of a triple have the text after `=`."""
    parts = {"S": 0, "P": 1, "O": 2}
    names = [cell.split("=")[0] for cell in header]
    marks = [cell.split("=")[1] for cell in header]
    rows = [[row[parts[mark]] if mark in parts else mark for mark in marks] for row in ROWS]
    return lines([names, *rows], separator)


HEADERS = {
    "Neo4j": [":START_ID(Drug)=S", ":END_ID(Disease)=O", "role:string=x", ":TYPE=P"],
    "Neo4j with a source": [":START_ID=S", "source=PubMed", ":END_ID=O", ":TYPE=P"],
    "APOC": ["_start=S", "_end=O", "_type=P"],
    "Gephi": ["Source=S", "Target=O", "Type=Directed", "Id=7", "Label=P", "Weight=0.5"],
    "Gephi without ids": ["Source=S", "Target=O", "Type=Undirected", "Label=P"],
    "PrimeKG": [
        "relation=P",
        "display_relation=x",
        "x_index=S",
        "x_id=7",
        "x_type=a",
        "y_index=O",
        "y_id=7",
        "y_type=b",
    ],
    "Hetionet": ["source=S", "metaedge=P", "target=O"],
    "KGTK": ["id=r", "node1=S", "label=P", "node2=O"],
    "SSSOM": ["subject_id=S", "subject_label=x", "predicate_id=P", "object_id=O", "mapping_justification=y"],
    "Biolink": ["id=u", "subject=S", "predicate=P", "object=O", "primary_knowledge_source=infores:x"],
    "Neptune": ["~id=r", "~from=S", "~to=O", "~label=P"],
    "SPARQL results": ["?o=O", "?p=P", "?s=S"],
    "blanks and capitals": ["Head Entity=S", "Relation Type=P", "Tail Entity=O"],
}


@pytest.mark.parametrize("ending", [".csv", ".tsv.bz2"])
@pytest.mark.parametrize("tool", HEADERS)
def test_the_header_of_a_tool_is_known(tmp_path: Path, tool: str, ending: str) -> None:
    text = table(HEADERS[tool], "," if ending == ".csv" else "\t")
    assert facts_of(read(written(tmp_path, f"mine{ending}", text))) == set(ROWS)


def test_a_whole_graph_of_apoc_has_nodes_too(tmp_path: Path) -> None:
    rows = [("_id", "_labels", "_start", "_end", "_type"), *((str(i), ":X", "", "", "") for i in range(60))]
    rows += [("", "", s, o, p) for s, p, o in ROWS]
    found = read(written(tmp_path, "mine.csv", comma_separated(rows)))
    assert facts_of(found) == set(ROWS)
    assert found.counts["nodes_without_edges"] == 60


def json_lines(rows: Sequence[Row], negated: Callable[[int], bool] | None = None) -> str:
    further = ({"negated": True, "publications": ["a"]} if negated and negated(i) else {} for i in range(len(rows)))
    edges = ({"subject": s, "predicate": p, "object": o} for s, p, o in rows)
    return "".join(json.dumps({"id": "x", **edge, **more}) + "\n" for edge, more in zip(edges, further, strict=True))


NEGATED = {
    "KGX": ("negated", "true", "false"),
    "KGX, Python": ("negated", "True", ""),
    "SSSOM": ("predicate_modifier", "Not", ""),
}


@pytest.mark.parametrize("kind", NEGATED)
def test_a_negated_fact_is_left_out_or_a_labelled_negative(tmp_path: Path, kind: str) -> None:
    name, yes, no = NEGATED[kind]
    rows = [(*row, yes if i % 4 == 0 else no) for i, row in enumerate(ROWS)]
    path = written(tmp_path, "mine.tsv", lines([("subject", "predicate", "object", name), *rows]))
    found = read(path)
    assert facts_of(found) == {row for i, row in enumerate(ROWS) if i % 4}
    assert found.counts["negated_rows"] == len(ROWS[::4])
    assert any(
        f"{len(ROWS[::4])} rows that say that a fact does not hold" in note for note in drawn_notes(found.counts)
    )
    labelled = read(path, ("subject", "predicate", "object", name))
    assert facts_of(labelled) == facts_of(found)
    negatives = [*labelled.graph.valid.negatives, *labelled.graph.test.negatives]
    assert len(negatives) + labelled.counts["valid_with_unseen"] + labelled.counts["test_with_unseen"] == len(ROWS[::4])


def test_lines_are_counted_with_those_that_are_left_out_and_labels_stay_labels(tmp_path: Path) -> None:
    header, odd = ("subject", "predicate", "object", "negated", "label"), ("new", "treats", "e1", "", "1")
    loops = [(f"e{i}", "treats", f"e{i}") for i in range(60)]
    for name, facts in {"train": [*ROWS[50:], *loops], "valid": ROWS[:20], "test": ROWS[20:50]}.items():
        rows = [(*row, "true" if i < 5 else "", "1") for i, row in enumerate(facts)]
        written(tmp_path, f"{name}.tsv", lines([header, *rows, *([odd] if name == "valid" else [])]))
    for columns in ((), ("subject", "predicate", "object", "label")):
        found = read(tmp_path, columns)
        assert found.counts["negated_rows"] == 15
        assert found.unknown["valid"][0] == "line 22: unknown entity 'new'"


def test_a_negated_edge_of_json_lines_is_left_out(tmp_path: Path) -> None:
    found = read(written(tmp_path, "mine_edges.jsonl", json_lines(ROWS, lambda i: i % 4 == 0)))
    assert facts_of(found) == {row for i, row in enumerate(ROWS) if i % 4}


@pytest.mark.parametrize("ending", [".nt", ".ttl", ".jsonld"])
def test_a_blank_node_belongs_to_its_file(tmp_path: Path, ending: str) -> None:
    for name in ("one", "two"):
        facts = [(f"http://x.org/{name}/{s}", f"http://x.org/{p}", f"http://x.org/{o}") for s, p, o in ROWS]
        if ending == ".jsonld":
            objects = [{"@id": s, p: {"@id": o}} for s, p, o in facts]
            text = json.dumps([*objects, {"@id": "_:b", "http://x.org/treats": {"@id": "http://x.org/e1"}}])
        else:
            text = "".join(f"<{s}> <{p}> <{o}> .\n" for s, p, o in facts)
            text += "_:b <http://x.org/treats> <http://x.org/e1> .\n"
        written(tmp_path, f"{name}{ending}", text)
    found = read(Path(f"{tmp_path}/one{ending},{tmp_path}/two{ending}"))
    blank = [name for name in found.graph.entities if name.startswith("_:")]
    assert blank == [f"_:one{ending}#b", f"_:two{ending}#b"]
    assert found.counts["drawn_from_duplicates"] == 0
    assert "_:b" in read(tmp_path / f"one{ending}").graph.entities


def test_a_sif_file_may_have_blanks_several_objects_and_nodes_without_edges(tmp_path: Path) -> None:
    pairs = dict.fromkeys((s, p) for s, p, _ in ROWS)
    text = "alone\n" + "".join(" ".join([*pair, *(o for s, p, o in ROWS if (s, p) == pair)]) + "\n" for pair in pairs)
    found = read(written(tmp_path, "mine.sif", text))
    assert facts_of(found) == set(ROWS)
    assert found.counts["nodes_without_edges"] == 1


def test_values_after_a_comma_and_a_blank_are_stripped_where_the_header_is(tmp_path: Path) -> None:
    rows = [("subject", "predicate", "object"), *ROWS]
    assert facts_of(read(written(tmp_path, "mine.csv", lines(rows, ", ")))) == set(ROWS)


@pytest.mark.parametrize("end", ["\n\n", "   \n \n", "\t\t\n", "\r\n\r\n"])
def test_blank_lines_at_the_end_are_no_rows(tmp_path: Path, end: str) -> None:
    assert facts_of(read(written(tmp_path, "mine.tsv", lines(ROWS) + end))) == set(ROWS)


def test_several_streams_of_bzip2_in_one_file_are_all_read(tmp_path: Path) -> None:
    halves = [lines(part).encode() for part in (ROWS[:150], ROWS[150:])]
    (tmp_path / "mine.tsv.bz2").write_bytes(b"".join(map(bz2.compress, halves)))
    assert facts_of(read(tmp_path / "mine.tsv.bz2")) == set(ROWS)


COUNTED = "".join(f"e{i}\t{i}\n" for i in range(60))
REFUSED = {
    "no predicate": (
        "mine.csv",
        table(["source=S", "target=O", "weight=0.5"]),
        r"no column predicate: .*add a column pr",
    ),
    "unknown names": (
        "mine.csv",
        table(["drug=S", "effect=P", "disease=O"]),
        r"line 1: .*--columns drug,effect,disease;",
    ),
    "labels, no predicate": (
        "mine.csv",
        table(["head=S", "tail=O", "label=1"]),
        r"no column predicate, and its column l",
    ),
    "a number of the row": ("mine.tsv", lines([(str(i), *row) for i, row in enumerate(ROWS)]), r"--columns 2,3,4"),
    "a score": (
        "mine.csv",
        table(["drug=S", "effect=P", "disease=O", "p=7"]),
        r"or --columns drug,effect,disease if the",
    ),
    "a year": (
        "mine.tsv",
        lines([(*row, "2014-01-01") for row in ROWS]),
        r"line 1: 4 .*--columns 1,2,3 .*--split time:4",
    ),
    "semicolons": ("mine.csv", lines(ROWS, ";"), r"line 1: 1 .*semicolons separate its values: save it with commas$"),
    "blanks": ("mine.txt", lines(ROWS, " "), r"line 1: 1 .*blanks separate its values: save it with tabs, as \.tsv$"),
    "tabs": ("mine.csv", lines(ROWS), r"line 1: 1 .*tabs separate its values: let its name end in \.tsv$"),
    "row names of R": (
        "mine.tsv",
        "head\trelation\ttail\n" + lines([("1", *r) for r in ROWS]),
        r"lines 2 to \d+: 4 tab",
    ),
    "nodes of KGX": (
        "mine.jsonl",
        '{"id": "a", "category": "b"}\n' * 9,
        r"is a file of nodes, .*give the file of edges",
    ),
    "nodes of Neo4j": (
        "mine.csv",
        lines([(":ID", "name", ":LABEL"), *ROWS], ","),
        r"is a file of nodes, .*id and label",
    ),
    "nodes of Hetionet": ("mine.tsv", lines([("id", "name", "kind"), *ROWS]), r"is a file of nodes, .*id and name"),
    "a blank line": (
        "mine.tsv",
        f"{lines(ROWS)}\n{lines(ROWS)}",
        rf"line {len(ROWS) + 1}: subject is empty, as .*delete it$",
    ),
    "half a negation": (
        "mine.tsv",
        lines([("subject", "predicate", "object", "negated"), *((*row, "maybe") for row in ROWS)]),
        r"line 2: negated is 'maybe': it must be true, false or empty",
    ),
    "no JSON": ("mine.jsonl", json_lines(ROWS) + "{'a': 1}\n", rf"mine\.jsonl, line {len(ROWS) + 1}: .*a JSON object"),
    "a list in JSON": (
        "mine.jsonl",
        '{"subject": ["a"], "predicate": "p", "object": "b"}\n',
        r"line 1: subject is a list",
    ),
    "two values of SIF": (
        "mine.sif",
        "a p b\na p\n",
        r"mine\.sif, line 2: it must be subject, predicate and one or more",
    ),
    "a remote context": (
        "mine.jsonld",
        '{"@context": "https://schema.org", "@id": "x:a"}',
        r"Write the context into the",
    ),
    "no RDF/XML": ("mine.owl", "@prefix a: <x>", r"mine\.owl: .*it must be valid RDF/XML"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_once_with_what_mends_it(tmp_path: Path, case: str) -> None:
    name, text, message = REFUSED[case]
    with pytest.raises(InputError, match=message) as caught:
        read(written(tmp_path, name, text))
    assert str(caught.value).count(name) == (10 if case == "half a negation" else 1)


def test_the_first_line_is_a_triple_if_the_columns_are_given_or_its_words_occur_again(tmp_path: Path) -> None:
    rows = [("drug", "effect", "disease"), *ROWS]
    path = written(tmp_path, "mine.csv", lines(rows, ","))
    assert facts_of(read(path, ("1", "2", "3"))) == set(rows)
    assert facts_of(read(path, ("drug", "effect", "disease"))) == set(ROWS)
    again = [*rows, ("drug", "treats", "e1")]
    assert facts_of(read(written(tmp_path, "again.csv", lines(again, ",")))) == set(again)


def test_openke_without_counts_is_refused_with_the_count_to_add(tmp_path: Path) -> None:
    written(tmp_path, "entity2id.txt", COUNTED)
    written(tmp_path, "relation2id.txt", "1\np\t0\n")
    written(tmp_path, "train2id.txt", "1\n0 1 0\n")
    with pytest.raises(InputError, match=r"entity2id\.txt, line 1: 'e0\\t0': add a first line with 60"):
        read(tmp_path)


def report_of(place: Path) -> dict[str, Finding]:
    prepared = read(place)
    graph = prepared.graph
    found = findings(graph, shape_of(graph), prepared.counts, both=prepared.both)
    return {one.title: one for one in found}


def some(step: int, change: Callable[[str, str, str], Row]) -> list[Row]:
    """Change every `step`-th row."""
    return [change(*row) if i % step == 0 else row for i, row in enumerate(ROWS)]


NEAR, DUMMY, ODD, ORDER = (
    "Names that hardly differ",
    "Placeholders as entities",
    "Suspicious predicates",
    "Order of the columns",
)
ACCENTED = [(unicodedata.normalize("NFD" if i % 2 else "NFC", f"é {s}"), p, o) for i, (s, p, o) in enumerate(ROWS)]
HUB = [(f"e{i}", "is_a", "thing") for i in range(60)]
CURATED: dict[str, tuple[list[Row], str, str]] = {
    "a blank at the end": (some(2, lambda s, p, o: (f"{s} ", p, f"{o} ")), NEAR, "'e1' and 'e1 ' (white space)"),
    "a blank at every end": ([(s, p, f"x {o} ") for s, p, o in ROWS], NEAR, "'x e10 ' (white space at an end)"),
    "a mark that nobody sees": (
        some(2, lambda s, p, o: (f"{s}\u200b", p, o)),
        NEAR,
        r"'e1' and 'e1\u200b' (Unicode form)",
    ),
    "case": (some(2, lambda s, p, o: (s.upper(), p, o)), NEAR, "'E1' and 'e1' (case)"),
    "Unicode form": (ACCENTED, NEAR, r"'e\u0301 e1' and '\xe9 e1' (Unicode form)"),
    "a predicate": (some(2, lambda s, p, o: (s, p.title(), o)), NEAR, "'Causes' and 'causes' (case)"),
    "NA": (some(9, lambda s, p, o: (s, p, "NA")), DUMMY, "'NA' in "),
    "a dash": (some(9, lambda s, p, o: ("-", p, o)), DUMMY, "'-' in "),
    "a part of an IRI": (some(9, lambda s, p, o: ("MONDO:null", p, o)), DUMMY, "'MONDO:null' in "),
    "weights": ([(s, f"0.{len(p)}", o) for s, p, o in ROWS], ODD, "'0.6' is a number or a label ("),
    "labels": (some(9, lambda s, p, o: (s, "1", o)), ODD, "'1' is a number or a label ("),
    "denials": (some(3, lambda s, p, o: (s, f"NOT|{p}", o)), ODD, "'NOT|causes' denies something ("),
    "types of edges": (some(3, lambda s, p, o: (s, "Directed", o)), ODD, "'Directed' is a type of edge ("),
    "swapped columns": ([(s, o, p) for s, p, o in ROWS], ORDER, "--columns 1,3,2"),
    "turned columns": ([(p, s, o) for s, p, o in ROWS], ORDER, "--columns 2,1,3"),
    "two headers": ([*ROWS, ("subject", "relation", "object")], "Headers among the facts", "subject relation object"),
    "an unknown header": ([*ROWS, ("drug", "effect", "illness")], "Headers among the facts", "1, such as drug effect"),
    "a hub": ([*ROWS, *HUB], "Hubs", "'is_a' has no object but 'thing' (60 facts)"),
    "blank nodes": ([*ROWS, ("_:b1", "treats", "e1")], "Blank nodes", "1 of 60 entities, in 1 of 237 facts"),
}


@pytest.mark.parametrize("case", CURATED)
def test_the_data_report_finds_what_a_curator_would(tmp_path: Path, case: str) -> None:
    rows, title, example = CURATED[case]
    finding = report_of(written(tmp_path, "mine.tsv", lines(rows)))[title]
    assert finding.warns
    assert example in finding.figure + finding.meaning


def test_the_data_report_of_a_clean_graph_has_no_such_finding(tmp_path: Path) -> None:
    found = report_of(written(tmp_path, "mine.tsv", lines(ROWS)))
    titles = {title for _, title, _ in CURATED.values()} | {"Labelled negatives that are labelled true, too"}
    assert {title for title in titles if found[title].warns} == set()


def splits(folder: Path, valid: Sequence[Sequence[str]], test: Sequence[Sequence[str]]) -> Path:
    for name, rows in {"train": ROWS[:-40], "valid": valid, "test": test}.items():
        written(folder, f"{name}.tsv", lines(rows))
    return folder


def test_contradictory_labels_are_told_with_examples(tmp_path: Path) -> None:
    valid = [*((*row, "1") for row in ROWS[-40:-20]), *((*row, "0") for row in ROWS[-40:-30])]
    test = [*((*row, "1") for row in ROWS[-20:]), *((*row, "0") for row in ROWS[:3])]
    found = report_of(splits(tmp_path, valid, test))
    same, train = (found[f"Labelled negatives that are {what}"] for what in ("labelled true, too", "training facts"))
    assert same.warns
    assert same.figure.startswith("10, such as ")
    assert f"{' '.join(ROWS[-40])} (false in valid, true in valid)" in same.figure
    assert train.figure.startswith("3, such as ")
    assert "Held-out rows are left out if they are in train" in train.meaning


def test_mirror_images_leak_even_if_most_facts_of_the_predicate_have_none(tmp_path: Path) -> None:
    mirrored = [(o, p, s) for s, p, o in ROWS[:20]]
    found = report_of(splits(tmp_path, ROWS[-40:-20], mirrored))["Inverse and duplicate predicates"]
    assert found.warns
    assert "20 of 20 true test triples follow from a training fact" in found.figure
    assert "One file, split at random, keeps these facts together" in found.meaning


@pytest.mark.parametrize("share", [0.1, 0.3])
@pytest.mark.parametrize("turned", ["treats", "is_treated_by"])
def test_a_random_split_keeps_mirror_images_and_inverses_together(tmp_path: Path, turned: str, share: float) -> None:
    rows = [*ROWS, *((o, turned, s) for s, p, o in ROWS[::3] if p == "treats")]
    path = written(tmp_path, "mine.tsv", lines(rows))
    spec = find_dataset(str(path))
    for seed in range(4):
        prepared = prepare(spec, tmp_path, draw=SplitDraw(share, share, seed))
        assert shape_of(prepared.graph).leaking == 0
        assert prepared.counts["drawn_twins"] > 0


def test_a_complete_predicate_is_told_with_what_helps(tmp_path: Path) -> None:
    rows = [*ROWS, *((f"e{s}", "near", f"e{o}") for s in range(8) for o in range(8))]
    found = report_of(written(tmp_path, "mine.tsv", lines(rows)))["Complete predicates"]
    assert found.warns
    assert found.figure == "1, such as 'near' (8 subjects x 8 objects)"
    assert "label false triples" in found.meaning
