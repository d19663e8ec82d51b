"""Train with PyTorch-BigGraph, an epoch a turn. Its processes train without locks, each on its part of the triples.

BigGraph cuts a batch into chunks. With negatives from the batch, a positive has the other positives of its chunk and
u uniform entities as corruptions, on either side: (64 - 1 + u) 2 with chunks of 64. Without them, a chunk has as many
positives as uniform entities: eta / 2 on either side.

The time is BigGraph's own, without reading and writing of its files.
"""

import logging
import os
import re
from importlib.metadata import version
from pathlib import Path

import h5py
import numpy as np
import torch
from torchbiggraph.config import ConfigSchema, EntitySchema, RelationSchema
from torchbiggraph.train import train_and_report_stats
from turns import Job, Turns

OPERATORS = {"transe": "translation", "distmult": "diagonal", "complex": "complex_diagonal"}


class Seconds(logging.Handler):
    """A reader of the seconds that BigGraph writes into its log."""

    last = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        found = re.search(r"Processed \d+ edges in ([\d.]+) s", record.getMessage())
        self.last = float(found[1]) if found else self.last


def config_of(job: Job, folder: Path) -> ConfigSchema:
    """Write the triples for BigGraph, and return its settings."""
    triples = np.load(job.triples)
    (folder / "entity_count_all_0.txt").write_text(str(job.entities))
    (folder / "dynamic_rel_count.txt").write_text(str(job.predicates))
    (folder / "edges").mkdir()
    with h5py.File(folder / "edges" / "edges_0_0.h5", "w") as file:
        file.attrs["format_version"] = 1
        for column, name in enumerate(("lhs", "rel", "rhs")):
            file.create_dataset(name, data=triples[:, column])
    a_side = job.eta // 2
    from_batch = job.sharing if a_side >= job.sharing else 0
    euclidean = "squared_l2" if job.norm == 2 else "l2"
    return ConfigSchema(
        entities={"all": EntitySchema(num_partitions=1)},
        relations=[RelationSchema(name="all", lhs="all", rhs="all", operator=OPERATORS[job.model])],
        dynamic_relations=True,
        global_emb=False,
        entity_path=str(folder),
        edge_paths=[str(folder / "edges")],
        checkpoint_path=str(folder / "model"),
        dimension=job.k * (2 if job.model == "complex" else 1),
        comparator=euclidean if job.model == "transe" else "dot",
        loss_fn="softmax",
        lr=0.1,
        num_epochs=100_000,
        batch_size=job.batch,
        num_batch_negs=from_batch,
        num_uniform_negs=a_side - from_batch + (1 if from_batch else 0),
        eval_fraction=0.0,
        workers=int(os.environ["OMP_NUM_THREADS"]),
        checkpoint_preservation_interval=None,
    )


def main() -> None:
    turns, seconds = Turns(), Seconds()
    logger = logging.getLogger("torchbiggraph")
    logger.addHandler(seconds)
    logger.setLevel(logging.INFO)
    training = train_and_report_stats(config_of(turns.job, Path(turns.job.folder)))
    turns.ready(f"PyTorch-BigGraph {version('torchbiggraph')}, torch {torch.__version__}")
    for _ in training:
        turns.done(seconds.last)


if __name__ == "__main__":
    main()
