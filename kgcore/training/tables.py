"""The tables that training changes, the rows that a step takes from them, and their encoding."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from kgcore.adam import RowAdam
from kgcore.arrays import Floats, Ints
from kgcore.graph import KnowledgeGraph
from kgcore.models.base import Embeddings, GraphModel, Model


@dataclass(frozen=True)
class Leaf:
    """Rows of a table that a step differentiates and updates.

    numbers  (r,) positions of the rows in the table, all distinct
    values   (r, d) values of these rows, a leaf of the gradient
    """

    table: RowAdam
    numbers: Tensor
    values: Tensor

    def update(self, gradient: Tensor, step: int, learning_rate: float) -> None:
        """Move the rows by Adam. `gradient` is (r, d); `step` counts from 1."""
        self.table.step(self.numbers, gradient, step, learning_rate)


class Tables:
    """The embeddings of entities and predicates and the model's shared numbers, each table with its Adam moments.

    Embeddings start uniform in [-scale, scale] times `initial_scale`. The model defines `scale`.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        model: Model,
        initial_scale: float,
        device: torch.device,
        rng: np.random.Generator,
    ) -> None:
        def table(start: Floats) -> RowAdam:
            return RowAdam(torch.from_numpy(start.astype(np.float32)).to(device))

        def uniform(rows: int, width: int, scale: float) -> Floats:
            limit = initial_scale * scale
            return rng.uniform(-limit, limit, (rows, width))

        predicate_scale = model.scale if model.predicate_scale is None else model.predicate_scale
        self._device = device
        self.entities = table(uniform(len(graph.entities), model.entity_width, model.scale))
        self.predicates = table(uniform(len(graph.predicates), model.predicate_width, predicate_scale))
        self.shared = {name: table(start) for name, start in model.initial_shared(rng).items()}
        self._encoder = model if isinstance(model, GraphModel) else None
        self._facts = torch.from_numpy(graph.train.triples).to(device) if self._encoder else None

    def take(self, table: RowAdam, ids: Ints) -> tuple[Leaf, Tensor]:
        """The rows of `table` that a step needs for the ids (n,), and the place (n,) of each id among these rows.

        These rows are the distinct ids, sorted. If the model encodes, they are all rows: the encoding depends on each.
        """
        wanted = torch.from_numpy(ids).to(self._device)
        if self._encoder:
            numbers, places = torch.arange(len(table.table), device=self._device), wanted
        else:
            numbers, places = torch.unique(wanted, return_inverse=True)
        return Leaf(table, numbers, table.table.index_select(0, numbers).requires_grad_()), places

    def take_shared(self) -> dict[str, Leaf]:
        """All shared numbers, by name."""
        return {
            name: Leaf(table, torch.arange(len(table.table), device=self._device), table.table.clone().requires_grad_())
            for name, table in self.shared.items()
        }

    def encode(self, shared: Mapping[str, Tensor], entities: Tensor, predicates: Tensor) -> tuple[Tensor, Tensor]:
        """The embeddings that the model scores: the given ones, or their encoding if the model encodes."""
        if self._encoder is None or self._facts is None:
            return entities, predicates
        return self._encoder.bound(shared).encode(entities, predicates, self._facts)

    def embeddings(self) -> Embeddings:
        """The tables as they are now, encoded, on the CPU."""
        shared = {name: table.table for name, table in self.shared.items()}
        with torch.no_grad():
            entities, predicates = self.encode(shared, self.entities.table, self.predicates.table)
        return Embeddings(entities, predicates, shared).to(torch.device("cpu"))

    def by_name(self) -> dict[str, RowAdam]:
        """All tables by the names that checkpoints use."""
        shared = {f"shared.{name}": table for name, table in self.shared.items()}
        return {"entities": self.entities, "predicates": self.predicates} | shared
