"""The corruptions of the held-out splits: those that calibrators are fitted to, and those that measure them."""

import numpy as np

from kgcore.corruptions.base import Corruptions, Strategy, corrupt
from kgcore.corruptions.every import every_corruption
from kgcore.corruptions.sides import subject_shares
from kgcore.graph import KnowledgeGraph


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
    made = {"valid": every or corrupt(positives, eta, strategy, rng, shares, known, seen)}
    if not graph.labelled and graph.test.confidences is None:
        made["test"] = corrupt(graph.test.positives, eta, strategy, rng, shares, graph.all_known)
    return made
