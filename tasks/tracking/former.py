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
_REMOVED = {"evidence": {"name_encoder", "unseen_combiner"}}
# now baselines, which every run measures and no setting names; and calibrators that were removed
_FORMER_CALIBRATORS = {"uncalibrated", "base_rate", "centred_isotonic", "splines"}
_SIDES_OF_SHARE = {0.0: "subject", 0.5: "both", 1.0: "object"}


def current_settings(
    stage: str | None, settings: Mapping[str, object], base_rate_tag: bool = True
) -> dict[str, object]:
    """Return the settings that a run recorded, with the setting names of this version.

    stage          the stage of the run; None: the run has no stage
    settings       name -> value, as the run recorded them
    base_rate_tag  whether the run has a tag that says where its base rate comes from. Runs of earlier versions have
                   none; their default base rate counts as not stated

    `training_sides` replaces two settings of earlier versions, `object_share` and `bernoulli`. Former calibrators are
    removed, unless no other one was chosen, and so are former settings. Settings of this version do not change.
    """
    names, removed = _RENAMED.get(stage or "", {}), _REMOVED.get(stage or "", set[str]())
    current = {names.get(name, name): value for name, value in settings.items() if name not in removed}
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
