"""PyKEEN's folders of a TriplesFactory, or of a data set with a folder for each split.

Only the tables are read: numeric_triples.tsv.gz (head, relation, tail) and the names of the ids, in
entity_to_id.tsv.gz and relation_to_id.tsv.gz (id, label). base.pth is a pickle, which may run code, and is not opened.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgcore.arrays import Ints
from kgcore.data.formats.base import COLUMNS, PACKED, Block, Layout, TriplesFile, Vocabulary
from kgcore.data.formats.text import QUOTED_TABS, read_text
from kgcore.errors import InputError
from kgcore.registries import LAYOUTS

TRIPLES, ENTITIES, PREDICATES = "numeric_triples.tsv.gz", "entity_to_id.tsv.gz", "relation_to_id.tsv.gz"
FOLDERS = {
    "train": ("", "training", "training_triples"),
    "valid": ("validation", "validation_triples"),
    "test": ("testing", "testing_triples"),
}


def find(folder: Path) -> dict[str, str] | None:
    """Return the files of a folder in PyKEEN's layout by role, or None for a folder of another kind."""
    splits: dict[str, Path] = {}
    for split, names in FOLDERS.items():
        for name in names:
            if (folder / name / TRIPLES).is_file():
                splits.setdefault(split, Path(name))
    if "train" not in splits:
        return None
    named = {"entities": splits["train"] / ENTITIES, "predicates": splits["train"] / PREDICATES}
    missing = [str(path) for path in named.values() if not (folder / path).is_file()]
    if missing:
        raise InputError(f"{folder} has {TRIPLES}, but no {' or '.join(missing)}: a TriplesFactory needs all three")
    for part in splits.values():
        _check_ids(folder, part, named)
    return {role: str(path) for role, path in (named | {k: v / TRIPLES for k, v in splits.items()}).items()}


def _check_ids(folder: Path, part: Path, named: Mapping[str, Path]) -> None:
    """Raise InputError if the names of ids beside a split give an id another name than those of train."""
    for of_train in named.values():
        own = folder / part / of_train.name
        if not own.is_file() or own.read_bytes() == (folder / of_train).read_bytes():
            continue
        train, names = (read_vocabulary(path).names for path in (folder / of_train, own))
        differs = next((number for number, name in names.items() if train.get(number, name) != name), None)
        if differs is not None:
            raise InputError(
                f"{own}: id {differs} is {names[differs]}, and {train[differs]} in {folder / of_train}: save all "
                "splits with the ids of train"
            )


def read_vocabulary(path: Path) -> Vocabulary:
    """Read a table with the columns id and label. Raises InputError if an id or a label is missing or occurs twice."""
    rows: list[tuple[int, str, str]] = []
    faults: list[str] = []
    try:
        # the columns of this table take the parts of a triple: subject = id, predicate = label
        for block in read_text(TriplesFile(path, columns=("id", "label")), QUOTED_TABS):
            faults += block.faults
            ids, labels = (block.names[name].to_pylist() for name in COLUMNS[:2])
            rows += zip(block.numbers.tolist(), ids, labels, strict=True)
    except OSError as error:
        raise InputError(f"{path} cannot be read as {PACKED['.gz']}: {error}") from error
    return Vocabulary.of(path, rows, "label", faults)


def read_triples(source: TriplesFile, entities: Vocabulary, predicates: Vocabulary) -> Iterator[Block]:
    """Yield the blocks of a table of ids, with names for ids. A line with an unknown id is a fault."""
    if option := source.first_option:
        raise InputError(f"{source.path} has the columns head, relation, tail by its layout: leave out {option}")
    tables = {"subject": entities, "predicate": predicates, "object": entities}
    keys = {word: pa.array(list(vocabulary.names)) for word, vocabulary in tables.items()}
    names = {word: pa.array(list(vocabulary.names.values())) for word, vocabulary in tables.items()}
    try:
        for block in read_text(replace(source, columns=("head", "relation", "tail")), QUOTED_TABS):
            places = {word: pc.index_in(block.names[word], value_set=keys[word]) for word in tables}
            known = np.logical_and.reduce([place.is_valid().to_numpy() for place in places.values()])
            wrong = np.flatnonzero(~known)
            faults = [*block.faults]
            for word, vocabulary in tables.items():
                for row in wrong[places[word].is_null().to_numpy()[wrong]]:
                    number = block.names[word][int(row)].as_py()
                    line = block.numbers[row]
                    faults.append(f"{source.path}, line {line}: {word} {number} is not in {vocabulary.path.name}")
            table = pa.table({word: names[word].take(place) for word, place in places.items()})
            skipped: Ints = np.r_[np.array(block.skipped, dtype=np.int64), block.numbers[wrong]]
            rows = table.filter(pa.array(known))
            yield Block(rows, block.done, block.first, tuple(np.sort(skipped).tolist()), tuple(faults))
    except OSError as error:
        raise InputError(f"{source.path} cannot be read as {PACKED['.gz']}: {error}") from error


LAYOUTS.add("triples_factory", Layout("PyKEEN's TriplesFactory", find, read_vocabulary, read_triples))
