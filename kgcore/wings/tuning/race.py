"""The race of training settings: successive halving on growing shares of the epochs.

All contenders train for the first share of their epochs and are measured on the validation split. Some train on to the
next share, and so on: the best one of each model, then the best of the others. The last ones train to their end. Each
contender has the learning rates of its whole training, and goes on from its checkpoint, so that nothing is trained
twice.

Jamieson and Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter Optimization", AISTATS 2016.
"""

import json
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from kgcore.config import ASSUMED_BASE_RATE, TrainConfig
from kgcore.config.base import OBJECTIVES
from kgcore.config.race import RaceConfig, entries, epochs_of_all
from kgcore.data.graph import KnowledgeGraph
from kgcore.data.neighbourhood import neighbourhood
from kgcore.embed.training.loop import train, worth_compiling
from kgcore.errors import FitError, InputError
from kgcore.measure.report.race import CHOSEN, FAILED, OUT, SHARES, STOPPED, Race, RaceRow, epochs_at
from kgcore.wings.tuning.objective import SearchObjective, TimeIsUp

FEWEST_SECOND = 3  # contenders that train to the second share
MOST_TRAININGS = 2.7  # a race may cost as much as this many whole trainings
LARGE = 320_000  # a graph with more training triples has its race on a part
RACED = 100_000  # training triples of that part


def field_sizes(contenders: int) -> tuple[int, int, int]:
    """Return how many contenders train to each of SHARES.

    A third of them, but at least FEWEST_SECOND, train to the second share. Two of them train to the end if the race
    then costs at most MOST_TRAININGS whole trainings, otherwise one does.
    """
    second = min(contenders, max(math.ceil(contenders / 3), FEWEST_SECOND))
    cost = contenders * SHARES[0] + second * (SHARES[1] - SHARES[0])
    last = min(second, 2)
    return contenders, second, last if cost + last * (SHARES[2] - SHARES[1]) <= MOST_TRAININGS else 1


@dataclass(frozen=True)
class Track:
    """Where a race takes place, and its limits.

    device              where contenders are trained
    folder              the files from which the race continues: what was measured, and the checkpoints
    seconds             time limit of this call in seconds
    checkpoint_seconds  shortest time between two checkpoints of a running training
    """

    device: torch.device
    folder: Path
    seconds: float = math.inf
    checkpoint_seconds: float = 10.0

    def checkpoint(self, number: int) -> Path:
        """Return the file of the checkpoint of contender `number`, from 0."""
        return self.folder / f"{number}.safetensors"


def race(
    graph: KnowledgeGraph,
    contenders: Mapping[str, TrainConfig],
    usual: TrainConfig,
    objective: SearchObjective,
    track: Track,
    on_progress: Callable[[float, str], None] = lambda share, word: None,
    on_measured: Callable[[RaceRow], None] = lambda row: None,
) -> Race:
    """Run the race, or continue it from its files. Return its result.

    graph        the graph to train on, without a test split; the same graph as in the objective
    contenders   name -> training settings
    usual        the settings that the winner is compared with
    on_progress  called after every epoch with the share of the race that is done, in [0, 1], and a short text
    on_measured  called with the row of a contender when it was measured or has failed

    The best of the contenders that got furthest is chosen, also if the time limit ends the race. If none was measured
    by then, the first one is chosen. The checkpoint of the winner remains. A contender whose training raises FitError
    or InputError is out. Raises FitError if all of them fail.
    """
    runners = _Runners(graph, contenders, usual, objective, track, on_progress)
    field, time_is_up = list(contenders), False
    try:
        for share, size in zip(SHARES, field_sizes(len(contenders)), strict=True):
            field = runners.going_on(field, size)
            runners.leave(name for name in contenders if name not in field)
            for name in field:
                if runners.advance(name, share):
                    on_measured(runners.rows[name])
            field = runners.healthy(field) or runners.healthy(contenders)
    except TimeIsUp:
        time_is_up = True
    return runners.result(field if time_is_up else [], time_is_up)


def ground(graph: KnowledgeGraph, race_seed: int) -> KnowledgeGraph:
    """Return the graph on which a race is held: a neighbourhood of RACED training triples, if the graph is LARGE.

    Then the cost of a race does not grow with the graph, but the winner is trained again, on all of it.
    """
    large = len(graph.train) > LARGE
    return neighbourhood(graph, RACED, np.random.default_rng([race_seed, 1])) if large else graph


def choose(
    graph: KnowledgeGraph,
    config: RaceConfig,
    track: Track,
    on_progress: Callable[[float, str], None] = lambda share, word: None,
    on_measured: Callable[[RaceRow], None] = lambda row: None,
) -> tuple[Race, Path]:
    """Choose the training settings for a graph without a test split. Return the race, and the winner's checkpoint.

    Without a race, the first contender is chosen: if there is no other, or if validation has too few triples. Then
    there is no checkpoint. The race on a large graph is held on a part of it: see `ground`. Then there is no
    checkpoint, either. The arguments are those of `race`, and it raises the same errors.
    """
    sizes, confidences = (len(graph.train), len(graph.entities), len(graph.predicates)), graph.train.confidences
    found, rng = entries(config, *sizes, confidences is not None), np.random.default_rng(config.race_seed)
    try:
        if len(found) == 1:
            raise InputError("the given settings leave one configuration")
        part = ground(graph, config.race_seed)
        objective = SearchObjective(
            part, config.race_metric, config.negatives, ASSUMED_BASE_RATE, rng, config.judged_on
        )
    except InputError as error:
        name, first = next(iter(found.items()))
        row = RaceRow(name, CHOSEN, first.epochs, (), 0.0, first.as_dict(), first == config.usual)
        return Race(config.race_metric, (row,), no_race=str(error)), track.checkpoint(0)
    result = race(part, found, config.usual, objective, track, on_progress, on_measured)
    checkpoint = track.checkpoint([*found].index(result.winner.name))
    if part is graph:
        return result, checkpoint
    checkpoint.unlink(missing_ok=True)  # of a model of the part
    rows, most = result.rows, len(graph.train)
    if "epochs" not in config.train.given():
        fewer = [{**row.settings, "epochs": epochs_of_all(row.settings["epochs"], most)} for row in rows]
        rows = tuple(replace(row, settings=settings) for row, settings in zip(rows, fewer, strict=True))
    return replace(result, rows=rows, part=(len(part.train), most)), checkpoint


class _Runners:
    """The contenders, and what each has reached. Each change is written to the file race.json in the track's folder."""

    def __init__(
        self,
        graph: KnowledgeGraph,
        contenders: Mapping[str, TrainConfig],
        usual: TrainConfig,
        objective: SearchObjective,
        track: Track,
        on_progress: Callable[[float, str], None],
    ) -> None:
        self._graph, self._contenders, self._objective = graph, contenders, objective
        self._track, self._on_progress = track, on_progress
        self._file, self._ends = track.folder / "race.json", time.monotonic() + track.seconds
        reached = json.loads(self._file.read_text()) if self._file.exists() else {}
        self.rows = {
            name: RaceRow.started(name, config.as_dict(), config == usual, **reached.get(name, {}))
            for name, config in contenders.items()
        }
        sizes = field_sizes(len(contenders))
        self._planned = sum(size * (b - a) for size, a, b in zip(sizes, (0.0, *SHARES), SHARES, strict=False))
        self._done = 0.0

    def advance(self, name: str, share: float) -> bool:
        """Train a contender to a share of its epochs, and measure it. Return False if it has its value already.

        Raises TimeIsUp if the time ends before it is measured.
        """
        config, row = self._contenders[name], self.rows[name]
        before, goal = row.epochs, epochs_at(share, config.epochs)
        started, done = time.monotonic(), self._done
        self._done += (goal - before) / config.epochs
        if row.reason or before >= goal:
            return False
        if started >= self._ends:
            raise TimeIsUp

        def on_epoch(epoch: int, loss: float) -> None:
            now = (done + (epoch - before) / config.epochs) / self._planned
            self._on_progress(min(max(now, 0.0), 1.0), f"{name}, epoch {epoch} of {config.epochs}")
            if time.monotonic() >= self._ends:
                raise TimeIsUp

        try:
            figures = self._measure(name, before, goal, on_epoch)
            row = replace(row, values=(*row.values, (goal, figures[self._objective.metric])), figures=figures)
        except (FitError, InputError) as error:
            row = replace(row, reason=str(error))
        self.rows[name] = replace(row, seconds=row.seconds + time.monotonic() - started)
        self._write()
        return True

    def _write(self) -> None:
        """Write what each contender has reached. An interruption never leaves an incomplete file."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        partial = self._file.with_suffix(".partial")
        partial.write_text(json.dumps({name: row.reached_json() for name, row in self.rows.items()}))
        partial.replace(self._file)

    def _measure(self, name: str, before: int, goal: int, on_epoch: Callable[[int, float], None]) -> dict[str, float]:
        """Train a contender from epoch `before` to the end of epoch `goal`, and return its figures.

        The code is compiled only if these epochs have enough steps to save more time than compiling takes.
        """
        config = self._contenders[name]
        steps = (goal - before) * -(-len(self._graph.train) // config.batch_size)
        trained = train(
            self._graph,
            config,
            self._track.device,
            self._checkpoint(name),
            self._track.checkpoint_seconds,
            on_epoch=on_epoch,
            compiled=worth_compiling(config, steps, self._track.device),
            until=goal,
        )
        return self._objective.measure(trained.model)

    def _checkpoint(self, name: str) -> Path:
        return self._track.checkpoint(list(self._contenders).index(name))

    def leave(self, names: Iterable[str]) -> None:
        """Delete the checkpoints of contenders that are out."""
        for name in names:
            self._checkpoint(name).unlink(missing_ok=True)

    def healthy(self, names: Iterable[str]) -> list[str]:
        """Return the contenders that have not failed. Raises FitError if all contenders of the race have failed."""
        failed = {name: reason for name in self._contenders if (reason := self.rows[name].reason)}
        if len(failed) == len(self._contenders):
            name, reason = next(iter(failed.items()))
            raise FitError(f"the training of every contender of the race failed; {name}: {reason}")
        return [name for name in names if name not in failed]

    def ranked(self, names: Iterable[str]) -> list[str]:
        """Return the contenders in order: those that got further first, then the better ones. Ties keep their order."""
        sign = 1 if OBJECTIVES[self._objective.metric] == "minimize" else -1

        def place(name: str) -> tuple[int, float]:
            row = self.rows[name]
            return -row.reached, 0.0 if row.value is None else sign * row.value

        return sorted(names, key=place)

    def going_on(self, names: Iterable[str], size: int) -> list[str]:
        """Return the contenders of the next round: the best one of each model first, then the best of the others.

        Models learn at different speeds: contenders of one model that are fast at the start do not fill the round.
        """
        ordered = self.ranked(names)
        first = list({self._contenders[name].model: name for name in reversed(ordered)}.values())
        return sorted(ordered, key=lambda name: name not in first)[:size]

    def result(self, stopped: Collection[str], time_is_up: bool) -> Race:
        """Return the rows of all contenders; the first one is chosen.

        stopped  the contenders that were still in the race
        """
        winner, *others = self.ranked(self.healthy(self._contenders))
        failed = [name for name in self._contenders if self.rows[name].reason]
        self.leave([*others, *failed])
        states = [
            (winner, CHOSEN),
            *((name, STOPPED if name in stopped else OUT) for name in others),
            *((name, FAILED) for name in failed),
        ]
        rows = tuple(replace(self.rows[name], state=state) for name, state in states)
        return Race(self._objective.metric, rows, time_is_up=time_is_up)
