"""Which side of a triple a corruption replaces."""

import numpy as np

from kgcore.arrays import Floats
from kgcore.config.choices import object_share
from kgcore.graph import KnowledgeGraph


def subject_shares(graph: KnowledgeGraph, sides: str) -> Floats:
    """(R,) for each predicate the share of corruptions that replace the subject; the others replace the object.

    subject, object  1, 0
    object=SHARE     1 - SHARE
    both             1/2, a fair coin (paper, section 4)
    bernoulli        tph / (tph + hpt): objects a subject has in training on average, and subjects an object has. Of a
                     predicate with one object a subject, such as `gender`, it replaces objects, where a corruption is
                     most often false. Wang et al., "Knowledge Graph Embedding by Translating on Hyperplanes", AAAI
                     2014, section 4. Of a predicate that training does not have, 1/2.

    Raises InputError for other sides.
    """
    if (share := object_share(sides)) is not None:
        return np.full(len(graph.predicates), 1 - share)
    train = np.unique(graph.train.positives, axis=0)
    subjects, objects = (
        np.bincount(np.unique(train[:, [1, column]], axis=0)[:, 0], minlength=len(graph.predicates))
        for column in (0, 2)
    )
    # tph = triples / subjects and hpt = triples / objects, so that the triples cancel out
    shares: Floats = np.where(subjects + objects > 0, objects / np.maximum(subjects + objects, 1), 0.5)
    return shares
