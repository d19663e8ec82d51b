"""Choose the portfolio of the preset `auto` from the trials of docs/scripts/portfolio.py, and measure the choice.

    python docs/scripts/portfolio_choice.py docs/scripts/portfolio_trials.csv

A *race* among some configurations is repeated on the table: all are compared after 1/9 of their epochs, the best go on
to 1/3, the best of these to the end, as in kgcore/tuning/race.py. The settings of the preset `default` always take
part. The *regret* on a graph is the Brier score of the chosen configuration relative to the best one of the whole pool,
less 1. Regrets are averaged over the graphs of a data set first, then over data sets.

The choice is greedy: it adds the configuration that lowers two mean regrets most, that of the race and that of the best
member; their sum counts. With the race alone, members that lose early would be welcome, because they do no harm. A
graph of someone else is not one of those here. So the means are over COPIES of the table in which every model, and
every trial, is better or worse by a random factor on each graph: log-normal, with the spreads MODEL_SPREAD and SPREAD.
"""

import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kgcore.tuning.race import SHARES, field_sizes

USUAL = "transe"  # the settings of the preset `default`: it is in every race
SIZE, COPIES = 10, 500
MODEL_SPREAD, SPREAD = 0.15, 0.1
NO_SKILL = 0.25  # the Brier score of the probability 1/2


@dataclass(frozen=True)
class Table:
    """The trials of the graphs.

    values  (graphs, configurations, 3) Brier score at each of SHARES; a trial that was stopped keeps its last one
    """

    graphs: tuple[str, ...]
    names: tuple[str, ...]
    values: np.ndarray

    @property
    def datasets(self) -> np.ndarray:
        """The data set (graphs,) of each graph: parts of a data set have its name and a number."""
        return np.array(
            [graph.rsplit("-", 1)[0] if graph.rsplit("-", 1)[-1] in PARTS else graph for graph in self.graphs]
        )

    def without(self, dataset: str) -> "Table":
        """Return the table without the graphs of a data set."""
        kept = self.datasets != dataset
        graphs = tuple(np.array(self.graphs)[kept])
        return Table(graphs, self.names, self.values[kept])

    @property
    def models(self) -> np.ndarray:
        """The number of the model (configurations,) of each configuration: the first word of its name."""
        return np.unique([name.split()[0] for name in self.names], return_inverse=True)[1]

    def weights(self) -> np.ndarray:
        """Return the weights (graphs,) with which each data set counts as much as the others."""
        counts = np.array([np.sum(self.datasets == own) for own in self.datasets])
        return 1 / counts / len(set(self.datasets))


PARTS = ("40", "100", "400", "2500", "8000", "12000")


def read(path: Path) -> Table:
    """Return the graphs on which every configuration was tried."""
    found: dict[tuple[str, str], list[float]] = {}
    for graph, name, _, _, *values in csv.reader(path.open()):
        known = [float(value) for value in values if value]
        found[graph, name] = known + known[-1:] * (len(SHARES) - len(known))
    names = tuple(dict.fromkeys(name for _, name in found))
    graphs = [graph for graph in dict.fromkeys(graph for graph, _ in found) if all((graph, n) in found for n in names)]
    return Table(tuple(graphs), names, np.array([[found[graph, name] for name in names] for graph in graphs]))


def raced(values: np.ndarray, models: np.ndarray, members: Sequence[int]) -> np.ndarray:
    """Return the last Brier score (...,) of the winner of a race among members, for values (..., configurations, 3).

    models  (configurations,) number of the model of each configuration: the best of each model goes on first
    """
    own, kinds = (
        values[..., list(members), :],
        np.broadcast_to(models[list(members)], (*values.shape[:-2], len(members))),
    )
    for place, size in enumerate(field_sizes(len(members))):
        order = np.argsort(own[..., max(place - 1, 0)], axis=-1, kind="stable")
        ordered = np.take_along_axis(kinds, order, axis=-1)
        again = np.stack(
            [(ordered[..., :n] == ordered[..., n : n + 1]).any(axis=-1) for n in range(order.shape[-1])], -1
        )
        kept = np.take_along_axis(order, np.argsort(again, axis=-1, kind="stable"), axis=-1)[..., :size]
        own, kinds = np.take_along_axis(own, kept[..., None], axis=-2), np.take_along_axis(kinds, kept, axis=-1)
    return own[..., -1].min(axis=-1)


def mean_regret(values: np.ndarray, models: np.ndarray, weights: np.ndarray, members: Sequence[int]) -> float:
    """Return the sum of the mean regrets of the race and of the best member.

    values   (copies, graphs, configurations, 3)
    models   (configurations,) number of the model of each configuration
    weights  (graphs,)
    """
    best = values[..., -1].min(axis=-1)
    found = raced(values, models, members) + values[..., list(members), -1].min(axis=-1)
    return float((found / best - 2).mean(axis=0) @ weights)


def copies(table: Table) -> np.ndarray:
    """Return the Brier scores (COPIES, graphs, configurations, 3) of the copies."""
    rng, shape, models = np.random.default_rng(0), (COPIES, len(table.graphs)), table.models
    own = SPREAD * rng.normal(size=(*shape, len(table.names)))
    shared = MODEL_SPREAD * rng.normal(size=(*shape, models.max() + 1))
    return np.minimum(table.values * np.exp(own + shared[..., models])[..., None], NO_SKILL)


def choose(table: Table, size: int = SIZE) -> list[str]:
    """Return the greedy choice of `size` configurations, in the order in which they were added."""
    values, weights = copies(table), table.weights()
    members = [table.names.index(USUAL)]
    while len(members) <= size:
        left = [place for place in range(len(table.names)) if place not in members]
        members.append(min(left, key=lambda place: mean_regret(values, table.models, weights, [*members, place])))
    return [table.names[place] for place in members[1:]]


def regrets(table: Table, names: Sequence[str]) -> np.ndarray:
    """Return the regret (graphs,) of the race among configurations and the usual one."""
    members = [table.names.index(name) for name in dict.fromkeys((USUAL, *names))]
    return raced(table.values, table.models, members) / table.values[..., -1].min(axis=-1) - 1


def best_single(table: Table) -> str:
    """Return the configuration with the lowest mean regret if it is trained without a race."""
    last = table.values[..., -1]
    return table.names[int(np.argmin(table.weights() @ (last / last.min(axis=1, keepdims=True) - 1)))]


def show(table: Table) -> None:
    """Print the leave-one-out table, and the choice from all graphs."""
    last, datasets = table.values[..., -1], table.datasets
    print("| graph | best of the pool | Brier | default | best single | auto, left out | auto |")
    print("|---|---|---|---|---|---|---|")
    chosen, rows = choose(table), []
    for place, graph in enumerate(table.graphs):
        others = table.without(datasets[place])
        single, own = best_single(others), choose(others)
        best = int(last[place].argmin())
        found = [
            last[place, table.names.index(USUAL)] / last[place, best] - 1,
            last[place, table.names.index(single)] / last[place, best] - 1,
            regrets(table, own)[place],
            regrets(table, chosen)[place],
        ]
        rows.append(found)
        cells = " | ".join(f"{100 * regret:.1f} %" for regret in found)
        print(f"| {graph} | {table.names[best]} | {last[place, best]:.4f} | {cells} |")
    means = table.weights() @ np.array(rows)
    print("| mean of the data sets | | | " + " | ".join(f"{100 * mean:.1f} %" for mean in means) + " |")
    print("\nbest single configuration of all graphs:", best_single(table))
    for size, name in enumerate(chosen, start=1):
        print(f"{size}. {name}: mean regret {100 * float(table.weights() @ regrets(table, chosen[:size])):.1f} %")


if __name__ == "__main__":
    show(read(Path(sys.argv[1])))
