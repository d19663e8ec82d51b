"""The command that opens the MLflow UI."""

import os
import sys
from pathlib import Path

import pytest

from tasks.workspace import services


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create the folder of an installation's commands, with `kgcal` in it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "kgcal").touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setattr(services, "ui_address", lambda: None)
    monkeypatch.delenv("KGCAL_HOME", raising=False)
    return folder


def test_a_kgcal_on_the_path_needs_no_folder(installation: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(installation))
    assert services.ui_command() == "kgcal ui"


def test_another_kgcal_on_the_path_or_none_needs_the_folder(
    installation: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setenv("PATH", str(other))
    wanted = f"{os.path.relpath(installation / 'kgcal')} ui"
    assert services.ui_command() == wanted
    (other / "kgcal").touch(mode=0o755)
    assert services.ui_command() == wanted
