"""Functions that make the model, the loss, the cohort and the batch size from the training settings.

One of them checks whether the tables fit into the memory. Another adds inverse predicates to the graph, with which
training uses every triple in both directions.
"""

from dataclasses import replace

import numpy as np

from kgcore.arrays import Triples
from kgcore.config import TrainConfig
from kgcore.errors import InputError
from kgcore.graph import KnowledgeGraph, Split
from kgcore.losses.base import Loss
from kgcore.models.base import Model
from kgcore.models.cohort import Cohort, draw_cohort
from kgcore.registries import LOSSES, MODELS, OPTIMISERS
from kgcore.registry import build


def built(config: TrainConfig) -> tuple[Model, Loss]:
    """Build the scoring function and the loss.

    Raises InputError if an option does not exist, or if dropout is set for a model that does not support it.
    """
    model = build(MODELS.get(config.model), config.model_options, config.k)
    if config.dropout and not model.can_drop:
        raise InputError(
            f"dropout is {config.dropout:g}: it must be 0 for {config.model}, "
            "because 0 is a meaningful value of its embeddings"
        )
    return model, build(LOSSES.get(config.loss), config.loss_options)


def cohort_of(graph: KnowledgeGraph, config: TrainConfig) -> Cohort | None:
    """Draw the cohort that normalises the model's scores. Return None if the cohort weight is 0.

    The draw uses a separate generator with the training seed. Therefore training is the same with and without a cohort.
    """
    if not config.cohort_weight:
        return None
    rng = np.random.default_rng(config.seed)
    return draw_cohort(graph, config.cohort_size, config.cohort_weight, config.cohort_temperature, rng)


def batch_size(config: TrainConfig, by_predicate: bool) -> int:
    """Return the number of positives in a step.

    If corruptions depend on the predicate, the batch size is rounded down to a multiple of the chunk size, so that no
    chunk is cut in two. A batch size below the chunk size stays as it is.
    """
    if not by_predicate or config.batch_size < config.chunk_size:
        return config.batch_size
    return config.batch_size // config.chunk_size * config.chunk_size


def bytes_of_tables(entities: int, config: TrainConfig) -> int:
    """Return the bytes of the embeddings of so many entities and of the state of their optimiser, in float32."""
    model, _ = built(config)
    width = model.entity_width
    return 4 * entities * width + OPTIMISERS.get(config.optimiser).state_bytes(entities, width)


def check_memory(entities: int, config: TrainConfig, free: int) -> None:
    """Raise InputError if the tables of so many entities need more than `free` bytes."""
    needed = bytes_of_tables(entities, config)
    if needed <= free:
        return
    lean = bytes_of_tables(entities, config.replace(optimiser="adagrad"))
    advice = f"--optimiser adagrad needs {lean / 1e9:.1f} GB" if lean < needed else "a smaller --k needs less"
    raise InputError(
        f"the embeddings of {entities:,} entities and the state of the optimiser {config.optimiser} need "
        f"{needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB of memory are free: {advice}"
    )


def with_inverses(graph: KnowledgeGraph) -> KnowledgeGraph:
    """Return a copy of the graph that also has the triple (o, p', s) for each triple (s, p, o).

    The inverse p' of predicate p has the id p + R, where R is the number of predicates. The test split is empty.

    Lacroix et al., ICML 2018, section 4.1.
    """
    count = len(graph.predicates)

    def both(triples: Triples) -> Triples:
        return np.concatenate([triples, triples[:, ::-1] + [0, count, 0]])

    def twice(split: Split) -> Split:
        confidences = None if split.confidences is None else np.tile(split.confidences, 2)
        return Split(both(split.triples), np.tile(split.labels, 2), confidences)

    return replace(
        graph,
        predicates=[*graph.predicates, *(f"{name}\u207b\u00b9" for name in graph.predicates)],
        train=twice(graph.train),
        valid=twice(graph.valid),
        test=Split(np.zeros((0, 3), dtype=np.int64), np.zeros(0)),
        other_facts=both(graph.other_facts),
    )
