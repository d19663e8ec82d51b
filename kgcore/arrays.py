"""Array types, checks of their shapes and values, and folds: random parts of rows.

Triples  (n, 3) int64   columns subject, predicate, object: positions in the graph's vocabularies
Numbers  (n,)   int32 or int64 whole numbers, or rows of them: int32 takes half the memory, and products overflow
Scores   (n,)   float64 any real number, higher = more plausible
Labels   (n,)   float64 1 = true, 0 = false
Weights  (n,)   float64 positive
Probabilities (n,) float64 in [0, 1]
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from kgcore.errors import InputError

Triples: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Ints: TypeAlias = npt.NDArray[np.int64]
Small: TypeAlias = npt.NDArray[np.int32]
Numbers: TypeAlias = npt.NDArray[np.signedinteger[Any]]
Scores: TypeAlias = Floats
Labels: TypeAlias = Floats
Weights: TypeAlias = Floats
Probabilities: TypeAlias = Floats
Kind = TypeVar("Kind", bound=np.generic)
BLOCK = 2**20  # elements that are computed at a time, to bound memory


def as_triples(values: Any) -> Numbers:
    """Return the values as an (n, 3) array of int64; of int32 if they have this type. Raises InputError otherwise."""
    array = np.asarray(values)
    array = array if array.dtype == np.int32 else array.astype(np.int64, copy=False)
    if array.ndim != 2 or array.shape[1] != 3:
        raise InputError(
            f"triples have shape {array.shape}: the shape must be (n, 3), with the columns subject, predicate, object"
        )
    return array


def as_floats(name: str, values: Any, length: int | None = None) -> Floats:
    """Return the values as a float64 array (n,) of finite numbers.

    name    the array's name, for the error message
    length  required n; None = any

    Raises InputError if the shape is different or a number is not finite.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or (length is not None and len(array) != length):
        wanted = f"({length},)" if length is not None else "(n,)"
        raise InputError(f"{name} have shape {array.shape}: it must be {wanted}")
    if not np.isfinite(array).all():
        raise InputError(
            f"{name} hold {int((~np.isfinite(array)).sum())} values that are not finite: all values must be finite"
        )
    return array


def as_labels(values: Any, length: int | None = None) -> Labels:
    """Return the values as labels (n,). Raises InputError if the shape is different or a label is neither 0 nor 1."""
    labels = as_floats("labels", values, length)
    if not np.isin(labels, (0.0, 1.0)).all():
        wrong = labels[~np.isin(labels, (0.0, 1.0))][0]
        raise InputError(f"labels hold {wrong:g}: every label must be 0 (false) or 1 (true)")
    return labels


def as_truth(values: Any, length: int | None = None) -> Probabilities:
    """Return the values as labels or confidences (n,). Raises InputError if one is outside [0, 1]."""
    truth = as_floats("labels", values, length)
    if len(truth) and (truth.min() < 0 or truth.max() > 1):
        wrong = truth[(truth < 0) | (truth > 1)][0]
        raise InputError(f"labels hold {wrong:g}: every label must be 0 (false), 1 (true), or a confidence in between")
    return truth


def as_weights(values: Any | None, length: int) -> Weights:
    """Return the values as weights, or ones if `values` is None. Raises InputError if a weight is not above 0."""
    if values is None:
        return np.ones(length)
    weights = as_floats("weights", values, length)
    if (weights <= 0).any():
        raise InputError(f"weights hold {weights.min():g}: every weight must be above 0")
    return weights


def as_probabilities(values: Any, length: int | None = None) -> Probabilities:
    """Return the values as probabilities. Raises InputError if a value is outside [0, 1]; no value is clipped."""
    array = as_floats("probabilities", values, length)
    if len(array) and (array.min() < 0 or array.max() > 1):
        raise InputError(f"probabilities must be in [0, 1]: found {array.min():g} to {array.max():g}")
    return array


def blocks(length: int, size: int | None = None) -> Iterator[slice]:
    """Yield slices of `size` elements, and a last one of fewer, that cover the positions 0 to `length` - 1.

    size  None: BLOCK
    """
    size = size or BLOCK
    for start in range(0, length, size):
        yield slice(start, min(start + size, length))


def small_type(limit: int) -> type[np.int32] | type[np.int64]:
    """Return the type of integers in [0, limit) that takes less memory: int32 if it holds all of them."""
    return np.int32 if limit <= 2**31 else np.int64


def taken(table: npt.NDArray[Kind], places: Numbers) -> npt.NDArray[Kind]:
    """Return table[places] (n,). NumPy makes int32 positions int64 to look them up: here, block by block."""
    values = np.empty(len(places), dtype=table.dtype)
    for rows in blocks(len(places)):
        values[rows] = table[places[rows]]
    return values


def chosen(values: npt.NDArray[Kind], rows: Bools) -> npt.NDArray[Kind]:
    """Return values[rows] for a mask (n,) of the rows: the array itself, if the mask chooses all of them.

    NumPy makes int64 positions of the mask, if the array has columns: here, block by block.
    """
    if rows.all():
        return values
    found, count = np.empty((int(np.count_nonzero(rows)), *values.shape[1:]), dtype=values.dtype), 0
    for block in blocks(len(values)):
        part = values[block][rows[block]]
        found[count : count + len(part)] = part
        count += len(part)
    return found


def counted(numbers: Numbers, size: int) -> Numbers:
    """Return how often each number in [0, size) occurs in `numbers` (n,): counts (size,)."""
    counts = np.zeros(size, dtype=small_type(len(numbers) + 1))
    for rows in blocks(len(numbers)):
        np.add.at(counts, numbers[rows], 1)
    return counts


def sort_distinct(values: npt.NDArray[Kind], in_runs: bool = False) -> npt.NDArray[Kind]:
    """Sort the values (n,) in place. Return the distinct ones in ascending order, in the memory of the values.

    in_runs  whether the values are likely in ascending order, or a few arrays of this kind: these are only merged
    """
    values.sort(kind="stable" if in_runs else None)
    count = 0
    for rows in blocks(len(values)):
        part = values[rows]
        kept = np.ones(len(part), dtype=bool)
        np.not_equal(part[1:], part[:-1], out=kept[1:])
        if count:  # the last distinct value so far has not been overwritten
            kept[0] = part[0] != values[count - 1]
        part = part[kept]
        values[count : count + len(part)] = part
        count += len(part)
    return values[:count] if 2 * count > len(values) else values[:count].copy()


def sorted_distinct(values: npt.NDArray[Kind]) -> npt.NDArray[Kind]:
    """Return the distinct values (n,) in ascending order. numpy.unique hashes integers, which is slower."""
    return sort_distinct(np.array(values))


def repeated(values: npt.NDArray[Kind]) -> int:
    """Return how many of the values (n,) occur more than once. The values are then in ascending order."""
    values.sort()
    same = values[1:] == values[:-1]
    runs = np.count_nonzero(same[1:] > same[:-1]) + np.count_nonzero(same[:1])
    return int(np.count_nonzero(same) + runs)


def first_places(values: Numbers, size: int) -> Numbers:
    """Return the first position (size,) of each number in [0, size) among the values (n,); n: it does not occur."""
    places = np.full(size, len(values), dtype=small_type(len(values) + 1))
    for rows in reversed([*blocks(len(values))]):
        places[values[rows][::-1]] = np.arange(rows.start, rows.stop)[::-1]  # the last assignment to a place counts
    return places


def is_first(values: Numbers) -> Bools:
    """Return a mask (n,) of the values (n,), 0 or more, that occur for the first time."""
    places = first_places(values, int(values.max(initial=-1)) + 1)
    first: Bools = np.zeros(len(values), dtype=bool)
    first[places[places < len(values)]] = True
    return first


def fill(sizes: Numbers, wanted: float) -> Bools:
    """Choose entries in their order, each if it brings the sum of the sizes (n,) closer to `wanted`: a mask (n,)."""
    filled, total = np.zeros(len(sizes), dtype=bool), 0
    for rows in blocks(len(sizes)):
        sums = total + np.cumsum(sizes[rows], dtype=np.int64)
        filled[rows] = 2 * sums - sizes[rows] < 2 * wanted  # it brings closer, if all entries before it are chosen
        if not filled[rows].all():
            break
        total = int(sums[-1])
    first = len(sizes) if filled.all() else int(np.argmin(filled))
    filled[first:], total = False, int(sizes[:first].sum())
    for rows in blocks(len(sizes)):
        for number in rows.start + np.flatnonzero(~filled[rows] & (sizes[rows] < 2 * (wanted - total))):
            if 2 * total + int(sizes[number]) < 2 * wanted:
                filled[number], total = True, total + int(sizes[number])
    return filled


def same_length(**arrays: Sequence[Any] | npt.NDArray[Any]) -> int:
    """Return the common length of the named arrays. Raises InputError if the lengths differ or are 0."""
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) != 1:
        raise InputError(", ".join(f"{n} has length {v}" for n, v in lengths.items()) + ": the lengths must be equal")
    length = next(iter(lengths.values()))
    if length == 0:
        raise InputError(f"the length of {', '.join(lengths)} is 0: it must be at least 1")
    return length


def draw_folds(groups: Ints, labels: Labels, folds: int, rng: np.random.Generator) -> Ints:
    """Assign each row to a fold at random. Return the fold numbers (n,), 0 to folds - 1.

    groups  (n,) the group number of each row; rows of one group get the same fold
    labels  (n,) 0/1. Groups that contain a positive are spread evenly over the folds, and so are the other groups.
    folds   number of folds, at least 2

    Raises InputError for fewer than 2 folds and for arrays of different lengths.
    """
    if folds < 2:
        raise InputError(f"folds is {folds}: it must be at least 2")
    same_length(groups=groups, labels=labels)
    distinct, place = np.unique(groups, return_inverse=True)
    positive = np.bincount(place, weights=labels, minlength=len(distinct)) > 0
    drawn = rng.permutation(len(distinct))
    order = drawn[np.argsort(positive[drawn], kind="stable")]
    fold = np.empty(len(distinct), dtype=np.int64)
    fold[order] = np.arange(len(distinct)) % folds
    return fold[place]
