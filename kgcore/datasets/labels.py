"""Newly labelled triples: reading them, and a graph whose validation split has them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from kgcore.datasets.prepare import Prepared
from kgcore.datasets.read import COLUMNS, read_triples
from kgcore.datasets.schema import validate
from kgcore.errors import InputError, raise_faults
from kgcore.graph import KnowledgeGraph, Split


def read_labels(path: Path) -> pd.DataFrame:
    """The file's triples: subject, predicate, object, label (1 / 0), each once; the index is the line.

    The file has four tab-separated columns, as a labelled split has: subject, predicate, object, 1 or -1.
    Raises InputError, with file and line, for faults, and for a triple that is labelled both ways.
    """
    frame, faults = read_triples(path, labelled=True)
    raise_faults(faults + validate(frame, True, path))
    frame = frame.drop_duplicates()
    twice = frame[frame.duplicated(list(COLUMNS), keep=False)]
    raise_faults([f"{path}, line {line}: the triple is labelled both 1 and -1" for line in twice.index])
    return frame.assign(label=(frame["label"] == "1").astype(np.float64))


def with_labels(graph: KnowledgeGraph, labelled: pd.DataFrame, instead: bool = False) -> Prepared:
    """The graph with the labelled triples in its validation split; train and test stay as they are.

    labelled  what `read_labels` gave
    instead   they take the place of the validation triples rather than join them. So they do, in any case, where valid
              has no labelled negatives: its positives are no sample of what is labelled now

    Triples of train and test are left out: neither would be held out. A triple of valid gets its new label; positives
    of valid that make place for others stay known facts.
    counts: labels_rows; labels_with_unseen entities or predicates, for which no embedding exists; labels_not_held_out;
    labels_used, of which valid has labels_known with the same label; valid_positives and valid_negatives that come of
    it.

    Raises InputError where none of them can be used.
    """
    triples, known = graph.number(labelled)
    triples, labels = triples[known], labelled["label"].to_numpy()[known]
    seen = graph.index(graph.train.triples, graph.test.triples).contains(triples)
    triples, labels = triples[~seen], labels[~seen]
    if not len(triples):
        raise InputError(
            f"none of the {len(labelled):,} labelled triples can be used: {int((~known).sum()):,} have an entity or "
            f"predicate that the graph {graph.name} does not have, {int(seen.sum()):,} stand in its train or test"
        )
    true, false = graph.index(graph.valid.positives), graph.index(graph.valid.negatives)
    held = np.where(labels == 1, true.contains(triples), false.contains(triples))
    valid, facts = Split(triples, labels), graph.valid.positives
    facts = facts[~graph.index(triples).contains(facts)]  # what has no new label stays true, whatever its place
    if not instead and len(graph.valid.negatives):
        facts = graph.other_facts
        kept = ~graph.index(triples).contains(graph.valid.triples)
        valid = Split(np.r_[graph.valid.triples[kept], triples], np.r_[graph.valid.labels[kept], labels])
    if not len(valid.positives):
        raise InputError("the labelled triples would be all of the validation split, and none is true: add true ones")
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
    return Prepared(replace(graph, valid=valid, other_facts=facts), counts)
