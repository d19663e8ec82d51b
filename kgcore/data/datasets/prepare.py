"""Convert verified files into a `KnowledgeGraph`, and count the contents of the files."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd

from kgcore.arrays import Bools, Floats, Ints, Numbers, Triples, blocks, chosen, sort_distinct
from kgcore.config import PrepareConfig
from kgcore.config.base import RANDOM
from kgcore.data.datasets.base import NEGATIVES, DatasetSpec, find_dataset
from kgcore.data.datasets.draw import SplitDraw, Values, draw_splits
from kgcore.data.datasets.fetch import DownloadProgress, fetch
from kgcore.data.datasets.read import Read, UnseenRows, read_files, unseen_rows
from kgcore.data.formats.base import Doubt, first_of
from kgcore.data.graph import SPLITS, KnowledgeGraph, Split, TripleIndex
from kgcore.errors import InputError, raise_faults

# At most this share of a held-out split's positives may be in another split too, and at most this share of a split's
# negatives may be positives of the split too. A larger share shows that one file is a copy of the other.
LARGEST_OVERLAP = 0.2
MOST_EXAMPLES = 3
Places: TypeAlias = tuple[Ints, Ints]  # of each entity and predicate of the files among those of train; -1: not there
MOST_HELD_OUT = 1_000_000  # rows of valid, and of test: the standard error of a share of so many is at most .0005


def _check_counts(spec: DatasetSpec, counts: dict[str, int]) -> None:
    """Raise InputError if a count differs from the declared count."""
    wanted = spec.counts
    counted = {
        "train_rows": counts["train_rows"],
        "train_distinct": counts["train_rows"] - counts["train_duplicates"],
        "entities": counts["entities_in_all_files" if wanted.entities_in_all else "entities"],
        "predicates": counts["predicates"],
    }
    for name, value in counted.items():
        expected = getattr(wanted, name)
        if expected is not None and value != expected:
            raise InputError(f"{spec.name} has {value:,} {name.replace('_', ' ')}: it must have {expected:,}")


def _indexes(rows: Mapping[str, Numbers], label: int, sizes: tuple[int, int]) -> dict[str, TripleIndex]:
    return {name: TripleIndex(chosen(part, part[:, 3] == label)[:, :3], *sizes) for name, part in rows.items()}


def _count_overlaps(
    true: Mapping[str, TripleIndex], false: Mapping[str, TripleIndex], read: Read, counts: dict[str, int]
) -> dict[str, tuple[str, ...]]:
    """Count the positives that two splits share, and the negatives that a split has as positives, into `counts`.

    true, false  split -> its positives, and its negatives

    Return split -> examples of its positives that are negatives of valid or test.
    """
    for name, other in (("valid", "train"), ("test", "train"), ("valid", "test")):
        shared = counts[f"{name}_positives_in_{other}"] = int(true[other].contains(true[name].triples).sum())
        smaller = name if other == "train" or len(true[name]) <= len(true[other]) else other
        if shared > LARGEST_OVERLAP * len(true[smaller]):
            raise InputError(
                f"{shared:,} of {len(true[smaller]):,} positives of {smaller} are also in "
                f"{other if smaller == name else name}: a held-out split must not contain the triples of another split"
            )
    examples: dict[str, tuple[str, ...]] = dict.fromkeys(SPLITS, ())
    for name in ("valid", "test"):
        negatives = false[name].triples
        for other in SPLITS:
            both = negatives[true[other].contains(negatives)]
            counts[f"{name}_negatives_true_in_{other}"] = len(both)
            examples[other] += tuple(
                f"{read.entities[s]} {read.predicates[p]} {read.entities[o]} (false in {name}, true in {other})"
                for s, p, o in both[:MOST_EXAMPLES].tolist()
            )
    return examples


def examples_of_unknown_names(
    frame: pd.DataFrame, entities: Collection[str], predicates: Collection[str]
) -> tuple[str, ...]:
    """Return the unknown names of the first MOST_EXAMPLES triples, each as `line 17: unknown entity 'x'`.

    frame                 triples with at least one unknown name each, in columns subject, predicate, object. The index
                          is the line number, or a text such as `row 17`
    entities, predicates  the known names
    """
    known = {"subject": set(entities), "predicate": set(predicates)}
    known["object"] = known["subject"]
    kinds = {"subject": "entity", "predicate": "predicate", "object": "entity"}
    examples = []
    for line, row in frame.head(MOST_EXAMPLES).iterrows():
        names = [
            f"unknown {kind} {row[column]!r}" for column, kind in kinds.items() if row[column] not in known[column]
        ]
        place = line if isinstance(line, str) else f"line {line}"
        examples.append(f"{place}: {' and '.join(dict.fromkeys(names))}")
    return tuple(examples)


def describe_unknown_names(count: int, examples: Collection[str]) -> str:
    """Return text with the count of the triples and examples: `2 with a name that is not in train (line 3: ...)`."""
    shown = "; ".join(examples) + ("; ..." if count > len(examples) else "")
    return f"{count:,} with a name that is not in train" + (f" ({shown})" if examples else "")


@dataclass(frozen=True)
class Prepared:
    """A graph and the counts of its files.

    counts   name of a count -> number. The counts are the rows, the duplicates and the triples with unseen entities or
             predicates of every split, the positives that two splits share, the negatives that are true in a split, and
             the rows of valid and test that are left out because another split has them. `valid_spare` and
             `test_spare` are there only if a split has more than MOST_HELD_OUT rows, `drawn_from_rows` and
             `drawn_from_duplicates` are there only if the splits are drawn, `drawn_twins` and `drawn_left_out` only if
             there are twins, or facts that no split may have, and `triples_with_literals`, `triples_about_triples`,
             `triples_of_no_value`, `negated_rows` and `nodes_without_edges` only if some are left out
    unknown  split -> examples, as text, of the split's triples with a name that is not in train
    unseen   the rows of valid and test with an entity that is not in train; None: valid or test has no such row
    drawn    a sentence about what valid and test have in common, if they are drawn by a rule; otherwise empty
    both     split -> examples, as text, of its true triples that valid or test labels false
    unread   parts of a sentence, which name columns and files that are not read
    doubts   what is doubtful about the files
    """

    graph: KnowledgeGraph
    counts: dict[str, int]
    unknown: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unseen: UnseenRows | None = None
    drawn: str = ""
    both: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()

    def dropped_notes(self) -> list[str]:
        """Return how many rows of each split are dropped, and why: a note for each split that lacks rows."""
        notes = []
        for split in SPLITS:
            names = ("duplicates", "with_unseen", "left_out", "spare")
            duplicates, unknown, left_out, spare = (self.counts.get(f"{split}_{name}", 0) for name in names)
            parts = [f"{duplicates:,} duplicate{'s' if duplicates > 1 else ''}"] if duplicates else []
            parts += [describe_unknown_names(unknown, self.unknown.get(split, ()))] if unknown else []
            parts += [f"{left_out:,} that {'is' if left_out == 1 else 'are'} in another split too"] if left_out else []
            parts += [f"{spare:,} beyond a million, whose true ones remain known facts"] if spare else []
            if parts:
                total, dropped = self.counts[f"{split}_rows"], duplicates + unknown + left_out + spare
                notes.append(f"{split}: dropped {dropped:,} of {total:,} rows: {', '.join(parts)}")
        return notes

    def labels_note(self) -> str:
        """Return how many labelled triples were added, and why the others were not: see `with_labels`."""
        words = {"not_held_out": "in train or test", "used": "used", "known": "in valid with the same label"}
        unknown = describe_unknown_names(self.counts["labels_with_unseen"], self.unknown["labels"])
        parts = [f"{self.counts['labels_rows']:,} labelled triples", unknown]
        return ", ".join([*parts, *(f"{self.counts[f'labels_{name}']:,} {word}" for name, word in words.items())])


def read_dataset(
    config: PrepareConfig,
    root: Path,
    mirror: str | None = None,
    progress: Callable[[str], DownloadProgress] | None = None,
) -> Prepared:
    """Read and validate the data set of the settings: `fetch`, then `prepare`, which raise the errors.

    root, mirror, progress  as in `fetch`
    """
    spec = find_dataset(config.dataset)
    folder = fetch(spec, root, mirror, config.size, config.graph_seed, progress)
    draw = SplitDraw(config.valid_share, config.test_share, config.split_seed, config.split_rule)
    return prepare(spec, folder, config.given_columns, draw, config.given_confidence)


def prepare(
    spec: DatasetSpec, folder: Path, columns: tuple[str, ...] = (), draw: SplitDraw = SplitDraw(), confidence: str = ""
) -> Prepared:
    """Read and validate the data set in `folder`, and replace its names by numbers.

    columns  names or positions of the columns with subject, predicate, object and, if there is a fourth entry, label.
             Empty: they are found
    draw     how to draw valid and test if the data set has only training triples
    confidence  name or position of the column of confidences, which are in [0, 1]; empty: the triples have none. A
             triple with several confidences has the highest. A split whose confidences are all 1 has none

    Duplicate rows are dropped. Held-out triples with an entity or predicate that is not in train are dropped, because
    they have no embedding. Test triples that are in train, and validation triples that are in train or test, are left
    out, whatever their labels: they are not held out. A data set with `as_published` keeps them. Vocabularies and
    splits are sorted, so that the format of the files and the order of their lines have no effect.

    Of a held-out split with more than MOST_HELD_OUT rows, so many are kept, spread evenly; the true ones of the others
    are in no split. Each row takes time and memory in every stage. Splits drawn at random have no more true rows.

    Raises InputError if the files have faults (one message has all faults, with file and line), if a count differs from
    the declared count, if more than a fifth of a held-out split's positives are in another split too, or if more than a
    fifth of the negatives in a file are positives of its split too.
    """
    read = read_files(spec, folder, columns, confidence, draw.rule)
    counts: dict[str, int] = {}
    sizes, detail = (len(read.entities), len(read.predicates)), ""
    if spec.drawn:
        rows, detail = _drawn(read, sizes, draw, counts)
    else:
        rows = _with_negatives(spec, folder, read, sizes)
    counts |= sum((places.left_out for places in read.places.values()), Counter[str]())
    counts |= {f"{name}_rows": len(rows[name]) for name in SPLITS} | {"entities_in_all_files": len(read.entities)}
    distinct = {name: rows[name] if spec.drawn else _distinct(rows[name], sizes) for name in SPLITS}
    for name in SPLITS:
        counts[f"{name}_duplicates"] = len(rows[name]) - len(distinct[name])
        if read.confidences is not None:
            counts[f"{name}_conflicting"] = len(np.unique(rows[name], axis=0)) - len(distinct[name])
    true, false = (_indexes(distinct, label, sizes) for label in (1, 0))
    both = _count_overlaps(true, false, read, counts)

    places = _places_in_train(rows.pop("train"), sizes)
    entity_ids, predicate_ids = (np.flatnonzero(of_names >= 0) for of_names in places)
    counts["entities"], counts["predicates"] = len(entity_ids), len(predicate_ids)
    _check_counts(spec, counts)
    for name, others in (("train", ()), ("test", ("train",)), ("valid", ("train", "test"))):
        taken = [index[other] for other in others if not spec.as_published for index in (true, false)]
        distinct[name] = _restrict(name, distinct[name], taken, counts, places)
    index = {"train": true["train"]}
    splits = {name: _split(distinct.pop(name), places, read.confidences, index.get(name)) for name in SPLITS}
    spare = [_spared(splits, name, counts) for name in SPLITS[1:]]
    names = [read.entities[i] for i in entity_ids.tolist()], [read.predicates[i] for i in predicate_ids.tolist()]
    unknown = {} if spec.drawn else _unknown(read, rows, places, names, counts)
    left_out = rows.get("left_out", rows["test"][:0])  # the true ones of them remain known facts
    left_out = left_out[(left_out[:, 3] == 1) & _known(left_out, places)]
    in_no_split = np.concatenate([_split(left_out, places, None).triples, *spare])
    parts = splits["train"], splits["valid"], splits["test"]
    graph = KnowledgeGraph(spec.name, *names, *parts, in_no_split, twins_together=spec.drawn)
    some = all(counts[f"{name}_with_unseen"] for name in SPLITS[1:])
    unseen = unseen_rows(replace(read, rows=rows) if spec.drawn else read, graph) if some else None
    return Prepared(graph, counts, unknown, unseen, detail, both, _unread(spec, read), read.doubts)


def _unread(spec: DatasetSpec, read: Read) -> tuple[str, ...]:
    files: dict[str, list[str]] = {}
    for name, columns in (entry for places in read.places.values() for entry in places.unread.items()):
        files.setdefault(columns, []).append(name)
    unread = [f"{columns} ({first_of('file', names)})" for columns, names in files.items() if columns]
    return (*unread, *([first_of("file", spec.others)] if spec.others else []))


def _drawn(
    read: Read, sizes: tuple[int, int], draw: SplitDraw, counts: dict[str, int]
) -> tuple[dict[str, Numbers], str]:
    """Return split -> rows that are drawn, and a sentence. `read` is emptied, so that memory has a graph once."""
    values = Values.of(read.rows["train"], *read.places["train"].values) if draw.rule.column else None
    counts["drawn_from_rows"] = len(read.rows["train"])
    distinct = _distinct(read.rows.pop("train"), sizes)
    counts["drawn_from_duplicates"] = counts["drawn_from_rows"] - len(distinct)
    if draw.rule.kind == RANDOM and (largest := max(draw.valid_share, draw.test_share) * len(distinct)) > MOST_HELD_OUT:
        part = MOST_HELD_OUT / largest
        draw = replace(draw, valid_share=draw.valid_share * part, test_share=draw.test_share * part)
    drawn = draw_splits(distinct, draw, read.predicates, values)
    if drawn.twins:
        counts["drawn_twins"] = drawn.twins
    if left_out := len(drawn.rows["left_out"]):
        counts["drawn_left_out"] = left_out
    return drawn.rows, drawn.detail


def _with_negatives(spec: DatasetSpec, folder: Path, read: Read, sizes: tuple[int, int]) -> dict[str, Numbers]:
    """Return split -> rows, in which rows from a file of negatives have the label 0."""
    rows, faults = dict(read.rows), []
    for role in [role for role in rows if role.endswith(NEGATIVES)]:
        split = role.removesuffix(NEGATIVES)
        true, false = rows[split], rows.pop(role)
        distinct = _distinct(false, sizes)
        both = int(TripleIndex(true[:, :3], *sizes).contains(distinct[:, :3]).sum())
        if both > LARGEST_OVERLAP * len(distinct):
            faults.append(
                f"{folder / spec.files[role].path}: {both:,} of {len(distinct):,} negatives are also in "
                f"{spec.files[split].path}: a triple cannot be both true and false"
            )
        rows[split] = np.concatenate([true, np.c_[false[:, :3], np.zeros(len(false), dtype=np.int32)]])
    raise_faults(faults)
    return rows


def _distinct(rows: Numbers, sizes: tuple[int, int]) -> Numbers:
    """Return the distinct rows, sorted. Of rows (n, 5) that differ only in confidence, the highest one is kept."""
    if rows.shape[1] == 5:
        ordered: Numbers = rows[np.lexsort(rows.T[::-1])]
        last = np.append((ordered[1:, :4] != ordered[:-1, :4]).any(axis=1), True)
        kept: Numbers = ordered[last]
        return kept
    entities, predicates = sizes
    if 2 * entities * predicates * entities >= 2**63:
        return np.unique(rows, axis=0)
    keys = np.empty(len(rows), dtype=np.int64)
    for part in blocks(len(rows)):
        s, p, o, label = rows[part].astype(np.int64).T
        keys[part] = ((s * predicates + p) * entities + o) * 2 + label
    del rows  # memory has them no longer, if only this function had them
    keys = sort_distinct(keys)
    distinct = np.empty((len(keys), 4), dtype=np.int32)
    for part in blocks(len(keys)):
        rest, distinct[part, 3] = np.divmod(keys[part], 2)
        rest, distinct[part, 2] = np.divmod(rest, entities)
        distinct[part, 0], distinct[part, 1] = np.divmod(rest, predicates)
    return distinct


def _places_in_train(rows: Numbers, sizes: tuple[int, int]) -> Places:
    """Return the place of each entity (E,) and predicate (R,) among those of the training rows; -1: it is not there."""
    entities, predicates = (np.zeros(size, dtype=bool) for size in sizes)
    for part in blocks(len(rows)):
        s, p, o = rows[part][:, :3].T
        entities[s] = entities[o] = predicates[p] = True
    of_entities, of_predicates = (np.where(seen, np.cumsum(seen) - 1, -1) for seen in (entities, predicates))
    return of_entities, of_predicates


def _unknown(
    read: Read,
    rows: Mapping[str, Numbers],
    places: Places,
    names: tuple[list[str], list[str]],
    counts: Mapping[str, int],
) -> dict[str, tuple[str, ...]]:
    """Return split -> examples of its rows with a name that is not in train."""
    examples = {}
    for name in SPLITS:
        if counts[f"{name}_with_unseen"]:
            missing = np.flatnonzero(~_known(rows[name], places))
            # rows of a file of negatives come after the others
            first_negative = len(read.rows[name])
            parts = [
                (name, missing[missing < first_negative]),
                (f"{name}_negatives", missing[missing >= first_negative] - first_negative),
            ]
            frames = [read.frame(role, part[:MOST_EXAMPLES]) for role, part in parts if len(part)]
            examples[name] = examples_of_unknown_names(pd.concat(frames), *names)
    return examples


def _restrict(
    name: str, rows: Numbers, taken: Sequence[TripleIndex], counts: dict[str, int], places: Places
) -> Numbers:
    """Return the distinct rows whose names are all in train, without the triples `taken`. Add numbers to `counts`."""
    seen = _known(rows, places)
    counts[f"{name}_with_unseen"] = int((~seen).sum())
    rows = chosen(rows, seen)
    if name != "train":
        is_taken = np.zeros(len(rows), dtype=bool)
        for index in taken:
            is_taken |= index.contains(rows[:, :3])
        counts[f"{name}_left_out"] = int(is_taken.sum())
        rows = rows[~is_taken]
    counts[f"{name}_positives"], counts[f"{name}_negatives"] = int(rows[:, 3].sum()), int((rows[:, 3] == 0).sum())
    if not counts[f"{name}_positives"]:
        raise InputError(
            f"{name} has no true triple whose entities and predicates are all in train and which is in no other "
            "split: add one"
        )
    return rows


def _spared(splits: dict[str, Split], name: str, counts: dict[str, int]) -> Triples:
    """Leave MOST_HELD_OUT rows of a split, spread evenly over its sorted rows. Return the true ones of the others."""
    split = splits[name]
    if len(split) <= MOST_HELD_OUT:
        return split.triples[:0]
    kept = np.zeros(len(split), dtype=bool)
    kept[np.arange(MOST_HELD_OUT) * len(split) // MOST_HELD_OUT] = True
    splits[name], counts[f"{name}_spare"] = split.part(kept), int((~kept).sum())
    return split.part(~kept).positives


def _split(rows: Numbers, places: Places, confidences: Floats | None, positives: TripleIndex | None = None) -> Split:
    """Return the rows as a split of train's ids.

    confidences  what the positions in their fifth column stand for
    positives    the facts among them: if all rows are facts, these are read in their place, in half the memory
    """
    values = None if confidences is None else confidences[rows[:, 4]]
    certain = values is None or bool((values == 1).all())
    true = rows[:, 3] == 1
    # true in all rows, as in train: one number in memory
    labels = np.broadcast_to(np.float64(1), len(rows)) if true.all() else true.astype(np.float64)
    facts = positives if positives is not None and true.all() else rows
    del rows
    triples = np.empty((len(facts), 3), dtype=np.int64)
    for part in blocks(len(facts)):
        numbers = facts[part]
        for column, of_names in enumerate((places[0], places[1], places[0])):
            triples[part, column] = of_names[numbers[:, column]]
    return Split(triples, labels, None if certain else values)


def _known(rows: Numbers, places: Places) -> Bools:
    """Return a mask (n,) of the rows whose two entities and predicate are all in train."""
    entities, predicates = (of_names >= 0 for of_names in places)
    known = np.empty(len(rows), dtype=bool)
    for part in blocks(len(rows)):
        s, p, o = rows[part][:, :3].T
        known[part] = entities[s] & predicates[p] & entities[o]
    return known
