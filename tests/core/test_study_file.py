"""The file of a search: it appears under its name complete, with everything that a new study has, or not at all."""

from pathlib import Path

import optuna
import pytest

from kgcore.wings.tuning.study import open_study

STARTS = [{"k": 50}, {"k": 100}, {"k": 200}]


def queued(study: optuna.Study) -> list[int]:
    return [trial.system_attrs["fixed_params"]["k"] for trial in study.get_trials()]


def test_a_new_study_has_its_first_trials_queued_and_keeps_them(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    assert queued(open_study(path, "brier", STARTS)) == [50, 100, 200]
    assert queued(open_study(path, "brier", STARTS)) == [50, 100, 200]
    assert [file.name for file in tmp_path.iterdir()] == ["study.db"]


def test_a_process_that_ends_while_it_creates_a_study_leaves_no_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, enqueue = tmp_path / "study.db", optuna.Study.enqueue_trial

    def end_at_the_second(study: optuna.Study, params: dict[str, int]) -> None:
        if params["k"] == 100:
            raise SystemExit
        enqueue(study, params)

    with monkeypatch.context() as patched:
        patched.setattr(optuna.Study, "enqueue_trial", end_at_the_second)
        with pytest.raises(SystemExit):
            open_study(path, "brier", STARTS)
    assert not path.exists()
    assert queued(open_study(path, "brier", STARTS)) == [50, 100, 200]
    assert [file.name for file in tmp_path.iterdir()] == ["study.db"]


def test_a_search_begun_anew_replaces_the_study_and_its_journal(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    first = open_study(path, "brier", STARTS)
    first.tell(first.ask(), 0.2)
    path.with_name("study.db-journal").write_bytes(b"of a process that was killed")
    anew = open_study(path, "accuracy", STARTS[:1], anew=True)
    assert queued(anew) == [50]
    assert anew.direction == optuna.study.StudyDirection.MAXIMIZE
    assert [file.name for file in tmp_path.iterdir()] == ["study.db"]
