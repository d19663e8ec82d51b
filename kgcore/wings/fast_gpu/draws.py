"""The order of an epoch and the corruptions of its steps, drawn on the device that trains.

Random numbers are a function of the seed, of what they are for, of the step and of their place in it. They need neither
a generator nor an order in which they are drawn: many steps are drawn at once, a CPU draws the same ones as a GPU, and
a training that goes on from a checkpoint draws those of an uninterrupted one. They have the distribution of
`StepCorruptions`, but are other numbers.

Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
"""

from dataclasses import dataclass, replace
from math import prod

import numpy as np
import torch
from torch import Tensor

from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import OBJECT, SUBJECT
from kgcore.embed.corruptions.typed import Typed
from kgcore.embed.corruptions.uniform import Uniform
from kgcore.embed.training.batches import Batches, StepCorruptions, fill_last_chunk

GAMMA, FACTORS = -0x61C8864680B583EB, (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)  # of SplitMix64, as signed numbers
BITS = 31  # of a random number: its product with a number of entities fits into 63 bits
ORDER, CHUNKS, LEFT_OVER, KINDS, COUNTS = range(5)  # what numbers are for
ENTITIES, PARTS = {SUBJECT: 5, OBJECT: 6}, {SUBJECT: 7, OBJECT: 8}


def mixed(numbers: Tensor) -> Tensor:
    """Return SplitMix64's mix of 64-bit numbers: each bit of the result depends on every bit of the number.

    Steele, Lea & Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014, figure 15.
    """
    for bits, factor in zip((30, 27), FACTORS, strict=True):
        numbers = (numbers ^ _shifted(numbers, bits)) * factor
    return numbers ^ _shifted(numbers, 31)


def _shifted(numbers: Tensor, bits: int) -> Tensor:
    """Return unsigned 64-bit numbers divided by 2^bits. PyTorch's shift keeps the sign."""
    return (numbers >> bits) & ((1 << (64 - bits)) - 1)


@dataclass(frozen=True)
class Counters:
    """Random numbers of a training by counter.

    key  hash of the seed
    """

    key: int

    @staticmethod
    def of(seed: int) -> "Counters":
        """Return the numbers of a seed. Seeds are equal modulo 2^63."""
        return Counters(int(mixed(torch.tensor((seed + 1) % 2**63) * GAMMA)))

    def draw(self, purpose: int, steps: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Return independent random numbers, uniform in 0, ..., 2^BITS - 1: (n, *shape), int64.

        purpose  what they are for, from 0
        steps    (n,) the step of each
        """
        return _shifted(self._hashes(purpose, steps, shape), 64 - BITS)

    def order(self, purpose: int, epoch: int, rows: Tensor) -> Tensor:
        """Return the rows (n, ...) in the random order of an epoch."""
        return rows[torch.argsort(self._hashes(purpose, torch.tensor([epoch], device=rows.device), (len(rows),))[0])]

    def _hashes(self, purpose: int, steps: Tensor, shape: tuple[int, ...]) -> Tensor:
        keys = mixed(mixed(steps * GAMMA + self.key) + purpose)
        places = torch.arange(1, prod(shape) + 1, device=steps.device)
        # The keys first: torch.compile takes a product of places for an index of 32 bits, and then fails on a GPU
        return mixed((keys[:, None] + places) * GAMMA).view(len(steps), *shape)


@dataclass(frozen=True)
class Steps:
    """Steps of one shape.

    rows   (n, b) the rows of their positives, in whole chunks
    chunk  number of positives that share their corruptions
    count  number of positives of a step that count; the others fill the last chunk
    """

    rows: Tensor
    chunk: int
    count: int

    def cut(self, first: int) -> tuple["Steps", "Steps"]:
        """Return the first steps and the others."""
        return replace(self, rows=self.rows[:first]), replace(self, rows=self.rows[first:])


class DrawnSteps:
    """The steps of a training: their positives and corruptions, drawn on a device."""

    def __init__(
        self, graph: KnowledgeGraph, corruptions: StepCorruptions, batches: Batches, seed: int, device: torch.device
    ) -> None:
        self._counters, self._device, self._batches = Counters.of(seed), device, batches
        self._triples = torch.from_numpy(graph.train.triples).to(device)
        self._entities, self._eta = len(graph.entities), corruptions.eta
        self._inverse, self._by_chunk = corruptions.inverse, corruptions.by_chunk
        self._shares = torch.from_numpy(corruptions.shares).to(device)
        self.most = corruptions.most
        parts = corruptions.strategy.parts
        self._is_typed = torch.tensor([isinstance(part, Typed) for part in parts], device=device)
        self._ends = torch.from_numpy(corruptions.strategy.ends[:-1]).to(device)
        self._seen = {
            column: torch.from_numpy(part.seen[column]).to(device)
            for part in parts
            if isinstance(part, Typed)
            for column in (SUBJECT, OBJECT)
        }
        whole = batches.whole()
        self._whole = None if whole is None else torch.from_numpy(whole).to(device)

    @staticmethod
    def can_draw(corruptions: StepCorruptions) -> bool:
        """Return whether a device can draw the corruptions of a training: uniform or typed ones, known facts kept."""
        return not corruptions.filtered and all(type(part) in (Uniform, Typed) for part in corruptions.strategy.parts)

    def epoch(self, number: int) -> tuple[list[Steps], list[int]]:
        """Return the steps of an epoch by shape, and the shape of each step in their order."""
        size, chunk = self._batches.size, self._batches.chunk
        order = self._counters.order(ORDER, number, torch.arange(len(self._triples), device=self._device))
        if self._whole is None:
            shapes = self._cut(order, size, chunk)
            return shapes, [kind for kind, steps in enumerate(shapes) for _ in steps.rows]
        order = order[torch.argsort(self._triples[order, 1], stable=True)]
        chunks = self._counters.order(CHUNKS, number, order[self._whole].view(-1, chunk)).flatten()
        left_over = self._counters.order(LEFT_OVER, number, order[~self._whole])
        shapes = self._cut(chunks, size, chunk) + self._cut(left_over, size, 1)
        kinds = torch.tensor([kind for kind, steps in enumerate(shapes) for _ in steps.rows])
        shuffled: list[int] = self._counters.order(KINDS, number, kinds).tolist()
        return shapes, shuffled

    @staticmethod
    def _cut(order: Tensor, size: int, chunk: int) -> list[Steps]:
        """Cut rows (n,) into steps of `size`; the last one may be shorter."""
        full = len(order) // size * size
        parts = [part for part in (order[:full].view(-1, size), order[None, full:]) if part.numel()]
        made = []
        for part in parts:
            places, chunk_here = fill_last_chunk(np.arange(part.shape[1])[:, None], chunk)
            filled = part[:, torch.from_numpy(places[:, 0]).to(order.device)]
            made.append(Steps(filled, chunk_here, part.shape[1]))
        return made

    def draw(self, rows: Tensor, chunk: int, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Draw the corruptions of steps.

        rows     (n, b) and `chunk`: see `Steps`
        numbers  (n,) of the steps, from 1

        Returns the ids (n, m) and the mask (n, b, n') of each step, as `RecordedStep.step` reads them.
        """
        positives = self._triples[rows]
        leaders = positives[:, ::chunk]
        expected = self._eta * self._shares[leaders[..., 1]]
        tossed = self._counters.draw(COUNTS, numbers, (leaders.shape[1] if self._by_chunk else 1,)) / 2**BITS
        on_subject = torch.floor(expected + tossed).long()
        counts = {SUBJECT: on_subject, OBJECT: self._eta - on_subject}
        if self._inverse:
            counts = {SUBJECT: torch.zeros_like(on_subject), OBJECT: counts[OBJECT].clamp(min=1)}
        drawn = {column: self._replacements(leaders, column, most, numbers) for column, most in self.most.items()}
        s, p, o = positives.unbind(2)
        ids = torch.cat([s, o, drawn[SUBJECT].flatten(1), drawn[OBJECT].flatten(1), p], 1)
        masks = []
        for column in (OBJECT, SUBJECT):
            entities = drawn[column]
            own = positives[..., column].reshape(len(positives), -1, chunk)[..., None] == entities[:, :, None]
            unneeded = torch.arange(entities.shape[2], device=self._device) >= counts[column][..., None]
            masks.append((own | unneeded[:, :, None]).flatten(1, 2))
        return ids, torch.cat(masks, 2)

    def _replacements(self, leaders: Tensor, column: int, count: int, numbers: Tensor) -> Tensor:
        """Return the entities (n, c, count) that replace the `column` of the leaders (n, c, 3) of chunks."""
        shape = (leaders.shape[1], count)
        made = self._counters.draw(ENTITIES[column], numbers, shape)
        uniform = _below(made, self._entities - 1)
        uniform = uniform + (uniform >= leaders[..., column, None])
        if column not in self._seen:
            return uniform
        typed = self._typed(self._seen[column], leaders, column, made, uniform)
        tossed = self._counters.draw(PARTS[column], numbers, (1,)) / 2**BITS
        ends = torch.floor(self._ends * count + tossed + 1e-9)  # of each strategy's share of the draws
        part = (torch.arange(count, device=self._device)[:, None] >= ends[:, None]).sum(-1)
        return torch.where(self._is_typed[part][:, None], typed, uniform)

    def _typed(self, seen: Tensor, leaders: Tensor, column: int, made: Tensor, uniform: Tensor) -> Tensor:
        """Return an entity of the predicate's domain or range for each random number, as `Typed` draws them."""
        start = leaders[..., 1] * self._entities
        own = start + leaders[..., column]
        first, beyond, place = (torch.searchsorted(seen, keys) for keys in (start, start + self._entities, own))
        held = seen[place.clamp(max=len(seen) - 1)] == own
        others = beyond - first - held.long()
        chosen = first[..., None] + _below(made, others[..., None])
        chosen = chosen + ((chosen >= place[..., None]) & held[..., None])
        entities = seen[chosen.clamp(max=len(seen) - 1)] - start[..., None]
        return torch.where((others == 0)[..., None], uniform, entities)


def _below(made: Tensor, limit: int | Tensor) -> Tensor:
    """Return random numbers in 0, ..., limit - 1. Their chances differ by less than limit / 2^BITS of each."""
    return (made * limit) >> BITS
