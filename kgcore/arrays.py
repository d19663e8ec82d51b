"""Array types, checks of their shapes and values, and folds: random parts of rows.

Triples  (n, 3) int64   columns subject, predicate, object: positions in the graph's vocabularies
Scores   (n,)   float64 any real number, higher = more plausible
Labels   (n,)   float64 1 = true, 0 = false
Weights  (n,)   float64 positive
Probabilities (n,) float64 in [0, 1]
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kgcore.errors import InputError

Triples: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Ints: TypeAlias = npt.NDArray[np.int64]
Scores: TypeAlias = Floats
Labels: TypeAlias = Floats
Weights: TypeAlias = Floats
Probabilities: TypeAlias = Floats


def as_triples(values: Any) -> Triples:
    """Return the values as an (n, 3) int64 array. Raises InputError if the shape is different."""
    array = np.asarray(values, dtype=np.int64)
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


def sorted_distinct(values: Ints) -> Ints:
    """Return the distinct values (n,) in ascending order. numpy.unique hashes integers, which is slower."""
    ordered = np.sort(values)
    kept = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=kept[1:])
    return ordered[kept]


def is_first(values: Ints) -> Bools:
    """Return a mask (n,) of the values (n,), 0 or more, that occur for the first time."""
    places = np.zeros(values.max(initial=-1) + 1, dtype=np.int64)
    places[values[::-1]] = np.arange(len(values))[::-1]  # the last assignment to a place counts
    first: Bools = places[values] == np.arange(len(values))
    return first


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
