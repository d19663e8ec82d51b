"""Commands that install software or need Docker or a cluster. Their targets, extras, files and options exist."""

import io
import re
import shlex
import sys
import tomllib
from contextlib import redirect_stdout
from functools import cache

import pytest
from prefect.cli import app as prefect

from flows.cli.main import whole_app
from tests.docs.commands import unknown_words
from tests.docs.pages import CHECKOUT, blocks_for

app = whole_app()

BLOCKS = blocks_for(__file__)
SHELL_WORDS = ("export", "source", "cp", "chmod")
SERVERS = (
    "docker",
    "kubectl",
    "psql",
    "createdb",
    "pg_dump",
)  # known by name: their schemas are tests/pipeline/test_deploy.py's
MADE = (
    ".venv/",
    "deploy/.env",
    "deploy/serve.env",
    "deploy/kgcal-worker",
)  # by make, by the reader, a name in the cluster


def commands() -> list[str]:
    """Return each simple command of the blocks, without the variables in front of it."""
    found = []
    for block in BLOCKS:
        text = block.text.replace("\\\n", " ")
        for line in text.splitlines():
            line = re.sub(r"\s+#.*$", "", line)
            outside = re.sub(r'".*?"|\'.*?\'', lambda quoted: quoted[0].replace("&", "\0"), line)
            parts = [part.replace("\0", "&").strip() for part in re.split(r"&&|&", outside)]
            found += [re.sub(r"^(\w+=\S+ )+", "", part) for part in parts if part]
    return found


@cache
def prefect_help(words: tuple[str, ...]) -> str:
    """Return what `prefect WORDS --help` prints."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed):
        patch.setattr(sys, "argv", ["prefect", *words, "--help"])
        with pytest.raises(SystemExit) as done:
            prefect()
    assert done.value.code == 0
    return printed.getvalue()


def test_there_are_such_blocks() -> None:
    assert len(BLOCKS) > 10


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_what_the_command_names_is_there(command: str) -> None:
    words = shlex.split(command)
    program, rest = words[0], words[1:]
    if program == "make":
        targets = re.findall(r"^([\w -]+):", (CHECKOUT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert set(rest) <= set(" ".join(targets).split())
    elif program == "pip":
        known = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        extras = re.findall(r"\[([\w,]+)\]", command)
        assert extras or rest == ["wheel", ".", "--no-deps"]  # tests/e2e/test_wheel.py installs this wheel
        assert {extra for named in extras for extra in named.split(",")} <= set(known["optional-dependencies"])
    elif program == "kgcal":
        assert not unknown_words(app, command)
    elif program == "prefect":
        named = tuple(word for word in rest[:2] if not word.startswith("-"))
        options = [word for word in rest if word.startswith("--")]
        assert all(option in prefect_help(named) for option in options)
    else:
        assert program in (*SHELL_WORDS, *SERVERS, "python", "pytest") or program.startswith(".venv/bin/")


def test_files_of_the_checkout_are_there() -> None:
    text = "".join(block.text for block in BLOCKS)
    paths = set(re.findall(r"(?<![\w/:.@-])((?:deploy|docs|tests)/[\w./-]+|constraints\.txt|prefect\.yaml)", text))
    assert {"deploy/compose.yaml", "constraints.txt"} <= paths
    for path in paths:
        assert path.startswith(MADE) or (CHECKOUT / path).exists(), path
