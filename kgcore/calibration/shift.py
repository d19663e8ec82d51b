"""Shift probabilities to another base rate."""

from kgcore.arrays import Probabilities, as_probabilities
from kgcore.errors import InputError


def shift(probabilities: Probabilities, base_rate: float, new_base_rate: float) -> Probabilities:
    """Shift probabilities (n,) in [0, 1] from one base rate to another, both in (0, 1):

        logit q' = logit q + logit(new_base_rate) - logit(base_rate)

    The code computes q' = q r / (q r + (1 - q) s), r = new_base_rate / base_rate, s = (1 - new_base_rate) /
    (1 - base_rate). In this form probabilities of 0 and 1 stay as they are.

    Elkan, IJCAI 2001, theorem 2; Saerens, Latinne & Decaestecker 2002, equation 2.4. The result is exact if
    the scores of positives and the scores of negatives keep their distributions, and only the share of positives
    changes. Raises InputError for probabilities or base rates out of range.
    """
    check_base_rate("base_rate", base_rate)
    check_base_rate("new_base_rate", new_base_rate)
    q = as_probabilities(probabilities)
    positive = q * (new_base_rate / base_rate)
    negative = (1 - q) * ((1 - new_base_rate) / (1 - base_rate))
    shifted: Probabilities = positive / (positive + negative)
    return shifted


def check_base_rate(name: str, base_rate: float) -> None:
    """Raise InputError if the base rate is outside (0, 1). The message calls it `name`."""
    if not 0 < base_rate < 1:
        raise InputError(f"{name} is {base_rate:g}: it must be above 0 and below 1")
