"""A module for processes that run commands: with it, they fit few trees."""

import pytest

from tests.few_trees import few_trees

few_trees(pytest.MonkeyPatch())
