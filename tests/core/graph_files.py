"""Write the same triples in every format and layout that kgcal reads."""

import csv
import gzip
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Row = tuple[str, str, str]
SPLITS = ("train", "valid", "test")
HEADER = ("subject", "predicate", "object")


def lines(rows: Sequence[Sequence[str]], separator: str = "\t") -> str:
    return "".join(separator.join(row) + "\n" for row in rows)


def comma_separated(rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def n_triples(rows: Sequence[Row]) -> str:
    return "".join(f"<{s}> <{p}> <{o}> .\n" for s, p, o in rows)


def packed(path: Path, data: bytes) -> None:
    """Write bytes, compressed as the name's ending says."""
    kind = {".bz2": "bz2", ".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    with pa.output_stream(str(path), compression=kind) as stream:
        stream.write(data)


def turtle(rows: Sequence[Row]) -> str:
    """Group the triples by subject, and shorten the IRIs."""
    text = "@prefix x: <http://x.org/> .\n"
    for subject in dict.fromkeys(row[0] for row in rows):
        pairs = [f"<{p}> <{o}>" for s, p, o in rows if s == subject]
        text += f"<{subject}> {' ; '.join(pairs)} .\n"
    return text


def kgx(rows: Sequence[Row]) -> str:
    columns = ("id", "subject", "predicate", "object", "knowledge_level")
    return lines([columns, *((f"e{i}", s, p, o, "asserted") for i, (s, p, o) in enumerate(rows))])


def rdf_xml(rows: Sequence[Row]) -> str:
    """Write each predicate as a name space and a name."""
    facts = ""
    for s, p, o in rows:
        space, name = quoteattr(p[: p.rindex("/") + 1]), p[p.rindex("/") + 1 :]
        fact = f"<x:{name} xmlns:x={space} rdf:resource={quoteattr(o)}/>"
        facts += f"<rdf:Description rdf:about={quoteattr(s)}>{fact}</rdf:Description>\n"
    return f'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">\n{facts}</rdf:RDF>\n'


def json_ld(rows: Sequence[Row]) -> str:
    return json.dumps([{"@id": s, p: {"@id": o}} for s, p, o in rows])


def json_lines(rows: Sequence[Row]) -> str:
    return "".join(json.dumps({"id": "x", "object": o, "subject": s, "predicate": p}) + "\n" for s, p, o in rows)


def sif(rows: Sequence[Row]) -> str:
    """Write all objects of a subject and a predicate in one line."""
    pairs = dict.fromkeys((s, p) for s, p, _ in rows)
    return lines([(*pair, *(o for s, p, o in rows if (s, p) == pair)) for pair in pairs])


TEXTS: dict[str, Callable[[Sequence[Row]], str]] = {
    ".tsv": lines,
    ".txt": lambda rows: lines([("Head", "Relation", "Tail"), *rows]),
    ".csv": comma_separated,
    ".csv.zst": lambda rows: comma_separated([("o", "s", "p"), *((o, s, p) for s, p, o in rows)]),
    ".tsv.gz": lambda rows: "\ufeff" + lines([HEADER, *rows]),
    ".nt": n_triples,
    ".nt.gz": lambda rows: n_triples(rows).replace("\n", "\n# a comment\n"),
    ".nq.zst": lambda rows: n_triples(rows).replace(" .\n", " <http://x.org/graph> .\n"),
    ".ttl": turtle,
    ".rdf": rdf_xml,
    ".jsonld.gz": json_ld,
    ".jsonl": json_lines,
    ".sif": sif,
    ".tsv.bz2": lambda rows: (
        "# a comment\n" + lines([(":START_ID", ":END_ID", ":TYPE"), *((s, o, p) for s, p, o in rows)])
    ),
}


def write_splits(folder: Path, splits: dict[str, Sequence[Row]], ending: str) -> Path:
    """Write a file for each split, and return the folder."""
    folder.mkdir(parents=True)
    for name, rows in splits.items():
        if ending == ".parquet":
            columns = [pa.array([row[place] for row in rows]).dictionary_encode() for place in range(3)]
            pq.write_table(pa.table(columns, names=["source", "relation", "target"]), folder / f"{name}.parquet")
        else:
            packed(folder / f"{name}{ending}", TEXTS[ending](rows).encode())
    return folder


def ids_of(splits: dict[str, Sequence[Row]]) -> tuple[dict[str, int], dict[str, int]]:
    """Number the names in an order that is not alphabetical."""
    rows = [row for part in splits.values() for row in part]
    entities = dict.fromkeys(name for s, _, o in rows for name in (o, s))
    return {n: i for i, n in enumerate(entities)}, {n: i for i, n in enumerate(dict.fromkeys(p for _, p, _ in rows))}


def write_openke(folder: Path, splits: dict[str, Sequence[Row]]) -> Path:
    folder.mkdir(parents=True)
    entities, predicates = ids_of(splits)
    for name, ids in (("entity", entities), ("relation", predicates)):
        text = f"{len(ids)}\n" + "".join(f"{label}\t{number}\n" for label, number in ids.items())
        (folder / f"{name}2id.txt").write_text(text)
    for name, rows in splits.items():
        text = f"{len(rows)}\n" + "".join(f"{entities[s]} {entities[o]} {predicates[p]}\n" for s, p, o in rows)
        (folder / f"{name}2id.txt").write_text(text)
    return folder


def write_transc(folder: Path, splits: dict[str, Sequence[Row]]) -> Path:
    write_openke(folder / "Train", splits)
    moves = {"Train/instance2id.txt": "entity2id", "Train/triple2id.txt": "train2id"}
    moves |= {f"{split.title()}/triple2id_positive.txt": f"{split}2id" for split in SPLITS[1:]}
    for target, source in moves.items():
        (folder / target).parent.mkdir(exist_ok=True)
        (folder / "Train" / f"{source}.txt").rename(folder / target)
    return folder


def write_triples_factory(folder: Path, splits: dict[str, Sequence[Row]]) -> Path:
    """Write the folders of PyKEEN's `Dataset.to_directory_binary`. The pickle is none: nothing may open it."""
    names = {"train": "training", "valid": "validation", "test": "testing"}
    entities, predicates = ids_of(splits)
    for split, rows in splits.items():
        place = folder / names[split]
        place.mkdir(parents=True)
        for name, ids in (("entity", entities), ("relation", predicates)):
            text = "id\tlabel\n" + "".join(f"{number}\t{quoted(label)}\n" for label, number in ids.items())
            (place / f"{name}_to_id.tsv.gz").write_bytes(gzip.compress(text.encode()))
        numbers = [(entities[s], predicates[p], entities[o]) for s, p, o in rows]
        text = "head\trelation\ttail\n" + "".join(f"{h}\t{r}\t{t}\n" for h, r, t in numbers)
        (place / "numeric_triples.tsv.gz").write_bytes(gzip.compress(text.encode()))
        (place / "base.pth").write_bytes(b"no pickle")
    return folder


def quoted(label: str) -> str:
    """Write a label as pandas does: with quotes where it has a quote."""
    return '"' + label.replace('"', '""') + '"' if '"' in label else label


def write_kgx(folder: Path, splits: dict[str, Sequence[Row]]) -> Path:
    folder.mkdir(parents=True)
    for name, rows in splits.items():
        (folder / f"{name}_edges.tsv").write_text(kgx(rows))
    (folder / "mine_nodes.tsv").write_text("id\tcategory\tname\nx\tbiolink:Gene\ta gene\n")
    return folder


LAYOUTS: dict[str, Callable[[Path, dict[str, Sequence[Row]]], Path]] = {
    "openke": write_openke,
    "transc": write_transc,
    "triples_factory": write_triples_factory,
    "kgx": write_kgx,
}


def repeated(path: Path, length: int, rows: int) -> Path:
    """Write a Parquet file in which one name of this length is the subject of all rows: about a kilobyte."""
    zeros = pa.array(np.zeros(rows, dtype=np.int32))
    names = {"subject": "x" * length, "predicate": "p", "object": "o"}
    columns = {name: pa.DictionaryArray.from_arrays(zeros, pa.array([value])) for name, value in names.items()}
    pq.write_table(pa.table(columns), path, compression="zstd", store_schema=False)
    return path
