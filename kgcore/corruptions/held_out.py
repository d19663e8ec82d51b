"""The corruptions of the held-out splits: those that calibrators are fitted to, and those that measure them."""

import numpy as np

from kgcore.corruptions.base import OBJECT, SUBJECT, Corruptions, Strategy, corrupt, subject_shares
from kgcore.corruptions.every import every_corruption
from kgcore.graph import KnowledgeGraph, Split


def audit(graph: KnowledgeGraph, split: str, made: Corruptions) -> dict[str, float]:
    """Return counts and shares that describe the corruptions of a split's positives.

    every                 1 if these are all corruptions of each positive: see `every_corruption`. Then the shares below
                          are weighted, `dropped` is the number of positives without a corruption, and `redrawn` that of
                          possible corruptions that are known facts. 0 if they were drawn
    corruptions           number of corruptions that were kept
    dropped               number of corruptions that are missing, because every draw was a known fact
    redrawn               number of corruptions whose first draw was a known fact, and that were drawn again
    alone                 number of positives whose relation has no corruption: no calibrator is fitted to them
    fallbacks             number, including dropped ones, that a simpler strategy drew because there was no candidate
    true_in_train, true_in_valid, true_in_test
                          share that are facts of this split. The sum of the three shares is a lower bound of the
                          share of true corruptions. The shares are only reported: no fit and no filter uses them
    equal_to_source       share that are equal to the positive that they were made from: a value above 0 is an error
    on_subject            share that replace the subject
    outside_range         share whose new entity never occurs in training on that side of the predicate. They are easy
                          to distinguish from facts. Labelled negatives of a curated data set are rarely of this kind
    """
    positives: Split = getattr(graph, split)
    source, triples = positives.positives[made.source], made.triples
    weights = np.ones(len(triples)) if made.weights is None else made.weights
    total = max(1.0, float(weights.sum()))
    changed = triples != source
    figures = {"every": float(made.weights is not None), "corruptions": float(len(triples))}
    figures |= {"dropped": float(made.dropped), "redrawn": float(made.redrawn), "fallbacks": float(made.fallbacks)}
    figures["alone"] = float((~np.isin(positives.positives[:, 1], triples[:, 1])).sum())
    facts = {"train": graph.train.positives, "valid": graph.valid.positives, "test": graph.test.positives}
    for name, known in facts.items():
        figures[f"true_in_{name}"] = float(weights[graph.index(known).contains(triples)].sum() / total)
    outside = 0.0
    for column in (SUBJECT, OBJECT):
        seen, size = graph.train.positives, len(graph.entities)
        held = np.unique(seen[:, 1] * size + seen[:, column])
        new = triples[changed[:, column]]
        outside += float(weights[changed[:, column]][~np.isin(new[:, 1] * size + new[:, column], held)].sum())
    return figures | {
        "equal_to_source": float(weights[~changed.any(axis=1)].sum() / total),
        "on_subject": float(weights[changed[:, SUBJECT]].sum() / total),
        "outside_range": outside / total,
    }


def corrupt_held_out(
    graph: KnowledgeGraph,
    eta: int,
    strategy: Strategy,
    rng: np.random.Generator,
    sides: str,
    filtered: bool,
    all_up_to: int | None = None,
) -> dict[str, Corruptions]:
    """Corrupt the positives of valid and, if it is measured with corruptions, of test: split -> corruptions.

    Test is measured without corruptions if both splits have labelled negatives, or if test has confidences.

    Calibrators are fitted to the corruptions of valid. Of these, `filtered` drops the facts of train and valid, but not
    those of test. It also counts `hits`, from which the number of hidden facts among them is estimated. The corruptions
    of test serve only evaluation. Of these, the facts of all splits are always dropped.

    all_up_to  if valid has at most so many corruptions, all of them are made, with weights: see `every_corruption`.
               None: eta corruptions of each positive are drawn. Those of test are always drawn.

    Raises InputError if `sides` is unknown.
    """
    known, shares = graph.known if filtered else None, subject_shares(graph, sides)
    seen = graph.index(graph.train.positives, graph.other_facts) if filtered else None
    positives = graph.valid.positives
    every = None if all_up_to is None else every_corruption(positives, all_up_to, strategy, shares, known, seen)
    corruptions = {"valid": every or corrupt(positives, eta, strategy, rng, shares, known, seen)}
    if not graph.labelled and graph.test.confidences is None:
        corruptions["test"] = corrupt(graph.test.positives, eta, strategy, rng, shares, graph.all_known)
    return corruptions
