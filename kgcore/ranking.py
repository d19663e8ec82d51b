"""The filtered rank of each true triple among its corruptions."""

from collections.abc import Callable

import numpy as np
import torch

from kgcore.arrays import Floats, Ints, Triples
from kgcore.graph import TripleIndex
from kgcore.models.pair_scores import candidate_scores
from kgcore.models.trained import TrainedModel


@torch.inference_mode()
def filtered_ranks(
    trained: TrainedModel,
    triples: Triples,
    known: TripleIndex,
    rows: int | None = None,
    on_block: Callable[[int], None] = lambda done: None,
) -> Floats:
    """Return the filtered ranks (n, 2) of triples (n, 3). Column 0 replaces the subject, column 1 the object.

    rank = 1 + #{higher scores} + #{equal scores} / 2, counted over the corruptions that are not known facts. A tie
    counts half, so that a model with constant scores has the mean rank of a random order. Bordes et al., NIPS 2013
    ("filtered"); paper, section 5.

    known     facts that do not count as corruptions
    rows      triples per block; None = 256, or 16 for a model without queries. Memory: rows x E scores, and at most
              LARGEST_BLOCK numbers to compute them, because entities are scored in parts
    on_block  function that is called after each block with the number of triples ranked so far
    """
    model = trained.model
    if rows is None:
        rows = 256 if model.by_queries else 16
    ranks = np.empty((len(triples), 2))
    for start in range(0, len(triples), rows):
        block = triples[start : start + rows]
        as_subjects, as_objects = candidate_scores(model, trained.embeddings, block, rows)
        sides = (
            (as_subjects, block[:, 0], known.subjects(block[:, 1], block[:, 2])),
            (as_objects, block[:, 2], known.objects(block[:, 0], block[:, 1])),
        )
        for column, (scores, targets, facts) in enumerate(sides):
            ranks[start : start + len(block), column] = ranks_of(scores, targets, facts).cpu().numpy()
        on_block(start + len(block))
    return ranks


@torch.inference_mode()
def ranks_of(scores: torch.Tensor, entities: Ints, facts: tuple[Ints, Ints]) -> torch.Tensor:
    """Return the rank (n,) of the entity (n,) of each row in its row of `scores` (n, E).

    Overwrites the scores of known facts and of the entities by -infinity: what is left are the alternatives.

    facts  the row and the entity of each known fact: these entries do not count
    """
    targets = torch.from_numpy(np.ascontiguousarray(entities)).to(scores.device)
    own = scores.gather(1, targets[:, None])
    row, entity = (torch.from_numpy(part).to(scores.device) for part in facts)
    scores[row, entity] = -torch.inf
    better = (scores > own).sum(1)
    scores.scatter_(1, targets[:, None], -torch.inf)
    equal = (scores == own).sum(1)
    return 1 + better + equal / 2
