"""How often the corruptions of a predicate replace the subject, and how often the object."""

import numpy as np

from kgcore.arrays import Floats
from kgcore.config.choices import object_share
from kgcore.graph import KnowledgeGraph


def subject_shares(graph: KnowledgeGraph, sides: str) -> Floats:
    """Return, for each predicate, the share of its corruptions that replace the subject: (R,).

    The other corruptions replace the object. The shares for each value of `sides`:

    subject          1
    object           0
    object=SHARE     1 - SHARE
    both             1/2 (paper, section 4)
    bernoulli        tph / (tph + hpt), where tph is the predicate's mean number of objects per subject in training, and
                     hpt its mean number of subjects per object. For a predicate with one object per subject, such as
                     `gender`, most corruptions replace the object, so that they are rarely true. 1/2 for a predicate
                     without training triples. Wang et al., "Knowledge Graph Embedding by Translating on
                     Hyperplanes", AAAI 2014, section 4.

    Raises InputError if `sides` has another value.
    """
    if (share := object_share(sides)) is not None:
        return np.full(len(graph.predicates), 1 - share)
    train = np.unique(graph.train.positives, axis=0)
    subjects, objects = (
        np.bincount(np.unique(train[:, [1, column]], axis=0)[:, 0], minlength=len(graph.predicates))
        for column in (0, 2)
    )
    # tph = triples / subjects and hpt = triples / objects, so the number of triples cancels out
    shares: Floats = np.where(subjects + objects > 0, objects / np.maximum(subjects + objects, 1), 0.5)
    return shares
