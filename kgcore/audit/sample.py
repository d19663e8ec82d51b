"""The facts to label next, stratified by probability, and the share of wrong facts that their labels show."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

from kgcore.arrays import Bools, Floats, Ints, Probabilities
from kgcore.audit.share import Share
from kgcore.errors import InputError
from kgcore.intervals import CONFIDENCE, lower_limits

STRATA = 3  # more strata have too few labels each: the interval is then wider
PROPORTIONAL = 0.5  # share of the labels that is allocated by the sizes of the strata alone
FEWEST = 5  # labels per stratum, unless the stratum has fewer facts


@dataclass(frozen=True)
class Strata:
    """Facts in groups of similar probability.

    of      (n,) the stratum of each fact, 0 to H - 1
    counts  (H,) number of facts in each stratum
    spread  (H,) the expected standard deviation of "is wrong" within each stratum
    """

    of: Ints
    counts: Ints
    spread: Floats


def stratify(wrong: Probabilities) -> Strata:
    """Divide facts into at most STRATA strata by their probability w of being wrong.

    wrong  (n,) w of each fact, in [0, 1]

    The facts are sorted by w and cut so that all strata have the same sum of sqrt(w (1 - w)): with Neyman allocation
    they then get about equally many labels (the rule of Dalenius & Hodges, JASA 54, 1959, for a binary variable). Empty
    strata are dropped.
    """
    order = np.argsort(wrong, kind="stable")
    deviation = np.sqrt(wrong * (1 - wrong))[order]
    reached = np.cumsum(deviation)
    total = reached[-1] if len(reached) and reached[-1] > 0 else 1.0
    of = np.zeros(len(wrong), dtype=np.int64)
    of[order] = np.minimum((reached - deviation / 2) / total * STRATA, STRATA - 1)
    _, of = np.unique(of, return_inverse=True)
    counts = np.bincount(of)
    means = np.bincount(of, weights=wrong) / counts
    return Strata(of.astype(np.int64), counts, np.sqrt(means * (1 - means)))


def allocate(strata: Strata, labels: int) -> Ints:
    """Return how many facts of each stratum to label (H,).

    labels  number of labels n. If n is above the number of facts, all facts are labelled

    Neyman allocation gives stratum h the share N_h S_h / sum(N S) of the labels, for N_h facts of standard deviation
    S_h (Neyman, JRSS 97, 1934): the estimate then has the least variance, if S is right. But S comes from probabilities
    that may be wrong. So the share PROPORTIONAL of the labels is allocated by N_h alone, and each stratum gets at least
    FEWEST labels. Then the interval stays useful.

    Raises InputError if there are fewer labels than FEWEST for each stratum.
    """
    counts = strata.counts
    least = np.minimum(FEWEST, counts)
    if labels < least.sum():
        raise InputError(f"sample is {labels}: it must be at least {least.sum()}, {FEWEST} for each stratum")
    weight = counts * strata.spread
    neyman = weight / weight.sum() if weight.sum() > 0 else counts / counts.sum()
    wanted = labels * ((1 - PROPORTIONAL) * neyman + PROPORTIONAL * counts / counts.sum())
    given = least
    for _ in range(int(min(labels, counts.sum()) - least.sum())):  # the next label: where most are missing
        missing = np.where(given < counts, wanted - given, -np.inf)
        given = given + (np.arange(len(counts)) == missing.argmax())
    return given


def draw_sample(strata: Strata, labels: int, rng: np.random.Generator) -> Ints:
    """Draw facts to label without replacement. Return their positions, in random order.

    labels  number of facts to draw; see `allocate` for how they are divided, and for what it raises
    """
    drawn = [
        rng.choice(np.flatnonzero(strata.of == h), count, replace=False)
        for h, count in enumerate(allocate(strata, labels).tolist())
    ]
    shuffled: Ints = rng.permutation(np.concatenate(drawn))
    return shuffled


def sampled_share(strata: Ints, counts: Ints, wrong: Bools) -> Share:
    """Estimate the share of wrong facts from the labels of a stratified sample.

    strata  (m,) the stratum of each labelled fact, 0 to H - 1
    counts  (H,) number of facts in each stratum, labelled or not
    wrong   (m,) whether each labelled fact is wrong

    With x_h wrong ones among the n_h labelled facts of stratum h, p_h = x_h / n_h and W_h = N_h / sum(N), the estimate
    is sum_h W_h p_h. Its interval combines the limits l_h, u_h of the strata by the "method of variance estimates
    recovery" (Zou & Donner, Statistics in Medicine 27, 2008):

        low = p - sqrt(sum_h (W_h f_h (p_h - l_h))^2),    high = p + sqrt(sum_h (W_h f_h (u_h - p_h))^2).

    l_h are the exact lower limits of Clopper & Pearson (Biometrika 26, 1934), and u_h the upper limits of Jeffreys
    (Brown, Cai & DasGupta, Statistical Science 16, 2001). Most strata have few wrong facts, so the distribution of the
    estimate is skewed. With these two kinds of limits, the interval misses the share about equally often on both sides.
    f_h = sqrt((N_h - n_h) / (N_h - 1)) is the correction for a finite population. The interval does not assume that the
    probabilities by which the strata were made are right. docs/how-to/audit-stored-facts.md has its coverage.

    Raises InputError if a stratum has no label, or more labels than facts.
    """
    n = np.bincount(strata, minlength=len(counts))
    if (n == 0).any():
        empty = ", ".join(str(h + 1) for h in np.flatnonzero(n == 0))
        raise InputError(f"no fact of stratum {empty} is labelled: label at least one fact of every stratum")
    if (n > counts).any():
        raise InputError("a stratum has more labelled facts than facts: the sizes of the strata are wrong")
    x = np.bincount(strata, weights=wrong, minlength=len(counts)).astype(np.float64)
    low, high = _limits(x, n)
    share, weight = x / n, counts / counts.sum() * np.sqrt((counts - n) / np.maximum(counts - 1, 1))
    value = float(counts @ share / counts.sum())
    below, above = (float(np.sqrt(((weight * gap) ** 2).sum())) for gap in (share - low, high - share))
    return Share(value, max(value - below, 0.0), min(value + above, 1.0))


def _limits(x: Floats, n: Ints) -> tuple[Floats, Floats]:
    """Return Clopper & Pearson's lower and Jeffreys' upper limits (H,) of shares, from x of n."""
    tail = (1 - CONFIDENCE) / 2
    return lower_limits(x, n, tail), np.where(x < n, beta.ppf(1 - tail, x + 0.5, n - x + 0.5), 1.0)
