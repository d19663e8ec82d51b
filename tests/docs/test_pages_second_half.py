"""The second half of the pages, for another pytest worker: their commands run as written."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.pages import CHECKOUT, HALVES


@pytest.mark.pages
@pytest.mark.parametrize("page", HALVES[1])
def test_the_commands_of_the_page_run_as_written(page: str, type_page: Callable[[Path], str]) -> None:
    assert type_page(CHECKOUT / page)
