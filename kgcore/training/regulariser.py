"""What keeps embeddings from learning the training triples by heart."""

import numpy as np
import torch
from torch import Tensor


def lp(embeddings: Tensor, power: float) -> Tensor:
    """sum_i |x_i|^p over gathered embeddings of any shape -> scalar; p = 2 or 3 as a rule (3: Lacroix et al., ICML
    2018; paper, section 5.1). An embedding used by n positives of the step counts n times, as the loss does."""
    return (embeddings.square() if power == 2 else embeddings.abs().pow(power)).sum()


def dropout(embeddings: Tensor, share: float, rng: np.random.Generator) -> Tensor:
    """x_ij -> x_ij b_ij / (1 - share), each b_ij 0 with probability `share` in [0, 1), else 1: the same embeddings on
    average. Of rows that many triples of a step use: an entity is thinned alike in all of them, and as a corruption.

    Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", JMLR 2014.
    """
    if not share:
        return embeddings
    kept = rng.random(tuple(embeddings.shape), dtype=np.float32) >= share
    return embeddings * (torch.from_numpy(kept).to(embeddings.device) / (1 - share))
