"""The index of the commands: the help of `kgcal` without loading the commands, and each command when it is called."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from flows.cli.index import index_text, lazy_app, whole_app
from tests.pipeline.command import CHECKOUT

SLOW = ("mlflow", "numpy", "pandas", "prefect", "sklearn", "torch")


def test_the_index_is_that_of_the_commands() -> None:
    assert (CHECKOUT / "flows/cli/index.json").read_text() == index_text(), "run `make generated`"


def test_the_help_lists_every_command_with_its_help() -> None:
    wide = {"COLUMNS": "120", "TERMINAL_WIDTH": "120"}
    lazy, whole = (CliRunner().invoke(app, ["--help"], env=wide) for app in (lazy_app(), whole_app()))
    assert lazy.exit_code == 0
    assert sorted(lazy.output.split()) == sorted(whole.output.split())  # groups come last where they are loaded
    assert "project" not in lazy.output.split()  # hidden


@pytest.mark.parametrize("words", [["run"], ["watch"], ["import", "pykeen"], ["status"], ["datasets"]])
def test_a_command_is_loaded_when_it_is_called(words: list[str]) -> None:
    lazy, whole = (CliRunner().invoke(app, [*words, "--help"]) for app in (lazy_app(), whole_app()))
    assert (lazy.exit_code, lazy.output) == (0, whole.output)
    assert len(lazy.output) > 100


def test_an_unknown_command_is_answered_with_the_nearest_one() -> None:
    done = CliRunner().invoke(lazy_app(), ["evalute"])
    assert done.exit_code == 2
    assert "Did you mean 'evaluate'?" in done.output


@pytest.mark.parametrize("option", ["--help", "--version", "status"])
def test_help_version_and_status_load_no_slow_library(option: str, tmp_path: object) -> None:
    script = "import sys; from flows.cli.main import main\n"
    script += f"try: sys.argv = ['kgcal', {option!r}]; main()\n"
    script += f"finally: print([name for name in {SLOW} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=CHECKOUT,
        env={"KGCAL_HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip() == "[]"
