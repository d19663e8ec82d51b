"""Training in partitions: for tables that do not fit into one memory, and on several machines at the same time.

The entities are divided at random into P partitions, and the triples into buckets: those between two partitions. An
epoch is a sequence of rounds. The buckets of a round have no partition in common, so they train at the same time; each
draws its corruptions from its two partitions. After a round, the predicates take the mean of their changes. This is the
scheme of PyTorch-BigGraph (Lerer et al., "PyTorch-BigGraph: A Large-scale Graph Embedding System", MLSys 2019, section
4), with rounds in place of a lock server.

A bucket is trained by a pure function of files: it reads two partitions, and writes both under a new name. So the
result depends on the seed and on P, and not on the number of workers. A bucket whose worker has died is trained
again, and an interrupted training goes on after its last finished round, to the same bits. Files are not forced to the
disk, which would take longer than a bucket: after a power failure, start again with `--force`.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import torch

from kgcore.arrays import Ints
from kgcore.config import TrainConfig
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.corruptions.base import Strategy
from kgcore.embed.models.base import Embeddings, GraphModel
from kgcore.embed.models.trained import TrainedModel, folded
from kgcore.embed.optimisers.base import RowAdagrad
from kgcore.embed.training.loop import Training, TrainingState, built, check_loss, cohort_of, with_inverses
from kgcore.embed.training.step import Tables, initial_rows, scales
from kgcore.errors import InputError
from kgcore.registries import STRATEGIES
from kgcore.workers import EachPart, one_by_one

Rows = npt.NDArray[np.float32]
PREDICATES = "predicates"
BLOCK = 1_000_000  # entities whose rows are written at a time
TRIPLES, CONFIDENCES, STATE, ENTITIES = "triples.npy", "confidences.npy", "state.json", "entities.npy"


@dataclass(frozen=True)
class Bucket:
    """Triples that are trained together.

    first, second  its partitions; equal if it has one
    whole          those of the two whose triples within the partition belong to the bucket
    seed           of its order and its corruptions
    files          name -> number of the round that wrote it, of both partitions and of the predicates
    """

    first: int
    second: int
    whole: tuple[int, ...]
    seed: int
    files: dict[str, int]

    @property
    def partitions(self) -> tuple[int, ...]:
        return (self.first,) if self.first == self.second else (self.first, self.second)


@dataclass(frozen=True)
class Change:
    """The predicates after a bucket and the sums of their optimiser, their uses in it, and the sum of its losses."""

    table: Rows
    sums: Rows
    uses: Ints
    loss: float


@dataclass(frozen=True)
class Partitions:
    """The division of a graph, and a folder that all workers share.

    folder      has the triples, and the tables of the partitions and of the predicates
    sizes       P numbers of entities
    starts      (P * P + 1,) where the triples from one partition to another start: first those from partition 0 to 0
    predicates  number of predicates
    """

    folder: Path
    sizes: Sequence[int]
    starts: Ints
    predicates: int

    @classmethod
    def of(
        cls, graph: KnowledgeGraph, count: int, folder: Path, rng: np.random.Generator
    ) -> tuple["Partitions", list[Ints]]:
        """Divide a graph, and write its triples with the places of their entities in their partitions.

        Also return the entities of each partition, in ascending order.
        """
        entities = len(graph.entities)
        partition = rng.permutation(np.arange(entities) % count)
        members = [np.flatnonzero(partition == number) for number in range(count)]
        place = np.empty(entities, dtype=np.int64)
        for entities_of_one in members:
            place[entities_of_one] = np.arange(len(entities_of_one))
        triples = graph.train.triples
        blocks = partition[triples[:, 0]] * count + partition[triples[:, 2]]
        order = np.argsort(blocks, kind="stable")
        starts = np.r_[0, np.bincount(blocks, minlength=count * count).cumsum()]
        folder.mkdir(parents=True, exist_ok=True)
        _save(folder / TRIPLES, np.stack([place[triples[:, 0]], triples[:, 1], place[triples[:, 2]]], 1)[order])
        if graph.train.confidences is not None:
            _save(folder / CONFIDENCES, graph.train.confidences[order])
        return cls(folder, [*map(len, members)], starts, len(graph.predicates)), members

    def split(self, bucket: Bucket) -> Split:
        """Return the triples of a bucket, whose entities are the rows of its first partition, then of its second."""
        count, offset = len(self.sizes), {bucket.first: 0}
        offset.setdefault(bucket.second, self.sizes[bucket.first])
        pairs = [(number, number) for number in bucket.whole]
        if bucket.first != bucket.second:
            pairs += [(bucket.first, bucket.second), (bucket.second, bucket.first)]
        rows = [slice(*self.starts[s * count + o :][:2]) for s, o in sorted(pairs)]
        stored = np.load(self.folder / TRIPLES, mmap_mode="r")
        triples = [stored[part] + [offset[s], 0, offset[o]] for part, (s, o) in zip(rows, sorted(pairs), strict=True)]
        confidences = None
        if (self.folder / CONFIDENCES).exists():
            sure = np.load(self.folder / CONFIDENCES, mmap_mode="r")
            confidences = np.concatenate([sure[part] for part in rows])
        joined = np.concatenate(triples)
        return Split(joined, np.ones(len(joined)), confidences)

    def read(self, name: str, number: int) -> tuple[Rows, Rows]:
        """Return a table and the sums of its optimiser, as a round has written them; both are mapped."""
        return tuple(np.load(self.folder / f"{name}.{number}.{part}.npy", mmap_mode="r") for part in ("table", "sums"))

    def write(self, name: str, number: int, table: Rows, sums: Rows) -> None:
        """Write a table and the sums of its optimiser, each under its name at once."""
        for part, values in (("table", table), ("sums", sums)):
            _save(self.folder / f"{name}.{number}.{part}.npy", values)

    def delete(self, name: str, number: int) -> None:
        """Delete what `write` has written."""
        for part in ("table", "sums"):
            (self.folder / f"{name}.{number}.{part}.npy").unlink(missing_ok=True)


def _save(path: Path, values: npt.NDArray[np.generic]) -> None:
    partial = path.with_suffix(f".{uuid4().hex}.partial")  # two workers may train one bucket, with one result
    with partial.open("wb") as file:
        np.save(file, values)
    partial.replace(path)


@dataclass
class Progress:
    """What a stopped training goes on from.

    round   number of finished rounds, of all epochs
    files   name -> number of the round that has written it
    losses  mean loss per positive of each finished epoch
    lost    sum of the losses of the epoch that has begun
    """

    round: int = 0
    files: dict[str, int] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)
    lost: float = 0.0


def rounds(count: int) -> list[list[tuple[int, int]]]:
    """Return the rounds of an epoch: pairs of partitions. Each pair is in one round, each partition once a round.

    With an odd number, one partition in each round is paired with itself. This is the circle method of tournaments.
    """
    players = [*range(count), *([-1] if count % 2 else [])]
    schedule = []
    for _ in range(max(len(players) - 1, 1)):
        half = len(players) // 2
        pairs = zip(players[:half], reversed(players[half:]), strict=True)
        schedule.append([(min(pair), max(pair)) if min(pair) >= 0 else (max(pair), max(pair)) for pair in pairs])
        players = [players[0], players[-1], *players[1:-1]]
    return schedule


def train_bucket(
    partitions: Partitions, config: TrainConfig, number: int, rate: float, device: torch.device, bucket: Bucket
) -> Change:
    """Train a bucket: read its partitions, and write them as those of a round.

    number  of the round
    rate    learning rate of the round
    """
    tables = [partitions.read(str(name), bucket.files[str(name)]) for name in bucket.partitions]
    split = partitions.split(bucket)
    before = partitions.read(PREDICATES, bucket.files[PREDICATES])
    sizes = [len(table) for table, _ in tables]
    names = range(sum(sizes)), range(partitions.predicates)
    none = Split(np.zeros((0, 3), dtype=np.int64), np.zeros(0))
    graph = KnowledgeGraph("bucket", *names, split, none, none)  # type: ignore[arg-type]
    rows, sums = map(np.concatenate, zip(*tables, strict=True))
    entities = _optimiser(rows, sums, device)
    del tables  # mapped pages count as memory
    predicates = _optimiser(np.array(before[0]), np.array(before[1]), device)
    loss = 0.0
    if len(split):
        model, loss_function = built(config)
        settings = config.replace(seed=bucket.seed, epochs=1, learning_rate=rate, learning_rate_end=1.0)
        state = TrainingState(
            graph, model, loss_function, settings, device, tables=Tables(graph, model, device, entities, predicates, {})
        )
        loss = state.run_epoch(1) * len(split)
    start = 0
    for name, size in zip(bucket.partitions, sizes, strict=True):
        own = slice(start, start + size)
        partitions.write(str(name), number, entities.table[own].cpu().numpy(), entities.sums[own].cpu().numpy())
        start += size
    uses = np.bincount(split.triples[:, 1], minlength=partitions.predicates)
    return Change(predicates.table.cpu().numpy(), predicates.sums.cpu().numpy(), uses, loss)


def _optimiser(table: Rows, sums: Rows, device: torch.device) -> RowAdagrad:
    optimiser = RowAdagrad(torch.from_numpy(table).to(device))
    optimiser.sums = torch.from_numpy(sums).to(device)
    return optimiser


def merged(table: Rows, sums: Rows, changes: Sequence[Change]) -> tuple[Rows, Rows]:
    """Return the predicates after a round: their mean change, weighted by the uses in each bucket, and all its sums."""
    uses = np.stack([change.uses for change in changes]).astype(np.float64)
    shares = uses / np.maximum(uses.sum(axis=0), 1)
    new_table, new_sums = table.astype(np.float64), sums.astype(np.float64)
    for share, change in zip(shares, changes, strict=True):
        new_table += share.reshape(-1, *[1] * (table.ndim - 1)) * (change.table - table.astype(np.float64))
        new_sums += change.sums - sums.astype(np.float64)
    return new_table.astype(np.float32), new_sums.astype(np.float32)


def check_settings(config: TrainConfig) -> None:
    """Raise InputError if a training with these settings cannot be divided into partitions."""
    model, _ = built(config)
    if isinstance(model, GraphModel) or model.initial_shared(np.random.default_rng(0)):
        raise InputError(
            f"the model is {config.model}, which has parameters that all triples share: training in partitions needs a "
            "model with embeddings alone, such as transe or complex"
        )
    if config.optimiser != "adagrad":
        raise InputError(
            f"the optimiser is {config.optimiser}: training in partitions needs --optimiser adagrad, whose state can "
            "be merged (its learning rate is 10 to 20 times that of adam)"
        )
    for name in config.training_strategy:
        strategy = STRATEGIES.get(name)
        if strategy.by_model or strategy.learn is not Strategy.learn:
            raise InputError(f"the corruption strategy {name} needs the whole model: training in partitions has a part")


def train_in_partitions(
    graph: KnowledgeGraph,
    config: TrainConfig,
    device: torch.device,
    folder: Path,
    each_part: EachPart = one_by_one,
    on_epoch: Callable[[int, float], None] = lambda epoch, loss: None,
) -> Training:
    """Train a model on the graph's training split, in `config.partitions` partitions.

    folder              all workers share it. A training that was stopped goes on from what is there
    each_part           trains the buckets of a round
    on_epoch(epoch, l)  called after every epoch with its number, from 1, and the mean loss l of a positive

    The learning rate falls linearly from round to round. Memory: the triples, and the tables of two partitions for each
    bucket that is trained at the same time; the entities of the result are mapped from a file in the folder.

    Raises InputError as `check_settings` does, FitError if the loss is not a finite number.
    """
    check_settings(config)
    if len(graph.entities) < 2 * config.partitions:
        raise InputError(
            f"the graph has {len(graph.entities):,} entities: it has at most {len(graph.entities) // 2} partitions, "
            "because each needs 2 entities for corruptions"
        )
    cohort = cohort_of(graph, config)
    graph = with_inverses(graph) if config.inverse_relations else graph
    child, *epochs = np.random.SeedSequence(config.seed).spawn(config.epochs + 1)
    rng = np.random.default_rng(child)
    partitions, members = Partitions.of(graph, config.partitions, folder, rng)
    progress = _progress(partitions, graph, config, rng)
    resumed_at, schedule = len(progress.losses), rounds(config.partitions)
    for epoch in range(resumed_at + 1, config.epochs + 1):
        child = epochs[epoch - 1]
        rng = np.random.default_rng(child)
        order, whole = rng.permutation(len(schedule)), rng.integers(len(schedule), size=config.partitions)
        seeds = rng.integers(2**31, size=(len(schedule), config.partitions))
        for place in range(progress.round - (epoch - 1) * len(schedule), len(schedule)):
            step = progress.round
            fallen = (1 - config.learning_rate_end) * step / (config.epochs * len(schedule))
            buckets = _buckets(schedule[order[place]], whole == order[place], seeds[place].tolist(), progress.files)
            rate = config.learning_rate * (1 - fallen)
            # not as shared objects: the only worker that has these may die
            train_one = partial(train_bucket, partitions, config, step + 1, rate, device)
            changes = dict(each_part(train_one, (), buckets))
            _finish_round(partitions, progress, [(bucket, changes[n]) for n, bucket in enumerate(buckets)])
        loss = progress.lost / len(graph.train)
        check_loss(loss, epoch)
        progress.losses, progress.lost = [*progress.losses, loss], 0.0
        _write_progress(folder, progress)
        on_epoch(epoch, loss)
    trained = TrainedModel(
        config.model, config.k, _embeddings(partitions, members, progress.files), dict(config.model_options)
    )
    if config.inverse_relations:
        trained = replace(trained, embeddings=folded(trained.embeddings), inverse=True)
    return Training(replace(trained, cohort=cohort), progress.losses, resumed_at)


def _buckets(
    pairs: Sequence[tuple[int, int]], whole: npt.NDArray[np.bool_], seeds: Sequence[int], files: dict[str, int]
) -> list[Bucket]:
    """Return the buckets of a round. A partition without a partner has one only if its own triples are due."""
    buckets = []
    for first, second in pairs:
        due = tuple(number for number in sorted({first, second}) if whole[number])
        if first != second or due:
            names = (str(first), str(second), PREDICATES)
            buckets.append(Bucket(first, second, due, seeds[first], {name: files[name] for name in names}))
    return buckets


def _progress(partitions: Partitions, graph: KnowledgeGraph, config: TrainConfig, rng: np.random.Generator) -> Progress:
    """Return the progress of a stopped training, or that of a new one, whose tables have initial embeddings."""
    try:
        return Progress(**json.loads((partitions.folder / STATE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        progress = Progress()
    model, _ = built(config)
    entities, predicates = scales(model)
    for number, size in enumerate(partitions.sizes):
        rows = initial_rows(config, size, model.entity_width, entities, rng, of=len(graph.entities))
        partitions.write(str(number), 0, rows, np.zeros(len(rows), dtype=np.float32))
    rows = initial_rows(config, len(graph.predicates), model.predicate_width, predicates, rng)
    partitions.write(PREDICATES, 0, rows, np.zeros(len(rows), dtype=np.float32))
    progress.files = dict.fromkeys((*map(str, range(len(partitions.sizes))), PREDICATES), 0)
    _write_progress(partitions.folder, progress)
    return progress


def _finish_round(partitions: Partitions, progress: Progress, trained: Sequence[tuple[Bucket, Change]]) -> None:
    """Merge the predicates, record the round, and delete the files that it has replaced."""
    number, before = progress.round + 1, dict(progress.files)
    if trained:
        changes = [change for _, change in trained]
        partitions.write(PREDICATES, number, *merged(*partitions.read(PREDICATES, before[PREDICATES]), changes))
        names = {str(name) for bucket, _ in trained for name in bucket.partitions} | {PREDICATES}
        progress.files = before | dict.fromkeys(names, number)
        progress.lost += sum(change.loss for change in changes)
    progress.round = number
    _write_progress(partitions.folder, progress)
    for name, old in before.items():
        if progress.files[name] != old:
            partitions.delete(name, old)


def _write_progress(folder: Path, progress: Progress) -> None:
    partial = folder / f"{STATE}.partial"
    partial.write_text(json.dumps(asdict(progress)), encoding="utf-8")
    partial.replace(folder / STATE)


def _embeddings(partitions: Partitions, members: Sequence[Ints], files: dict[str, int]) -> Embeddings:
    """Return the embeddings of a finished training; those of the entities are mapped from a file.

    The file is written from its start to its end, so that memory holds the partitions' rows of one block alone.
    """
    predicates = np.array(partitions.read(PREDICATES, files[PREDICATES])[0])
    count, width = sum(partitions.sizes), partitions.read("0", files["0"])[0].shape[1]
    path = partitions.folder / ENTITIES
    with path.open("wb") as file:
        head = np.lib.format.header_data_from_array_1_0(predicates) | {"shape": (count, width)}
        np.lib.format.write_array_header_1_0(file, head)
        for start in range(0, count, BLOCK):
            block = np.empty((min(BLOCK, count - start), width), dtype=predicates.dtype)
            for number, entities_of_one in enumerate(members):
                rows = slice(*np.searchsorted(entities_of_one, [start, start + BLOCK]))
                block[entities_of_one[rows] - start] = partitions.read(str(number), files[str(number)])[0][rows]
            file.write(block.data)
    return Embeddings(torch.from_numpy(np.load(path, mmap_mode="c")), torch.from_numpy(predicates), {})
