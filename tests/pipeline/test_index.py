"""The list of commands: the help of `kgcal` without loading the commands, and each command when it is called."""

import sys
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from flows.cli import main as entry
from flows.cli.main import SUMMARIES, lazy_app, whole_app
from flows.job import all_jobs


def group(app: object) -> TyperGroup:
    made = get_command(app)  # type: ignore[arg-type]
    assert isinstance(made, TyperGroup)
    return made


def test_the_summaries_are_those_of_the_commands() -> None:
    listed = {name: summary for commands in SUMMARIES.values() for name, summary in commands.items()}
    whole = group(whole_app()).commands
    made = {name: "" if command.hidden else command.short_help for name, command in whole.items()}
    assert listed == {name: summary for name, summary in made.items() if name in listed}
    new = {job.command[0] for job in all_jobs() if job.module not in SUMMARIES}
    assert made.keys() - listed.keys() == new


@pytest.mark.parametrize("module", [name for name in SUMMARIES if name.startswith("flows.jobs.")])
def test_a_file_says_its_commands_without_an_import(module: str) -> None:
    whole = group(whole_app()).commands
    found = entry.declared_commands(module)
    assert found.keys() == SUMMARIES[module].keys()
    assert all(summary == whole[name].short_help for name, summary in found.items() if name != "import")


def test_a_job_that_is_not_listed_is_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    others = {module: names for module, names in SUMMARIES.items() if module != "flows.jobs.tune"}
    monkeypatch.setattr(entry, "SUMMARIES", others)
    done = CliRunner().invoke(lazy_app(), ["--help"], env={"COLUMNS": "120", "TERMINAL_WIDTH": "120"})
    assert "  tune " in done.output
    assert "Search for the best training settings on the validation" in done.output


def output(app: TyperGroup, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[str, str, object]:
    """Run a command line; return its standard output, its standard error and the exit code."""
    with pytest.raises(SystemExit) as ended:
        app(arguments, prog_name="kgcal")
    return *capsys.readouterr(), ended.value.code


@pytest.mark.parametrize("width", ["80", "200"])
def test_the_help_of_a_later_command_equals_that_of_the_command(
    width: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    lazy, whole = group(lazy_app()), group(whole_app())
    for words in [[], *([name] for name in lazy.commands), ["import", "pykeen"]]:
        assert output(lazy, [*words, "--help"], capsys) == output(whole, [*words, "--help"], capsys)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["statu"],
        ["evalute"],
        ["import", "pykee"],
        ["train", "--epoks", "3"],
        ["run", "--nosuch", "--help"],
        ["run", "--size", "300", "-h"],
        ["import"],
    ],
)
def test_mistakes_and_late_questions_get_the_same_answer(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert output(group(lazy_app()), arguments, capsys) == output(group(whole_app()), arguments, capsys)


@pytest.mark.parametrize("words", ["kgcal ", "kgcal run --calib", "kgcal import ", "kgcal predict --thr"])
def test_a_shell_completes_the_same_words(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_KGCAL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    lazy, whole = (output(group(app), [], capsys) for app in (lazy_app(), whole_app()))
    assert lazy == whole


def test_the_modules_of_the_table_exist() -> None:
    root = Path(sys.modules["flows"].__path__[0]).parent
    assert all((root / f"{module.replace('.', '/')}.py").is_file() for module in SUMMARIES)
