"""docs/scripts/race_against_tune.py: a search over models starts as `kgcal tune` does for each of them."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from kgcore.config import CorruptConfig
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.registries import MODELS
from kgcore.wings.tuning.objective import SearchObjective
from kgcore.wings.tuning.study import begun, config_of, open_study
from tests.docs.scripts import script

script_of_race = script("race_against_tune")


def test_the_first_trials_are_the_initial_settings_of_the_models_and_the_next_ones_neighbours(
    tmp_path: Path, small_graph: KnowledgeGraph
) -> None:
    space = script_of_race.space_of(tmp_path, ("transe", "distmult"), 4)
    graph = replace(small_graph, test=Split(small_graph.test.triples[:0], small_graph.test.labels[:0]))
    objective = SearchObjective(graph, "brier", CorruptConfig(), 0.5, np.random.default_rng(0))
    study = open_study(tmp_path / "trials.db", "brier", space.firsts())
    script_of_race.run_trials(study, space, graph, objective, 4)
    script_of_race.run_trials(study, space, graph, objective, 5)  # goes on, and fills the queue only once
    found = [config_of(trial) for trial in begun(study)]
    bases = [script_of_race.initial(tmp_path, model).train.replace(epochs=4) for model in space.bases]
    assert found[:2] == bases
    leader = min(begun(study)[:2], key=lambda trial: trial.value)
    base = config_of(leader)
    assert len(found) == len(set(map(repr, found))) == 5
    for config in found[2:]:
        assert config.model == base.model
        assert sum(value != getattr(base, name) for name, value in vars(config).items()) in (1, 2)


def test_only_registered_models_are_left_out() -> None:
    assert set(script_of_race.LEFT_OUT) < set(MODELS.names())


def test_the_lowest_brier_score_is_that_of_a_calibrator() -> None:
    calibrated = {"ground_truth": {"platt": {"brier": 0.2}}, "synthetic": {"beta": {"brier": 0.3}}}
    assert script_of_race.lowest({"metrics": {"uncalibrated": {"brier": 0.1}} | calibrated}) == 0.2
