"""Translation of the settings that runs of earlier versions recorded to the setting names of this version."""

from collections.abc import Mapping

from kgcore.config import ASSUMED_BASE_RATE

_RENAMED = {
    "train": {"negatives": "training_strategy", "filter_training": "training_filtered", "eta": "training_eta"},
    "corrupt": {
        "strategy": "calibration_strategy",
        "sides": "calibration_sides",
        "filtered": "calibration_filtered",
        "corruption_seed": "calibration_seed",
    },
}
_FORMER_CALIBRATORS = {"uncalibrated", "base_rate"}  # now baselines: every run measures them, no setting names them
_SIDES_OF_SHARE = {0.0: "subject", 0.5: "both", 1.0: "object"}


def current_settings(
    stage: str | None, settings: Mapping[str, object], base_rate_tag: bool = True
) -> dict[str, object]:
    """Return the settings that a run recorded, with the setting names of this version.

    stage          the stage of the run; None: the run has no stage
    settings       name -> value, as the run recorded them
    base_rate_tag  whether the run has a tag that says where its base rate comes from. Runs of earlier versions have
                   none; their default base rate counts as not stated

    `training_sides` replaces two settings of earlier versions, `object_share` and `bernoulli`. Baselines that were
    chosen as calibrators are removed, unless only baselines were chosen. Settings of this version do not change.
    """
    names = _RENAMED.get(stage or "", {})
    current = {names.get(name, name): value for name, value in settings.items()}
    if stage == "train" and "object_share" in current:
        share, bernoulli = current.pop("object_share"), current.pop("bernoulli", False)
        current["training_sides"] = "bernoulli" if bernoulli else _sides_of(share)
    if stage == "calibrate" and not base_rate_tag and current.get("base_rate") == ASSUMED_BASE_RATE:
        current["base_rate"] = None
    if stage == "calibrate" and isinstance(chosen := current.get("calibrators"), list):
        current["calibrators"] = [name for name in chosen if name not in _FORMER_CALIBRATORS] or chosen
    return current


def _sides_of(share: object) -> str:
    assert isinstance(share, int | float)
    return _SIDES_OF_SHARE.get(float(share)) or f"object={share}"
