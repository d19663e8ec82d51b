"""A training step on the CPU by compiled loops: the losses, the gradients of the rows, and their updates.

`CpuBackend` chooses it for a whole training. Models, losses and optimisers are known by their registered names; every
other setting trains by automatic differentiation of their formulas.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kgcore.arrays import Bools, Ints, Triples
from kgcore.config import TrainConfig
from kgcore.embed.models.base import QueryModel
from kgcore.embed.optimisers.base import RowOptimiser
from kgcore.embed.training.batches import TrainingBatch
from kgcore.embed.training.objective import lp
from kgcore.embed.training.step import Backend, Evaluate, Tables, WholeStep
from kgcore.loops.compiled import Array, fits_cpu_loops
from kgcore.registries import BACKENDS
from kgcore.wings.fast_cpu.comparisons import DOT, L1, L2, MODULUS
from kgcore.wings.fast_cpu.gaussians import run_gaussians
from kgcore.wings.fast_cpu.losses import LOSSES
from kgcore.wings.fast_cpu.scores import turns
from kgcore.wings.fast_cpu.steps import COMPLEX, GIVEN, PRODUCT, ROTATION, TRANSLATION, run_chunks, run_own
from kgcore.wings.fast_cpu.updates import adagrad_uses, adam_uses, distinct, places_by_row
from kgcore.workers import Job, Workers, parts

PARTS = 16  # of a step, and of the rows that it updates, so that threads finish together
LEAST = 256  # rows of a part

FORMS = {
    "transe": TRANSLATION,
    "distmult": PRODUCT,
    "complex": COMPLEX,
    "hole_complex": COMPLEX,
    "rotate": ROTATION,
    "hole": GIVEN,
    "simple": GIVEN,
    "quate": GIVEN,
    "analogy": GIVEN,
    "kg2e": None,  # a separate loop
}
COMPARISONS = {"dot": DOT, "l1": L1, "l2": L2, "modulus": MODULUS, "divergence": None}
CONSTANTS = {"self_adversarial": ("margin", "alpha"), "nll": (), "multiclass_nll": (), "pairwise": ("margin",)}

NO_QUERIES = torch.empty(0, 0)

Numbered = tuple[Ints, Ints, Ints]  # rows and their uses: see `numbered`


class Compared(NamedTuple):
    """Comparisons with corruptions that no positives share. The gradients of these follow: see `row_gradients`.

    queries   (q, d) the queries of the first side, then those of the second side
    scores    flat: (b, n) scores of the first side, then (q - b, m) of the second side
    gradient  the gradient of the loss with respect to them
    sizes     b, n
    """

    queries: Array
    scores: Array
    gradient: Array
    sizes: tuple[int, int]


class PreparedQueries(NamedTuple):
    """What the queries of a step are computed from: `prepared` and `asked` of kgcore/wings/fast_cpu/steps.py.

    leaves   copies of the subjects, predicates and objects (b, ...) of the positives, if the model computes the queries
    queries  (b, 2 d) the queries that it computes from the leaves
    """

    predicates: Array
    asked: Ints
    leaves: tuple[Tensor, ...] = ()
    queries: Tensor = NO_QUERIES


NOTHING = Compared(np.zeros((0, 0), np.float32), np.zeros(0, np.float32), np.zeros(0, np.float32), (0, 0))


class StepBatch(NamedTuple):
    """The positives of a step and their corruptions: see `run_chunks` in kgcore/wings/fast_cpu/steps.py.

    used  number of positives that count
    """

    positives: Triples
    objects: Ints
    subjects: Ints
    left_out: Bools
    used: int


class FastStep(WholeStep):
    """The loop over the chunks of a step, or over its positives if each has corruptions of its own.

    model       a model of FORMS
    form, kind  numbers of its queries and of its comparison; None: KG2E
    loss        number of the loss
    constants   the factor of the queries, two constants of the loss, the weight and the power of the LP penalty
    """

    def __init__(
        self,
        config: TrainConfig,
        model: QueryModel,
        form: int | None,
        kind: int | None,
        loss: int,
        constants: tuple[float, float, float, float, float],
        entities: RowOptimiser,
        predicates: RowOptimiser,
        threads: int,
    ) -> None:
        self._model, self._form, self._kind, self._loss, self._constants = model, form, kind, loss, constants
        self._apart, self._update = config.sides_apart, UPDATES[config.optimiser]
        self._entities, self._predicates, self._workers = entities, predicates, Workers(threads)
        self._slots = [np.full(len(table.table), -1, dtype=np.int32) for table in (entities, predicates)]
        self._of_entities = torch.empty(0, 0)  # most steps fill as many numbers: new memory for them takes time

    def run(self, batch: TrainingBatch, step: int, learning_rate: float, also: Callable[[], None]) -> Tensor:
        """Update the tables with a batch. Return its loss before the update. `step` counts from 1.

        also  a job to do while the tables are updated
        """
        parts_of_batch = batch.positives, batch.corruptions.objects, batch.corruptions.subjects
        positives, objects, subjects = map(np.ascontiguousarray, parts_of_batch)  # as the loops are compiled
        drawn = StepBatch(positives, objects, subjects, batch.corruptions.left_out, batch.count)
        b = len(positives)
        prepared = self._prepare(positives)
        losses, of_predicates = np.zeros(len(objects)), np.empty((b, prepared.predicates.shape[1]), np.float32)
        jobs, compared = self._jobs(drawn, prepared, losses, of_predicates)
        ids = np.concatenate([positives[:, 0], positives[:, 2], objects.ravel(), subjects.ravel()])
        uses = list[Numbered]()

        def number() -> None:
            uses.append(numbered(ids, self._slots[0]))
            uses.append(numbered(np.ascontiguousarray(positives[:, 1]), self._slots[1]))

        self._workers.run_all([number, *jobs])
        if prepared.leaves:
            of_predicates = self._pass_through(prepared, of_predicates, batch.count)
        first, *others = [
            *self._updates(self._entities, uses[0], self._of_entities.numpy(), compared, step, learning_rate),
            *self._updates(self._predicates, uses[1], of_predicates, NOTHING, step, learning_rate),
        ]
        self._workers.run_all([first, also, *others])
        return torch.tensor(losses).sum()

    def _jobs(
        self, drawn: StepBatch, prepared: PreparedQueries, losses: npt.NDArray[np.float64], of_predicates: Array
    ) -> tuple[list[Job], Compared]:
        """Return the jobs that fill the losses and all gradients, and the comparisons with unshared corruptions."""
        positives, objects, subjects, left_out, used = drawn
        b, n, m = len(positives), objects.shape[1], subjects.shape[1]
        entities, predicates, width = self._entities.table, self._predicates.table, self._entities.table.shape[1]
        alone = len(objects) == b and self._form is not None
        uses = 2 * b if alone else 2 * b + objects.size + subjects.size
        if self._of_entities.shape != (uses, width):
            self._of_entities = torch.empty(uses, width)
        results = (losses, self._of_entities.numpy(), of_predicates)
        tables, batch = (entities.numpy(), predicates.numpy()), (positives, objects, subjects, left_out)
        compared = NOTHING
        run: Callable[..., None]
        arguments: tuple[Any, ...]
        if self._form is None:
            run, arguments = run_gaussians, (self._loss, self._constants[1:], self._apart, *tables, *batch, used)
        else:
            kinds = (self._form, self._kind, self._loss)
            run, arguments = run_chunks, (kinds, self._constants, self._apart, *tables, *prepared[:2])
            arguments = (*arguments, *batch, used)
            if alone:
                queries, scores = np.empty((2, b, width), np.float32), np.empty(b * (n + m), np.float32)
                compared = Compared(queries.reshape(2 * b, -1), scores, np.empty_like(scores), (b, n))
                run, arguments = run_own, (*arguments[:-1], queries, scores, compared.gradient)
        return parts(run, len(objects), -(-len(objects) // PARTS), *arguments, *results), compared

    def _prepare(self, positives: Triples) -> PreparedQueries:
        """Return what the queries of the positives are computed from."""
        predicates, asked = self._predicates.table, np.ascontiguousarray(positives[:, 1])
        if self._form == GIVEN:
            tables, columns = (self._entities.table, predicates, self._entities.table), torch.from_numpy(positives)
            with _one_thread():
                s, p, o = (table.index_select(0, ids) for table, ids in zip(tables, columns.unbind(1), strict=True))
                leaves = tuple(rows.requires_grad_() for rows in (s, p, o))
                queries = torch.cat([self._model.object_query(s, p), self._model.subject_query(p, o)], 1)
            return PreparedQueries(queries.detach().numpy(), np.arange(len(positives)), leaves, queries)
        if self._form != ROTATION:
            return PreparedQueries(predicates.numpy(), asked)
        with _one_thread():
            if len(predicates) > len(asked):  # in a step with few positives, most predicates are not needed
                predicates, asked = predicates.index_select(0, torch.from_numpy(asked)), np.arange(len(asked))
            return PreparedQueries(turns(predicates).numpy(), asked)

    def _pass_through(self, prepared: PreparedQueries, of_queries: Array, used: int) -> Array:
        """Return the gradients of the predicates (b, d'), and add to those of subjects and objects.

        of_queries  (b, 2 d) the gradients of the queries
        used        number of positives that count: the LP penalty is that of their predicates
        """
        results, gradients = [prepared.queries], [torch.from_numpy(of_queries)]
        weight, power = self._constants[3:]
        if weight:
            results.append(weight * lp(prepared.leaves[1][:used], power))
            gradients.append(torch.ones(()))
        with _one_thread():
            of_s, of_p, of_o = torch.autograd.grad(results, prepared.leaves, gradients)
            self._of_entities[: len(of_s)] += of_s
            self._of_entities[len(of_s) : 2 * len(of_s)] += of_o
        return of_p.numpy()

    def _updates(
        self, table: RowOptimiser, uses: Numbered, dense: Array, compared: Compared, step: int, learning_rate: float
    ) -> list[Job]:
        """Return jobs that update some of the rows each.

        uses      the rows and their uses: first those of `dense`, then those of `compared`
        dense     (u, d) the gradients of the first u uses
        compared  the comparisons of the other uses
        """
        kind = DOT if self._kind is None else self._kind
        queries, scores, gradient, sizes = compared
        given = (kind, *uses, dense, queries, scores, gradient, sizes, table.table.numpy())
        update, count = self._update(table, given, step, learning_rate), len(uses[0])
        return parts(update, count, max(LEAST, -(-count // PARTS)))


def _adam(table: Any, uses: tuple[Any, ...], step: int, learning_rate: float) -> Callable[..., None]:
    update: Callable[..., None] = adam_uses
    rate = learning_rate / (1 - table.BETA1**step)
    constants = (table.BETA1, table.BETA2, 1 - table.BETA2**step, rate, table.EPSILON)
    return partial(update, *uses, table.first.numpy(), table.second.numpy(), constants)


def _adagrad(table: Any, uses: tuple[Any, ...], step: int, learning_rate: float) -> Callable[..., None]:
    update: Callable[..., None] = adagrad_uses
    return partial(update, *uses, table.sums.numpy(), learning_rate, table.EPSILON)


UPDATES = {"adam": _adam, "adagrad": _adagrad}


@contextmanager
def _one_thread() -> Iterator[None]:
    """Work with one thread of PyTorch: the others would wait busily for a while on the cores that the loops need."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def numbered(ids: Ints, slots: npt.NDArray[np.int32]) -> Numbered:
    """Return the distinct ids (r,), ascending, and the places of each: see `places_by_row`.

    slots  -1 for every possible id, and again after the call
    """
    rows = np.empty_like(ids)
    rows = np.sort(rows[: distinct(ids, slots, rows)])  # rows in order of memory are read faster
    starts, order = np.empty(len(rows) + 1, dtype=np.int64), np.empty_like(ids)
    places_by_row(ids, slots, rows, starts, order)
    return rows, starts, order


@BACKENDS.register("cpu")
class CpuBackend(Backend):
    """Compiled loops for the models of FORMS: see `Backend`."""

    models = frozenset(FORMS)

    @staticmethod
    def step(config: TrainConfig, model: Any, loss: Any, evaluate: Evaluate, tables: Tables) -> WholeStep | None:
        """Return the loops of a training. None: its model, loss, optimiser, device or a setting has no loop."""
        known = config.model in FORMS and config.loss in CONSTANTS and config.optimiser in UPDATES
        entities, predicates = tables.entities, tables.predicates
        if not (known and model.comparator.name in COMPARISONS and fits_cpu_loops(entities.table, predicates.table)):
            return None
        if config.dropout or (config.lp_weight and config.lp_power not in (2, 3)):
            return None
        first, second = (*(float(getattr(loss, name)) for name in CONSTANTS[config.loss]), 0.0, 0.0)[:2]
        factor = float(getattr(model, "factor", 1))
        constants = (factor, first, second, float(config.lp_weight), float(config.lp_power))
        form, kind, number = FORMS[config.model], COMPARISONS[model.comparator.name], LOSSES.index(config.loss)
        return FastStep(config, model, form, kind, number, constants, entities, predicates, torch.get_num_threads())
