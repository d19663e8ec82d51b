"""Attention over the neighbours of entities in a graph, with no tensor of n triples by k numbers on the CPU."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from kgcore.arrays import Ints
from kgcore.loops.attention import attend, gradients_of_objects, gradients_of_subjects
from kgcore.loops.compiled import Array, fits_cpu_loops
from kgcore.loops.rows import places_by_row
from kgcore.models import tiles

PARTS = 16  # most parts of the objects whose gradients of predicates are summed apart
SMALL = 256  # fewest entities of a part

Terms = tuple[Tensor, Tensor, Tensor]


def attended(subjects: Tensor, predicates: Tensor, logits: Terms, triples: Tensor) -> Tensor:
    """Return, for each entity o, the sum of alpha (x_s + y_p) over the triples (s, p, o), for each head: (E, heads k).

    alpha is the softmax over the triples of o of leaky_relu(a_o + b_s + c_p), with the slope .2 below 0. An entity that
    is never an object gets 0.

    subjects    x (E, heads k), the k numbers of one head after the other
    predicates  y (R, heads k)
    logits      a (E, heads), b (E, heads), c (R, heads)
    triples     (n, 3)
    """
    if fits_cpu_loops(subjects, predicates):
        found: Tensor = _Attend.apply(subjects, predicates, *logits, triples)  # type: ignore[no-untyped-call]
        return found
    return plain(subjects, predicates, logits, triples)


def plain(subjects: Tensor, predicates: Tensor, logits: Terms, triples: Tensor) -> Tensor:
    """Return what `attended` returns, on any device."""
    (s, p, o), (count, heads) = triples.unbind(1), logits[0].shape
    rows = [term.index_select(0, places) for term, places in zip(logits, (o, s, p), strict=True)]
    logit = leaky_relu(rows[0] + rows[1] + rows[2], 0.2)
    largest = logit.new_full((count, heads), -torch.inf)
    largest = largest.scatter_reduce(0, o.unsqueeze(1).expand_as(logit), logit.detach(), "amax")
    shares = (logit - largest.index_select(0, o)).exp()
    shares = shares / torch.zeros_like(largest).index_add(0, o, shares).index_select(0, o)
    sums = (subjects.index_select(0, s) + predicates.index_select(0, p)).view(len(s), heads, subjects.shape[1] // heads)
    return torch.zeros_like(subjects).index_add(0, o, (sums * shares.unsqueeze(-1)).flatten(1))


class _Attend(torch.autograd.Function):
    """The sums of `attended`, by loops."""

    @staticmethod
    def forward(
        ctx: Any, subjects: Tensor, predicates: Tensor, of_o: Tensor, of_s: Tensor, of_p: Tensor, triples: Tensor
    ) -> Tensor:
        starts, order = _places(triples[:, 2].numpy(), len(subjects))
        ordered = triples.numpy()[order]
        shares, found = torch.empty(len(order), of_o.shape[1]), torch.empty(subjects.shape)
        given = [tensor.detach().contiguous() for tensor in (subjects, predicates, of_o, of_s, of_p)]
        arrays = _arrays(*given)
        s, p = (np.ascontiguousarray(ordered[:, column]) for column in (0, 1))
        last = (starts, s, p, shares.numpy(), found.numpy())
        tiles.share(lambda start, stop: attend(*arrays, *last, start, stop), len(subjects), SMALL)
        ctx.save_for_backward(*given, shares)
        ctx.starts, ctx.ordered, ctx.columns = starts, ordered, (s, p)
        return found

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        subjects, predicates, of_o, of_s, of_p, shares = ctx.saved_tensors
        arrays = _arrays(subjects, predicates, of_o, of_s, of_p)
        (s, p), own, slopes = ctx.columns, gradient.contiguous().numpy(), torch.empty(shares.shape)
        parts = max(1, min(PARTS, len(shares) // len(predicates)))
        ends = np.searchsorted(ctx.starts, np.linspace(0, len(shares), parts + 1)[1:-1])
        bounds = [0, *ends.tolist(), len(subjects)]
        to_o, to_s, to_subjects = (torch.empty(tensor.shape) for tensor in (of_o, of_s, subjects))
        to_p, to_predicates = (torch.zeros(parts, *tensor.shape) for tensor in (of_p, predicates))
        known = (ctx.starts, s, p, shares.numpy(), own, slopes.numpy(), to_o.numpy())

        def of_part(start: int, stop: int) -> None:
            for part in range(start, stop):
                into = to_p[part].numpy(), to_predicates[part].numpy()
                gradients_of_objects(*arrays, *known, *into, bounds[part], bounds[part + 1])

        tiles.share(of_part, parts)
        places = _places(np.ascontiguousarray(ctx.ordered[:, 0]), len(subjects))
        objects = np.ascontiguousarray(ctx.ordered[:, 2])
        given = (*places, objects, shares.numpy(), slopes.numpy(), own, to_s.numpy(), to_subjects.numpy())
        tiles.share(lambda start, stop: gradients_of_subjects(*given, start, stop), len(subjects), SMALL)
        return to_subjects, to_predicates.sum(0), to_o, to_s, to_p.sum(0), None


def _arrays(x: Tensor, y: Tensor, a: Tensor, b: Tensor, c: Tensor) -> tuple[Array, Array, Array, Array, Array]:
    return x.numpy(), y.numpy(), a.numpy(), b.numpy(), c.numpy()


def _places(ids: Ints, count: int) -> tuple[Ints, Ints]:
    """Return starts (count + 1,) and order (n,): the places of id i are order[starts[i]:starts[i + 1]]."""
    starts, order = np.empty(count + 1, dtype=np.int64), np.empty(len(ids), dtype=np.int64)
    places_by_row(np.ascontiguousarray(ids), np.full(count, -1, dtype=np.int32), np.arange(count), starts, order)
    return starts, order
