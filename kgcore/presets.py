"""Named ways to train: what `paper` and `default` stand for, in one place.

paper    the protocol of the published numbers: every positive draws its own uniform corruptions, Adam at a constant
         1e-4, 1,000 epochs, the batches an epoch of the published code, HolE as (2/k) ComplEx. Days on a laptop.
default  what this project recommends: minutes on a laptop, and better proper scores
"""

from dataclasses import replace

from kgcore.config import TrainConfig
from kgcore.errors import InputError

PRESETS = ("default", "paper")
LOSSES = ("self_adversarial", "pairwise", "nll", "multiclass_nll")

# Training rows and batches an epoch of the published code (docs/decisions/0001-paper-and-code.md).
_PAPER_BATCHES = {"wn11": (110_361, 64), "fb13": (316_232, 32), "yago39k": (354_996, 64)}
_PAPER_LINK_PREDICTION = {
    "fb15k-237": TrainConfig(
        k=350, eta=30, epochs=4000, learning_rate=5e-5, batch_size=-(-272_115 // 64), lp_weight=1e-4, lp_power=2
    ),
    "wn18rr": TrainConfig(
        k=200, eta=20, epochs=4000, learning_rate=5e-4, batch_size=-(-86_835 // 10), lp_weight=0.05, lp_power=3
    ),
}


def preset(name: str, dataset: str, model: str, loss: str) -> TrainConfig:
    """How the preset trains this model with this loss on this data set (a registered name or another).

    Raises InputError for an unknown preset.
    """
    if name == "paper":
        return _paper(dataset, model, loss)
    if name == "default":
        return _default(dataset, model, loss)
    raise InputError(f"there is no preset {name!r}: known are {', '.join(PRESETS)}")


def _paper(dataset: str, model: str, loss: str) -> TrainConfig:
    rows, batches = _PAPER_BATCHES.get(dataset, (0, 64))
    base = _PAPER_LINK_PREDICTION.get(dataset) or TrainConfig(
        epochs=1000, learning_rate=1e-4, batch_size=-(-rows // batches) if rows else 1152
    )
    model = "hole_complex" if model == "hole" else model
    return replace(base, model=model, loss=loss, chunk_size=1, learning_rate_end=1.0)


def _default(dataset: str, model: str, loss: str) -> TrainConfig:
    return TrainConfig(model=model, loss=loss)
