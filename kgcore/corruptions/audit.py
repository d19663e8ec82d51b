"""What synthetic negatives are like, to be looked at before probabilities are made of them."""

import numpy as np

from kgcore.corruptions.base import OBJECT, SUBJECT, Corruptions
from kgcore.graph import KnowledgeGraph, Split


def audit(graph: KnowledgeGraph, split: str, made: Corruptions) -> dict[str, float]:
    """Counts and shares of the corruptions of a split's positives.

    corruptions, dropped      how many there are, and how many were filtered away as known facts
    fallbacks                 how many had to be drawn by a simpler strategy, dropped ones included
    true_in_train, ..._valid, ..._test
                              shares that are facts of that split, taken for false: a lower bound of the share that is
                              true. Test is looked at here and nowhere else; nothing is fitted or filtered by it.
    equal_to_source           share that is the very positive it was made from; 0, or something is wrong
    on_subject                share that replaces the subject
    outside_range             share whose new entity training never has on that side of the predicate: easy to tell from
                              a fact. Labelled negatives of a curated data set hardly ever are.
    """
    positives: Split = getattr(graph, split)
    source, triples, every = positives.positives[made.source], made.triples, max(1, len(made.triples))
    changed = triples != source
    figures = {"corruptions": float(len(triples)), "dropped": float(made.dropped)}
    figures["fallbacks"] = float(made.fallbacks)
    facts = {"train": graph.train.positives, "valid": graph.valid.positives, "test": graph.test.positives}
    for name, known in facts.items():
        figures[f"true_in_{name}"] = float(graph.index(known).contains(triples).sum() / every)
    outside = 0
    for column in (SUBJECT, OBJECT):
        seen, size = graph.train.positives, len(graph.entities)
        held = np.unique(seen[:, 1] * size + seen[:, column])
        new = triples[changed[:, column]]
        outside += int((~np.isin(new[:, 1] * size + new[:, column], held)).sum())
    return figures | {
        "equal_to_source": float((~changed.any(axis=1)).sum() / every),
        "on_subject": float(changed[:, SUBJECT].sum() / every),
        "outside_range": outside / every,
    }
