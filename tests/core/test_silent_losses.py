"""Each kind of file here was read in part or wrongly, and no message said so."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import kgcore as kg
from kgcore.config import PrepareConfig
from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.prepare import Prepared, read_dataset
from kgcore.data.formats.base import TriplesFile, read_blocks, read_candidates
from kgcore.errors import InputError
from tests.core.written_files import FACTS, read, text_of, written

HEADER = "subject,predicate,object,note\n"
RDF = '<?xml version="1.0"?>\n<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/">\n'
IRIS = [(f"http://e/{s}", p, f"http://e/{o}") for s, p, o in FACTS]
XML = [f'<rdf:Description rdf:about="{s}"><e:{p} rdf:resource="{o}"/></rdf:Description>\n' for s, p, o in IRIS]


@pytest.mark.parametrize(
    "names",
    [
        ("train.txt", "valid.txt", "test.txt", "valid_negatives.txt", "test_neg.tsv"),
        ("my_train.tsv", "my_valid.tsv", "my_test.tsv", "my_negative_valid.tsv", "my_test_negatives.tsv"),
    ],
)
def test_files_of_negatives_are_the_negatives_of_their_split(tmp_path: Path, names: tuple[str, ...]) -> None:
    held_out = [FACTS[3::8], FACTS[4::8]]
    parts = [[fact for fact in FACTS if fact not in held_out[0] + held_out[1]], *held_out]
    false = [[(s, "helps" if p == "treats" else "treats", o) for s, p, o in part] for part in parts[1:]]
    written(tmp_path, dict(zip(names, map(text_of, [*parts, *false]), strict=True)))
    graph = kg.read(tmp_path)
    for split, facts in ((graph.valid, parts[1]), (graph.test, parts[2])):
        assert 0 < len(split.positives) <= len(facts)
        assert 0 < len(split.negatives) <= len(facts)
        assert not graph.index(split.negatives).contains(graph.train.positives).any()
    with pytest.raises(InputError, match=f"{names[3]} has negatives by its name, and --confidence is given"):
        kg.read(tmp_path, confidence="4")
    (tmp_path / names[3]).unlink()
    message = f"{names[4]} has labels, and .*{names[1]} has none: both must have labels, or neither"
    with pytest.raises(InputError, match=message):
        kg.read(tmp_path)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (("train", "test_negatives"), "has no valid.txt or dev.txt"),
        (("a_train", "a_train_neg", "a_valid", "a_test"), "a_train_neg.tsv has negatives by its name: train has true"),
    ],
)
def test_negatives_without_their_facts_are_refused(tmp_path: Path, files: tuple[str, ...], message: str) -> None:
    written(tmp_path, {f"{name}.tsv": text_of(FACTS) for name in files})
    with pytest.raises(InputError, match=message):
        find_dataset(str(tmp_path))


def test_held_out_files_beside_train_are_found_by_their_words(tmp_path: Path) -> None:
    names = ("train.txt", "valid_1.txt", "test_1.txt")
    files = find_dataset(str(written(tmp_path, {name: text_of(FACTS) for name in names}))).files
    assert {role: file.path for role, file in files.items()} == dict(
        zip(("train", "valid", "test"), names, strict=True)
    )


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("cut.rdf", RDF + "".join(XML[:99]), "cut.rdf ends before </rdf:RDF>: it is incomplete"),
        ("relative.rdf", RDF + XML[0].replace("http://e/d", "#d") + "</rdf:RDF>", "add xml:base, or @base in Turtle"),
        (
            "relative.jsonld",
            '{"@context": {"@vocab": "http://e/"}, "@graph": [{"@id": "d0", "p": {"@id": "http://e/x"}}]}',
            "1 ids are relative, such as 'd0', and nothing says to what: add \"@base\" to its @context",
        ),
        (
            "undefined.jsonld",
            '{"@context": {"p": "http://e/p"}, "@id": "http://e/d", "p": {"@id": "http://e/x"}, '
            '"q": [{"@id": "http://e/y"}, {"@id": "http://e/z"}]}',
            "its @context does not define q, so 2 links would be lost",
        ),
        ("open.csv", HEADER + text_of(FACTS, ",", ",n\n").replace(",n", ',"5 mg', 1), "line 2: a quote that opens"),
        ("two.csv", HEADER + text_of(FACTS, ",", ",n\n").replace(",n", ',"5 mg', 2), "line 2: a quote that opens"),
        ("breaks.csv", HEADER + text_of(FACTS, ",", ',"a\nb"\n') + "d1,helps\n", f"line {2 * len(FACTS) + 2}: 2 comma"),
        ("nt.tsv", text_of([("<http://e/a>", "<http://e/p>", "<http://e/b> .")]), "looks like N-Triples"),
        ("index.csv", ",0,1,2\n0,d,p,x\n", "such as --columns 2,3,4"),
        ("header.sif", "Gene\tlinks\tDisease\n" + text_of(FACTS), "delete the line, or save the file as .tsv"),
    ],
)
def test_what_cannot_be_read_whole_is_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        read(written(tmp_path, {name: text}) / name)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("whole.rdf", RDF + "".join(XML) + "<!-- the end --></rdf:RDF>\n<!-- <e> -->\n"),
        ("breaks.csv", HEADER + text_of(FACTS, ",", ',"a\n""b"", c"\n')),
        ("inches.csv", HEADER + text_of(FACTS, ",", ',5" pipe\n')),
        ("blanks.csv", '"subject", "predicate", "object"\n' + text_of(FACTS, '", "', '"\n').replace("d", '"d', 0)),
        ("comments.csv", "# export, of Monday, for us\n# all\n" + text_of(FACTS, ",")),
        ("comment.csv", "# one, two\n# three, four, five, six\n" + HEADER + text_of(FACTS, ",", ",n\n")),
        ("names.csv", "#subject,predicate,object\n" + text_of(FACTS, ",")),
        ("marks.csv", text_of([("#" + s, p, o) for s, p, o in FACTS], ",").replace("#", "")),
        ("later.csv", "# exported, by, us\n\n#subject,predicate,object\n" + text_of(FACTS, ",")),
        ("node.sif", "lonely\n" + text_of(FACTS)),
        ("comment.sif", "# export of Cytoscape\n" + text_of(FACTS)),
        (
            "mark.nt",
            "\ufeff"
            + text_of([(f"<http://e/{s}>", f"<http://e/{p}>", f"<http://e/{o}>") for s, p, o in FACTS], " ", " .\n"),
        ),
    ],
)
def test_every_fact_is_read(tmp_path: Path, name: str, text: str) -> None:
    if name == "blanks.csv":
        text = text.replace("\nd", '\n"d')
    rows = [
        tuple(value.removeprefix("http://e/") for value in row) for row in read(written(tmp_path, {name: text}) / name)
    ]
    assert sorted(rows) == FACTS


def test_a_quoted_value_may_lie_in_two_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgcore.data.formats.text.BLOCK_BYTES", 64)
    text = HEADER + text_of(FACTS, ",", ',"' + "a line\n" * 30 + '"\n')
    assert sorted(read(written(tmp_path, {"long.csv": text}) / "long.csv")) == FACTS


def test_candidates_keep_a_column_of_negations_and_all_rows(tmp_path: Path) -> None:
    text = "subject\tpredicate\tobject\tnegated\na\tp\tb\ttrue\nc\tp\td\tfalse\n"
    [block] = read_candidates(written(tmp_path, {"asked.tsv": text}) / "asked.tsv")
    assert block.names.to_pydict()["negated"] == ["true", "false"]


def test_candidates_of_all_blocks_have_the_same_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgcore.data.formats.text.BLOCK_BYTES", 64)
    rows = ['{"subject": "a", "predicate": "p", "object": "b"}\n'] * 9
    text = "".join(rows) + '{"subject": "a", "predicate": "p", "object": "c", "late": "x"}\n'
    blocks = list(read_candidates(written(tmp_path, {"late.jsonl": text}) / "late.jsonl"))
    assert len(blocks) > 2
    assert {tuple(block.names.column_names) for block in blocks} == {("subject", "predicate", "object", "late")}


@pytest.mark.parametrize(
    "text",
    [
        "#a,likes,#b\n#c,likes,#d\n",
        "#a,likes,b\n",
        "#a, likes, b\nc,likes,d\n",
        '#a,likes,b\n"two\nlines",likes,y\n',
        "# a, likes, b\nc, likes, d\n",
    ],
)
def test_names_may_begin_with_a_hash(tmp_path: Path, text: str) -> None:
    [block] = read_candidates(written(tmp_path, {"hash.csv": text}) / "hash.csv")
    assert block.names["subject"][0].as_py() in ("#a", "# a")
    assert len(block.names) == text.count("likes")


def test_a_qualifier_with_the_item_not_negates_a_fact(tmp_path: Path) -> None:
    words = ("involved_in", "NOT|involved_in", "", "not specified")
    rows = [(*fact, words[n % 4]) for n, fact in enumerate(FACTS)]
    path = written(tmp_path, {"go.tsv": "subject\tpredicate\tobject\tqualifier\n" + text_of(rows)}) / "go.tsv"
    assert read(path) == [fact for n, fact in enumerate(FACTS) if n % 4 != 1]
    pd.DataFrame(rows, columns=["s", "p", "o", "Qualifier"]).to_parquet(tmp_path / "go.parquet")
    assert read(tmp_path / "go.parquet") == read(path)
    [block] = read_blocks(TriplesFile(path, columns=("subject", "predicate", "object", "qualifier")))
    assert block.names["label"].to_pylist() == ["0" if n % 4 == 1 else "1" for n in range(len(FACTS))]


def test_a_qualifier_for_another_purpose_is_no_negation(tmp_path: Path) -> None:
    rows = [(*fact, "1", ("NOT", "a")[n % 2]) for n, fact in enumerate(FACTS)]
    text = "subject\tpredicate\tobject\tlabel\tqualifier\n" + text_of(rows)
    path = written(tmp_path, {"both.tsv": text}) / "both.tsv"
    for columns in ((), ("subject", "predicate", "object", "label")):
        [block] = read_blocks(TriplesFile(path, columns=columns))
        assert len(block.names) == len(FACTS)
    [block] = read_blocks(TriplesFile(path, columns=("subject", "predicate", "object"), groups="qualifier"))
    assert len(block.names) == len(FACTS)
    frame = pd.DataFrame(FACTS, columns=["subject", "predicate", "object"]).assign(qualifier=[["NOT"]] * len(FACTS))
    frame.to_parquet(tmp_path / "lists.parquet")
    assert read(tmp_path / "lists.parquet") == FACTS
    text = "subject\tpredicate\tobject\tnegated\tqualifier\na\tp\tb\tfalse\tNOT\nc\tp\td\tfalse\t\n"
    assert read(written(tmp_path, {"two.tsv": text}) / "two.tsv") == [("c", "p", "d")]


def test_the_vocabularies_of_openke_may_have_the_id_first(tmp_path: Path) -> None:
    names = sorted({name for s, _, o in FACTS for name in (s, o)})
    predicates = ["helps", "treats"]
    parts = {"train2id.txt": FACTS[::2], "valid2id.txt": FACTS[1::4], "test2id.txt": FACTS[3::4]}
    files = {
        name: f"{len(part)}\n"
        + "".join(f"{names.index(s)} {names.index(o)} {predicates.index(p)}\n" for s, p, o in part)
        for name, part in parts.items()
    }
    for name, rows in (("entity2id.txt", names), ("relation2id.txt", predicates)):
        files[name] = f"{len(rows)}\n" + "".join(f"{number}\t{word}\n" for number, word in enumerate(rows))
    graph = kg.read(written(tmp_path, files))
    assert {*graph.names_of(graph.train.positives).itertuples(index=False, name=None)} == set(FACTS[::2])


def test_a_column_of_text_and_numbers_is_text() -> None:
    frame = pd.DataFrame(FACTS, columns=["subject", "predicate", "object"])
    frame["note"] = [(1, "x", None, 2.5)[n % 4] for n in range(len(FACTS))]
    frame["other"] = pd.Categorical([(1, "x")[n % 2] for n in range(len(FACTS))])
    frame["third"] = [(np.int64(1), "x")[n % 2] for n in range(len(FACTS))]
    frame["object"] = [n if n % 3 == 0 else name for n, name in zip(frame.index % 20, frame["object"], strict=True)]
    graph = kg.read(frame)
    assert {str(n % 20) for n in frame.index if n % 20 % 3 == 0} <= set(graph.entities)


def test_numbers_with_and_without_zeros_are_names_that_hardly_differ(caplog: pytest.LogCaptureFixture) -> None:
    frame = pd.DataFrame(FACTS, columns=["subject", "predicate", "object"])
    frame["object"] = [f"{n % 20}{'.0' * (n % 3 == 0)}" for n in range(len(frame) - 2)] + ["1.10", "1.1"]
    kg.read(frame)
    [said] = [line for line in caplog.messages if line.startswith("Names that hardly differ: ")]
    assert said.startswith("Names that hardly differ: 20, such as '0' and '0.0' (zeros)")


@pytest.mark.parametrize("negated", [[True, False, None], [1.0, 0.0, float("nan")], ["Not", None, ""]])
def test_negations_of_a_table_may_have_any_type(negated: list[object]) -> None:
    frame = pd.DataFrame(FACTS[:300], columns=["subject", "predicate", "object"])
    frame["negated"] = pd.Series(negated * 100, dtype=object if None in negated else None)
    graph = kg.read(frame)
    kept = sum(len(split.positives) for split in (graph.train, graph.valid, graph.test))
    assert 150 < kept <= 200


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: {"train": FACTS}, "the table train is of the type list: it must be a table of pandas"),
        (lambda: pd.DataFrame({"subject": [2**70]}), "the table train has a column that is no text"),
        (
            lambda: pd.DataFrame([("a", "p", "b", 3)], columns=["subject", "predicate", "object", "label"]),
            "the table train, row 1: label is '3'",
        ),
        (
            lambda: pd.DataFrame([("a", "p", "b\n")], columns=["subject", "predicate", "object"]),
            r"the table train, row 1: object is 'b\n': a name must have no tab and no line break",
        ),
    ],
)
def test_a_table_of_pandas_is_named_in_messages(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError) as error:
        kg.read(make())  # type: ignore[arg-type]
    assert str(error.value).startswith(message)


def test_labels_that_are_negated_are_refused(tmp_path: Path) -> None:
    text = "subject\tpredicate\tobject\tlabel\tnegated\na\tp\tb\t1\ttrue\n"
    path = written(tmp_path, {"labels.tsv": text}) / "labels.tsv"
    with pytest.raises(InputError, match="has the columns label and negated: a label says both, leave out one"):
        list(read_blocks(TriplesFile(path, labelled=True)))


def test_ids_of_a_split_that_are_not_those_of_train_are_refused(tmp_path: Path) -> None:
    names = {name: number for number, name in enumerate(sorted({n for s, _, o in FACTS for n in (s, o)}))}
    last = len(names) - 1
    for folder in ("training", "validation", "testing"):
        (tmp_path / folder).mkdir()
        ids = {name: last - number if folder == "testing" else number for name, number in names.items()}
        tables = {
            "numeric_triples": "head\trelation\ttail\n"
            + text_of([(str(ids[s]), "0", str(ids[o])) for s, _, o in FACTS]),
            "entity_to_id": "id\tlabel\n" + "".join(f"{number}\t{name}\n" for name, number in ids.items()),
            "relation_to_id": "id\tlabel\n0\ttreats\n",
        }
        for name, text in tables.items():
            (tmp_path / folder / f"{name}.tsv.gz").write_bytes(gzip.compress(text.encode()))
    with pytest.raises(
        InputError, match=r"testing/entity_to_id.tsv.gz: id \d+ is d0, and .*: save all splits with the"
    ):
        find_dataset(str(tmp_path))


def test_a_split_has_at_most_a_million_rows_and_the_others_remain_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgcore.data.datasets.prepare.MOST_HELD_OUT", 20)
    parts = {"train.tsv": FACTS[::2], "valid.tsv": FACTS[1::4], "test.tsv": FACTS[3::4]}
    prepared = prepared_of(written(tmp_path / "files", {name: text_of(part) for name, part in parts.items()}))
    graph = prepared.graph
    assert len(graph.valid) == len(graph.test) == 20
    assert graph.all_known.triples.shape == (len(FACTS), 3)
    assert prepared.counts["valid_spare"] == len(FACTS[1::4]) - 20
    assert any("58 beyond a million, whose true ones remain known facts" in note for note in prepared.dropped_notes())
    drawn = prepared_of(written(tmp_path / "file", {"all.tsv": text_of(FACTS)}) / "all.tsv").graph
    assert len(drawn.valid) + len(drawn.test) <= 42
    assert len(drawn.train) + len(drawn.valid) + len(drawn.test) == len(FACTS)


def prepared_of(path: Path) -> Prepared:
    return read_dataset(PrepareConfig(dataset=str(path)), path.parent)
