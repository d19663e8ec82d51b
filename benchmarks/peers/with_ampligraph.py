"""Train with AmpliGraph, an epoch a turn. Every positive has its own corruptions."""

from importlib.metadata import version

import numpy as np
import tensorflow as tf
from ampligraph.latent_features import ScoringBasedEmbeddingModel
from turns import Turns

MODELS = {"transe": "TransE", "distmult": "DistMult", "complex": "ComplEx", "rotate": "RotatE"}


def main() -> None:
    turns = Turns()
    job = turns.job

    class Turn(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: object = None) -> None:
            turns.done()

    model = ScoringBasedEmbeddingModel(k=job.k, eta=job.eta, scoring_type=MODELS[job.model], seed=0)
    model.compile(optimizer="adam", loss="self_adversarial")
    triples = np.load(job.triples).astype(str)
    turns.ready(f"AmpliGraph {version('ampligraph')}, TensorFlow {tf.__version__}")
    model.fit(triples, batch_size=job.batch, epochs=100_000, verbose=False, callbacks=[Turn()])


if __name__ == "__main__":
    main()
