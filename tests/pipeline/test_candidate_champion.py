"""Calibrators that are fitted to candidates: who judges them on a graph without labels, and the sample of each."""

from collections.abc import Iterator

import numpy as np
import pytest

from flows.jobs.promote import promote
from flows.pipeline import pipeline
from kgcore.config import CalibrateConfig, GateConfig, MatchConfig, PrepareConfig, TrainConfig
from kgcore.mixture.calibrate import candidate_sample
from tasks.jobs.find_model import Ask, calibration_sample, find_calibrated_model
from tasks.jobs.promote import Decision
from tasks.tracking.artifacts import MATCHED, MIXTURE
from tasks.tracking.registry import CHAMPION, register, set_alias
from tasks.tracking.store import open_store
from tests.conftest import FEW_CORRUPTIONS, FEW_REPLICATES, use_home
from tests.folders import TEST, write_folder


@pytest.fixture(scope="module")
def calibrate_run(quick_trees: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a pipeline on a graph without labels, calibrated to candidates of which 43 % are true."""
    home = tmp_path_factory.mktemp("home")
    folder, file = write_folder(home / "mine"), home / "asked.tsv"
    rng = np.random.default_rng(0)
    false = [f"e{s}\tr{p}\te{o}" for s, p, o in rng.integers(0, [40, 2, 40], (200, 3))]
    file.write_text("\n".join([*TEST, *false]) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        use_home(home, patch)
        made = pipeline.fn(
            prepare=PrepareConfig(dataset=str(folder)),
            train=TrainConfig(k=16, epochs=30, batch_size=128),
            corrupt=FEW_CORRUPTIONS,
            calibrate=CalibrateConfig(base_rate=0.4, calibrators=("per_relation", "beta")),
            evaluate=FEW_REPLICATES,
            match=MatchConfig(candidates=str(file), match_replicates=20),
            preset="default",
        )
        yield made.runs["calibrate"]


def decided() -> Decision:
    [decision] = promote.fn(dataset="mine", config=GateConfig(field_labels=80))
    return decision


def test_corruptions_do_not_judge_them(calibrate_run: str) -> None:
    decision = decided()
    assert ", synthetic." in decision.explanation
    assert "the only new challenger" in decision.explanation
    assert "Not judged: 1 calibrator fitted to candidate triples." in decision.explanation
    assert "label about 160 candidate triples, drawn at random" in decision.explanation


def test_a_champion_that_is_calibrated_to_candidates_stays(calibrate_run: str) -> None:
    store = open_store()
    own = find_calibrated_model(Ask(calibrate_run, calibrator="candidates.beta"))
    version = register(store, "mine", own.model_id, "by hand")
    set_alias(store, "mine", CHAMPION, version)
    decision = decided()
    assert not decision.passed
    assert decision.champion == version.uri
    assert f"version {version.number} stays the champion. It is calibrated to candidates." in decision.explanation


@pytest.mark.parametrize("name", ["per_relation", "beta"])
def test_the_sample_is_the_one_that_the_calibrator_was_fitted_on(calibrate_run: str, name: str) -> None:
    store, found = open_store(), find_calibrated_model(Ask(calibrate_run, calibrator=f"candidates.{name}"))
    match = store.get(calibrate_run).tags.inputs["match"]
    data, matched = store.load(match, MIXTURE), store.load(match, MATCHED)
    assert matched.relations  # otherwise both samples are the same
    sample, wanted = calibration_sample(found.model_id, found.model), candidate_sample(data, matched, name != "beta")
    np.testing.assert_array_equal(sample.weights, wanted.weights)
    again = type(found.model.calibrator.calibrator)().fit_sample(sample)
    assert again.parameters() == found.model.calibrator.calibrator.parameters()
