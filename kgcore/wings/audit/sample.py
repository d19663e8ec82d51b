"""The share of wrong facts, from planted errors or from labels; the facts to label next, and the file of labels."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.stats import beta, norm

from kgcore.arrays import Bools, Floats, Ints, Probabilities
from kgcore.calibrate.support import CONFIDENCE, lower_limits
from kgcore.data.formats.base import COLUMNS, read_candidates
from kgcore.data.graph import KnowledgeGraph
from kgcore.errors import FitError, InputError, raise_faults
from kgcore.measure.metrics.base import Estimate

TAILS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)  # shares of the planted errors
STRATA = 3  # more strata have too few labels each: the interval is then wider
PROPORTIONAL = 0.5  # share of the labels that is allocated by the sizes of the strata alone
FEWEST = 5  # labels per stratum, unless the stratum has fewer facts
LABEL, STRATUM, FACTS = "label", "stratum", "stratum_facts"
_NEEDED = (*COLUMNS, LABEL, STRATUM, FACTS)


def largest_share(ratios: Floats, planted: Bools) -> Estimate:
    """Estimate the largest share w of wrong facts that the scores allow.

    ratios   (N,) likelihood ratio of each row: see `Ratios`
    planted  (N,) which rows are planted errors; the others are training facts

    Let P be the share of the planted errors whose ratio is at least t, and S the share of the training facts. If wrong
    facts are scored as planted errors are, at least the share w P of the training facts has such a ratio, so

        w <= S / P    for every t.

    The estimate is S / P at the t of TAILS (values of P) with the lowest upper limit. It is near w if nearly all facts
    with the highest ratios are wrong, and too high otherwise. The low end of the interval is 0: right facts may have
    the scores of errors, so all facts may be right (identifiability of the proportion: Blanchard, Lee & Scott,
    "Semi-Supervised Novelty Detection", JMLR 11, 2010, section 6). The high end is the one-sided limit for the ratio of
    two binomial shares, with half added to each number (Walter, Biometrika 62, 1975). The lowest of several limits is
    taken, so the error level is divided by their number (Bonferroni).

    Raises FitError if there are no planted errors or no training facts.
    """
    if not planted.any() or planted.all():
        raise FitError("a share of wrong facts needs planted errors and training facts")
    errors, facts = np.sort(ratios[planted]), np.sort(ratios[~planted])
    best, z = Estimate(1.0, 0.0, 1.0), norm.ppf(1 - (1 - CONFIDENCE) / len(TAILS))
    for tail in TAILS:
        t = errors[len(errors) - max(1, round(tail * len(errors)))]
        a, b = len(facts) - np.searchsorted(facts, t), len(errors) - np.searchsorted(errors, t)
        S, P = (a + 0.5) / (len(facts) + 0.5), (b + 0.5) / (len(errors) + 0.5)  # noqa: N806 (as in the docstring)
        spread = np.sqrt(1 / (a + 0.5) - 1 / (len(facts) + 0.5) + 1 / (b + 0.5) - 1 / (len(errors) + 0.5))
        high = float(S / P * np.exp(z * spread))
        if high < best.high:
            best = Estimate(min(a / len(facts) * len(errors) / b, 1.0), 0.0, high)
    return best


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
    return rng.permutation(np.concatenate(drawn))


def sampled_share(strata: Ints, counts: Ints, wrong: Bools) -> Estimate:
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
    return Estimate(value, max(value - below, 0.0), min(value + above, 1.0))


def _limits(x: Floats, n: Ints) -> tuple[Floats, Floats]:
    """Return Clopper & Pearson's lower and Jeffreys' upper limits (H,) of shares, from x of n."""
    tail = (1 - CONFIDENCE) / 2
    return lower_limits(x, n, tail), np.where(x < n, beta.ppf(1 - tail, x + 0.5, n - x + 0.5), 1.0)


def to_label(graph: KnowledgeGraph, strata: Strata, rows: Ints) -> pa.Table:
    """Return the facts to label as a table of text.

    rows  (m,) their positions among the training facts

    label          empty: the user writes 1 for a true fact and -1 for a wrong one
    stratum        number of the fact's stratum, from 1
    stratum_facts  number of training facts in this stratum

    The table has no probabilities, so that they cannot influence the person who labels.
    """
    table = pa.Table.from_pandas(graph.names_of(graph.train.positives[rows]), preserve_index=False)
    of = strata.of[rows]
    for name, values in ((LABEL, [""] * len(rows)), (STRATUM, of + 1), (FACTS, strata.counts[of])):
        table = table.append_column(name, pa.array([str(value) for value in values], pa.string()))
    return table


@dataclass(frozen=True)
class Labelled:
    """The labels of a stratified sample.

    strata      (m,) the stratum of each labelled fact, from 0
    counts      (H,) number of training facts in each stratum
    wrong       (m,) whether each labelled fact is wrong
    unlabelled  number of facts of the file without a label
    """

    strata: Ints
    counts: Ints
    wrong: Bools
    unlabelled: int


def read_labelled(path: Path, graph: KnowledgeGraph) -> Labelled:
    """Read a file that `to_label` made and a user has filled in.

    graph  the graph whose training facts the file samples

    Raises InputError if the file cannot be read or lacks a column, for other labels than 1, -1 and none, for a fact
    that is not a training fact or is there twice, and if the strata are not those of this graph.
    """
    frame = pd.concat([block.names.to_pandas() for block in read_candidates(path)] or [pd.DataFrame(columns=_NEEDED)])
    missing = [name for name in _NEEDED if name not in frame.columns]
    if missing:
        raise InputError(f"{path} has no column {', '.join(missing)}: use the file that `kgcal audit --sample` wrote")
    frame = frame.set_index(np.arange(2, len(frame) + 2))  # line numbers: the first line names the columns
    frame[LABEL] = frame[LABEL].fillna("").astype(str).str.strip()
    other = ~frame[LABEL].isin(["1", "-1", ""])
    faults = [
        f"{path}, row {row}: the label is {frame[LABEL][row]!r}: it must be 1, -1 or empty"
        for row in frame.index[other]
    ]
    triples, known = graph.number(frame)
    known[known] = graph.index(graph.train.positives).contains(triples[known])
    faults += [f"{path}, row {row}: this is no training fact of {graph.name}" for row in frame.index[~known]]
    faults += [f"{path}, row {row}: this fact is there twice" for row in frame.index[frame.duplicated(list(COLUMNS))]]
    raise_faults(faults)
    counts = _counts(path, frame, len(graph.train.positives))
    given = frame[frame[LABEL] != ""]
    strata = given[STRATUM].astype(np.int64).to_numpy() - 1
    return Labelled(strata, counts, (given[LABEL] == "-1").to_numpy(), len(frame) - len(given))


def _counts(path: Path, frame: pd.DataFrame, facts: int) -> Ints:
    """Return the number of facts of each stratum. Raises InputError if they do not sum to `facts`."""
    sizes = frame[[STRATUM, FACTS]].drop_duplicates()
    try:
        numbers = sizes.astype(np.int64).sort_values(STRATUM)
    except (ValueError, TypeError):
        raise InputError(f"{path}: the columns {STRATUM} and {FACTS} must be whole numbers") from None
    strata = numbers[STRATUM].tolist()
    if strata != list(range(1, len(strata) + 1)) or numbers[FACTS].sum() != facts:
        raise InputError(
            f"{path}: the strata have {numbers[FACTS].sum():,} facts, and the graph has {facts:,} training facts: keep "
            "all rows of the file that `kgcal audit --sample` wrote for this graph"
        )
    return numbers[FACTS].to_numpy(dtype=np.int64)
