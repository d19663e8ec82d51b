"""Names and columns of files that people bring: what the data report finds in them, and which sentence mends them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.prepare import Prepared, prepare
from kgcore.data.formats.base import TriplesFile, read_blocks
from kgcore.errors import InputError
from kgcore.measure.report.data import Finding
from kgcore.measure.report.graph_findings import findings, shape_of

Row = tuple[str, str, str]
# every entity is three times a subject and an object, and no two facts are of the same two entities
ROWS: list[Row] = [
    (f"GENE:{i % 120}", ("binds", "treats")[i % 2], f"GENE:{(i + 1 + 5 * (i // 120)) % 120}") for i in range(360)
]


def read(path: Path) -> Prepared:
    spec = find_dataset(str(path))
    assert spec.folder is not None
    return prepare(spec, spec.folder)


def lines(rows: list[Row], separator: str = "\t") -> str:
    return "".join(separator.join(row) + "\n" for row in rows)


def found(path: Path, rows: list[Row]) -> dict[str, Finding]:
    path.write_text(lines(rows))
    prepared = read(path)
    rows_found = findings(prepared.graph, shape_of(prepared.graph), prepared.counts)
    return {one.title: one for one in rows_found if one.warns}


def with_objects(name: Callable[[int], str]) -> list[Row]:
    """Return the rows, and thirty more whose objects have these names."""
    return [*ROWS, *((f"GENE:{i}", "treats", name(i)) for i in range(30))]


VALUES, SYNTAX, CHANGED = "Values as entities", "Names with the marks of a syntax", "Names that a program has changed"
CASES: dict[str, tuple[list[Row], str, str]] = {
    "dates": (with_objects(lambda i: f"19{i + 10}-01-02"), VALUES, "30, in 30 facts, such as '1910-01-02'"),
    "measures": (with_objects(lambda i: f"1.{i + 10}"), VALUES, "30, in 30 facts, such as '1.10'"),
    "counts": (with_objects(lambda i: f"{i + 10}"), VALUES, "30, in 30 facts, such as '10'"),
    "languages": (with_objects(lambda i: f'"name {i}"@en'), VALUES, "30, in 30 facts, such as '\"name 0\"@en'"),
    "types": (with_objects(lambda i: f'"{i}"^^<http://x.org/integer>'), VALUES, "30, in 30 facts"),
    "sentences": (
        with_objects(lambda i: f"The gene {i} was seen by two groups in one year, it says."),
        VALUES,
        "30, in",
    ),
    "angle brackets": (with_objects(lambda i: f"<http://x.org/{i}>"), SYNTAX, "30, such as '<http://x.org/0>'"),
    "lists": (with_objects(lambda i: f'["GENE:{i}"]'), SYNTAX, "30, such as"),
    "several in a cell": (with_objects(lambda i: f"GENE:{i}, GENE:{i + 1}"), SYNTAX, "30, such as 'GENE:0, GENE:1'"),
    "escapes": (with_objects(lambda i: rf"Sj\u00f6gren {i}"), CHANGED, "30, such as"),
    "entities of HTML": (with_objects(lambda i: f"Sj&ouml;gren {i}"), CHANGED, "30, such as 'Sj&ouml;gren 0'"),
    "lost letters": (with_objects(lambda i: f"Sj?gren {i}"), CHANGED, "30, such as 'Sj?gren 0'"),
    "unknown values of Wikidata": (
        with_objects(lambda i: f"http://www.wikidata.org/.well-known/genid/{i}"),
        "Blank nodes",
        "30 of 150 entities",
    ),
    "placeholders": (with_objects(lambda i: "not found"), "Placeholders as entities", "1, such as 'not found' in 30"),
    "loops": (
        [*ROWS, *((f"GENE:{i}", "binds", f"GENE:{i}") for i in range(30))],
        "Facts of an entity and itself",
        "30 of 390, such as 30 of 'binds'",
    ),
    "a line of types": ([*ROWS, ("string", "string", "string")], "Headers among the facts", "1, such as string string"),
    "denials": (
        [*ROWS, *((f"GENE:{i}", word, f"GENE:{i + 2}") for i in range(40) for word in ("non_binds", "!treats"))],
        "Suspicious predicates",
        "2 of 4, such as '!treats' denies something (40 facts); 'non_binds' denies something",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_data_report_finds_it_with_examples(tmp_path: Path, case: str) -> None:
    rows, title, figure = CASES[case]
    assert found(tmp_path / "g.tsv", rows)[title].figure.startswith(figure)


def test_weights_in_the_place_of_objects_are_no_swapped_columns(tmp_path: Path) -> None:
    finding = found(tmp_path / "g.tsv", [(s, o, f"{{'weight': {i % 7}}}") for i, (s, _, o) in enumerate(ROWS)])[
        "Order of the columns"
    ]
    assert "this is a list of edges with weights. Put a column" in finding.meaning


def test_names_that_are_right_are_not_found(tmp_path: Path) -> None:
    """Predicates of ontologies are no numbers, and numbers are entities where most entities are."""
    names = {"binds": "BFO:0000050", "treats": "RO:0002211"}
    clean = [(s, names[p], o) for s, p, o in ROWS]
    titles = {VALUES, SYNTAX, CHANGED, "Suspicious predicates", "Facts of an entity and itself", "Blank nodes"}
    assert not titles & found(tmp_path / "a.tsv", clean).keys()
    numbered = [(s[5:], p, f"{9000 + int(o[5:])}") for s, p, o in ROWS]
    assert not titles & found(tmp_path / "b.tsv", numbered).keys()


def labelled(name: str, values: tuple[str, str]) -> str:
    return f"head,relation,tail,{name}\n" + "".join(f"{','.join(row)},{values[i % 2]}\n" for i, row in enumerate(ROWS))


REFUSED = {
    "a label of another name": ("g.csv", labelled("y", ("1", "0")), "has the column y, which may say which facts"),
    "a verdict": (
        "g.csv",
        labelled("verdict", ("SUPPORTS", "REFUTES")),
        "give --columns head,relation,tail,verdict if",
    ),
    "labels that are none": ("g.csv", labelled("label", ("RELATED", "OTHER")), "none of 360 labels is one: leave them"),
    "no predicates": (
        "g.csv",
        "source,target,label\n" + "".join(f"{s},{o},\n" for s, _, o in ROWS),
        "all 360 predicates are empty. If the facts are of one kind, write the same word in every row",
    ),
    "yes and no without a header": (
        "g.tsv",
        "".join("\t".join([*row, ("yes", "no")[i % 2]]) + "\n" for i, row in enumerate(ROWS)),
        "If the fourth column says which are true, write 1 and -1 in it",
    ),
    "names of rows by R": (
        "g.tsv",
        '"subject"\t"predicate"\t"object"\n'
        + "".join(f'"{i}"\t"{s}"\t"{p}"\t"{o}"\n' for i, (s, p, o) in enumerate(ROWS)),
        "lines 2 to 361: 4 tab-separated columns: it must have 3. R writes the names of rows so",
    ),
    "tabs between lists": (
        "g.csv",
        "".join(f"/a/[{s},{o}]\t{p}\t{s}\t{o}\n" for s, p, o in ROWS),
        "tabs separate its values: let its name end in .tsv",
    ),
    "labels that are nearly none": (
        "g.tsv",
        "".join("\t".join([*row, f"{i // 4}"]) + "\n" for i, row in enumerate(ROWS)),
        "only 8 of 360 labels can be read: leave them out by --columns subject,predicate,object (1,2,3 without a",
    ),
    "two negations": (
        "g.csv",
        "subject,predicate,object,negated,predicate_modifier\n"
        + "".join(f"{','.join(row)},false,{('', 'Not')[i % 2]}\n" for i, row in enumerate(ROWS)),
        "has the columns negated and predicate_modifier, and each may deny a fact: make one column negated of them",
    ),
    "a header with other marks": (
        "g.csv",
        "Drug/Compound,Interaction Type,Gene [HGNC]\n" + lines(ROWS, ","),
        "such as --columns Drug/Compound,Interaction Type,Gene [HGNC]",
    ),
    "labels of items beside them": (
        "g.csv",
        "item,itemLabel,value,valueLabel\n" + "".join(f"{s},name {s},{o},name {o}\n" for s, _, o in ROWS),
        "has no column predicate",
    ),
    "an edge list": (
        "g.csv",
        "".join(f"{s},{o}\n" for s, _, o in ROWS),
        "2 comma-separated columns: it must have 3. If all facts are of one kind, add a column predicate",
    ),
    "a predicate at the end": (
        "g.csv",
        "source,target,effect\n" + "".join(f"{s},DRUG:{i % 6},{p}\n" for i, (s, p, _) in enumerate(ROWS)),
        "such as --columns source,effect,target",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_sentence_says_what_mends_it(tmp_path: Path, case: str) -> None:
    name, text, message = REFUSED[case]
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as refused:
        read(tmp_path / name)
    assert message in str(refused.value)


def test_types_in_a_header_and_empty_negations_are_read(tmp_path: Path) -> None:
    (tmp_path / "typed.csv").write_text("head:string,relation:STRING,tail:string\n" + lines(ROWS, ","))
    assert len(read(tmp_path / "typed.csv").graph.all_known) == len(ROWS)
    negated = "".join(f"{','.join(row)},{('-', 'true')[i % 2]}\n" for i, row in enumerate(ROWS))
    (tmp_path / "negated.csv").write_text("subject,predicate,object,negated\n" + negated)
    assert read(tmp_path / "negated.csv").counts["negated_rows"] == 180


@pytest.mark.parametrize(
    ("name", "values"),
    [("refuted", "FT"), ("negation_status", ("affirmed", "negated")), ("is_false", "ny"), ("NEG", "01")],
)
def test_negations_have_many_names(tmp_path: Path, name: str, values: tuple[str, str]) -> None:
    (tmp_path / "g.csv").write_text(labelled(name, values))
    prepared = read(tmp_path / "g.csv")
    assert prepared.counts["negated_rows"] == 180
    assert len(prepared.graph.all_known) == len(set(ROWS[::2]))


def test_comments_may_stand_before_and_after_a_header_that_is_one(tmp_path: Path) -> None:
    text = "# a table\n# Drug,Gene ID,Gene,Action\n#\n" + "".join(f"{s},7,{o},{p}\n" for s, p, o in ROWS)
    (tmp_path / "g.csv").write_text(text)
    for columns in (("Drug", "Action", "Gene"), ("1", "4", "3")):
        [block] = read_blocks(TriplesFile(tmp_path / "g.csv", columns=columns))
        assert [(*row.values(),) for row in block.names.to_pylist()] == ROWS


def test_a_first_line_that_begins_with_a_number_sign_may_be_a_fact(tmp_path: Path) -> None:
    named = [(f"gene{s[5:]}", p, f"drug{o[5:]}") for s, p, o in ROWS]
    (tmp_path / "g.tsv").write_text("".join(f"#{i}\t{s}\t{p}\t{o}\n" for i, (s, p, o) in enumerate(named)))
    [block] = read_blocks(TriplesFile(tmp_path / "g.tsv", columns=("2", "3", "4")))
    assert [(*row.values(),) for row in block.names.to_pylist()] == named


def test_a_relation_of_an_annotation_may_be_denied_in_other_rows(tmp_path: Path) -> None:
    rows = (f"{s}\t{('part_of', 'NOT|part_of')[i % 2]}\t{p}\t{o}\n" for i, (s, p, o) in enumerate(ROWS))
    (tmp_path / "g.tsv").write_text("".join(rows))
    [block] = read_blocks(TriplesFile(tmp_path / "g.tsv", columns=("1", "3", "4")))
    assert block.unread == "the column 2, which may say which rows are true"


def test_a_column_of_qualifiers_is_named(tmp_path: Path) -> None:
    text = "subject,predicate,object,qualifiers\n" + "".join(f"{','.join(row)},P580=2001\n" for row in ROWS)
    (tmp_path / "g.csv").write_text(text)
    assert "the column qualifiers (but for NOT)" in read(tmp_path / "g.csv").unread[0]


def test_y_beside_x_is_a_place(tmp_path: Path) -> None:
    text = "source,relation,target,x,y\n" + "".join(f"{','.join(row)},0,1\n" for row in ROWS)
    (tmp_path / "g.csv").write_text(text)
    assert "the columns y, x" in read(tmp_path / "g.csv").unread[0]
