"""Train with PyKEEN's stochastic local closed world loop, an epoch a turn. Every positive has its own corruptions."""

from importlib.metadata import version

import numpy as np
import torch
from pykeen.models import ComplEx, DistMult, RotatE, TransE
from pykeen.training import SLCWATrainingLoop, TrainingCallback
from pykeen.triples import CoreTriplesFactory
from turns import Turns

MODELS = {"transe": TransE, "distmult": DistMult, "complex": ComplEx, "rotate": RotatE}


def main() -> None:
    turns = Turns()
    job = turns.job

    class Turn(TrainingCallback):
        def post_epoch(self, epoch: int, epoch_loss: float, **unused: object) -> None:
            turns.done()

    triples = torch.from_numpy(np.load(job.triples))
    factory = CoreTriplesFactory(triples, num_entities=job.entities, num_relations=job.predicates)
    options = {"scoring_fct_norm": job.norm} if job.model == "transe" else {}
    model = MODELS[job.model](triples_factory=factory, embedding_dim=job.k, random_seed=0, **options)
    loop = SLCWATrainingLoop(
        model=model,
        triples_factory=factory,
        optimizer="Adam",
        negative_sampler_kwargs={"num_negs_per_pos": job.eta},
    )
    turns.ready(f"PyKEEN {version('pykeen')}, torch {torch.__version__}")
    loop.train(factory, num_epochs=100_000, batch_size=job.batch, use_tqdm=False, callbacks=[Turn()])


if __name__ == "__main__":
    main()
