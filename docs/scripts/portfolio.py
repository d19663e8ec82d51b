"""Try the pool of docs/scripts/portfolio_pool.py on the graphs at hand: the figures from which the portfolio is chosen.

    python docs/scripts/portfolio.py costs FOLDERS costs.csv          # CPU time of an epoch, relative to TransE's
    python docs/scripts/portfolio.py trials FOLDERS costs.csv trials.csv GRAPH...

FOLDERS has a folder of triples for each data set that kgcal does not know by name: `umls` and `ppi5k`. Results are
appended as soon as they are there; what is there is not computed again, and several processes can share the file.

Every configuration gets the CPU time of 100 epochs of TransE with the default settings, and more on a small graph. It
is measured by FIGURES on validation after 1/9, 1/3 and all of its epochs, as in the race of the preset `auto`. It stops
early if its mean gain, which decides the race, is HOPELESS, compared with the best one at the same share so far.
"""

import csv
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from portfolio_pool import GRAPHS, POOL, load

from kgcore.config import ASSUMED_BASE_RATE, CorruptConfig, TrainConfig
from kgcore.config.base import GAIN, POPULATIONS
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.models.trained import TrainedModel
from kgcore.embed.training.loop import train
from kgcore.errors import FitError
from kgcore.measure.report.race import SHARES, epochs_at
from kgcore.wings.tuning.objective import SearchObjective
from tasks.workspace.settings import ensure_home, mirror

FIGURES = ("brier", *POPULATIONS)  # of each measurement: the Brier score, and the gain of each population
COLUMNS = ["graph", "configuration", "epochs", "seconds", *(f"{n} {at}" for at in ("1/9", "1/3", "1") for n in FIGURES)]
HOPELESS = (0.35, 0.15)  # after 1/9 and 1/3 of the epochs: by which share of the best mean gain a trial is behind
TIMED = ("family",)  # graphs on which epochs are timed
SMALL, MOST = 10_000, 2.0  # graphs with fewer rows than SMALL have more epochs, at most MOST times as many
CPU = torch.device("cpu")
Row = list[str | float | int]


class EnoughError(Exception):
    """The signal that ends a training."""


def rows_of(path: Path) -> list[list[str]]:
    """Return the rows of a CSV file; none if it does not exist."""
    return list(csv.reader(path.open())) if path.exists() else []


def append(path: Path, row: Row) -> None:
    """Append a row to a CSV file."""
    with path.open("a", newline="") as file:
        csv.writer(file).writerow(row)
    print(*row, flush=True)


def seconds_of_epoch(graph: KnowledgeGraph, config: TrainConfig) -> float:
    """Return the CPU time of an epoch: the median of a few, without the first."""
    ends = [time.process_time()]

    def on_epoch(epoch: int, loss: float) -> None:
        ends.append(time.process_time())
        if len(ends) > 4 or (len(ends) > 3 and ends[-1] - ends[0] > 5):
            raise EnoughError

    with suppress(EnoughError):
        train(graph, config.replace(epochs=50), CPU, on_epoch=on_epoch, compiled=False)
    return float(np.median(np.diff(ends[1:])))


def costs(folders: Path, out: Path) -> None:
    """Measure the cost of an epoch of each configuration, relative to TransE's with the default settings."""
    graphs = {name: load(name, folders, ensure_home() / "datasets", mirror()) for name in TIMED}
    usual = {name: seconds_of_epoch(graph, TrainConfig()) for name, graph in graphs.items()}
    done = {row[0] for row in rows_of(out)}
    for name, settings in POOL.items():
        if name not in done:
            config = settings.over(TrainConfig())
            found = [seconds_of_epoch(graph, config) / usual[own] for own, graph in graphs.items()]
            append(out, [name, round(float(np.exp(np.mean(np.log(found)))), 3), *(round(own, 2) for own in found)])


def mean_gain(figures: Sequence[float | str]) -> float:
    """Return the mean gain over the populations, from FIGURES."""
    return float(np.mean([float(figure) for figure in figures[1:]]))


def best_so_far(path: Path, graph: str, place: int) -> float:
    """Return the highest mean gain of a graph at a share of the epochs, at least 0."""
    cells = [row[4 + len(FIGURES) * place :][: len(FIGURES)] for row in rows_of(path) if row[0] == graph]
    return max([mean_gain(figures) for figures in cells if figures[0]], default=0.0)


def trial(graph: KnowledgeGraph, objective: SearchObjective, name: str, config: TrainConfig, out: Path) -> Row:
    """Train a configuration. Return epochs, CPU seconds, and FIGURES at each of SHARES, or empty cells."""
    measured: list[list[float]] = []
    started = time.process_time()

    def on_model(epoch: int, model: TrainedModel) -> None:
        figures = objective.measure(model)
        place = len(measured)
        measured.append([round(figures[figure], 5) for figure in FIGURES])
        if place < len(HOPELESS) and figures[GAIN] < (1 - HOPELESS[place]) * best_so_far(out, name, place):
            raise EnoughError

    try:
        marks = [epochs_at(share, config.epochs) for share in SHARES]
        train(graph, config, CPU, on_model=on_model, model_epochs=marks, compiled=False)
    except EnoughError:
        pass
    except FitError as error:
        print(error, flush=True)
        measured = measured or [[0.25, *len(POPULATIONS) * [0.0]]]
    empty = (len(SHARES) - len(measured)) * len(FIGURES) * [""]
    return [config.epochs, round(time.process_time() - started, 1), *np.ravel(measured).tolist(), *empty]


def trials(folders: Path, cost_file: Path, out: Path, graphs: list[str]) -> None:
    """Try every configuration of the pool on the graphs."""
    locks = out.parent / f"{out.stem}.locks"
    locks.mkdir(exist_ok=True)
    if not out.exists():
        append(out, [*COLUMNS])
    for name in graphs:
        graph = load(name, folders, ensure_home() / "datasets", mirror())
        objective = SearchObjective(graph, GAIN, CorruptConfig(), ASSUMED_BASE_RATE, np.random.default_rng(0))
        longer = min(max(SMALL / len(graph.train), 1.0), MOST) * GRAPHS[name][3]
        for number, (own, settings) in enumerate(POOL.items()):
            try:
                os.close(os.open(locks / f"{name}.{number}.{own}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            while own not in (cost := {row[0]: float(row[1]) for row in rows_of(cost_file)}):
                time.sleep(1)
            epochs = max(round(TrainConfig().epochs * longer / cost[own]), 3)
            config = settings.over(TrainConfig()).replace(epochs=epochs)
            append(out, [name, own, *trial(graph, objective, name, config, out)])


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "costs":
        costs(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        trials(Path(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]), sys.argv[5:])
