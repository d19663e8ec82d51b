"""Check that a command is refused with one sentence, and list what a home holds."""

from pathlib import Path

from tests.pipeline.command import Kgcal


def refused(kgcal: Kgcal, message: str, *arguments: str) -> None:
    done = kgcal(*arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("kgcal: ")]
    assert len(said) == (0 if "Invalid value" in message else 1)  # the other message comes from Typer's parser


def written(kgcal: Kgcal) -> list[Path]:
    """Return artifacts, data sets, checkpoints and reports: all files except the list of runs and the locks."""
    places = ("artifacts", "datasets", "checkpoints", "reports")
    files = (path for place in places for path in (kgcal.home / place).rglob("*"))
    return sorted(path for path in files if path.is_file() and path.suffix != ".lock")
