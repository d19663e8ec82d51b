"""Headers, columns, names and folders that people bring and that seem to say one thing and mean another."""

import os
from pathlib import Path

import pytest

from kgcore.config import PrepareConfig
from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.prepare import Prepared, read_dataset
from kgcore.errors import InputError, KgcalWarning
from kgcore.measure.report.graph_findings import data_report
from tests.core.written_files import FACTS, read, text_of, written

TEXT = text_of(FACTS)
OTHERS = [(s, {"helps": "treats", "treats": "helps"}[p], o) for s, p, o in FACTS]
SUBJECTS = [f"<http://e/{n}> <http://www.w3.org/1999/02/22-rdf-syntax-ns#subject> <http://e/x> .\n" for n in range(9)]
FALSE = [fact for fact in OTHERS if fact not in FACTS]


def prepared(path: Path | str, columns: str = "auto") -> Prepared:
    return read_dataset(PrepareConfig(dataset=str(path), columns=columns), Path())


def notes(path: Path | str, columns: str = "auto") -> str:
    return "\n".join(data_report(prepared(path, columns), "random")[1])


def count(path: Path | str) -> int:
    return len(prepared(path).graph.all_known.triples)


@pytest.mark.parametrize(
    "word", ["hard_negatives", "negative_samples", "triples_negative", "corruptions", "decoys", "nontrue"]
)
def test_a_word_for_false_anywhere_in_the_name_makes_negatives(tmp_path: Path, word: str) -> None:
    held_out, train = FACTS[::12], [fact for n, fact in enumerate(FACTS) if n % 12]
    half = len(held_out) // 2
    files = {"kg_train.tsv": train, "kg_valid.tsv": held_out[:half], "kg_test.tsv": held_out[half:]}
    files |= {f"kg_valid_{word}.tsv": FALSE[:9], f"kg_test_{word}.tsv": FALSE[9:18]}
    graph = prepared(written(tmp_path, {name: text_of(facts) for name, facts in files.items()})).graph
    assert [int((split.labels == 0).sum()) for split in (graph.valid, graph.test)] == [9, 9]


@pytest.mark.parametrize("other", ["drug_edges_false_positives", "drug_nonedges", "drug_non_edges"])
def test_files_that_are_named_are_not_taken_for_facts_by_their_names(tmp_path: Path, other: str) -> None:
    written(tmp_path, {"drug_edges.tsv": TEXT, f"{other}.tsv": text_of(FALSE)})
    with pytest.raises(InputError, match=f"{other}.tsv has negatives by its name"):
        prepared(f"{tmp_path}/drug_edges.tsv,{tmp_path}/{other}.tsv")


@pytest.mark.parametrize("word", ["NOT involved in", "NOT part of", "not_involved_in", "NOT:enables", "NOT|located_in"])
def test_a_qualifier_may_be_spelt_in_words(tmp_path: Path, word: str) -> None:
    rows = "".join(f"{s}\t{('involved in', word)[n % 4 == 0]}\t{p}\t{o}\n" for n, (s, p, o) in enumerate(FACTS))
    path = written(tmp_path, {"a.tsv": f"subject\tqualifier\tpredicate\tobject\n{rows}"}) / "a.tsv"
    assert prepared(path).counts["negated_rows"] == len(FACTS[::4])


def test_a_column_of_denials_without_a_header_is_named(tmp_path: Path) -> None:
    gpad = "".join(f"{s}\t{'NOT' * (n % 4 == 1)}\t{p}\t{o}\tPMID:1\n" for n, (s, p, o) in enumerate(FACTS))
    written(tmp_path, {"a.tsv": gpad, "b.tsv": "".join(f"{n}\t{s}\t{p}\t{o}\n" for n, (s, p, o) in enumerate(FACTS))})
    assert "Not read: the column 2, which may say which rows are true" in notes(tmp_path / "a.tsv", "1,3,4")
    assert "Not read" not in notes(tmp_path / "b.tsv", "2,3,4")


def test_labels_beside_columns_that_the_user_chose_for_an_unknown_header_are_named(tmp_path: Path) -> None:
    rows = "".join(f"{s},{p},{o},{'true' if n % 4 else 'false'}\n" for n, (s, p, o) in enumerate(FACTS))
    written(tmp_path, {"a.csv": f"drug,effect,disease,is_true\n{rows}"})
    assert "Not read: the column is_true, where" in notes(tmp_path / "a.csv", "drug,effect,disease")


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("person,relation,from,to,company", "{s},{p},1990,2001,{o}"),
        ("gene,type,start,end", "{s},{p},100,200"),
        ("source,interaction,target_gene,value", "{s},{p},{o},0.9"),
        ("source,target,effect,p", "{s},{o},{p},0.01"),
        ("?drug,?p,?disease", "{s},{p},{o}"),
        ("gene/protein,interacts/with,drug/compound", "{s},{p},{o}"),
        ("a['name'],type(r),b['name']", "{s},{p},{o}"),
        ("# drug,effect,disease", "{s},{p},{o}"),
    ],
)
def test_a_header_that_may_mean_something_else_is_refused(tmp_path: Path, header: str, row: str) -> None:
    rows = "".join(row.format(s=s, p=p, o=o) + "\n" for s, p, o in FACTS)
    with pytest.raises(InputError, match="--columns"):
        prepared(written(tmp_path, {"a.csv": f"{header}\n{rows}"}) / "a.csv")


@pytest.mark.parametrize(
    "header", ["[Drug] [Effect] [Disease]", "1st how 2nd", "0 1 2", f"gene relation {FACTS[0][0]}"]
)
def test_a_first_line_whose_predicate_occurs_once_is_shown(tmp_path: Path, header: str) -> None:
    path = written(tmp_path, {"a.tsv": header.replace(" ", "\t") + "\n" + TEXT}) / "a.tsv"
    assert f"Headers among the facts: 1, such as {header}." in notes(path)


def test_equal_ids_of_two_types_are_named(tmp_path: Path) -> None:
    rows = "".join(f"{p},{s},drug,{o},disease\n" for s, p, o in FACTS)
    path = written(tmp_path, {"a.csv": f"relation,x_id,x_type,y_id,y_type\n{rows}"}) / "a.csv"
    assert "the types of its ids, x_type and y_type, so that equal ids of two types are one entity" in notes(path)


def test_the_nodes_below_the_edges_of_extended_sif_are_no_facts(tmp_path: Path) -> None:
    head, nodes = "PARTICIPANT_A\tINTERACTION_TYPE\tPARTICIPANT_B\n", "\nPARTICIPANT\tPARTICIPANT_TYPE\nd0\tProtein\n"
    assert len(read(written(tmp_path, {"a.sif": head + TEXT + nodes}) / "a.sif")) == len(FACTS)
    weights = "".join(f"{s}\t{p}\t{o}\t900\n" for s, p, o in FACTS)
    with pytest.raises(InputError, match="every line ends in a number, such as 900"):
        prepared(written(tmp_path, {"b.sif": weights}) / "b.sif")


def test_names_that_are_the_ids_of_others_are_refused(tmp_path: Path) -> None:
    folder = written(
        tmp_path,
        {
            "entity2id.txt": "3\n0\t0\n1\t2\n2\t1\n",
            "relation2id.txt": "1\nhelps\t0\n",
            "train2id.txt": "2\n0 1 0\n1 2 0\n",
            "test2id_neg.txt": "",
        },
    )
    with pytest.raises(InputError, match="both columns have the numbers from 0"):
        prepared(folder)


def test_links_keep_the_names_that_tell_their_splits(tmp_path: Path) -> None:
    train = [fact for n, fact in enumerate(FACTS) if n % 12]
    parts = {"train.tsv": train, "valid.tsv": FACTS[::24], "test.tsv": FACTS[12::24]}
    for number, (name, facts) in enumerate(parts.items()):
        written(tmp_path, {f"store/MD5-{number}--a.tsv": text_of(facts)})
        os.symlink(tmp_path / f"store/MD5-{number}--a.tsv", tmp_path / name)
    found = prepared(",".join(str(tmp_path / name) for name in parts))
    assert [found.counts[f"{split}_rows"] for split in ("train", "valid", "test")] == list(map(len, parts.values()))


def test_a_named_file_is_read_whatever_its_name(tmp_path: Path) -> None:
    written(tmp_path, {"drug_nodes_links.tsv": text_of(FACTS[::2]), "more_links.tsv": text_of(FACTS[1::2])})
    assert count(f"{tmp_path}/drug_nodes_links.tsv,{tmp_path}/more_links.tsv") == len(FACTS)
    written(tmp_path, {"relationships.tsv": TEXT, "kg_nodes.tsv": "id\tcategory\nd0\tDrug\n"})
    assert count(f"{tmp_path}/kg_nodes.tsv,{tmp_path}/relationships.tsv") == len(FACTS)


def test_other_files_of_a_folder_that_may_have_facts_are_named(tmp_path: Path) -> None:
    folder = written(tmp_path, {"drug_edges.tsv": TEXT, "relationships.tsv": TEXT, "e.graphml": "<graphml/>"})
    assert "Not read: the files e.graphml, relationships.tsv." in notes(folder)


def test_parts_without_rows_are_no_graph(tmp_path: Path) -> None:
    folder = written(tmp_path, {f"part-0000{n}.csv": "subject,predicate,object\n" for n in range(2)})
    with pytest.raises(InputError, match=r"part-00000\.csv has no triples: it must have at least one"):
        prepared(folder)


def test_snapshots_are_no_parts(tmp_path: Path) -> None:
    written(tmp_path, {"export-202401010000.csv": text_of(FACTS, ","), "export-202402010000.csv": text_of(FACTS, ",")})
    with pytest.raises(InputError, match=r"has no train\.txt"):
        prepared(tmp_path)


@pytest.mark.parametrize("names", ["part-0000{}.csv", "part.{}.csv", "part-r-0000{}.csv", "edges-00000000000{}.csv"])
def test_empty_parts_of_a_table_are_left_out(tmp_path: Path, names: str) -> None:
    head = "subject,predicate,object\n"
    texts = [head + text_of(FACTS[::2], ","), head + text_of(FACTS[1::2], ","), head, ""]
    assert count(written(tmp_path, {names.format(n): text for n, text in enumerate(texts)})) == len(FACTS)


def test_a_folder_with_the_name_of_a_registered_data_set_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(written(tmp_path, {"wn11/train.tsv": TEXT}))
    with pytest.warns(KgcalWarning, match=r"wn11 is a registered data set: for the folder, give \./wn11"):
        assert find_dataset("wn11").folder is None


def test_nodes_with_a_subject_predicate_and_object_are_no_entities(tmp_path: Path) -> None:
    head = "@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .\n@prefix e: <http://e/> .\n"
    facts = "".join(
        f"e:{s} e:{p} e:{o} .\ne:a{n} a e:Association ; rdf:subject e:{s} ; rdf:predicate e:{p} ; rdf:object e:{o} .\n"
        for n, (s, p, o) in enumerate(FACTS)
    )
    found = prepared(written(tmp_path, {"a.ttl": head + facts}) / "a.ttl")
    assert len(found.graph.all_known.triples) == len(FACTS)
    assert found.counts["triples_about_triples"] == 4 * len(FACTS)

    few = f"<http://e/topic> <http://e/is> <http://e/y> .\n{''.join(SUBJECTS)}"
    assert len(read(written(tmp_path, {"b.nt": few}) / "b.nt")) == 1 + len(SUBJECTS)


XML = (
    '<!DOCTYPE r [{}]><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/">{}</rdf:RDF>'
)
FACT = '<rdf:Description rdf:about="http://e/a"><e:is rdf:resource="{}b"/></rdf:Description>'


@pytest.mark.parametrize("before", ["", "<!-- {} -->".format("x" * 100_000), '<?xml version="1.0"?>\n'])
@pytest.mark.parametrize(
    "entities",
    [
        '<!ENTITY a "{}"><!ENTITY b "{}">'.format("a" * 900, "&a;" * 900),
        '<!ENTITY b "&c;"><!ENTITY c "&b;">',
        "<!ENTITY b '{}'>".format("x" * 5000),
    ],
)
def test_entities_of_xml_cannot_grow(tmp_path: Path, before: str, entities: str) -> None:
    path = written(tmp_path, {"a.rdf": before + XML.format(entities, FACT.format("http://e/"))}) / "a.rdf"
    with pytest.raises(
        InputError, match="the XML entity [bc] stands for over 4,096 bytes" if "&c" not in entities else ""
    ):
        read(path)


def test_entities_of_xml_may_contain_others(tmp_path: Path) -> None:
    entities = '<!ENTITY base "http://e/"><!-- o --><!ENTITY o "&base;o#">'
    note = "<![CDATA[use <!ENTITY foo '&bar;x'>]]>"
    fact = FACT.format("&o;").replace("<e:is", f"<e:note>{note}</e:note><e:is")
    path = written(tmp_path, {"a.rdf": XML.format(entities, fact)}) / "a.rdf"
    assert read(path) == [("http://e/a", "http://e/is", "http://e/o#b")]


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("MONDO_0005148", "MONDO:0005148"),
        ("http://purl.obolibrary.org/obo/GO_5", "GO:5"),
        ("wd:Q5", "http://www.wikidata.org/entity/Q5"),
        ("Crohn&#39;s", "Crohn\u2019s"),
        ("A%20B", "A B"),
        ("1,000", "1000"),
        ("IL\u20136", "IL-6"),
        ('="00123"', "00123"),
    ],
)
def test_spellings_of_one_name_are_found(tmp_path: Path, name: str, other: str) -> None:
    path = written(tmp_path, {"a.tsv": f"{TEXT}{name}\thelps\tx1\n{other}\thelps\tx2\n"}) / "a.tsv"
    assert "Names that hardly differ: 1" in notes(path)


@pytest.mark.parametrize(
    "odd",
    ["Mar-01", "1. Mrz", "2021-03-01 00:00:00", "1E+05", "TGF-\u00ce\u00b2", "\u00c2\u00b5M", "Strau\u00c3\u0178"],
)
def test_more_names_that_a_program_has_changed_are_found(tmp_path: Path, odd: str) -> None:
    path = written(tmp_path, {"a.tsv": f"{TEXT}{odd}\thelps\tx1\n{odd}\thelps\tx2\n"}) / "a.tsv"
    assert "Names that a program has changed: 1" in notes(path)


@pytest.mark.parametrize(
    ("name", "other"),
    [("<5", ">5"), ("A", "A'"), ("C1,345", "C1345"), ("NESCAF\u00c9\u00ae", "2,4-D"), ("/m/02", "/m/2")],
)
def test_ordinary_names_are_not_suspicious(tmp_path: Path, name: str, other: str) -> None:
    alone = "Person Smith\twas seen\tPlace/x\n/m/0abc\t/film/x\t/m/0abd\n"
    found = notes(written(tmp_path, {"a.tsv": f"{TEXT}{name}\thelps\tx1\n{other}\thelps\tx2\n{alone}"}) / "a.tsv")
    for title in ("Names that hardly differ", "Names that a program has changed", "Names with the marks"):
        assert title not in found


def test_isolated_facts_are_no_headers(tmp_path: Path) -> None:
    alone = "".join(f"Person {n}\twas seen {n}\tPlace_{n}/x\n" for n in range(20))
    path = written(tmp_path, {"a.tsv": f"{TEXT}{alone}d1\trelation\tx1\n"}) / "a.tsv"
    assert "Headers among the facts" not in notes(path)


def test_several_values_in_a_cell_are_found(tmp_path: Path) -> None:
    path = written(tmp_path, {"a.tsv": f"{TEXT}d1|d2\thelps\tx1\nd3; d4\thelps\tx2\n"}) / "a.tsv"
    assert "Names with the marks of a syntax: 2" in notes(path)


@pytest.mark.parametrize(("name", "how"), [("a.xlsx", "save the table as .csv"), ("a.zip", "unpack it")])
def test_a_file_of_another_kind_has_a_way_to_be_read(tmp_path: Path, name: str, how: str) -> None:
    with pytest.raises(InputError, match=f"is of an unknown kind: .* but not after .parquet; {how}"):
        prepared(written(tmp_path, {name: "x"}) / name)


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (
            '{"subject": "a", "predicate": "p", "object": "x", "subject": "b"}',
            "subject is given twice, by the key subject",
        ),
        (
            '{"subject": NaN, "predicate": "p", "object": "x"}',
            "subject is nan: write text, or null",
        ),
    ],
)
def test_objects_of_json_that_readers_take_for_different_ones_are_refused(tmp_path: Path, row: str, fault: str) -> None:
    with pytest.raises(InputError, match=f"line 1: {fault}"):
        read(written(tmp_path, {"a.jsonl": row + "\n"}) / "a.jsonl")


def test_what_is_not_read_of_json_may_be_anything(tmp_path: Path) -> None:
    row = '{"subject": "a", "predicate": "p", "object": "x", "weight": NaN, "more": {"k": 1, "k": 2}, "n": 1, "n": 2}\n'
    assert read(written(tmp_path, {"a.jsonl": row}) / "a.jsonl") == [("a", "p", "x")]


def test_a_path_through_a_link_is_that_of_the_system(tmp_path: Path) -> None:
    written(tmp_path, {"deep/g.tsv": TEXT, "deep/er/x.tsv": TEXT})
    os.symlink(tmp_path / "deep/er", tmp_path / "l")
    assert count(f"{tmp_path}/l/../g.tsv") == len(FACTS)


def test_the_folder_of_a_user_whom_nobody_knows_is_no_data_set() -> None:
    with pytest.raises(InputError, match=r"the file ~nobody-here/a\.tsv does not exist"):
        prepared("~nobody-here/a.tsv")
