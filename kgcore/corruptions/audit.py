"""Figures that describe corruptions, to check them before a calibrator is fitted to them."""

import numpy as np

from kgcore.corruptions.base import OBJECT, SUBJECT, Corruptions
from kgcore.graph import KnowledgeGraph, Split


def audit(graph: KnowledgeGraph, split: str, made: Corruptions) -> dict[str, float]:
    """Counts and shares of the corruptions of a split's positives.

    corruptions, dropped  number of corruptions, and number of those dropped as known facts
    fallbacks             number that a simpler strategy had to draw, including dropped ones
    true_in_train, true_in_valid, true_in_test
                          shares that are facts of that split: together a lower bound of the share that is true. The
                          test split is used for this figure only; nothing is fitted to it or filtered by it.
    equal_to_source       share that equals the positive it was made from: any value above 0 is an error
    on_subject            share that replaces the subject
    outside_range         share whose new entity never occurs in training on that side of the predicate. These are easy
                          to distinguish from facts; labelled negatives of a curated data set are rarely of this kind.
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
