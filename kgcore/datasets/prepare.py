"""Convert verified files into a `KnowledgeGraph`, and count the contents of the files."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from kgcore.arrays import Bools, Ints
from kgcore.datasets.base import DatasetSpec
from kgcore.datasets.read import read_numbered, read_triples, read_vocabulary
from kgcore.datasets.schema import validate
from kgcore.datasets.unknown_names import examples_of_unknown_names
from kgcore.errors import InputError, raise_faults
from kgcore.graph import SPLITS, KnowledgeGraph, Split, TripleIndex

VOCABULARIES = ("entities", "predicates")  # roles of the files that map names to ids, if triples consist of ids
# At most this share of a held-out split's positives may be in another split too, and at most this share of a split's
# negatives may be positives of the split too. A larger share shows that one file is a copy of the other.
LARGEST_OVERLAP = 0.2


@dataclass(frozen=True)
class Prepared:
    """A graph and the counts of its files.

    counts   name of a count -> number. The counts are the rows, the duplicates and the triples with unseen entities or
             predicates of every split, the positives that two splits share, the negatives that are true in a split, and
             the rows of valid and test that are left out because another split has them
    unknown  split -> examples, as text, of the split's triples with a name that is not in train
    """

    graph: KnowledgeGraph
    counts: dict[str, int]
    unknown: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def prepare(spec: DatasetSpec, folder: Path) -> Prepared:
    """Read and validate the data set in `folder`, and replace its names by numbers.

    Duplicate rows are dropped. Held-out triples with an entity or predicate that is not in train are dropped, because
    they have no embedding. Test triples that are in train, and validation triples that are in train or test, are left
    out, whatever their labels: they are not held out. A data set with `as_published` keeps them. Vocabularies and
    splits are sorted, so that the order of lines in a file has no effect.

    Raises InputError if the files have faults (one message has all faults, with file and line), if a count differs from
    the declared count, if more than a fifth of a held-out split's positives are in another split too, or if more than a
    fifth of the negatives in a file are positives of its split too.
    """
    frames = _read(spec, folder)
    rows, entities, predicates = _number(frames)
    counts = {f"{name}_rows": len(frame) for name, frame in frames.items()}
    counts["entities_in_all_files"] = len(entities)
    _count_overlaps(rows, len(entities), len(predicates), counts)

    entity_ids, predicate_ids = np.unique(rows["train"][:, [0, 2]]), np.unique(rows["train"][:, 1])
    counts["entities"], counts["predicates"] = len(entity_ids), len(predicate_ids)
    _check_counts(spec, counts)
    splits: dict[str, Split] = {}
    for name, others in (("train", ()), ("test", ("train",)), ("valid", ("train", "test"))):
        taken = [rows[other][:, :3] for other in others if not spec.as_published]
        index = TripleIndex(np.concatenate([rows["train"][:0, :3], *taken]), len(entities), len(predicates))
        splits[name] = _restrict(name, rows[name], index, entity_ids, predicate_ids, counts)
    names = entities[entity_ids].tolist(), predicates[predicate_ids].tolist()
    unknown = {}
    for name in SPLITS:
        if counts[f"{name}_with_unseen"]:
            missing = ~_known(rows[name], entity_ids, predicate_ids)
            unknown[name] = examples_of_unknown_names(frames[name][missing], *names)
    return Prepared(
        KnowledgeGraph(spec.name, *names, splits["train"], splits["valid"], splits["test"]), counts, unknown
    )


def _read(spec: DatasetSpec, folder: Path) -> dict[str, pd.DataFrame]:
    """Read every split as one table of names. Triples from a file of negatives get the label -1.

    Raises InputError that lists the faults of all files, if there are any.
    """
    read = _reader(spec, folder)
    tables: dict[str, pd.DataFrame] = {}
    faults: list[str] = []
    for role, file in spec.files.items():
        if role in VOCABULARIES:
            continue
        path = folder / file.path
        fourth_column = spec.labelled and role in ("valid", "test") and f"{role}_negatives" not in spec.files
        try:
            tables[role], wrong = read(path, fourth_column)
        except InputError as error:
            faults.append(str(error))
            continue
        faults += wrong + validate(tables[role], fourth_column, path)
    raise_faults(faults)
    for role in [role for role in tables if role.endswith("_negatives")]:
        split = role.removesuffix("_negatives")
        true, false = tables[split], tables.pop(role)
        distinct = false.drop_duplicates()
        both = len(distinct.merge(true.drop_duplicates()))
        if both > LARGEST_OVERLAP * len(distinct):
            faults.append(
                f"{folder / spec.files[role].path}: {both:,} of {len(distinct):,} negatives are also in "
                f"{spec.files[split].path}: a triple cannot be both true and false"
            )
        tables[split] = pd.concat([true.assign(label="1"), false.assign(label="-1")])
    raise_faults(faults)
    return {split: tables[split] for split in SPLITS}


def _reader(spec: DatasetSpec, folder: Path) -> Callable[[Path, bool], tuple[pd.DataFrame, list[str]]]:
    """Return the function that reads a file of triples. Its arguments are the path and whether the file has labels."""
    if not set(VOCABULARIES) <= set(spec.files):
        return read_triples
    entities, predicates = (read_vocabulary(folder / spec.files[role].path) for role in VOCABULARIES)
    return lambda path, labelled: read_numbered(path, entities, predicates)


def _number(frames: dict[str, pd.DataFrame]) -> tuple[dict[str, Ints], pd.Index, pd.Index]:
    """Convert each split to rows (n, 4): subject, predicate, object, label (1 / 0).

    Also return the sorted names of the entities and of the predicates that occur in any file.
    """
    table = pd.concat(frames.values(), keys=frames.keys())
    ends, entities = pd.factorize(pd.concat([table["subject"], table["object"]]), sort=True)
    middles, predicates = pd.factorize(table["predicate"], sort=True)
    labels = (table["label"].fillna("1") == "1").to_numpy() if "label" in table else np.ones(len(table), dtype=bool)
    rows = np.stack([ends[: len(table)], middles, ends[len(table) :], labels], axis=1).astype(np.int64)
    bounds = np.cumsum([len(frame) for frame in frames.values()])[:-1]
    return dict(zip(frames, np.split(rows, bounds), strict=True)), pd.Index(entities), pd.Index(predicates)


def _count_overlaps(rows: dict[str, Ints], entities: int, predicates: int, counts: dict[str, int]) -> None:
    """Count the duplicates of each split, the positives that two splits share, and the negatives that are true.

    The function adds the results to `counts`. A negative is true if a split has it as a positive.

    Raises InputError if more than the share `LARGEST_OVERLAP` of a held-out split's positives are in another split too.
    """
    distinct = {name: np.unique(part, axis=0) for name, part in rows.items()}
    true = {name: part[part[:, 3] == 1, :3] for name, part in distinct.items()}
    false = {name: part[part[:, 3] == 0, :3] for name, part in distinct.items()}
    index = {name: TripleIndex(triples, entities, predicates) for name, triples in true.items()}
    for name in SPLITS:
        counts[f"{name}_duplicates"] = len(rows[name]) - len(distinct[name])
    for name, other in (("valid", "train"), ("test", "train"), ("valid", "test")):
        shared = counts[f"{name}_positives_in_{other}"] = int(index[other].contains(true[name]).sum())
        smaller = name if other == "train" or len(true[name]) <= len(true[other]) else other
        if shared > LARGEST_OVERLAP * len(true[smaller]):
            raise InputError(
                f"{shared:,} of {len(true[smaller]):,} positives of {smaller} are also in "
                f"{other if smaller == name else name}: a held-out split must not contain the triples of another split"
            )
    for name in ("valid", "test"):
        for other in SPLITS:
            counts[f"{name}_negatives_true_in_{other}"] = int(index[other].contains(false[name]).sum())


def _restrict(
    name: str, rows: Ints, taken: TripleIndex, entity_ids: Ints, predicate_ids: Ints, counts: dict[str, int]
) -> Split:
    """Return the sorted distinct rows whose names are all in train, with positions in the vocabularies of train.

    taken  triples of other splits, which are left out

    The function adds the numbers of unseen triples, triples left out, positives and negatives to `counts`.

    Raises InputError if the result has no positives.
    """
    rows = np.unique(rows, axis=0)
    seen = _known(rows, entity_ids, predicate_ids)
    counts[f"{name}_with_unseen"] = int((~seen).sum())
    rows = rows[seen]
    if name != "train":
        is_taken = taken.contains(rows[:, :3])
        counts[f"{name}_left_out"] = int(is_taken.sum())
        rows = rows[~is_taken]
    counts[f"{name}_positives"], counts[f"{name}_negatives"] = int(rows[:, 3].sum()), int((rows[:, 3] == 0).sum())
    if not counts[f"{name}_positives"]:
        raise InputError(
            f"{name} has no true triple whose entities and predicates are all in train and which is in no other "
            "split: add one"
        )
    s, o = (np.searchsorted(entity_ids, rows[:, column]) for column in (0, 2))
    return Split(np.c_[s, np.searchsorted(predicate_ids, rows[:, 1]), o], rows[:, 3].astype(np.float64))


def _known(rows: Ints, entity_ids: Ints, predicate_ids: Ints) -> Bools:
    """Return a mask (n,) of the rows whose two entities and predicate are all in train."""
    known: Bools = np.isin(rows[:, [0, 2]], entity_ids).all(axis=1) & np.isin(rows[:, 1], predicate_ids)
    return known


def _check_counts(spec: DatasetSpec, counts: dict[str, int]) -> None:
    """Raise InputError if a count differs from the declared count."""
    wanted = spec.counts
    found = {
        "train_rows": counts["train_rows"],
        "train_distinct": counts["train_rows"] - counts["train_duplicates"],
        "entities": counts["entities_in_all_files" if wanted.entities_in_all else "entities"],
        "predicates": counts["predicates"],
    }
    for name, value in found.items():
        expected = getattr(wanted, name)
        if expected is not None and value != expected:
            raise InputError(f"{spec.name} has {value:,} {name.replace('_', ' ')}: it must have {expected:,}")
