"""The tables of embeddings that training changes, the rows that a step takes, and the graph that encodes them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kgcore.arrays import Ints
from kgcore.graph import KnowledgeGraph
from kgcore.models.base import Embeddings, GraphModel, Model
from kgcore.optimisers.base import RowOptimiser

DRAWN = 2**14  # rows of a table that are drawn at a time


@dataclass(frozen=True)
class Leaf:
    """Rows of a table that a step differentiates and updates.

    numbers  (r,) indices of the rows in the table, all distinct
    values   (r, d) values of these rows, a leaf tensor of autograd
    """

    table: RowOptimiser
    numbers: Tensor
    values: Tensor

    def update(self, gradient: Tensor, step: int, learning_rate: float) -> None:
        """Update the rows. `gradient` is (r, d); `step` counts from 1."""
        self.table.step(self.numbers, gradient, step, learning_rate)


class Tables:
    """The embeddings of entities and predicates, and the model's shared parameters. Each table has an optimiser.

    Shared parameters belong to no single entity or predicate. The initial embeddings are uniform in [-a, a], where a is
    `initial_scale` times the scale that the model defines.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        model: Model,
        initial_scale: float,
        optimiser: type[RowOptimiser],
        device: torch.device,
        rng: np.random.Generator,
    ) -> None:
        def table(start: npt.NDArray[Any]) -> RowOptimiser:
            return optimiser(torch.from_numpy(start.astype(np.float32, copy=False)).to(device))

        def uniform(rows: int, width: int, scale: float) -> npt.NDArray[np.float32]:
            limit, start = initial_scale * scale, np.empty((rows, width), dtype=np.float32)
            for first in range(0, rows, DRAWN):  # the float64 numbers of all rows would take twice the table's memory
                part = start[first : first + DRAWN]
                part[:] = rng.uniform(-limit, limit, part.shape)
            return start

        predicate_scale = model.scale if model.predicate_scale is None else model.predicate_scale
        self._device = device
        self.entities = table(uniform(len(graph.entities), model.entity_width, model.scale))
        self.predicates = table(uniform(len(graph.predicates), model.predicate_width, predicate_scale))
        self.shared = {name: table(start) for name, start in model.initial_shared(rng).items()}
        self._encoder = model if isinstance(model, GraphModel) else None
        self._facts = torch.from_numpy(graph.train.triples).to(device) if self._encoder else None

    def take(self, table: RowOptimiser, ids: Ints) -> tuple[Leaf, Tensor]:
        """Take the rows of `table` that a step needs for the ids (n,). Also return the index (n,) of each id in them.

        The rows are those of the distinct ids, sorted. If the model encodes the graph, they are all rows of the table,
        because the encoding depends on each of them.
        """
        wanted = torch.from_numpy(ids).to(self._device)
        if self._encoder:
            numbers, places = torch.arange(len(table.table), device=self._device), wanted
        else:
            numbers, places = torch.unique(wanted, return_inverse=True)
        return Leaf(table, numbers, table.table.index_select(0, numbers).requires_grad_()), places

    def take_shared(self) -> dict[str, Leaf]:
        """Return name -> leaf of each shared parameter, with all its rows."""
        return {
            name: Leaf(table, torch.arange(len(table.table), device=self._device), table.table.clone().requires_grad_())
            for name, table in self.shared.items()
        }

    def encode(
        self, shared: Mapping[str, Tensor], entities: Tensor, predicates: Tensor, wanted: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the embeddings of entities and predicates that the model scores.

        These are the encoded embeddings if the model encodes the graph, otherwise the given ones.

        wanted  ids of the entities whose embeddings are needed; those of others may be any numbers. None: all entities
        """
        if self._encoder is None or self._facts is None:
            return entities, predicates
        encoder = self._encoder.bound(shared)
        if wanted is None:
            return encoder.encode(entities, predicates, self._facts)
        rows, triples = around(wanted, encoder.hops, len(entities), self._facts)
        encoded, predicates = encoder.encode(entities.index_select(0, rows), predicates, triples)
        return entities.new_zeros(len(entities), encoded.shape[1]).index_copy(0, rows, encoded), predicates

    def embeddings(self) -> Embeddings:
        """Return the current embeddings on the CPU, encoded if the model encodes the graph."""
        shared = {name: table.table for name, table in self.shared.items()}
        with torch.no_grad():
            entities, predicates = self.encode(shared, self.entities.table, self.predicates.table)
        return Embeddings(entities, predicates, shared).to(torch.device("cpu"))

    def by_name(self) -> dict[str, RowOptimiser]:
        """Return name -> table, with the names that checkpoints use."""
        shared = {f"shared.{name}": table for name, table in self.shared.items()}
        return {"entities": self.entities, "predicates": self.predicates} | shared


def around(wanted: Tensor, hops: int, entities: int, triples: Tensor) -> tuple[Tensor, Tensor]:
    """Return the entities (m,), ascending, and the triples (n', 3) that a `GraphModel` needs to encode the wanted ones.

    Each layer of a model adds to an object something of its subjects. With h layers, an entity sees the subjects that
    are at most h triples away. The result has these, and the triples whose objects are at most h - 1 triples away.

    wanted    ids of entities; some may occur more than once
    hops      h, at least 1
    entities  number of entities of the graph
    triples   (n, 3) the training split; those that are returned keep their order, with positions in m as ids

    The embeddings that a model makes from this part are right for the wanted entities, and only for these.
    """
    s, _, o = triples.unbind(1)
    known = torch.zeros(entities, dtype=torch.bool, device=triples.device)
    known[wanted] = True
    for _ in range(hops - 1):
        known[s[known[o]]] = True
    kept = triples[known[o]]
    known[kept[:, 0]] = True
    found = known.nonzero().squeeze(1)
    position = torch.empty(entities, dtype=torch.int64, device=triples.device)
    position[found] = torch.arange(len(found), device=triples.device)
    return found, torch.stack([position[kept[:, 0]], kept[:, 1], position[kept[:, 2]]], 1)
