"""Bytes, hours and cost of a training in partitions on graphs that no machine here has trained.

    python docs/scripts/plan.py

Prints the table of docs/how-to/plan-a-large-graph.md, which has the formulas. The rates are measured ones.
"""

from dataclasses import dataclass

K = 100
POSITIVES = 260_000  # a second and thread: TransE, 20 shared corruptions, rows at random places (docs/performance.md)
DISK = 1e9  # bytes a second that the shared folder reads or writes, for all workers together
MEMORY = 8e9  # bytes of a worker
LIBRARIES = 0.6e9
EPOCHS = 10
PRICE = 0.05  # dollars for an hour of a worker: a core with 8 GB
GRAPHS = {  # entities, triples
    "Wikidata5M": (4_600_000, 20_600_000),
    "Freebase86M": (86_000_000, 338_000_000),
    "Wikidata": (100_000_000, 1_500_000_000),
}
WORKERS = (1, 4, 16)


@dataclass(frozen=True)
class Plan:
    """A training of some epochs. Sizes are in bytes, times in hours."""

    tables: float
    partitions: int
    compute: float
    disk: float

    @property
    def hours(self) -> float:
        """The time of all epochs: a worker reads and writes before and after it computes."""
        return self.compute + self.disk


def planned(entities: int, triples: int, workers: int) -> Plan:
    """Return the plan of a graph."""
    tables = entities * (K + 1) * 4
    if tables + 2 * 24 * triples < MEMORY - LIBRARIES:
        partitions = 1
    else:  # a bucket has two partitions mapped and copied, and its triples
        partitions = 2
        while 4 * (tables + 24 * triples / partitions) / partitions > MEMORY - LIBRARIES or partitions < 2 * workers:
            partitions += 2
    at_once = max(1, min(workers, partitions // 2)) if partitions > 1 else 1
    compute = EPOCHS * triples / POSITIVES / at_once
    disk = 0.0 if partitions == 1 else EPOCHS * 2 * (partitions - 1) * tables / DISK
    return Plan(tables, partitions, compute / 3600, disk / 3600)


def rows() -> list[str]:
    """Return the lines of the table."""
    lines = [
        "| graph | entities | triples | tables | workers | partitions | hours: computing | disk | all | dollars |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, (entities, triples) in GRAPHS.items():
        for workers in WORKERS:
            plan = planned(entities, triples, workers)
            if plan.partitions == 1 and workers > 1:
                continue
            figures = f"{plan.compute:.1f} | {plan.disk:.1f} | {plan.hours:.1f} | {plan.hours * workers * PRICE:.2f}"
            sizes = f"{entities / 1e6:,.1f} million | {triples / 1e6:,.0f} million | {plan.tables / 1e9:.1f} GB"
            lines.append(f"| {name} | {sizes} | {workers} | {plan.partitions} | {figures} |")
    return lines


if __name__ == "__main__":
    print("\n".join(rows()))
