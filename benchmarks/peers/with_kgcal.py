"""Train with kgcal, an epoch a turn."""

from pathlib import Path

import numpy as np
import torch
from turns import Turns

from kgcore.config import TrainConfig
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.training.loop import train

EPOCHS = 100_000  # the process ends when it gets no more turns


def main() -> None:
    turns = Turns()
    job = turns.job
    triples = np.load(Path(job.triples))
    none = Split(triples[:0], np.zeros(0))
    entities, predicates = ([str(number) for number in range(count)] for count in (job.entities, job.predicates))
    graph = KnowledgeGraph("peers", entities, predicates, Split(triples, np.ones(len(triples))), none, none)
    config = TrainConfig(
        model=job.model,
        model_options={"norm": job.norm} if job.model == "transe" else {},
        k=job.k,
        training_eta=job.eta,
        batch_size=job.batch,
        chunk_size=job.sharing,
        epochs=EPOCHS,
    )
    turns.ready(f"torch {torch.__version__}")
    train(graph, config, torch.device("cpu"), compiled=False, on_epoch=lambda number, loss: turns.done())


if __name__ == "__main__":
    main()
