"""One training step: draw the corruptions, gather the rows, compute the loss and its gradient, update the rows.

A step works on b positives in chunks of c that share their corruptions. It copies the embeddings that it needs into a
small table, each once, and computes the gradient with respect to that table. Adam then updates only these rows. If the
model encodes the graph, the small table has all rows, and the gradient passes through the encoding.
"""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kgcore.arrays import Ints, Probabilities, Triples
from kgcore.config import TrainConfig
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import OBJECT, SUBJECT
from kgcore.embed.losses.base import Loss
from kgcore.embed.models.base import Embeddings, GraphModel, Model
from kgcore.embed.optimisers.base import RowOptimiser
from kgcore.embed.training.batches import Batches, StepCorruptions, TrainingBatch, fill_last_chunk
from kgcore.embed.training.objective import Gathered, StepLosses, StepObjective, dropout
from kgcore.errors import KgcalWarning, first_line

DRAWN = 2**14  # rows of a table that are drawn at a time
T = TypeVar("T")
Evaluate = Callable[[Mapping[str, Tensor], Gathered, Tensor, int, int], StepLosses]
WholeEpoch = Callable[[int], float]  # number of an epoch, from 1 -> the sum of its losses


@dataclass(frozen=True)
class Leaf:
    """Rows of a table that a step differentiates and updates.

    numbers  (r,) indices of the rows in the table, all distinct
    values   (r, d) values of these rows, a leaf tensor of autograd
    """

    table: RowOptimiser
    numbers: Tensor
    values: Tensor


def scales(model: Model) -> tuple[float, float]:
    """Return the scale a of the initial embeddings of entities, and that of predicates."""
    return model.scale, model.scale if model.predicate_scale is None else model.predicate_scale


def initial_rows(
    config: TrainConfig, rows: int, width: int, scale: float, rng: np.random.Generator, of: int | None = None
) -> npt.NDArray[np.float32]:
    """Draw initial embeddings (rows, width): see `Tables`.

    of  number of rows of the whole table; None: these are all
    """
    limit, start = config.initial_scale * scale, np.empty((rows, width), dtype=np.float32)
    deviation = config.initial_scale * math.sqrt(2 / ((of or rows) + width))
    for first in range(0, rows, DRAWN):  # the float64 numbers of all rows would take twice the table's memory
        part = start[first : first + DRAWN]
        if config.initialiser == "glorot":
            part[:] = rng.normal(0, deviation, part.shape)
        else:
            part[:] = rng.uniform(-limit, limit, part.shape)
    return start


class Tables:
    """The embeddings of entities and predicates, and the model's shared parameters. Each table has an optimiser.

    Shared parameters belong to no single entity or predicate. The initial embeddings, times `initial_scale`, are

        uniform   uniform in [-a, a], where a is the scale that the model defines
        glorot    normal with mean 0 and the variance 2 / (rows + width) of each table. Glorot & Bengio, "Understanding
                  the difficulty of training deep feedforward neural networks", AISTATS 2010
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        model: Model,
        device: torch.device,
        entities: RowOptimiser,
        predicates: RowOptimiser,
        shared: Mapping[str, RowOptimiser],
    ) -> None:
        self._device = device
        self.entities, self.predicates, self.shared = entities, predicates, shared
        self._encoder = model if isinstance(model, GraphModel) else None
        self._facts = torch.from_numpy(graph.train.triples).to(device) if self._encoder else None

    @classmethod
    def drawn(
        cls,
        graph: KnowledgeGraph,
        model: Model,
        config: TrainConfig,
        optimiser: type[RowOptimiser],
        device: torch.device,
        rng: np.random.Generator,
    ) -> Self:
        """Return the tables with their initial embeddings."""

        def table(start: npt.NDArray[Any]) -> RowOptimiser:
            return optimiser(torch.from_numpy(start.astype(np.float32, copy=False)).to(device))

        entities, predicates = scales(model)
        return cls(
            graph,
            model,
            device,
            table(initial_rows(config, len(graph.entities), model.entity_width, entities, rng)),
            table(initial_rows(config, len(graph.predicates), model.predicate_width, predicates, rng)),
            {name: table(start) for name, start in model.initial_shared(rng).items()},
        )

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


class WholeStep(ABC):
    """A runner of the steps of one training, in place of automatic differentiation: see `Backend`."""

    @abstractmethod
    def run(self, batch: TrainingBatch, number: int, learning_rate: float, also: Callable[[], None]) -> Tensor:
        """Update the tables with a batch: see `Step.run`."""

    def epochs(
        self,
        graph: KnowledgeGraph,
        config: TrainConfig,
        corruptions: StepCorruptions,
        batches: Batches,
        compiled: bool | None,
    ) -> WholeEpoch | None:
        """Return what trains whole epochs, with corruptions that the device draws. None: it does not draw these.

        compiled  see `TrainingState`
        """
        return None


class Backend(ABC):
    """A faster way to run training steps on a device. It is chosen for a whole training.

    models  names of models whose formulas torch.compile makes no faster on the device
    """

    models: ClassVar[frozenset[str]] = frozenset()

    @staticmethod
    @abstractmethod
    def step(config: TrainConfig, model: Model, loss: Loss, evaluate: Evaluate, tables: Tables) -> WholeStep | None:
        """Return the step of a training. None: the backend has none for the model, the loss or a setting.

        Positives have no confidences, and corruptions do not depend on the scores of a step.

        evaluate  computes the losses of a batch: see `StepObjective.evaluate`
        """


class Step:
    """A runner of training steps on the tables.

    dropout_share  share of an entity's numbers that a step sets to 0
    rng            random generator of the dropout. The corruptions of a step are drawn before
    compiled_for   (number of positives, chunk size) of the batches that use compiled code. All other batches use
                   uncompiled code. None: all batches use uncompiled code
    grouped        whether a bilinear model computes the matrix of a predicate once for all its positives
    whole          runs whole steps in place of automatic differentiation: see `Backend`. None: nothing does
    """

    def __init__(
        self,
        tables: Tables,
        corruptions: StepCorruptions,
        objective: StepObjective,
        dropout_share: float,
        rng: np.random.Generator,
        device: torch.device,
        compiled_for: tuple[int, int] | None,
        grouped: bool = False,
        whole: WholeStep | None = None,
    ) -> None:
        self._whole, self._grouped = whole, grouped
        self._tables, self._corruptions, self._objective = tables, corruptions, objective
        self._dropout_share, self._rng, self._device = dropout_share, rng, device
        self._compiled_for = compiled_for
        self._compiled = compile_if_possible(objective.evaluate, "training") if compiled_for else objective.evaluate

    def draw(self, positives: Triples, chunk: int, confidences: Probabilities | None = None) -> TrainingBatch:
        """Extend the positives (b, 3) to whole chunks of `chunk`, and draw their corruptions.

        confidences  (b,) confidences of the positives, in [0, 1]; None: they are surely true
        """
        filled, chunk = fill_last_chunk(positives, chunk)
        return TrainingBatch(filled, len(positives), chunk, self._corruptions.draw(filled, chunk), confidences)

    def run(
        self, batch: TrainingBatch, number: int, learning_rate: float, also: Callable[[], None] = lambda: None
    ) -> Tensor:
        """Update the tables with a batch. Return its loss before the update.

        number  number of the step, from 1
        also    called once, and not before the corruption strategy has learnt from the batch. Another thread may call
                it while the tables are updated: it must not read them
        """
        if self._whole is not None:
            return self._whole.run(batch, number, learning_rate, also)
        drawn, positives, tables = batch.corruptions, batch.positives, self._tables
        ids = np.concatenate([positives[:, 0], positives[:, 2], drawn.subjects.ravel(), drawn.objects.ravel()])
        entities, entity_places = tables.take(tables.entities, ids)
        predicates, predicate_places = tables.take(tables.predicates, positives[:, 1])
        shared = tables.take_shared()
        values = {name: leaf.values for name, leaf in shared.items()}
        encoded = tables.encode(values, entities.values, predicates.values, entity_places)
        losses = self._evaluate(batch, values, self._gather(batch, *encoded, entity_places, predicate_places))
        leaves = [entities, predicates, *shared.values()]
        gradients = torch.autograd.grad(losses.loss + losses.penalty, [leaf.values for leaf in leaves])
        for leaf, gradient in zip(leaves, gradients, strict=True):
            leaf.table.step(leaf.numbers, gradient, number, learning_rate)
        if losses.rewards is not None:
            sides = np.split(losses.rewards.cpu().numpy(), [drawn.objects.shape[1]], axis=1)
            for column, rewards in zip((OBJECT, SUBJECT), sides, strict=True):
                self._corruptions.strategy.learn(column, rewards, number)
        also()
        return losses.loss.detach()

    def _gather(
        self, batch: TrainingBatch, entities: Tensor, predicates: Tensor, places: Tensor, predicate_places: Tensor
    ) -> Gathered:
        """Return the embeddings of positives and corruptions, after the dropout, from rows and the places in them.

        places            of the subjects, the objects, the replacements of subjects, then those of objects
        predicate_places  (b,) one for each positive
        """
        count = len(batch.positives)
        thinned = dropout(entities, self._dropout_share, self._rng)
        gathered = thinned.index_select(0, places)
        ends = gathered if thinned is entities else entities.index_select(0, places[: 2 * count])
        sizes = [count, count, batch.corruptions.subjects.size, batch.corruptions.objects.size]
        s, o, corrupted_s, corrupted_o = torch.split(gathered, sizes)
        undropped = (ends[:count], ends[count : 2 * count])
        if self._grouped:
            return Gathered(s, o, predicates, corrupted_s, corrupted_o, undropped, predicate_places)
        return Gathered(s, o, predicates.index_select(0, predicate_places), corrupted_s, corrupted_o, undropped)

    def _evaluate(self, batch: TrainingBatch, shared: dict[str, Tensor], rows: Gathered) -> StepLosses:
        """Compute the losses of the batch, with compiled code if that was compiled for the shape of the batch."""
        left_out = torch.from_numpy(batch.corruptions.left_out).to(self._device)
        fits = (batch.count, batch.chunk) == self._compiled_for
        evaluate = self._compiled if fits else self._objective.evaluate
        if batch.confidences is None:
            return evaluate(shared, rows, left_out, batch.chunk, batch.count)
        confidences = torch.from_numpy(batch.confidences.astype(np.float32)).to(self._device)
        return evaluate(shared, rows, left_out, batch.chunk, batch.count, confidences)


def compile_if_possible(function: Callable[..., T], doing: str) -> Callable[..., T]:
    """Return the function in a form that torch.compile compiles at its first call.

    doing  name of the work that the function does, for the warning, such as "training"

    If the compilation fails, the function itself is called, and one KgcalWarning says that `doing` is slower.
    """
    # Without isolate_recompiles, which PyTorch has from 2.13 on, all functions with the same source share a cache of 8:
    # the ninth is not compiled.
    options = dict.fromkeys({"isolate_recompiles"} & {*signature(torch.compile).parameters}, True)
    fast = torch.compile(function, dynamic=False, **options)  # type: ignore[call-overload]
    failed = False

    def call(*args: Any) -> T:
        nonlocal failed
        if not failed:
            try:
                result: T = fast(*args)
                return result
            except Exception as error:  # PyTorch does not document its errors for a missing or broken compiler
                failed = True
                reason = f"{doing} runs without torch.compile, which is slower: {first_line(error)}"
                warnings.warn(reason, KgcalWarning, stacklevel=2)
        return function(*args)

    return call
