"""The pool of configurations from which the portfolio is chosen, and the graphs on which they are tried."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kgcore.config import TrainConfig
from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.fetch import fetch
from kgcore.data.datasets.prepare import prepare
from kgcore.data.graph import KnowledgeGraph, Split

SA, MC, PW = "self_adversarial", "multiclass_nll", "pairwise"
HALF = {"training_strategy": {"typed": 0.5, "uniform": 0.5}}
TYPED = {"training_strategy": {"typed": 1.0}, "training_sides": "bernoulli"}
COHORT = {"cohort_weight": 0.5, "cohort_temperature": 0.5}
WARM = {"cohort_weight": 0.5, "cohort_temperature": 1.0}
RANKS = {"training_eta": 250, "batch_size": 512, "chunk_size": 512}
SMALL = {"batch_size": 256}


def _dot(model: str, loss: str, lp_weight: float, learning_rate: float = 0.1, **others: Any) -> TrainConfig:
    """Return settings of a dot product: it needs a large step size and the cubic regulariser."""
    return TrainConfig(model=model, loss=loss, lp_weight=lp_weight, lp_power=3.0, learning_rate=learning_rate, **others)


def _gaussian(k: int = 50, learning_rate: float = 0.02, **others: Any) -> TrainConfig:
    """Return settings of KG2E, which needs many steps of a large step size until its variances fit."""
    return TrainConfig(model="kg2e", k=k, learning_rate=learning_rate, batch_size=512, **others)


# The first word of a name is the model. sa, mc: the self-adversarial and the multiclass loss. half, typed: corruptions
POOL = {
    "transe": TrainConfig(),
    "complex sa": _dot("complex", SA, 0.015),
    "complex sa weak": _dot("complex", SA, 0.0015),
    "transe cohort": TrainConfig(**COHORT),
    "distmult sa": _dot("distmult", SA, 0.015),
    "complex sa cohort": _dot("complex", SA, 0.015, **WARM),
    "transe half cohort": TrainConfig(**HALF, **COHORT),
    "complex mc weak": _dot("complex", MC, 0.01),
    "rotate cohort": TrainConfig(model="rotate", learning_rate=0.02, **COHORT),
    "transe near cohort": TrainConfig(**COHORT, loss_options={"margin": 1.5}),
    "transe far cohort": TrainConfig(**COHORT, loss_options={"margin": 6.0}),
    "transe typed": TrainConfig(**TYPED),
    "complex sa half": _dot("complex", SA, 0.015, **HALF),
    "complex sa typed": _dot("complex", SA, 0.015, **TYPED),
    "complex sa weak cohort": _dot("complex", SA, 0.0015, **WARM),
    "complex sa weak half": _dot("complex", SA, 0.003, **HALF),
    "complex sa k 200": _dot("complex", SA, 0.005, k=200),
    "complex sa small batches": _dot("complex", SA, 0.005, **SMALL),
    "complex sa inverse": _dot("complex", SA, 0.015, inverse_relations=True),
    "complex sa dropout": TrainConfig(model="complex", learning_rate=0.02, dropout=0.3),
    "complex mc": _dot("complex", MC, 0.1),
    "complex mc cohort": _dot("complex", MC, 0.1, **WARM),
    "complex mc ranks": _dot("complex", MC, 0.1, 0.03, **RANKS, sides_apart=True),
    "complex mc ranks inverse": _dot("complex", MC, 0.1, 0.03, **RANKS, inverse_relations=True),
    "distmult sa half": _dot("distmult", SA, 0.015, **HALF),
    "distmult sa weak cohort": _dot("distmult", SA, 0.003, **WARM),
    "distmult mc": _dot("distmult", MC, 0.1),
    "transe half": TrainConfig(**HALF),
    "transe typed cohort": TrainConfig(**TYPED, **COHORT),
    "rotate": TrainConfig(model="rotate", learning_rate=0.02),
    "quate mc": _dot("quate", MC, 0.1),
    "hole pairwise": _dot("hole", PW, 5.0),
    "complex nll": _dot("complex", "nll", 0.05),
    "tucker mc": TrainConfig(model="tucker", loss=MC, k=50, learning_rate=0.01, dropout=0.2),
    "rescal mc": _dot("rescal", MC, 0.1, 0.03, k=50),
    "transe far half cohort": TrainConfig(**HALF, **COHORT, loss_options={"margin": 6.0}),
    "transe far typed cohort": TrainConfig(**TYPED, **COHORT, loss_options={"margin": 6.0}),
    "complex sa inverse cohort": _dot("complex", SA, 0.015, inverse_relations=True, **WARM),
    "complex sa weak inverse cohort": _dot("complex", SA, 0.0015, inverse_relations=True, **WARM),
    "complex sa middle cohort": _dot("complex", SA, 0.005, **WARM),
    "complex sa half cohort": _dot("complex", SA, 0.015, **HALF, **WARM),
    "complex sa k 50 cohort": _dot("complex", SA, 0.015, k=50, **WARM),
    "distmult sa half cohort": _dot("distmult", SA, 0.01, **HALF, **WARM),
    "kg2e typed cohort": _gaussian(**TYPED, **COHORT),
    "kg2e slow typed cohort": _gaussian(learning_rate=0.01, **TYPED, **COHORT),
    "kg2e typed": _gaussian(**TYPED),
    "kg2e both typed": _gaussian(training_strategy={"typed": 1.0}),
    "kg2e half cohort": _gaussian(**HALF, **COHORT),
    "kg2e cohort": _gaussian(**COHORT),
    "kg2e k 100 typed cohort": _gaussian(k=100, **TYPED, **COHORT),
}

# graph -> data set; number of entities to keep and how they are chosen, or 0 for the whole data set; and the share of
# the epochs of a whole training, because large graphs would take too long
GRAPHS: dict[str, tuple[str, int, str, float]] = {
    "umls": ("umls", 0, "", 1.0),
    "umls-40": ("umls", 40, "frequent", 1.0),
    "family": ("family", 0, "", 0.5),
    "fb15k-237-400": ("fb15k-237", 400, "frequent", 0.5),
    "ppi5k-100": ("ppi5k", 100, "frequent", 0.4),
    "wn18rr-8000": ("wn18rr", 8000, "near", 1.0),
    "fb15k-237-2500": ("fb15k-237", 2500, "near", 0.5),
    "wn11": ("wn11", 0, "", 1 / 6),
    "fb13-12000": ("fb13", 12_000, "subjects", 1 / 3),
}
HELD_OUT = 0.1  # share of the triples of a part that are its validation triples
PEOPLE = 2000


def load(name: str, folders: Path, cache: Path, mirror: str | None) -> KnowledgeGraph:
    """Return a graph of GRAPHS without its test split.

    folders  has a folder for each data set that kgcal does not know by name
    cache    folder of the data sets that it knows
    mirror   where these come from; None: from the public hosts
    """
    dataset, number, how, _ = GRAPHS[name]
    spec = find_dataset(str(folders / dataset) if (folders / dataset).exists() else dataset)
    graph = prepare(spec, fetch(spec, cache, mirror, PEOPLE, 0)).graph
    graph = replace(graph, test=Split(graph.test.triples[:0], graph.test.labels[:0]))
    if how == "subjects":
        return by_subjects(graph, number)
    return part(graph, CHOICES[how](graph, number)) if number else graph


def frequent(graph: KnowledgeGraph, number: int) -> np.ndarray:
    """Return the entities with the most training triples: a dense part."""
    counts = np.bincount(graph.train.triples[:, [0, 2]].ravel(), minlength=len(graph.entities))
    return np.argsort(-counts, kind="stable")[:number]


def near(graph: KnowledgeGraph, number: int) -> np.ndarray:
    """Return the entities that are nearest to a random one, breadth first: a part with the density of the whole."""
    rng, triples = np.random.default_rng(0), graph.train.triples
    seen = np.zeros(len(graph.entities), dtype=bool)
    seen[triples[rng.integers(len(triples)), 0]] = True
    while seen.sum() < number:
        touched = seen[triples[:, 0]] | seen[triples[:, 2]]
        new = np.setdiff1d(triples[touched][:, [0, 2]], np.flatnonzero(seen))
        if not len(new):  # another component
            new = np.flatnonzero(~seen)[:1]
        seen[rng.permutation(new)[: number - seen.sum()]] = True
    return np.flatnonzero(seen)


CHOICES: dict[str, Callable[[KnowledgeGraph, int], np.ndarray]] = {"frequent": frequent, "near": near}


def part(graph: KnowledgeGraph, entities: np.ndarray) -> KnowledgeGraph:
    """Return the graph of the training triples between `entities`. A random tenth of them is its validation split.

    The training triples of the part contain the entities and the predicate of each validation triple.
    """
    inside = np.isin(graph.train.triples[:, [0, 2]], entities).all(axis=1)
    triples = np.random.default_rng(0).permutation(graph.train.triples[inside])
    left = [np.bincount(triples[:, [0, 2]].ravel()), np.bincount(triples[:, 1])]
    held = np.zeros(len(triples), dtype=bool)
    for row, (s, p, o) in enumerate(triples):
        if held.sum() < HELD_OUT * len(triples) and min(left[0][s], left[0][o]) > 2 and left[1][p] > 1:
            held[row] = True
            left[0][[s, o]] -= 1
            left[1][p] -= 1
    return _of(graph, triples[~held], Split(triples[held], np.ones(held.sum())))


def by_subjects(graph: KnowledgeGraph, number: int) -> KnowledgeGraph:
    """Return the graph of the triples of random subjects, with their validation triples and labelled negatives."""
    subjects = np.random.default_rng(0).permutation(np.unique(graph.train.triples[:, 0]))[:number]
    triples = graph.train.triples[np.isin(graph.train.triples[:, 0], subjects)]
    kept = np.isin(graph.valid.triples[:, 0], subjects)
    for column, known in ((0, (0, 2)), (1, (1,)), (2, (0, 2))):
        kept &= np.isin(graph.valid.triples[:, column], triples[:, known])
    return _of(graph, triples, Split(graph.valid.triples[kept], graph.valid.labels[kept]))


def _of(graph: KnowledgeGraph, train: np.ndarray, valid: Split) -> KnowledgeGraph:
    """Return the graph of these triples, with the entities and predicates of the training triples."""
    own, predicates = np.unique(train[:, [0, 2]]), np.unique(train[:, 1])

    def numbered(triples: np.ndarray) -> np.ndarray:
        return np.stack([np.searchsorted(names, triples[:, n]) for n, names in enumerate((own, predicates, own))], 1)

    return replace(
        graph,
        name=f"{graph.name}, {len(own)} entities",
        entities=[graph.entities[n] for n in own],
        predicates=[graph.predicates[n] for n in predicates],
        train=Split(numbered(train), np.ones(len(train))),
        valid=Split(numbered(valid.triples), valid.labels),
        other_facts=np.zeros((0, 3), dtype=np.int64),
    )
