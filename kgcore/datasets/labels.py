"""Newly labelled triples: how to read them and put them into the validation split of a graph."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from kgcore.datasets.prepare import Prepared
from kgcore.datasets.read import COLUMNS, read_triples
from kgcore.datasets.schema import validate
from kgcore.datasets.unknown_names import describe_unknown_names, examples_of_unknown_names
from kgcore.errors import InputError, raise_faults
from kgcore.graph import KnowledgeGraph, Split


def read_labels(path: Path) -> pd.DataFrame:
    """Return the distinct triples of a file, in columns subject, predicate, object and label (1 / 0).

    The index is the line number. The file has four tab-separated columns, like a labelled split: subject, predicate,
    object, and the label 1 or -1. Raises InputError, with file and line, if the file has faults or a triple has
    both labels.
    """
    frame, faults = read_triples(path, labelled=True)
    raise_faults(faults + validate(frame, True, path))
    frame = frame.drop_duplicates()
    twice = frame[frame.duplicated(list(COLUMNS), keep=False)]
    raise_faults([f"{path}, line {line}: the triple is labelled both 1 and -1" for line in twice.index])
    return frame.assign(label=(frame["label"] == "1").astype(np.float64))


def with_labels(graph: KnowledgeGraph, labelled: pd.DataFrame, instead: bool = False) -> Prepared:
    """Return the graph with the labelled triples in its validation split. Train and test do not change.

    labelled  a table from `read_labels`
    instead   True: the labelled triples replace the validation triples. False: they are added to the validation
              triples. A validation split without labelled negatives is always replaced, because its positives and
              the new triples were sampled in different ways

    Labelled triples that are also in train or test are left out, because valid must not share triples with these
    splits. A labelled triple that is already in valid gets its new label. Positives of valid that are replaced remain
    known facts.

    The counts of the result:

    labels_rows                       number of all labelled triples
    labels_with_unseen                those with an entity or a predicate that has no embedding
    labels_not_held_out               those that are in train or test
    labels_used                       those that are in the new validation split
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
    valid, facts = Split(triples, labels), graph.valid.positives
    facts = facts[~graph.index(triples).contains(facts)]  # positives of valid without a new label
    if not instead and len(graph.valid.negatives):
        facts = graph.other_facts
        kept = ~graph.index(triples).contains(graph.valid.triples)
        valid = Split(np.r_[graph.valid.triples[kept], triples], np.r_[graph.valid.labels[kept], labels])
    if not len(valid.positives):
        raise InputError(
            "the labelled triples replace the validation split, but none of them is true: add true triples"
        )
    order = np.lexsort(valid.triples.T[::-1])
    valid = Split(valid.triples[order], valid.labels[order])
    counts = {
        "labels_rows": len(labelled),
        "labels_with_unseen": int((~known).sum()),
        "labels_not_held_out": int(seen.sum()),
        "labels_used": len(labels),
        "labels_known": int(held.sum()),
        "valid_positives": len(valid.positives),
        "valid_negatives": len(valid.negatives),
    }
    return Prepared(replace(graph, valid=valid, other_facts=facts), counts, {"labels": unknown_examples})
