"""A home is one thing: moved, copied or restored, it has all its models, and writes no file outside itself."""

import shutil
from pathlib import Path

import pytest

from kgcore.errors import InputError
from tasks.tracking.artifacts import MANIFEST
from tasks.tracking.record import RunTags
from tasks.tracking.store import Store, open_store
from tasks.workspace.settings import own_uri


def opened(home: Path, patch: pytest.MonkeyPatch) -> Store:
    patch.setenv("KGCAL_HOME", str(home))
    return Store(own_uri())


def saved(store: Store, value: str) -> str:
    """Save an artifact in a new run, and return the run's id."""
    with store.open_run("pipeline", RunTags(stage="pipeline")) as run_id:
        store.log_json(run_id, {"prepare": value}, MANIFEST.path)
    return run_id


def files_of(home: Path) -> set[Path]:
    return {path.relative_to(home) for path in (home / "artifacts").rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["two", "ä %20#'b;", "one/artifacts"])
def test_a_moved_home_keeps_its_artifacts_and_leaves_the_old_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    first = saved(opened(tmp_path / "one", monkeypatch), "a")
    shutil.move(tmp_path / "one", tmp_path / "kept")
    (tmp_path / name).parent.mkdir(exist_ok=True)
    shutil.move(tmp_path / "kept", tmp_path / name)
    store = opened(tmp_path / name, monkeypatch)
    assert store.load(first, MANIFEST) == {"prepare": "a"}
    second = saved(store, "b")
    assert store.load(second, MANIFEST) == {"prepare": "b"}
    assert len(files_of(tmp_path / name)) == 2
    assert {path.name for path in tmp_path.iterdir()} == {name.partition("/")[0]}


def test_a_copy_and_its_original_are_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = saved(opened(tmp_path / "one", monkeypatch), "a")
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    before = files_of(tmp_path / "one")
    second = saved(opened(tmp_path / "copy", monkeypatch), "b")
    assert files_of(tmp_path / "one") == before
    shutil.rmtree(tmp_path / "one")
    store = opened(tmp_path / "copy", monkeypatch)
    assert [store.load(run_id, MANIFEST)["prepare"] for run_id in (first, second)] == ["a", "b"]
    assert not (tmp_path / "one").exists()


def test_a_copy_without_its_artifacts_does_not_write_into_the_original(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(opened(tmp_path / "one", monkeypatch), "a")
    shutil.copytree(tmp_path / "one", tmp_path / "copy", ignore=shutil.ignore_patterns("artifacts"))
    with pytest.raises(InputError, match=r"copy is a copy of the home .*/one without its artifacts: copy the folder"):
        opened(tmp_path / "copy", monkeypatch)
    shutil.copytree(tmp_path / "one" / "artifacts", tmp_path / "copy" / "artifacts", dirs_exist_ok=True)
    saved(opened(tmp_path / "copy", monkeypatch), "b")
    assert len(files_of(tmp_path / "one")) == 1


def test_a_home_without_runs_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(tmp_path / "one", monkeypatch)
    shutil.move(tmp_path / "one", tmp_path / "two")
    saved(opened(tmp_path / "two", monkeypatch), "a")
    assert not (tmp_path / "one").exists()


def test_artifacts_outside_the_home_stay_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGCAL_ARTIFACTS", str(tmp_path / "artifacts"))
    first = saved(opened(tmp_path / "one", monkeypatch), "a")
    monkeypatch.delenv("KGCAL_ARTIFACTS")
    shutil.move(tmp_path / "one", tmp_path / "two")
    store = opened(tmp_path / "two", monkeypatch)
    assert store.load(first, MANIFEST) == {"prepare": "a"}
    saved(store, "b")
    assert not (tmp_path / "two" / "artifacts").exists()


def test_a_question_mark_in_the_path_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGCAL_HOME", str(tmp_path / "a?1"))
    with pytest.raises(InputError, match=r"KGCAL_HOME is .*/a\?1: choose a folder whose path has no question mark"):
        open_store()
    assert not list(tmp_path.iterdir())
