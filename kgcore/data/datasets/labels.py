"""Newly labelled triples: how to read them and put them into the validation split of a graph."""

from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pandas as pd

from kgcore.arrays import Bools
from kgcore.base_rate import BaseRate
from kgcore.data.datasets.prepare import Prepared, describe_unknown_names, examples_of_unknown_names
from kgcore.data.datasets.read import frame_of
from kgcore.data.formats.base import COLUMNS, LABEL, TriplesFile, format_of, read_blocks
from kgcore.data.formats.columns import MEANING
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.errors import InputError, raise_faults


def for_exam(names: pd.DataFrame, share: float) -> Bools:
    """Return a mask (n,) of the triples that belong to the exam. The others belong to calibration.

    names  n rows, columns subject, predicate, object
    share  expected share of the triples for the exam, in [0, 1); 0: none

    A triple belongs to the exam if h / 2^64 < share, where h is the BLAKE2b hash of 8 bytes, big-endian, of the UTF-8
    text `subject<tab>predicate<tab>object`. So the answer depends on the triple alone: not on its label, on the order
    of the file, or on other triples. A triple keeps its place when the file grows. A larger share moves triples only
    from calibration to the exam. Raises InputError for a share out of range.
    """
    if not 0 <= share < 1:
        raise InputError(f"exam_share is {share:g}: it must be at least 0 and below 1")
    rows = zip(*(names[column] for column in COLUMNS), strict=True)
    hashes = [int.from_bytes(blake2b("\t".join(row).encode(), digest_size=8).digest(), "big") for row in rows]
    return np.array(hashes, dtype=np.float64) / 2.0**64 < share


def read_labels(path: Path) -> pd.DataFrame:
    """Return the distinct triples of a file, in columns subject, predicate, object and label (1 / 0).

    The index is the line number. The file has four columns, in any format with columns: subject, predicate, object,
    and the label 1 or -1, 1 or 0, or true or false. Raises InputError, with file and line, if the file has faults or a
    triple has both labels.
    """
    frame = _read_table(path)
    frame = frame.assign(label=frame["label"].str.lower().map(MEANING).astype(np.float64)).drop_duplicates()
    twice = frame[frame.duplicated(list(COLUMNS), keep=False)]
    raise_faults([f"{path}, line {line}: the triple is labelled both 1 and -1" for line in twice.index])
    return frame


def _read_table(path: Path) -> pd.DataFrame:
    """Return the columns subject, predicate, object and label as strings. The index is the number of the line."""
    from kgcore.data.datasets.schema import validate

    source, unit = TriplesFile(path, labelled=True), format_of(path).unit
    blocks = list(read_blocks(source))
    empty = pd.DataFrame(columns=[*COLUMNS, LABEL], dtype="str")
    frame = pd.concat([frame_of(block) for block in blocks] or [empty])
    if LABEL not in frame:
        raise InputError(f"{path} has no labels: give a file with the columns {', '.join(COLUMNS)} and {LABEL}")
    raise_faults([fault for block in blocks for fault in block.faults] + validate(frame, path, unit))
    return frame


def with_labels(graph: KnowledgeGraph, labelled: pd.DataFrame, instead: bool = False) -> Prepared:
    """Return the graph with the labelled triples in its validation split. Train and test do not change.

    labelled  a table from `read_labels`
    instead   True: the labelled triples replace the validation triples. False: they are added to the validation
              triples

    If the labels bring the first negatives to a validation split with positives only, its positives were not sampled
    with these labels: their share says nothing about the candidates. So `labelled_base_rate` of the graph becomes
    (t + 1/2) / (n + 1), where t of the n labelled triples used are true, with an interval: see `BaseRate.of_sample`.
    Calibrators of labelled negatives are fitted to all positives and the labelled negatives, weighted to it.

    If the validation split has confidences, a new label counts as the confidence 1 or 0, and every row counts once.

    Labelled triples that are also in train or test are left out, because valid must not share triples with these
    splits. A labelled triple that is already in valid gets its new label. Positives of valid that are replaced remain
    known facts.

    The counts of the result:

    labels_rows                       number of all labelled triples
    labels_with_unseen                those with an entity or a predicate that has no embedding
    labels_not_held_out               those that are in train or test
    labels_used                       those that are in the new validation split
    labels_false                      those used that are labelled false
    labels_known                      those used that the old validation split already had with the same label
    valid_positives, valid_negatives  size of the new validation split, by label

    Raises InputError if no triple can be used, or if the new validation split has no positives.
    """
    triples, known = graph.number(labelled)
    unknown_examples = examples_of_unknown_names(labelled[~known], graph.entities, graph.predicates)
    triples, labels = triples[known], labelled["label"].to_numpy()[known]
    seen = graph.index(graph.train.triples, graph.test.triples).contains(triples)
    triples, labels = triples[~seen], labels[~seen]
    if not len(triples):
        unknown = describe_unknown_names(int((~known).sum()), unknown_examples)
        raise InputError(
            f"none of the {len(labelled):,} labelled triples can be used: {unknown}, {int(seen.sum()):,} in the train "
            f"or test split of {graph.name}"
        )
    true, false = graph.index(graph.valid.positives), graph.index(graph.valid.negatives)
    held = np.where(labels == 1, true.contains(triples), false.contains(triples))
    labelled_graph = _with_validation(graph, Split(triples, labels), instead)
    counts = {
        "labels_rows": len(labelled),
        "labels_with_unseen": int((~known).sum()),
        "labels_not_held_out": int(seen.sum()),
        "labels_used": len(labels),
        "labels_false": int((labels == 0).sum()),
        "labels_known": int(held.sum()),
        "valid_positives": len(labelled_graph.valid.positives),
        "valid_negatives": len(labelled_graph.valid.negatives),
    }
    return Prepared(labelled_graph, counts, {"labels": unknown_examples})


def _with_validation(graph: KnowledgeGraph, new: Split, instead: bool) -> KnowledgeGraph:
    """Return the graph whose validation split has the new labels, or consists of them."""
    kept = ~graph.index(new.triples).contains(graph.valid.triples)
    facts, base_rate = graph.other_facts, None
    if instead:
        facts, valid = np.r_[facts, graph.valid.triples[kept & (graph.valid.labels == 1)]], new
    else:
        confidences = None if graph.valid.confidences is None else np.r_[graph.valid.confidences[kept], new.labels]
        labels = np.r_[graph.valid.labels[kept], new.labels]
        valid = Split(np.r_[graph.valid.triples[kept], new.triples], labels, confidences)
        if confidences is None and not len(graph.valid.negatives) and len(new.negatives):
            base_rate = BaseRate.of_sample(len(new.positives), len(new))
    if not len(valid.positives):
        raise InputError("no triple of the new validation split is true: add true triples to the labelled ones")
    order = np.lexsort(valid.triples.T[::-1])
    return replace(graph, valid=valid.part(order), other_facts=facts, labelled_base_rate=base_rate)
