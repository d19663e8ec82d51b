"""Two regularisers against overfitting: the LP penalty and dropout."""

import numpy as np
import torch
from torch import Tensor


def lp(embeddings: Tensor, power: float) -> Tensor:
    """Return the LP penalty sum_i |x_i|^p, a scalar, over all numbers x_i of the embeddings. p is `power`.

    The embeddings may have any shape. An embedding that n positives of the step use is counted n times, as in the loss.
    p is usually 2 or 3 (3: Lacroix et al., ICML 2018; paper, section 5.1).
    """
    return (embeddings.square() if power == 2 else embeddings.abs().pow(power)).sum()


def dropout(embeddings: Tensor, share: float, rng: np.random.Generator) -> Tensor:
    """Apply dropout: x_ij -> x_ij b_ij / (1 - share). b_ij is 0 with probability `share` in [0, 1), otherwise 1.

    The expected value of the result equals the embeddings. Each row is the embedding of
    one distinct entity of a step. Therefore an entity has the same components set to 0 everywhere in the step, in
    positives and in corruptions.

    Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", JMLR 2014.
    """
    if not share:
        return embeddings
    kept = rng.random(tuple(embeddings.shape), dtype=np.float32) >= share
    return embeddings * (torch.from_numpy(kept).to(embeddings.device) / (1 - share))
