"""Regularisers, which keep embeddings from memorising the training triples."""

import numpy as np
import torch
from torch import Tensor


def lp(embeddings: Tensor, power: float) -> Tensor:
    """LP penalty: sum_i |x_i|^p over gathered embeddings of any shape -> scalar.

    An embedding that n positives of the step use counts n times, as in the loss. p is usually 2 or 3 (3: Lacroix et
    al., ICML 2018; paper, section 5.1).
    """
    return (embeddings.square() if power == 2 else embeddings.abs().pow(power)).sum()


def dropout(embeddings: Tensor, share: float, rng: np.random.Generator) -> Tensor:
    """Dropout: x_ij -> x_ij b_ij / (1 - share). b_ij is 0 with probability `share` in [0, 1), otherwise 1.

    The expected result equals the embeddings. The rows are the distinct entities of a step: an entity loses the same
    numbers in all triples that use it, and as a corruption.

    Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", JMLR 2014.
    """
    if not share:
        return embeddings
    kept = rng.random(tuple(embeddings.shape), dtype=np.float32) >= share
    return embeddings * (torch.from_numpy(kept).to(embeddings.device) / (1 - share))
