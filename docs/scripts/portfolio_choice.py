"""Choose the portfolio of the preset `auto` from the trials of docs/scripts/portfolio.py, and measure the choice.

    python docs/scripts/portfolio_choice.py docs/scripts/portfolio_trials.csv

The figure is the mean gain over the populations (kgcore/wings/tuning/objective.py), which is 1 for a perfect forecast.
The *loss* of a trial is 1 less its mean gain. A *race* among some configurations is repeated on the table: all are
compared after 1/9 of their epochs, the best go on to 1/3, the best of these to the end (kgcore/wings/tuning/race.py).
The settings of the preset `default` always take part. The *regret* on a graph is the loss of the chosen configuration
less that of the best one of the whole pool. Regrets are averaged over the graphs of a data set first, then over data
sets.

The choice is greedy: it adds the configuration that lowers two mean regrets most, that of the race and that of the best
member; their sum counts. With the race alone, members that lose early would be welcome, because they do no harm. A
graph of someone else is not one of those here. So the means are over COPIES of the table in which the loss of every
model, and of every trial, has a random factor on each graph: log-normal, with the spreads MODEL_SPREAD and SPREAD.
"""

import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kgcore.config.base import POPULATIONS
from kgcore.config.race import PORTFOLIO
from kgcore.wings.tuning.race import SHARES, field_sizes

USUAL = "transe"  # the settings of the preset `default`: it is in every race
SIZE, COPIES = 10, 500
MODEL_SPREAD, SPREAD = 0.15, 0.1
NO_SKILL = 1.0  # the loss of a forecast that knows nothing


@dataclass(frozen=True)
class Table:
    """The trials of the graphs.

    values  (graphs, configurations, 3) loss at each of SHARES; a trial that was stopped keeps its last one
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


def read(path: Path, populations: Sequence[str] = POPULATIONS) -> Table:
    """Return the graphs on which every configuration was tried, with the loss for some populations."""
    losses: dict[tuple[str, str], list[float]] = {}
    for row in csv.DictReader(path.open()):
        gains = [[float(row[f"{name} {at}"] or "nan") for name in populations] for at in ("1/9", "1/3", "1")]
        known = [1 - float(np.mean(of_share)) for of_share in gains if np.isfinite(of_share).all()]
        losses[row["graph"], row["configuration"]] = known + known[-1:] * (len(SHARES) - len(known))
    graphs, names = ([*dict.fromkeys(keys)] for keys in zip(*losses, strict=True))
    graphs = [graph for graph in graphs if all((graph, name) in losses for name in names)]
    return Table(tuple(graphs), tuple(names), np.array([[losses[graph, n] for n in names] for graph in graphs]))


def raced(values: np.ndarray, models: np.ndarray, members: Sequence[int]) -> np.ndarray:
    """Return the last loss (...,) of the winner of a race among members, for values (..., configurations, 3).

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
    return float((found - 2 * best).mean(axis=0) @ weights)


def copies(table: Table) -> np.ndarray:
    """Return the losses (COPIES, graphs, configurations, 3) of the copies."""
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
    return raced(table.values, table.models, members) - table.values[..., -1].min(axis=-1)


def best_single(table: Table) -> str:
    """Return the configuration with the lowest mean regret if it is trained without a race."""
    return table.names[int(np.argmin(table.weights() @ table.values[..., -1]))]


def show(table: Table, brier: Table) -> None:
    """Print the regrets of the portfolio and of choices without the graph's data set, and the choice from all graphs.

    brier  the same trials with the loss for hard negatives alone: their Brier score, relative to that of no skill
    """
    last, datasets = table.values[..., -1], table.datasets
    left_out = {}
    for name in dict.fromkeys(datasets):
        others = table.without(name)
        left_out[name] = [best_single(others)], choose(brier.without(name)), choose(others)
    print("| graph | best of the pool | gain | default | best single | by Brier | by gain | the portfolio |")
    print("|---|---|---|---|---|---|---|---|")
    rows = []
    for place, (graph, name) in enumerate(zip(table.graphs, datasets, strict=True)):
        single, *choices = left_out[name]
        best = int(last[place].argmin())
        alone = [last[place, table.names.index(one)] - last[place, best] for one in (USUAL, *single)]
        rows.append([*alone, *(regrets(table, [*names])[place] for names in (*choices, PORTFOLIO))])
        cells = " | ".join(f"{100 * regret:.1f}" for regret in rows[-1])
        print(f"| {graph} | {table.names[best]} | {100 * (1 - last[place, best]):.1f} | {cells} |")
    means = table.weights() @ np.array(rows)
    print("| mean of the data sets | | | " + " | ".join(f"{100 * mean:.1f}" for mean in means) + " |")
    print("\nbest single configuration of all graphs:", best_single(table))
    for title, names in (("the portfolio", [*PORTFOLIO]), ("chosen by the gain", choose(table))):
        print(f"\n{title}, and the mean regret with each:")
        for size, name in enumerate(names, start=1):
            print(f"{size}. {name}: {100 * float(table.weights() @ regrets(table, names[:size])):.1f}")


if __name__ == "__main__":
    show(*(read(Path(sys.argv[1]), names) for names in (POPULATIONS, POPULATIONS[:1])))
