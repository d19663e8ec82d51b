"""Which code belongs to which stage."""

from tasks.fingerprint import closure, code_fingerprint


def test_a_closure_follows_imports_and_takes_packages_along() -> None:
    train = closure(["kgcore.training.loop", "kgcore.models.transe"])
    assert {"kgcore.training.adam", "kgcore.models.base", "kgcore.models", "kgcore.graph"} <= train
    assert not {name for name in train if name.startswith(("kgcore.calibration", "kgcore.metrics", "kgcore.report"))}
    assert not train & {"kgcore.config", "kgcore.models.hole"}


def test_no_stage_after_the_scores_depends_on_training() -> None:
    for entry in ("kgcore.calibration.fit", "kgcore.predictions", "kgcore.evaluation", "kgcore.report.page"):
        assert not {name for name in closure([entry]) if name.startswith("kgcore.training")}


def test_a_fingerprint_is_of_what_is_named() -> None:
    assert code_fingerprint(["kgcore.ranking"]) == code_fingerprint(["kgcore.ranking"])
    assert code_fingerprint(["kgcore.ranking"]) != code_fingerprint(["kgcore.ranking", "kgcore.models.hole"])
