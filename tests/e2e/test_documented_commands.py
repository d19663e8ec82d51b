"""The documented commands that need servers run as written, except for their ports and the database's address."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import Block, blocks_for
from tests.docs.shell import Shell, served
from tests.e2e.postgres import Postgres
from tests.ports import free_port

BLOCKS = blocks_for(__file__)


class Typist:
    """A shell with a home of its own, and two free ports for its servers."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.mlflow, self.prefect = free_port(), free_port()
        self.shell = Shell(folder / "page", folder / "home", programs)

    def on_free_ports(self, text: str) -> str:
        text = re.sub(r"\bkgcal up\b", f"kgcal up --mlflow-port {self.mlflow} --prefect-port {self.prefect}", text)
        return text.replace("127.0.0.1:4200", f"127.0.0.1:{self.prefect}")

    def type(self, block: Block, text: str) -> str:
        return self.shell.run([Block(block.page, block.line, block.language, "", self.on_free_ports(text))])


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with served(tmp_path_factory.mktemp("bin")) as made:
        yield made


@pytest.fixture(scope="module")
def typist(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Typist]:
    made = Typist(tmp_path_factory.mktemp("typist"), programs)
    yield made
    made.shell.run([Block("end", 0, "sh", "", "kgcal down\n")])


def needs_postgresql(block: Block) -> bool:
    return "postgresql://" in block.text


@pytest.mark.parametrize("block", [b for b in BLOCKS if not needs_postgresql(b)], ids=lambda block: block.place)
def test_a_block_runs_as_written(block: Block, typist: Typist) -> None:
    typist.type(block, block.text)


@pytest.mark.parametrize("block", [b for b in BLOCKS if needs_postgresql(b)], ids=lambda block: block.place)
def test_a_block_runs_on_postgresql(block: Block, database: Postgres, programs: Path, tmp_path: Path) -> None:
    typist = Typist(tmp_path, programs)
    text = f"PASSWORD={database.password}\n{block.text}".replace("127.0.0.1:5432", f"127.0.0.1:{database.port}")
    said = typist.type(block, f"{text}\nkgcal down\n")
    assert re.search(r"^worker +up ", said, re.MULTILINE)
    assert database.password not in said
