"""Losses and their gradients in one loop over the scores of some positives; the LP penalty.

PyTorch computes a loss in a dozen passes over the scores, forward and backward. `kgcore/embed/losses` has the plain
form of each loss.

Each function of a loss takes the scores f(t+) (b,) and f(t-) (b, n) and the mask of the corruptions that the loss
ignores (b, n), fills the gradients of both, and returns the loss. A number that is not finite stays in the loss.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Bools
from kgcore.loops.compiled import Array, exact_part, loop, part

LOG2_E, LEAST = np.float32(1.4426950408889634), np.float32(-126)  # 2^-126 is the least normal float32
# ln(2)^i / i!: the Taylor series of 2^x, within 1.3e-7 of it for |x| <= 1/2
P1, P2, P3 = np.float32(0.6931471805599453), np.float32(0.2402265069591007), np.float32(0.05550410866482158)
P4, P5, P6 = np.float32(0.009618129107628477), np.float32(0.0013333558146428443), np.float32(0.00015403530393381608)
ZERO, HALF, ONE, TWO = np.float32(0), np.float32(0.5), np.float32(1), np.float32(2)
L3, L5, L7 = np.float32(1 / 3), np.float32(1 / 5), np.float32(1 / 7)
L9, L11 = np.float32(1 / 9), np.float32(1 / 11)


@part
def exponentials(x: Array, out: Array, exponents: npt.NDArray[np.int32]) -> None:
    """Fill out (n,) with exp(x), x (n,) at most 0: in loops without calls, which work on many numbers at a time."""
    for j in range(len(x)):
        y = x[j] * LOG2_E
        y = LEAST if y < LEAST else y
        whole = np.floor(y + HALF)
        f = y - whole
        out[j] = ONE + f * (P1 + f * (P2 + f * (P3 + f * (P4 + f * (P5 + f * P6)))))
        exponents[j] = (np.int32(whole) + 127) << 23  # the bits of 2^whole
    powers = exponents.view(np.float32)
    for j in range(len(x)):
        out[j] *= powers[j]


@part
def log1p(t: Any) -> Any:
    """Return log(1 + t) for t in [0, 1], by the series of 2 atanh(t / (2 + t))."""
    z = t / (TWO + t)
    square = z * z
    return TWO * z * (ONE + square * (L3 + square * (L5 + square * (L7 + square * (L9 + square * L11)))))


@part
def _of_positive(x: Any) -> tuple[Any, Any]:
    """Return softplus(-x) = log(1 + exp(-x)), and its derivative."""
    t = np.exp(-abs(x))
    return (ZERO if x > ZERO else -x) + np.log1p(t), -(t if x > ZERO else ONE) / (ONE + t)


@part
def _self_adversarial(
    positives: Array, corruptions: Array, left_out: Bools, margin: float, alpha: float, of_positives: Array,
    of_corruptions: Array,
) -> float:  # fmt: skip
    """See kgcore/embed/losses/self_adversarial.py."""
    n, total = corruptions.shape[1], 0.0
    shift, heat = np.float32(margin), np.float32(alpha)
    x, weights, t = np.empty(n, np.float32), np.empty(n, np.float32), np.empty(n, np.float32)
    bits = np.empty(n, np.int32)
    for i in range(len(positives)):
        loss, gradient = _of_positive(shift + positives[i])
        of_positives[i] = gradient
        largest = np.float32(-np.inf)
        for j in range(n):
            f = heat * corruptions[i, j]
            x[j] = f
            largest = f if f > largest and not left_out[i, j] else largest
        largest = largest if largest > -np.inf else ZERO  # all corruptions are left out
        for j in range(n):
            x[j] = ZERO if x[j] > largest else x[j] - largest  # a corruption that is left out may be larger
        exponentials(x, weights, bits)
        weight = ZERO
        for j in range(n):
            weights[j] = ZERO if left_out[i, j] else weights[j]
            weight += weights[j]
        scale = ONE / weight if weight != ZERO else ZERO
        for j in range(n):
            x[j] = -abs(corruptions[i, j] + shift)
        exponentials(x, t, bits)
        of_row = ZERO
        for j in range(n):
            f, w = corruptions[i, j] + shift, weights[j] * scale
            of_row += w * ((ZERO if f < ZERO else f) + log1p(t[j]))
            of_corruptions[i, j] = w * (t[j] if f < ZERO else ONE) / (ONE + t[j])
        total += loss + of_row
    return total


@part
def _nll(positives: Array, corruptions: Array, left_out: Bools, of_positives: Array, of_corruptions: Array) -> float:
    """See kgcore/embed/losses/nll.py."""
    n, total = corruptions.shape[1], 0.0
    x, t, bits = np.empty(n, np.float32), np.empty(n, np.float32), np.empty(n, np.int32)
    for i in range(len(positives)):
        loss, gradient = _of_positive(positives[i])
        of_positives[i] = gradient
        for j in range(n):
            x[j] = -abs(corruptions[i, j])
        exponentials(x, t, bits)
        of_row = ZERO
        for j in range(n):
            f, counts = corruptions[i, j], ZERO if left_out[i, j] else ONE
            of_row += counts * ((ZERO if f < ZERO else f) + log1p(t[j]))
            of_corruptions[i, j] = counts * (t[j] if f < ZERO else ONE) / (ONE + t[j])
        total += loss + of_row
    return total


@part
def _multiclass_nll(
    positives: Array, corruptions: Array, left_out: Bools, of_positives: Array, of_corruptions: Array
) -> float:
    """See kgcore/embed/losses/multiclass_nll.py."""
    n, total = corruptions.shape[1], 0.0
    x, t, bits = np.empty(n, np.float32), np.empty(n, np.float32), np.empty(n, np.int32)
    for i in range(len(positives)):
        largest = positives[i]
        for j in range(n):
            f = corruptions[i, j]
            x[j] = f
            largest = f if f > largest and not left_out[i, j] else largest
        for j in range(n):
            x[j] = ZERO if x[j] > largest else x[j] - largest
        exponentials(x, t, bits)
        own = np.exp(positives[i] - largest)
        weight = own
        for j in range(n):
            t[j] = ZERO if left_out[i, j] else t[j]
            weight += t[j]
        for j in range(n):
            of_corruptions[i, j] = t[j] / weight
        of_positives[i] = own / weight - ONE
        total += np.log(weight) + largest - positives[i]
    return total


@part
def _pairwise(
    positives: Array, corruptions: Array, left_out: Bools, margin: float, of_positives: Array, of_corruptions: Array
) -> float:
    """See kgcore/embed/losses/pairwise.py."""
    n, total = corruptions.shape[1], 0.0
    for i in range(len(positives)):
        least, of_row, above = np.float32(margin) - positives[i], ZERO, ZERO
        for j in range(n):
            lost = least + corruptions[i, j]
            counts = ZERO if lost <= ZERO or left_out[i, j] else ONE
            of_row += counts * lost
            above += counts
            of_corruptions[i, j] = counts
        of_positives[i] = -above
        total += float(of_row)
    return total


LOSSES = ("self_adversarial", "nll", "multiclass_nll", "pairwise")  # in the order of their numbers


@part
def _loss_of(
    number: int, constants: tuple[float, float], positives: Array, corruptions: Array, left_out: Bools,
    of_positives: Array, of_corruptions: Array,
) -> float:  # fmt: skip
    """Return the loss of that number, and fill its gradients. A loss takes as many constants as it has."""
    first, second = constants
    if number == 0:
        return _self_adversarial(positives, corruptions, left_out, first, second, of_positives, of_corruptions)
    if number == 1:
        return _nll(positives, corruptions, left_out, of_positives, of_corruptions)
    if number == 2:
        return _multiclass_nll(positives, corruptions, left_out, of_positives, of_corruptions)
    return _pairwise(positives, corruptions, left_out, first, of_positives, of_corruptions)


@exact_part
def _copy(source: Array, target: Array) -> None:
    for j in range(len(source)):
        target[j] = source[j]


@loop
def loss_of_sides(
    loss: int, terms: tuple[float, float], apart: bool, own: Array, objects: Array, subjects: Array, left_out: Bools,
    of_own: Array, of_objects: Array, of_subjects: Array,
) -> float:  # fmt: skip
    """Return the loss of the first positives of a chunk, as many as `left_out` has rows, and fill all gradients.

    loss, terms             the number of the loss in LOSSES, and its constants
    apart                   whether each side has a separate loss
    own, objects, subjects  the scores of positives (c,), and of their corruptions (c, n) and (c, m)
    """
    used, n, width = len(left_out), objects.shape[1], left_out.shape[1]
    total, of_side = 0.0, np.zeros(used, np.float32)
    of_own[:], of_objects[:], of_subjects[:] = ZERO, ZERO, ZERO
    for side in range(2 if apart else 1):  # the sides as one matrix, or each for itself
        begin, end = (side * n, width if side else n) if apart else (0, width)
        if apart and begin == end:  # a side without corruptions has no loss
            continue
        middle = min(max(n, begin), end)  # objects are before it, subjects after it
        scores, gradient = np.empty((used, end - begin), np.float32), np.empty((used, end - begin), np.float32)
        mask = np.ascontiguousarray(left_out[:, begin:end]) if apart else left_out
        for i in range(used):
            _copy(objects[i, begin:middle], scores[i, : middle - begin])
            _copy(subjects[i, middle - n : end - n], scores[i, middle - begin :])
        total += _loss_of(loss, terms, own[:used], scores, mask, of_side, gradient)
        for i in range(used):
            of_own[i] += of_side[i]
            _copy(gradient[i, : middle - begin], of_objects[i, begin:middle])
            _copy(gradient[i, middle - begin :], of_subjects[i, middle - n : end - n])
    return total


@part
def penalise(weight: float, power: float, row: Array, of_row: Array) -> None:
    """Add the gradient of weight * sum_i |x_i|^power of a row. power is 2 or 3."""
    scale = np.float32(weight * power)
    for j in range(len(row)):
        of_row[j] += scale * row[j] * (abs(row[j]) if power == 3 else np.float32(1))
