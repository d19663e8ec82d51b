"""Files whose names, columns, values or nodes say that rows are false, old, or about something else."""

import bz2
import gzip
import lzma
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import kgcore as kg
from kgcore.config import PrepareConfig
from kgcore.data.datasets.prepare import Prepared, read_dataset
from kgcore.data.formats.base import TriplesFile, read_blocks, read_candidates
from kgcore.errors import InputError, KgcalWarning
from kgcore.measure.report.graph_findings import data_report
from tests.core.written_files import FACTS, read, text_of, written

TEXT = text_of(FACTS)


def prepared(path: Path | str, columns: str = "auto") -> Prepared:
    return read_dataset(PrepareConfig(dataset=str(path), columns=columns), Path())


def notes(path: Path | str, columns: str = "auto") -> str:
    return "\n".join(data_report(prepared(path, columns), "random")[1])


@pytest.mark.parametrize("names", ["positives,negatives", "intact,intact_negative", "edges,TN_edges", "true,false"])
def test_a_file_of_negatives_among_others_is_no_file_of_facts(tmp_path: Path, names: str) -> None:
    paths = [tmp_path / f"{name}.tsv" for name in names.split(",")]
    for path in paths:
        path.write_text(TEXT)
    with pytest.raises(
        InputError, match=f"{paths[1].name} has negatives by its name: .* or give it the name valid_neg"
    ):
        prepared(",".join(map(str, paths)))


@pytest.mark.parametrize("word", ["false", "negs", "fake", "corrupted", "TN"])
def test_words_for_false_beside_a_split_make_negatives(tmp_path: Path, word: str) -> None:
    held_out, train = FACTS[::12], [fact for n, fact in enumerate(FACTS) if n % 12]
    other = [(s, {"helps": "treats", "treats": "helps"}[p], o) for s, p, o in train[:9]]
    half = len(held_out) // 2
    files = {"my_train.tsv": text_of(train), "my_test_true.tsv": text_of(held_out[half:])}
    files |= {"my_valid_true.tsv": text_of(held_out[:half]), f"my_valid_{word}.tsv": text_of(other)}
    graph = prepared(written(tmp_path, {**files, f"my_test_{word}.tsv": text_of(other)})).graph
    assert (graph.test.labels == 0).sum() == 9


def test_all_parts_of_a_table_are_one_graph(tmp_path: Path) -> None:
    half = {f"part-{n:05d}-8d5c1f0e-c000.tsv": text_of(FACTS[n::8]) for n in range(8)}
    graph = prepared(written(tmp_path, half)).graph
    assert sum(len(split.triples) for split in (graph.train, graph.valid, graph.test)) == len(FACTS)
    assert prepared(",".join(str(tmp_path / name) for name in half)).graph.fingerprint() == graph.fingerprint()


def test_files_in_folders_inside_are_named(tmp_path: Path) -> None:
    written(tmp_path, {"edges.tsv": TEXT, "more/edges2.tsv": TEXT, "more/nodes.tsv": "a", ".git/a.tsv": "a"})
    assert "Not read: the file more/edges2.tsv." in notes(tmp_path)


@pytest.mark.parametrize("columns", ["source_id,relation,destination_id", "2,3,4"])
@pytest.mark.parametrize("name", ["active", "status", "Invalid_Reason", "direction", "label", "is_obsolete"])
def test_columns_that_may_void_a_fact_are_named_even_if_the_user_chose(tmp_path: Path, name: str, columns: str) -> None:
    rows = "".join(f"{n},{s},{p},{o},0\n" for n, (s, p, o) in enumerate(FACTS))
    path = written(tmp_path, {"a.csv": f"n,source_id,relation,destination_id,{name}\n{rows}"}) / "a.csv"
    assert f"Not read: the column {name}, where" in notes(path, columns)
    assert "the column n," not in notes(path, columns)


@pytest.mark.parametrize(
    ("header", "row", "columns"),
    [
        ("#ID A\tID B\tInteraction type\tNegative", "{s}\t{o}\t{p}\t{no}", "1,3,2"),
        ("database_id\tname\tqualifier\tkind\thpo_id", "{s}\tx\t{word}\t{p}\t{o}", "1,4,5"),
        ("#tax_id\tGeneID\tGO_ID\tQualifier", "{s}\t{p}\t{o}\t{word}", "1,2,3"),
    ],
)
def test_positions_keep_the_header_and_the_negations(tmp_path: Path, header: str, row: str, columns: str) -> None:
    rows = [
        row.format(s=s, p=p, o=o, no=str(n < 9).lower(), word="NOT" if n < 9 else "")
        for n, (s, p, o) in enumerate(FACTS)
    ]
    path = written(tmp_path, {"a.tsv": "\n".join([header, *rows, ""])}) / "a.tsv"
    blocks = list(read_blocks(TriplesFile(path, columns=tuple(columns.split(",")))))
    assert [tuple(row.values()) for block in blocks for row in block.names.to_pylist()] == FACTS[9:]


def test_a_row_of_positions_may_have_the_word_not(tmp_path: Path) -> None:
    path = written(tmp_path, {"a.tsv": "a\tNOT\tp\tb\n" + text_of(FACTS[:1]).replace("\t", "\t\t", 1)}) / "a.tsv"
    assert [block.names.num_rows for block in read_blocks(TriplesFile(path, columns=("1", "3", "4")))] == [2]


def test_equal_ids_of_two_spaces_are_named(tmp_path: Path) -> None:
    names = ":START_ID(Actor),:TYPE,:END_ID(Movie)\n"
    path = written(tmp_path, {"a.csv": names + text_of(FACTS, ",")}) / "a.csv"
    assert "Not read: the spaces of its ids, Actor and Movie, so that equal ids of both are one entity" in notes(path)
    assert "Not read" not in notes(
        written(tmp_path, {"b.csv": names.replace("Movie", "Actor") + text_of(FACTS, ",")}) / "b.csv"
    )


@pytest.mark.parametrize(("denied", "affirmed"), [("-1", "1"), ("negative", "positive"), ("-", "+"), ("-1.0", "1.0")])
def test_polarity_is_no_negation(tmp_path: Path, denied: str, affirmed: str) -> None:
    rows = [f"{s},{p},{o},{denied if n < 9 else affirmed}\n" for n, (s, p, o) in enumerate(FACTS)]
    path = written(tmp_path, {"a.csv": "subject,predicate,object,polarity\n" + "".join(rows)}) / "a.csv"
    assert read(path) == FACTS[9:]
    path.write_text(path.read_text().replace(f",{denied}\n", ",0\n", 1))
    with pytest.raises(InputError, match=r"polarity is '0': it must be positive or negative, \+ or -, 1 or -1"):
        read(path)


@pytest.mark.parametrize("polarity", [[-1, 1], [-1.0, 1.0], ["negative", None], pd.array([-1, None], dtype="Int64")])
def test_polarity_of_a_table_may_have_any_type(tmp_path: Path, polarity: Sequence[object]) -> None:
    rows = pd.DataFrame(FACTS[:60], columns=["subject", "predicate", "object"])
    rows["polarity"] = pd.Series(polarity).take([0] * 9 + [1] * 51).array
    rows.to_parquet(tmp_path / "a.parquet")
    rows.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    assert read(tmp_path / "a.parquet") == read(tmp_path / "a.jsonl") == FACTS[9:60]


def test_two_words_for_false_are_not_one_label(tmp_path: Path) -> None:
    rows = [f"{s}\t{p}\t{o}\t{(1, 0, -1)[n % 3]}\n" for n, (s, p, o) in enumerate(FACTS)]
    path = written(tmp_path, {"a.tsv": "".join(rows)}) / "a.tsv"
    with pytest.raises(
        InputError, match=r"a\.tsv has the labels 0 and -1, and each means false: if one of them means unkn"
    ):
        prepared(path)


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("drug,target,interaction,source", "{s},{o},{p},CTD"),
        ("company,relation,owner,from,to", "{s},{p},{o},1990,2000"),
    ],
)
def test_a_database_or_a_year_is_no_subject(tmp_path: Path, header: str, row: str) -> None:
    rows = [row.format(s=s, p=p, o=o) for s, p, o in FACTS]
    path = written(tmp_path, {"a.csv": "\n".join([header, *rows, ""])}) / "a.csv"
    with pytest.raises(InputError, match="may have its subject in the column"):
        read(path)


def test_a_destination_comes_before_a_target(tmp_path: Path) -> None:
    rows = text_of(FACTS, ",", ",1\n")
    assert read(written(tmp_path, {"a.csv": f"source,relation,destination,target\n{rows}"}) / "a.csv") == FACTS


STATEMENT = """
<http://x/s{n}> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <{kind}> .
<http://x/s{n}> <http://x/a> <http://x/{s}> .
<http://x/s{n}> <http://x/b> <http://x/{o}> .
"""
RDF, OWL = "http://www.w3.org/1999/02/22-rdf-syntax-ns#", "http://www.w3.org/2002/07/owl#"


@pytest.mark.parametrize("kind", [f"{RDF}Statement", f"{OWL}NegativePropertyAssertion"])
@pytest.mark.parametrize("blank", [False, True])
def test_what_describes_a_triple_is_none(tmp_path: Path, kind: str, blank: bool) -> None:
    facts = "".join(f"<http://x/{s}> <http://x/{p}> <http://x/{o}> .\n" for s, p, o in FACTS)
    about = "".join(STATEMENT.format(n=n, kind=kind, s=s, o=o) for n, (s, _, o) in enumerate(FACTS))
    if blank:
        about = re.sub(r"<http://x/(s\d+)>(?= <http)", r"_:\1", about)
    path = written(tmp_path, {"a.nt": about + facts}) / "a.nt"
    assert len(read(path)) == len(FACTS)
    assert sum(block.left_out["triples_about_triples"] for block in read_blocks(TriplesFile(path))) == 3 * len(FACTS)


def test_rdf_ids_are_no_facts(tmp_path: Path) -> None:
    rows = "".join(
        f'<rdf:Description rdf:about="http://x/{s}"><x:{p} rdf:ID="f{n}" rdf:resource="http://x/{o}"/></rdf:Description>'
        for n, (s, p, o) in enumerate(FACTS)
    )
    text = f'<rdf:RDF xml:base="http://x/" xmlns:x="http://x/" xmlns:rdf="{RDF}">{rows}</rdf:RDF>'
    assert len(read(written(tmp_path, {"a.rdf": text}) / "a.rdf")) == len(FACTS)


def test_quotes_after_blanks_in_later_rows_enclose_values(tmp_path: Path) -> None:
    rows = [f'{s}, "{p}", "{o}"' if n % 2 else f"{s}, {p}, {o}" for n, (s, p, o) in enumerate(FACTS)]
    path = written(tmp_path, {"a.csv": "\n".join(["subject, predicate, object", *rows, ""])}) / "a.csv"
    assert read(path) == FACTS


def test_a_value_that_is_quoted_in_part_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, {"a.csv": text_of(FACTS, ",") + '"Heroes" (album),by,"David" Bowie\n'}) / "a.csv"
    with pytest.raises(InputError, match=f"line {len(FACTS) + 1}: a quote that opens a value must be closed"):
        read(path)
    path.write_text(text_of(FACTS, ",") + '"a, ""b"" c",by,"d"\n')
    assert read(path)[-1] == ('a, "b" c', "by", "d")


@pytest.mark.parametrize(
    "odd",
    ['"1,2-d8"', "'d8'", "(d12", '["d12"', "#d3", "wd:d1 .", "{d3"],
)
def test_marks_of_a_syntax_in_names_are_found(tmp_path: Path, odd: str) -> None:
    path = written(tmp_path, {"a.tsv": TEXT + f"d1\thelps\t{odd}\nd2\thelps\t{odd}\n"}) / "a.tsv"
    assert f"Names with the marks of a syntax: 1, such as {odd!r}" in notes(path)


def test_brackets_and_quotes_of_names_are_no_marks_of_a_syntax(tmp_path: Path) -> None:
    usual = "".join(
        f"d1\thelps\t{name}\n"
        for name in ("(R)-limonene", "benzo[a]pyrene", "O'Neill", '"Heroes" (album)', "#9", "f(x)")
    )
    assert "marks of a syntax" not in notes(written(tmp_path, {"a.tsv": TEXT + usual}) / "a.tsv")


@pytest.mark.parametrize("odd", ["1-Mar", "2-Sep", "2.31E+13", "Sj\ufffdgren", "SjÃ¶gren"])
def test_names_that_a_program_has_changed_are_found(tmp_path: Path, odd: str) -> None:
    path = written(tmp_path, {"a.tsv": TEXT + f"d1\thelps\t{odd}\nd2\thelps\t{odd}\n"}) / "a.tsv"
    assert f"Names that a program has changed: 1, such as {odd!r}" in notes(path)


@pytest.mark.parametrize(("name", "other"), [("0088", "88"), ("http://x.org/a", "https://x.org/a")])
def test_names_that_hardly_differ(tmp_path: Path, name: str, other: str) -> None:
    rows = f"{name}\thelps\td1\n{other}\thelps\td1\n{name}\thelps\td2\n{other}\thelps\td2\n"
    assert "Names that hardly differ: 1, such as" in notes(written(tmp_path, {"a.tsv": TEXT + rows}) / "a.tsv")


@pytest.mark.parametrize("word", ["#NAME?", "#DIV/0!", "not reported", "sssom:NoTermFound"])
def test_more_placeholders(tmp_path: Path, word: str) -> None:
    rows = f"{word}\thelps\td1\n{word}\thelps\td2\n"
    assert "Placeholders as entities: 1, such as" in notes(written(tmp_path, {"a.tsv": TEXT + rows}) / "a.tsv")


@pytest.mark.parametrize(
    ("name", "text", "advice"),
    [
        ("a.tsv", TEXT.replace("\n", "\r"), "carriage returns in place of line ends: save it with line feeds"),
        ("a.txt", "<http://x/a> <http://x/p> <http://x/b> .\n", r"let its name end in \.nt"),
        ("a.txt", "a | p | b\n", "bars separate its values"),
        ("a.csv", "sep=;\na;p;b\n", "sep=; is for a spreadsheet: delete the line; semicolons separate"),
        ("a.csv", "sep=,\na,p,b\n", "sep=, is for a spreadsheet: delete the line$"),
        ("a.csv", "/c/en/a\t/r/p\t/c/en/b, c\t{}\n", r"tabs separate its values: let its name end in \.tsv"),
    ],
)
def test_the_first_line_shows_what_is_wrong(tmp_path: Path, name: str, text: str, advice: str) -> None:
    with pytest.raises(InputError, match=advice):
        read(written(tmp_path, {name: text}) / name)


def test_packed_text_needs_its_ending(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(gzip.compress(TEXT.encode()))
    with pytest.raises(InputError, match=r"a\.tsv is packed by gzip: let its name end in \.gz"):
        read(tmp_path / "a.tsv")


def test_lines_of_an_ontology_that_begin_with_an_exclamation_mark_are_comments(tmp_path: Path) -> None:
    assert read(written(tmp_path, {"a.tsv": "!gaf-version: 2.2\n!\n" + TEXT}) / "a.tsv") == FACTS


def test_arrays_and_lists_of_triples_are_graphs() -> None:
    table = kg.read(pd.DataFrame(FACTS, columns=["subject", "predicate", "object"]), progress=False)
    for rows in (np.array(FACTS), FACTS, tuple(FACTS), [list(fact) for fact in FACTS]):
        assert kg.read(rows, progress=False).fingerprint() == table.fingerprint()
    for rows in ([], [("a", "b")], 7):
        with pytest.raises(InputError, match="the table train"):
            kg.read(rows, progress=False)  # type: ignore[arg-type]


def test_candidates_that_are_left_out_are_counted(tmp_path: Path) -> None:
    path = written(tmp_path, {"a.nt": '<x:a> <x:p> <x:b> .\n<x:a> <x:p> "text" .\n'}) / "a.nt"
    with pytest.warns(KgcalWarning, match=r"a\.nt: no answer for triples with literals \(1\)"):
        assert [len(block.names) for block in read_candidates(path)] == [1]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.tsv", bz2.compress(b"a\tr\tb\n"), r"a\.tsv is packed by bzip2: let its name end in \.bz2"),
        ("a.nt", bz2.compress(b"<a> <r> <b> .\n"), r"a\.nt is packed by bzip2: let its name end in \.bz2"),
        ("a.tsv.gz", bz2.compress(b"a\tr\tb\n"), r"a\.tsv\.gz is packed by bzip2: let its name end in \.bz2"),
        ("a.csv", b"PK\x03\x04\x14\0\0\0\0\0", r"a\.csv is a zip archive or a spreadsheet: unpack it, or save the tab"),
        ("a.jsonl", lzma.compress(b"{}"), r"a\.jsonl is packed by xz: unpack it"),
        ("a.txt", b"PAR1\x15\x04\x15\xb0", r"a\.txt is a Parquet table: let its name end in \.parquet"),
    ],
)
def test_a_packed_file_with_another_ending_is_named(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=message):
        list(read_blocks(TriplesFile(tmp_path / name)))


def test_names_that_begin_like_a_packed_file_are_names(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("BZh9\tbinds\tPAR1\n")
    (tmp_path / "b.tsv").write_text("PAR1\tbinds\tBZh9\n")
    assert read(tmp_path / "a.tsv") == [("BZh9", "binds", "PAR1")]
    assert read(tmp_path / "b.tsv") == [("PAR1", "binds", "BZh9")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"source": {"id": "a", "x": 1}, "target": "b", "type": "r"}', 'its key id in its place: "source": "a"$'),
        ('{"source": {"x": 1, "name": "a"}, "target": "b", "type": "r"}', 'its key name in its place: "source": "a"$'),
        ('{"source": {"x": []}, "target": "b", "type": "r"}', "subject is an object: write text as source$"),
        ('{"source": ["a", "c"], "target": "b", "type": "r"}', "a list of 2: write a line for each of its values"),
        ('[{"source": "a", "target": "b", "type": "r"}]', r"line 1: the line is part of a list: .* `jq -c '\.\[\]' FI"),
        ('[\n{"source": "a", "target": "b", "type": "r"}\n]', "line 1: the line is part of a list: write each object"),
        ('{"source": "a", "target": "b", "type": "r"},', "line 1: the line is part of a list: write each object"),
        ('{\n"source": "a", "target": "b", "type": "r"}', "line 1: the object has several lines: write each"),
        (
            '{"type": "relationship", "label": "r", "start": {"id": "1"}, "end": {"id": "2"}}',
            r"subject is an object of APOC: write the relationships as a table: jq -r 'select",
        ),
        (
            '{"type": "relationship", "label": "r", "start": "1", "end": "2"}',
            "predicate is only 'relationship': give --columns start,label,end",
        ),
    ],
)
def test_json_of_another_shape_is_refused_with_a_remedy(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.jsonl").write_text(f"{text}\n")
    with pytest.raises(InputError, match=message):
        read(tmp_path / "a.jsonl")
