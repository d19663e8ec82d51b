"""What presets choose, and what they leave to the user."""

from dataclasses import replace

import pytest

from kgcore.config import CalibrateConfig, Config, CorruptConfig, PipelineConfigs, PrepareConfig, TrainConfig
from kgcore.config.presets import preset, tuned
from kgcore.errors import InputError


def test_the_papers_protocol_is_the_published_one() -> None:
    config = preset("paper", "wn11", "hole", "nll")
    assert (config.model, config.chunk_size, config.epochs, config.learning_rate) == ("hole_complex", 1, 1000, 1e-4)
    assert (config.learning_rate_end, config.negatives, config.lp_weight) == (1.0, {"uniform": 1.0}, 0)
    assert -(-110_361 // config.batch_size) == 64
    assert -(-316_232 // preset("paper", "fb13", "transe", "nll").batch_size) == 32
    linked = preset("paper", "fb15k-237", "complex", "multiclass_nll")
    assert (linked.k, linked.eta, linked.learning_rate, linked.lp_weight) == (350, 30, 5e-5, 1e-4)
    with pytest.raises(InputError, match="there is no preset 'fast'"):
        preset("fast", "wn11", "transe", "nll")


def test_a_preset_chooses_what_is_left_open() -> None:
    def settings(dataset: str, **configs: Config) -> PipelineConfigs:
        return PipelineConfigs(PrepareConfig(dataset=dataset), **configs)

    found = tuned("default", settings("fb13"))
    assert (found.train.negatives, found.train.bernoulli) == ({"typed": 1.0}, True)
    assert replace(found, train=TrainConfig()) == settings("fb13")
    assert tuned("none", settings("fb13")) == settings("fb13")
    best = tuned("best", settings("wn11"))
    assert tuned("default", settings("wn11")).train.loss_options == {"margin": 1.5}
    assert (best.train.loss, best.calibrate.calibrators) == (
        "self_adversarial",
        ("platt", "isotonic", "per_relation"),
    )
    given = tuned("best", settings("wn11"), given=["loss", "calibrators"])
    assert (given.train.loss, given.calibrate) == ("self_adversarial", CalibrateConfig())
    distmult = settings("wn11", train=TrainConfig(model="distmult"))
    assert tuned("default", distmult).train.loss == tuned("best", distmult).train.loss == "multiclass_nll"
    assert tuned("paper", distmult).train.loss == "self_adversarial"
    assert tuned("default", distmult, given=["model", "loss"]).train.loss == "self_adversarial"
    other = settings("wn11", train=TrainConfig(loss_options={"alpha": 0.25}))
    assert tuned("best", other).train.loss == "self_adversarial"  # whose option it is
    assert tuned("default", other).train.loss_options == {"margin": 1.5, "alpha": 0.25}
    assert tuned("best", settings("fb13", train=TrainConfig(loss="nll"))).train.loss_options == {}
    best = tuned("best", settings("fb13")).train
    assert (best.k, best.epochs, best.eta, best.loss_options) == (200, 120, 50, {"margin": 4.0})
    paper = tuned("paper", settings("fb13", train=TrainConfig(epochs=3), corrupt=CorruptConfig(calibration_eta=7)))
    assert (paper.train.epochs, paper.train.chunk_size, paper.train.batch_size) == (3, 1, 9883)
    assert (paper.corrupt.strategy, paper.corrupt.sides, paper.corrupt.filtered) == ({"uniform": 1.0}, "both", False)
    assert paper.corrupt.calibration_eta == 7
    assert tuned("default", settings("fb13"), given=["negatives"]).train.negatives == {"uniform": 1.0}  # as given
    rotate = settings("family", train=TrainConfig(model="rotate"))
    assert tuned("default", rotate) == rotate
    assert tuned("default", settings("family")) == settings("family")
    for name, model, said in (
        ("fast", "transe", "there is no preset 'fast'"),
        ("best", "rotate", "no preset knows rota"),
    ):
        with pytest.raises(InputError, match=said):
            tuned(name, settings("fb13", train=TrainConfig(model=model)))
