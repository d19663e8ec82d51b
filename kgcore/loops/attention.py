"""Attention over the neighbours of entities, compiled by Numba for the CPU: see kgcore/models/attention.py.

The triples are ordered by object: those of object o are triples [starts[o], starts[o + 1]), with subjects s (n,) and
predicates p (n,). Rows hold the k numbers of each head, one head after the other: (E, heads k). Each object, and in
`gradients_of_subjects` each subject, is one entity of [start, stop), so parts may run in several threads.
"""

import numpy as np

from kgcore.loops.compiled import Array, exact_part, loop, part
from kgcore.loops.prefetch import AHEAD, prefetch
from kgcore.loops.rows import ZERO, Numbers

SLOPE = np.float32(0.2)  # of leaky_relu below 0


@exact_part
def _logit(of_o: Array, of_s: Array, of_p: Array, o: int, s: int, p: int, head: int) -> np.float32:
    """Return the logit of a triple before leaky_relu."""
    total: np.float32 = of_o[o, head] + of_s[s, head] + of_p[p, head]
    return total


@part
def _softmax(values: Array, head: int, first: int, last: int) -> None:
    """Replace logits [first, last) of a head, at least one, by their softmax."""
    largest, total = values[first, head], ZERO
    for j in range(first, last):
        largest = max(largest, values[j, head])
    for j in range(first, last):
        values[j, head] = np.exp(values[j, head] - largest)
        total += values[j, head]
    for j in range(first, last):
        values[j, head] /= total


@loop
def attend(
    subjects: Array, predicates: Array, of_o: Array, of_s: Array, of_p: Array,
    starts: Numbers, s: Numbers, p: Numbers, shares: Array, found: Array, start: int, stop: int,
) -> None:  # fmt: skip
    """Fill found (E, heads k) with the weighted sums of objects, and shares (n, heads) with the weights.

    subjects, predicates  (E, heads k) and (R, heads k): a triple gives its object the sum of the rows s and p
    of_o, of_s, of_p      (E, heads), (E, heads) and (R, heads): the three terms of a triple's logit
    """
    heads = shares.shape[1]
    k = found.shape[1] // heads
    for o in range(start, stop):
        first, last = starts[o], starts[o + 1]
        found[o] = ZERO
        if first == last:
            continue
        for head in range(heads):
            for j in range(first, last):
                logit = _logit(of_o, of_s, of_p, o, s[j], p[j], head)
                shares[j, head] = logit if logit > ZERO else SLOPE * logit
            _softmax(shares, head, first, last)
        for j in range(first, last):
            if j + AHEAD < len(s):
                prefetch(subjects, s[j + AHEAD])
            subject, predicate = subjects[s[j]], predicates[p[j]]
            for head in range(heads):
                share = shares[j, head]
                for i in range(head * k, head * k + k):
                    found[o, i] += share * (subject[i] + predicate[i])


@loop
def gradients_of_objects(
    subjects: Array, predicates: Array, of_o: Array, of_s: Array, of_p: Array,
    starts: Numbers, s: Numbers, p: Numbers, shares: Array, gradient: Array,
    slopes: Array, to_o: Array, to_p: Array, to_predicates: Array, start: int, stop: int,
) -> None:  # fmt: skip
    """Fill slopes (n, heads) with the gradients of the logits, and to_o (E, heads) with their sums by object.

    gradient             (E, heads k) of the results of `attend`
    to_p, to_predicates  (R, heads) and (R, heads k): these triples' share of the gradients is added
    """
    heads = shares.shape[1]
    k = gradient.shape[1] // heads
    for o in range(start, stop):
        first, last = starts[o], starts[o + 1]
        to_o[o] = ZERO
        for j in range(first, last):
            if j + AHEAD < len(s):
                prefetch(subjects, s[j + AHEAD])
            subject, predicate, of_predicate = subjects[s[j]], predicates[p[j]], to_predicates[p[j]]
            for head in range(heads):
                share, total = shares[j, head], ZERO
                for i in range(head * k, head * k + k):
                    total += gradient[o, i] * (subject[i] + predicate[i])
                for i in range(head * k, head * k + k):
                    of_predicate[i] += share * gradient[o, i]
                slopes[j, head] = total
        for head in range(heads):
            mean = ZERO
            for j in range(first, last):
                mean += shares[j, head] * slopes[j, head]
            for j in range(first, last):
                slope = shares[j, head] * (slopes[j, head] - mean)
                if not _logit(of_o, of_s, of_p, o, s[j], p[j], head) > ZERO:
                    slope *= SLOPE
                slopes[j, head] = slope
                to_o[o, head] += slope
                to_p[p[j], head] += slope


@loop
def gradients_of_subjects(
    starts: Numbers, order: Numbers, objects: Numbers, shares: Array, slopes: Array, gradient: Array,
    to_s: Array, to_subjects: Array, start: int, stop: int,
) -> None:  # fmt: skip
    """Fill to_s (E, heads) and to_subjects (E, heads k) with the gradients of subjects.

    starts, order  the triples of subject s are order[starts[s]:starts[s + 1]]
    objects        (n,) the object of each triple
    slopes         the results of `gradients_of_objects`
    """
    heads = shares.shape[1]
    k = gradient.shape[1] // heads
    for subject in range(start, stop):
        to_s[subject], to_subjects[subject] = ZERO, ZERO
        for place in range(starts[subject], starts[subject + 1]):
            if place + AHEAD < len(order):
                prefetch(gradient, objects[order[place + AHEAD]])
            j = order[place]
            row = gradient[objects[j]]
            for head in range(heads):
                share = shares[j, head]
                to_s[subject, head] += slopes[j, head]
                for i in range(head * k, head * k + k):
                    to_subjects[subject, i] += share * row[i]
