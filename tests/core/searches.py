"""Small searches for the tests of kgcore/wings/tuning."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import torch

from kgcore.config import CorruptConfig, TrainConfig
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.wings.tuning.objective import SearchObjective
from kgcore.wings.tuning.search import Plan, search
from kgcore.wings.tuning.space import Space
from kgcore.wings.tuning.study import begun, config_of, open_study

CPU = torch.device("cpu")
BASE = TrainConfig(k=4, epochs=4, training_eta=5, batch_size=200)


def without_test(graph: KnowledgeGraph) -> KnowledgeGraph:
    """Return the graph with an empty test split, as a search needs it."""
    return replace(graph, test=Split(np.zeros((0, 3), dtype=np.int64), np.zeros(0)))


def without_negatives(graph: KnowledgeGraph) -> KnowledgeGraph:
    """Return the graph without labelled negatives in its validation split."""
    positives = graph.valid.positives
    return replace(graph, valid=Split(positives, np.ones(len(positives))))


def objective(graph: KnowledgeGraph, metric: str = "brier", base_rate: float = 0.5, seed: int = 0) -> SearchObjective:
    return SearchObjective(graph, metric, CorruptConfig(), base_rate, np.random.default_rng(seed))


def run(
    graph: KnowledgeGraph,
    path: Path,
    total: int,
    seconds: float = 1e9,
    judge: SearchObjective | None = None,
    searched: tuple[str, ...] = ("learning_rate", "epochs", "training_strategy", "training_eta"),
    base: TrainConfig = BASE,
    **options: Any,
) -> optuna.Study:
    """Run a search in the study of that file, and return the study with the attribute `interrupted`."""
    space = Space(base, searched, 12)
    study = open_study(path, "brier", [space.start()])
    plan = Plan(total, seconds, 0)
    interrupted = search(study, graph, judge or objective(graph), space, plan, CPU, **options)
    study.set_user_attr("interrupted", interrupted)
    return study


def story(study: optuna.Study) -> list[tuple[optuna.trial.TrialState, float | None, TrainConfig]]:
    """Return the state, value and settings of every trial that counts towards the search."""
    return [(trial.state, trial.value, config_of(trial)) for trial in begun(study)]
