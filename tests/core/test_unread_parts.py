"""Columns, rows and files that were taken for something else, or left out, and nothing said so."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgcore.config import PrepareConfig
from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.prepare import Prepared, read_dataset
from kgcore.data.formats.base import TriplesFile, read_blocks, read_candidates
from kgcore.errors import InputError
from kgcore.measure.report.graph_findings import data_report
from tests.core.written_files import FACTS, read, text_of, written

FIRST = FACTS[0]


def prepared(path: Path, columns: str = "auto") -> Prepared:
    return read_dataset(PrepareConfig(dataset=str(path), columns=columns), path.parent)


def notes(path: Path) -> str:
    return "\n".join(data_report(prepared(path), "random")[1])


@pytest.mark.parametrize(
    ("header", "rest", "unread"),
    [
        ("subject_id,predicate,object,source", "CTD", "column source"),
        ("subject_id,predicate,object_id,start,end", "1950,1990", "columns start, end"),
        ("item,property,value,start,end", "1950,1990", "columns start, end"),
        ("entity1,relation,entity2,from,to", "1950,1990", "columns from, to"),
        ("from_id,type,to_id,start,end,id", "3,7,9", "columns start, end, id"),
        ("source,relation,target,interaction_type", "PPI", "column interaction_type"),
        ("subject,predicate,object_id,start,end", "1950,1990", "columns start, end"),
        ("head_id,relation,target,from,to", "1950,1990", "columns from, to"),
        ("source,relation,object,start,end", "1950,1990", "columns start, end"),
        ("from,relation,to,start,end", "1950,1990", "columns start, end"),
        ("start,rel,end,source,value", "CTD,7", "columns source, value"),
        ("source,type,object,a,b,c,d,e,f,g", "1,2,3,4,5,6,7", "columns a, b, c, d, e and 2 more"),
    ],
)
def test_columns_beside_the_triple_are_not_taken_for_it_and_are_named(
    tmp_path: Path, header: str, rest: str, unread: str
) -> None:
    path = written(tmp_path, {"a.csv": f"{header}\n" + text_of(FACTS, ",", f",{rest}\n")}) / "a.csv"
    assert read(path) == FACTS
    triple = ", ".join(header.split(",")[:3])
    assert f"Not read: the {unread}, where {triple} are subject, predicate and object (the file a.csv)." in notes(path)
    [block] = read_candidates(path)
    assert block.names["subject"][0].as_py() == FIRST[0]


def test_a_table_whose_columns_are_all_read_has_no_such_note(tmp_path: Path) -> None:
    path = written(tmp_path, {"a.csv": "object,subject,predicate\n" + text_of([(o, s, p) for s, p, o in FACTS], ",")})
    assert read(path / "a.csv") == FACTS
    assert "Not read" not in notes(path / "a.csv")


@pytest.mark.parametrize(
    ("header", "subject"), [("entity,property,value,source", "entity"), ("drug,interaction,target,source", "drug")]
)
def test_where_a_fact_comes_from_is_not_its_subject(tmp_path: Path, header: str, subject: str) -> None:
    path = written(tmp_path, {"a.csv": f"{header}\n" + text_of(FACTS, ",", ",CTD\n")}) / "a.csv"
    with pytest.raises(InputError, match=f"its subject in the column {subject} or source: --columns must name three"):
        read(path)
    columns = ("1", "2", "3")
    assert [block.names.num_rows for block in read_blocks(TriplesFile(path, columns))] == [len(FACTS)]


@pytest.mark.parametrize(
    ("header", "order"),
    [
        ("source,relation,object", "spo"),
        ("target,source,relation", "osp"),
        ("id,target,source,relation", "xosp"),
        (",target,source,relation", "xosp"),
        (",object,source,relation", "xosp"),
        ("_key,_to,_from,type", "xosp"),
        ("predicate,object,from,weight", "posx"),
        ("key,target,source,relation", "xosp"),
        ("uri,rel,start,end", "xpso"),
    ],
)
def test_such_words_are_subjects_where_no_other_column_is(tmp_path: Path, header: str, order: str) -> None:
    rows = [",".join({"s": s, "p": p, "o": o, "x": "1"}[part] for part in order) for s, p, o in FACTS]
    assert read(written(tmp_path, {"a.csv": "\n".join([header, *rows, ""])}) / "a.csv") == FACTS


@pytest.mark.parametrize("name", ["is_true", "Truth", "correct", "is-valid", "labels", "gold label"])
def test_a_column_that_may_have_labels_is_not_ignored(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, {"a.csv": f"subject,predicate,object,{name}\n" + text_of(FACTS, ",", ",0\n")}) / "a.csv"
    with pytest.raises(InputError, match=f"give --columns subject,predicate,object,{name} if it does"):
        read(path)


def test_a_column_that_the_user_chose_is_no_label(tmp_path: Path) -> None:
    text = "subject,predicate,object,correct\n" + text_of(FACTS, ",", ",0.5\n")
    path = written(tmp_path, {"a.csv": text}) / "a.csv"
    assert all("confidence" in block.names.column_names for block in read_blocks(TriplesFile(path, confidence="4")))
    assert "Not read" not in "\n".join(data_report(prepared(path, columns="1,2,3"), "random")[1])


@pytest.mark.parametrize("name", ["is_neg", "is_not", "negation_flag"])
def test_negations_are_known_by_more_names(tmp_path: Path, name: str) -> None:
    text = f"subject,predicate,object,{name}\n" + text_of(FACTS[:9], ",", ",1\n") + text_of(FACTS[9:], ",", ",0\n")
    assert read(written(tmp_path, {"a.csv": text}) / "a.csv") == FACTS[9:]


def test_the_advice_for_unknown_names_keeps_the_labels(tmp_path: Path) -> None:
    path = written(tmp_path, {"a.tsv": "drug\teffect\tdisease\tlabel\n" + text_of(FACTS, end="\t1\n")}) / "a.tsv"
    with pytest.raises(InputError, match="--columns drug,effect,disease,label"):
        read(path)


@pytest.mark.parametrize(
    "denied", ["NOT|involved_in", "NOT involved_in", "NOT,involved_in", "NOT_involved_in", "part_of| not "]
)
@pytest.mark.parametrize("name", ["qualifier", "Qualifiers", "GO Qualifier"])
def test_the_word_not_of_a_qualifier_denies_a_fact(tmp_path: Path, denied: str, name: str) -> None:
    names = f"subject\tpredicate\tobject\t{name}\n"
    text = (
        names
        + text_of(FACTS[:9], end=f"\t{denied}\n")
        + text_of(FACTS[9:], end="\tDO NOT USE: NOT gate, not specified\n")
    )
    assert read(written(tmp_path, {"a.tsv": text}) / "a.tsv") == FACTS[9:]


def test_qualifiers_of_parquet_and_json_deny_facts(tmp_path: Path) -> None:
    frame = pd.DataFrame(FACTS, columns=["subject", "predicate", "object"])
    qualifiers = ["NOT|involved_in"] * 9 + [""] * (len(FACTS) - 9)
    table = pa.Table.from_pandas(frame).append_column("qualifier", pa.array(qualifiers, pa.string_view()))
    pq.write_table(table, tmp_path / "a.parquet")
    frame.assign(qualifier=[["NOT"]] * 9 + [["part_of"]] * (len(FACTS) - 9)).to_json(
        tmp_path / "a.jsonl", orient="records", lines=True
    )
    assert read(tmp_path / "a.parquet") == read(tmp_path / "a.jsonl") == FACTS[9:]


def test_whole_numbers_that_became_floats_are_one_name(tmp_path: Path) -> None:
    rows = [(10**11 + int(s[1:]), p, 10**11 + int(o[1:])) for s, p, o in FACTS]
    frame = pd.DataFrame(rows, columns=["subject", "predicate", "object"])
    frame.astype({"object": float}).to_parquet(tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet") == [(str(s), p, str(o)) for s, p, o in rows]
    mixed = [0.5, -0.0, float("inf"), 1e20, 2.0]
    parts = pa.table({"subject": pa.array(mixed), "predicate": ["p"] * 5, "object": pa.array(mixed, pa.float16())})
    pq.write_table(parts.slice(0, 3), tmp_path / "b.parquet")
    pq.write_table(parts.slice(3).drop_columns("object").append_column("object", [["a", "b"]]), tmp_path / "c.parquet")
    assert read(tmp_path / "b.parquet") == [("0.5", "p", "0.5"), ("0", "p", "0"), ("inf", "p", "inf")]
    assert read(tmp_path / "c.parquet") == [("1e+20", "p", "a"), ("2", "p", "b")]
    frame.assign(object=2.0**53).to_parquet(tmp_path / "large.parquet")
    with pytest.raises(
        InputError, match=r"column object of .* has numbers such as 9007199254740992, whose last digits"
    ):
        read(tmp_path / "large.parquet")


@pytest.mark.parametrize("kind", [pa.binary(), pa.binary(16), pa.uuid()])
def test_bytes_that_are_no_text_are_refused(tmp_path: Path, kind: pa.DataType) -> None:
    storage = pa.array([b"caf\xe9" + bytes(12)] * 2, pa.binary(16) if kind == pa.uuid() else kind)
    subjects = pa.ExtensionArray.from_storage(kind, storage) if kind == pa.uuid() else storage
    pq.write_table(
        pa.table({"subject": subjects, "predicate": ["p", "q"], "object": ["a", "b"]}), tmp_path / "a.parquet"
    )
    with pytest.raises(InputError, match=r"the column subject of .*a.parquet has the type .*: it must be text"):
        read(tmp_path / "a.parquet")


def test_quotes_around_every_value_are_no_part_of_it(tmp_path: Path) -> None:
    quoted = [tuple(f'"{name}"' for name in fact) for fact in [("subject", "predicate", "object"), *FACTS]]
    folder = written(tmp_path, {"r.tsv": "".join("\t".join(row) + "\n" for row in quoted)})
    assert read(folder / "r.tsv") == FACTS
    titles = [('"The Beatles"', '"genre"', '"Rock"'), ('"Heroes" (album)', "genre", "Rock"), ("x", "r", '"5')]
    assert read(written(tmp_path, {"b.tsv": text_of(titles)}) / "b.tsv") == titles


def test_quotes_that_a_backslash_escapes_are_refused(tmp_path: Path) -> None:
    rows = 'd0,treats,x0\n"5\\" pipe",treats,"x ""1"""\n'
    with pytest.raises(
        InputError, match=r"backslashes before quotes, .* such as .*: save the file with doubled quotes"
    ):
        read(written(tmp_path, {"a.csv": f"subject,predicate,object\n{rows}"}) / "a.csv")
    rows = 'd0,"is in","C:\\","see \\"x\\" y"\n"a ""b\\""",treats,x1,1\n"Doe, J.,",r,5\\" pipe,2\n'
    path = written(tmp_path, {"b.csv": f"subject,predicate,object,note\n{rows}"}) / "b.csv"
    assert read(path) == [("d0", "is in", "C:\\"), ('a "b\\"', "treats", "x1"), ("Doe, J.,", "r", '5\\" pipe')]


def test_a_number_at_the_end_of_every_line_of_sif_is_no_object(tmp_path: Path) -> None:
    path = written(tmp_path, {"a.sif": text_of(FACTS, " ", " 0.5\n")}) / "a.sif"
    with pytest.raises(InputError, match=r"every line ends in a number, such as 0.5, which would be an object"):
        read(path)
    ids = [(s[1:], p, o[1:]) for s, p, o in FACTS]
    path = written(tmp_path, {"b.sif": text_of(ids, " ", " 1000\n")}) / "b.sif"  # entities may be numbers
    assert len(read(path)) == 2 * len(FACTS)


def test_results_of_sparql_are_refused(tmp_path: Path) -> None:
    rows = text_of([("<http://e/d>", "<http://e/p>", '"name"@en')])
    with pytest.raises(InputError, match="has RDF terms such as <http://e/d>, and literals: save its triples as"):
        read(written(tmp_path, {"a.tsv": f"?item\t?property\t?value\n{rows}"}) / "a.tsv")
    names = [tuple(f"<{name}>" for name in fact) for fact in FACTS]  # of YAGO
    assert read(written(tmp_path, {"b.tsv": text_of(names)}) / "b.tsv") == names


@pytest.mark.parametrize("name", ["\\N", "(null)", "NaT", "#REF!", "[]"])
def test_more_marks_of_a_missing_value_are_placeholders(tmp_path: Path, name: str) -> None:
    facts = [*FACTS, *((s, p, name) for s, p, _ in FACTS[::9])]
    assert "Placeholders as entities: 1" in notes(written(tmp_path, {"a.tsv": text_of(facts)}) / "a.tsv")


def test_a_header_inside_is_found_behind_a_byte_order_mark(tmp_path: Path) -> None:
    text = "subject,predicate,object\n" + text_of(FACTS[::2], ",")
    text += "\ufeffsubject,predicate,object\n" + text_of(FACTS[1::2], ",")
    found = notes(written(tmp_path, {"a.csv": text}) / "a.csv")
    assert "Headers among the facts: 1, such as subject predicate object." in found


@pytest.mark.parametrize(
    ("files", "unread"),
    [
        (("train.tsv", "train_2.tsv", "valid.tsv", "test.tsv", "README.md"), "file train_2.tsv"),
        (("train.txt", "train.tsv", "valid.tsv", "test.tsv"), "file train.tsv"),
        (("edges_treats.tsv", "causes.tsv"), "file causes.tsv"),
        (("part1.tsv", "part2.tsv.xz", "nodes.csv", ".part3.tsv"), "file part2.tsv.xz"),
        (("train.tsv", "valid.tsv.xz", "test.tsv.xz"), "files test.tsv.xz, valid.tsv.xz"),
        (("train.tsv", "negatives.tsv"), "file negatives.tsv"),
        (("train.tsv", "more.parquet.gz", "rest.tsv.Z"), "files more.parquet.gz, rest.tsv.Z"),
        (("train.tsv", "valid.tsv", "test.tsv", "LICENSE.txt", "entities.txt", "relation2text.txt"), ""),
    ],
)
def test_files_of_a_folder_that_are_not_read_are_named(tmp_path: Path, files: tuple[str, ...], unread: str) -> None:
    folder = written(tmp_path, dict.fromkeys(files, text_of(FACTS)))
    for place, split in enumerate(("valid", "test")):
        if f"{split}.tsv" in files:
            written(folder, {f"{split}.tsv": text_of(FACTS[place::9])})
    if "train.tsv" in files and "valid.tsv" in files:
        kept = [fact for row, fact in enumerate(FACTS) if row % 9 > 1]
        written(folder, {name: text_of(kept) for name in files if name.startswith("train")})
    found = notes(folder)
    assert f"Not read: the {unread}." in found if unread else "Not read" not in found


NEO4J = ":START_ID;weight;:END_ID;:TYPE"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            ["a/one.tsv", "a/two.tsv"],
            "has the files a/one.tsv, a/two.tsv, and no name tells a split: .*one.tsv,.*two.tsv$",
        ),
        (["test/e.csv", "train/e.csv", "valid/e.csv"], "copy each into .*, such as test/e.csv as test.csv$"),
        (["train.del", "valid.del", "test.del"], "ids of LibKGE: .*, or copy train.del as train.tsv"),
        (
            ["A-header.csv", "A-part0.csv", "B-header.csv", "B-part0.csv"],
            "A-header.csv has the names of columns alone: .* --dataset .*A-part0.csv,.*B-part0.csv --columns 1,4,3$",
        ),
        (["notes.md"], "a data set needs train, valid and test"),
    ],
)
def test_a_folder_without_splits_is_refused_with_what_it_has(tmp_path: Path, files: list[str], message: str) -> None:
    folder = written(tmp_path / "kg", {name: NEO4J if "header" in name else "a;1;b;r\n" for name in files})
    with pytest.raises(InputError, match=message):
        find_dataset(str(folder))


@pytest.mark.parametrize(
    ("ends", "advice"),
    [
        ("01", r"--columns 1,2,3 if it is a weight, or --columns 1,2,3,4 if it is a label: 1 for true facts$"),
        ((".5", "0.25"), r"--columns 1,2,3, with --confidence 4 if it is a confidence$"),
        (("7", "8.5"), r"as \.tsv, and give --columns 1,2,3$"),
        (("x\t7", "8.5"), r"would be an object: leave the numbers out$"),
    ],
)
def test_the_advice_for_numbers_of_sif_can_be_followed(tmp_path: Path, ends: Sequence[str], advice: str) -> None:
    text = "".join("\t".join([*fact, ends[n % 2]]) + "\n" for n, fact in enumerate(FACTS))
    written(tmp_path, {"a.sif": text, "a.tsv": text})
    with pytest.raises(InputError, match=advice):
        read(tmp_path / "a.sif")
    if "--columns" in advice:
        assert len(prepared(tmp_path / "a.tsv", "1,2,3").graph.all_known.triples) == len(FACTS)
