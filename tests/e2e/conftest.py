"""Databases and servers: each test file has its own."""

from collections.abc import Iterator

import pytest

from tests.e2e.local import Local
from tests.e2e.postgres import Postgres, postgres


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with postgres() as made:
        yield made


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, database: Postgres) -> Iterator[Local]:
    with Local(tmp_path_factory.mktemp("local"), database).running() as made:
        yield made
