"""The process that forks starts with the tests."""

import pytest

from tests.pipeline.forks import start


def pytest_configure(config: pytest.Config) -> None:
    """Let the process that forks do its imports while the tests are collected."""
    if not config.option.collectonly:
        start()
