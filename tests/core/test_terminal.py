"""The console prints names as they are, and no name reaches the terminal as a command."""

import io
import logging
import os
import signal
import subprocess
import sys
import time

import pytest
import typer

from flows.cli.terminal import LogHandler, Terminal, fail, guarded, log_to_terminal, show
from kgcore.measure.report.result import Result, ResultTable, table_of
from tasks.workspace import flow_run
from tasks.workspace.flow_run import progress_bar

NAMES = ("benzo[a]pyrene", "up[regulates]", "[/b]", "[/]", "[bold]x[/]", ":apple:", "treats [in vivo]", "a\\[b]")
CONTROLS = {
    "\x1b[2J": r"\x1b[2J",
    "a\x1b]0;title\x07b": r"a\x1b]0;title\x07b",
    "a\rb": r"a\rb",
    "a\bb": r"a\x08b",
    "\x7f\x9b31m": r"\x7f\x9b31m",
    "\u202eevil": r"\u202eevil",
    "\udc80": r"\udc80",
}
CASES = [*zip(NAMES, NAMES, strict=True), *CONTROLS.items()]
RAW = {character for name in CONTROLS for character in name if not character.isprintable()}


@pytest.mark.parametrize(("name", "right"), CASES, ids=range(len(CASES)))
def test_every_part_of_a_result_shows_names_as_they_are(name: str, right: str) -> None:
    rows = table_of((name, "best", "p"), [(name, name, "0.5")])
    table = ResultTable(title=name, rows=rows, words=(name,), best={(0, "best")}, notes=[name])
    result = Result(title=name, tables=[table], sentences=[name], files={"table": name}, verdict=name)
    for is_terminal in (False, True):
        file = io.StringIO()
        show(Terminal(file=file, width=200, force_terminal=is_terminal, color_system=None), result)
        shown = file.getvalue()
        assert shown.count(right) == 8, shown
        assert RAW.isdisjoint(shown)


def test_no_call_can_ask_for_markup() -> None:
    file = io.StringIO()
    Terminal(file=file).print("[bold]a[/] :apple:", markup=True, emoji=True, highlight=True)
    assert file.getvalue() == "[bold]a[/] :apple:\n"


@pytest.mark.parametrize(("name", "right"), CASES, ids=range(len(CASES)))
def test_errors_and_logs_show_names_as_they_are(
    name: str, right: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    log_to_terminal()
    [handler] = [one for one in logging.getLogger("kgcal").handlers if isinstance(one, LogHandler)]
    record = {"name": "kgcal", "msg": "read %s", "args": (name,), "levelno": logging.INFO, "levelname": "INFO"}
    handler.handle(logging.makeLogRecord(record))  # not by the logger: pytest cannot report a surrogate
    with pytest.raises(typer.Exit) as ended:
        fail(f"the graph has no entity {name}")
    errors = capsys.readouterr().err
    assert ended.value.exit_code == 2
    assert f"kgcal: the graph has no entity {right}\n" in errors
    assert RAW.isdisjoint(errors)
    assert f"read {right} " in errors


def test_a_bar_shows_its_title_and_words_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    bars = Terminal(file=file, width=120, force_terminal=True, color_system=None)
    monkeypatch.setattr(flow_run, "console", bars)
    with progress_bar("train [/b] \x1b[2J", 2) as move:
        move(1, "up[regulates] \u202e")
    assert r"train [/b] \x1b[2J" in file.getvalue()
    assert r"up[regulates] \u202e" in file.getvalue()
    assert "\x1b[2J" not in file.getvalue()


def replaced(interruption: BaseException) -> None:
    """Raise an error in place of an interruption, as NumPy does."""
    with guarded():
        try:
            raise interruption
        except BaseException as reason:
            raise ValueError("this is no format of an array") from reason


@pytest.mark.parametrize("interruption", [SystemExit(143), KeyboardInterrupt()])
def test_an_interruption_that_a_library_replaces_keeps_its_exit_code(interruption: BaseException) -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(type(interruption)) as raised:
            replaced(interruption)
        assert raised.value is interruption
    finally:
        signal.signal(signal.SIGTERM, before)


class InterruptedFinaliser:
    """An object whose finaliser receives a signal."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.kill(os.getpid(), self.number)
        time.sleep(0.01)


def interrupted_in_a_finaliser(number: int) -> None:
    """Destroy an object whose finaliser is interrupted, and work on for ten seconds."""
    with guarded():
        InterruptedFinaliser(number)
        time.sleep(10)


ENDING = """
import threading, time
from flows.cli.terminal import guarded
with guarded():
    threading.Thread(target=time.sleep, args=(1,)).start()
    print("ended", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_after_the_end_of_a_command_prints_nothing(number: int) -> None:
    with subprocess.Popen([sys.executable, "-c", ENDING], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.3)
        process.send_signal(number)
        assert process.communicate()[1] == b""
    assert process.returncode == 0


@pytest.mark.parametrize(("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_an_interruption_during_a_finaliser_is_not_lost(
    number: int, error: type[BaseException], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(error):
            interrupted_in_a_finaliser(number)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "Traceback" not in capfd.readouterr().err
