"""The regulariser of embeddings."""

from torch import Tensor


def lp(embeddings: Tensor, power: float) -> Tensor:
    """sum_i |x_i|^p over gathered embeddings of any shape -> scalar; p = 2 or 3 as a rule (3: Lacroix et al., ICML
    2018; paper, section 5.1). An embedding used by n positives of the step counts n times, as the loss does."""
    return (embeddings.square() if power == 2 else embeddings.abs().pow(power)).sum()
