"""A shell for each page. The pages of a pytest worker share a home, so that a page re-uses runs of earlier pages."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.docs.pages import blocks_of
from tests.docs.shell import Shell, served


@pytest.fixture(scope="session")
def programs() -> Iterator[Path]:
    with (
        tempfile.TemporaryDirectory(prefix="kgcal-") as folder,
        served(Path(folder)) as made,
    ):  # a socket's path is short
        yield made


@pytest.fixture(scope="session")
def type_page(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], str]:
    """Return a function that types the unmarked blocks of a page into a shell and returns the output."""
    home = tmp_path_factory.mktemp("home")

    def typed(page: Path) -> str:
        shell = Shell(tmp_path_factory.mktemp("pages") / page.stem, home, programs)
        return shell.run([block for block in blocks_of(page) if block.language in ("sh", "python") and not block.mark])

    return typed
