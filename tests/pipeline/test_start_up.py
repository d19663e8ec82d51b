"""Help and `kgcal status` load nothing heavy, and the index answers as the commands do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from flows.cli import index

HEAVY = {"prefect", "mlflow", "torch", "pandas", "sklearn", "scipy", "numpy", "matplotlib", "optuna", "pandera"}
SCRIPT = """
import atexit, json, sys
sys.argv = ["kgcal", *sys.argv[1:]]
atexit.register(lambda: print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})), file=sys.stderr))
from flows.cli.main import main
main()
"""


@pytest.mark.parametrize(
    "arguments", [["--help"], ["run", "--help"], ["import", "-h"], ["import", "pykeen", "--help"], ["status"]]
)
def test_light_commands_import_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    left_out = {"MLFLOW_TRACKING_URI", "PREFECT_API_URL"}
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        env=environment | {"KGCAL_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout
    assert not HEAVY & set(json.loads(done.stderr))


def output(group: TyperGroup, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[str, str, object]:
    """Run a command line; return its standard output, its standard error and the exit code."""
    with pytest.raises(SystemExit) as ended:
        group(arguments, prog_name="kgcal")
    return *capsys.readouterr(), ended.value.code


@pytest.mark.parametrize("width", ["80", "200"])
def test_help_from_the_index_equals_the_help_of_the_commands(
    width: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    indexed, whole = get_command(index.lazy_app()), get_command(index.whole_app())
    assert isinstance(indexed, TyperGroup)
    assert isinstance(whole, TyperGroup)
    for words in [[], *([name] for name in indexed.commands), ["import", "pykeen"]]:
        assert output(indexed, [*words, "--help"], capsys) == output(whole, [*words, "--help"], capsys)


@pytest.mark.parametrize(
    "arguments",
    [[], ["statu"], ["import", "pykee"], ["train", "--epoks", "3"], ["run", "--nosuch", "--help"], ["import"]],
)
def test_mistakes_get_the_same_answer(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    indexed, whole = get_command(index.lazy_app()), get_command(index.whole_app())
    assert isinstance(indexed, TyperGroup)
    assert isinstance(whole, TyperGroup)
    assert output(indexed, arguments, capsys) == output(whole, arguments, capsys)


def test_a_new_component_stands_in_the_help_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "components", lambda: {"model": ["new"]})
    group = get_command(index.lazy_app())
    assert isinstance(group, TyperGroup)
    command = group.commands["datasets"]
    context = command.make_context("datasets", ["--help"], resilient_parsing=True)
    assert not isinstance(context.command, index.IndexedCommand)
