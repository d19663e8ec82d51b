"""Presets: which settings they choose, and which they leave to the user."""

from itertools import product
from typing import Any

import pytest

from kgcore.config import (
    CalibrateConfig,
    CorruptConfig,
    PipelineConfigs,
    PrepareConfig,
    TrainConfig,
)
from kgcore.config.base import BY_PRESET
from kgcore.config.presets import AUTO, LOSSES, MODELS, NONE, PRESETS, Resolved, preset, resolve
from kgcore.errors import InputError

DATASETS = ("wn11", "fb13", "yago39k", "fb15k-237", "wn18rr", "family")


def resolved(name: str, dataset: str, **train: Any) -> Resolved:
    return resolve(name, PipelineConfigs(PrepareConfig(dataset=dataset), TrainConfig(**train)))


def test_the_papers_protocol_is_the_published_one() -> None:
    config = preset("paper", "wn11", "hole", "nll")
    assert (config.model, config.chunk_size, config.epochs, config.learning_rate) == ("hole_complex", 1, 1000, 1e-4)
    assert (config.learning_rate_end, config.training_strategy, config.lp_weight) == (1.0, {"uniform": 1.0}, 0)
    assert -(-110_361 // config.batch_size) == 64
    assert -(-316_232 // preset("paper", "fb13", "transe", "nll").batch_size) == 32
    linked = preset("paper", "fb15k-237", "complex", "multiclass_nll")
    assert (linked.k, linked.training_eta, linked.learning_rate, linked.lp_weight) == (350, 30, 5e-5, 1e-4)


def test_no_preset_leaves_the_defaults() -> None:
    found = resolved(NONE, "fb13", k=7)
    assert found == Resolved(PipelineConfigs(PrepareConfig(dataset="fb13"), TrainConfig(k=7)), NONE, ())
    assert found.parameters == {"preset": "none", "preset.filled": "none"}


def test_default_and_best_decide_by_data_set_and_model() -> None:
    found = resolved("default", "fb13")
    assert (found.configs.train.training_strategy, found.configs.train.training_sides) == ({"typed": 1.0}, "bernoulli")
    assert found.configs.corrupt == CorruptConfig(calibration_strategy={"typed": 0.9, "uniform": 0.1})
    assert "calibration_strategy" in found.filled
    assert resolved("default", "wn11").configs.train.loss_options == {"margin": 1.5}
    assert resolved("default", "family").configs == PipelineConfigs()
    best = resolved("best", "fb13").configs
    assert (best.train.k, best.train.epochs, best.train.training_eta) == (200, 120, 50)
    assert best.train.loss_options == {"margin": 4.0}
    assert best.corrupt == found.configs.corrupt
    assert best.calibrate == CalibrateConfig(combine_rounds=3)


def test_paper_decides_corruptions_and_calibrators_too() -> None:
    given = PipelineConfigs(PrepareConfig(dataset="fb13"), TrainConfig(epochs=3), CorruptConfig(calibration_eta=7))
    found = resolve("paper", given).configs
    assert (found.train.epochs, found.train.chunk_size, found.train.batch_size) == (3, 1, 9883)
    assert found.corrupt == CorruptConfig(
        calibration_strategy={"uniform": 1.0}, calibration_sides="both", calibration_filtered=False, calibration_eta=7
    )
    assert found.calibrate.calibrators == ("platt", "isotonic")


@pytest.mark.parametrize("name", ["default", "best"])
def test_the_loss_is_the_presets_only_if_it_is_not_given(name: str) -> None:
    assert resolved(name, "wn11", model="distmult").configs.train.loss == "multiclass_nll"
    given = resolved(name, "wn11", model="distmult", loss="self_adversarial")
    assert given.configs.train.loss == "self_adversarial"  # the default value
    assert (given.configs.train.learning_rate, given.configs.train.lp_weight) == (0.1, 0.015)
    assert "loss" not in given.filled
    options = resolved(name, "wn11", model="distmult", loss_options={"alpha": 0.25})
    assert options.configs.train.loss == "self_adversarial"  # the loss that has this option
    assert resolved("paper", "wn11", model="distmult").configs.train.loss == "self_adversarial"


def test_a_given_default_wins_over_the_preset() -> None:
    assert resolved("default", "fb13", training_strategy={"uniform": 1.0}).configs.train.training_strategy == {
        "uniform": 1.0
    }
    given = PipelineConfigs(
        PrepareConfig(dataset="wn11"), calibrate=CalibrateConfig(calibrators=CalibrateConfig().calibrators)
    )
    assert resolve("paper", given).configs.calibrate == CalibrateConfig()
    for name, dataset in product(PRESETS, DATASETS):
        usual = TrainConfig(model="distmult", epochs=100, k=100)
        found = resolved(name, dataset, **vars(usual))
        assert found.configs.train == usual
        assert set(found.filled).isdisjoint(vars(usual))


def test_options_of_the_loss_are_filled_one_by_one() -> None:
    found = resolved("default", "wn11", loss_options={"alpha": 0.25})
    assert found.configs.train.loss_options == {"margin": 1.5, "alpha": 0.25}
    assert "loss_options" in found.filled
    given = resolved("default", "wn11", loss_options={"margin": 3.0})
    assert given.configs.train.loss_options == {"margin": 3.0}
    assert "loss_options" not in given.filled
    assert resolved("best", "fb13", loss="nll").configs.train.loss_options == {}


def test_the_filled_settings_are_recorded() -> None:
    found = resolved("default", "wn11", model="distmult", epochs=2)
    assert found.filled == (
        "loss",
        "training_eta",
        "learning_rate",
        "lp_weight",
        "lp_power",
        "calibration_strategy",
    )
    assert found.parameters == {
        "preset": "default",
        "preset.filled": "loss,training_eta,learning_rate,lp_weight,lp_power,calibration_strategy",
    }
    names = ("loss_options", "epochs", "cohort_weight", "cohort_temperature", "calibration_strategy")
    assert resolved("default", "wn11").filled == names
    assert resolved("default", "wn11").configs.train.epochs == TrainConfig().epochs  # the preset's value


def test_presets_decide_what_they_may_decide_and_nothing_else() -> None:
    filled = {
        setting
        for name, dataset, model in product(PRESETS, DATASETS, MODELS)
        for loss in (None, *LOSSES)
        for setting in resolved(name, dataset, model=model, loss=loss).filled
    }
    assert filled | set(resolve(AUTO, PipelineConfigs()).filled) == BY_PRESET


def test_a_model_or_loss_that_presets_do_not_know() -> None:
    rotate = resolved("default", "wn11", model="rotate")
    assert (rotate.configs.train, rotate.filled) == (TrainConfig(model="rotate"), ("calibration_strategy",))
    with pytest.raises(InputError, match="the preset best has no settings for rotate with self_adversarial: it has"):
        resolved("best", "fb13", model="rotate")


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(InputError, match="unknown preset 'fast': the known ones are auto, default, best, paper, none"):
        resolved("fast", "wn11")
    with pytest.raises(InputError, match="unknown preset 'fast': the known ones are default, best, paper"):
        preset("fast", "wn11", "transe", "nll")
