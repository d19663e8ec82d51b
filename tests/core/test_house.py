"""The rules of this project that no other tool checks. The tests read the sources and import nothing.

import-linter (pyproject.toml) checks layers and circular imports, ruff checks style, mypy checks types.
"""

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = ("kgcore", "tasks", "flows")
LONGEST_FILE, LONGEST_TEST_FILE, LONGEST_FUNCTION = 400, 400, 60

# `dict[str, Any]` is the type of a JSON object: in these methods, and in the files that read or write artifacts.
JSON_METHODS = {"parameters", "from_parameters", "to_json", "from_json"}
JSON_FILES = {
    "kgcore/config/schema.py",
    "kgcore/storage/graph.py",
    "kgcore/storage/measured.py",
    "kgcore/storage/tables.py",
    "kgcore/training/checkpoint.py",
    "tasks/serving/api.py",
    "tasks/tracking/artifacts.py",
}
FLOW_RUN_FILE = "tasks/workspace/flow_run.py"  # the only file that asks Prefect for the current flow run

Rule = Callable[[], Iterator[str]]
RULES: dict[str, Rule] = {}


def rule(check: Rule) -> Rule:
    """Register a rule: a function that yields the violations, as paths from the project's root."""
    RULES[check.__name__] = check
    return check


@cache
def sources(*folders: str) -> dict[str, str]:
    """Return path from the root -> text, for every Python file in these folders."""
    files = (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in files}


@cache
def tree(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def imported(path: str) -> Iterator[str]:
    """Yield the modules that a file imports, also inside functions."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def untyped(path: str) -> list[int]:
    """Return the lines of a file that contain `dict[str, Any]` outside the methods for JSON."""
    functions = [node for node in ast.walk(tree(path)) if isinstance(node, ast.FunctionDef)]
    allowed = {
        line for node in functions if node.name in JSON_METHODS for line in range(node.lineno, node.end_lineno + 1)
    }
    lines = enumerate(sources(*CODE)[path].splitlines(), start=1)
    return [number for number, line in lines if "dict[str, Any]" in line and number not in allowed]


@rule
def only_json_has_untyped_dictionaries() -> Iterator[str]:
    for path in sources(*CODE):
        if path not in JSON_FILES and untyped(path):
            yield path


@rule
def every_listed_json_file_has_an_untyped_dictionary() -> Iterator[str]:
    for path in JSON_FILES:
        if path not in sources(*CODE) or not untyped(path):
            yield path


@rule
def only_tracking_imports_mlflow() -> Iterator[str]:
    for path in sources(*CODE):
        if not path.startswith("tasks/tracking/") and any(name.split(".")[0] == "mlflow" for name in imported(path)):
            yield path


@rule
def only_tracking_names_mlflow_tags() -> Iterator[str]:
    for path, text in sources(*CODE).items():
        if '"kgcal.' in text and not path.startswith("tasks/tracking/"):
            yield path


@rule
def only_one_file_asks_for_the_flow_run() -> Iterator[str]:
    for path, text in sources(*CODE).items():
        if "FlowRunContext" in text and path != FLOW_RUN_FILE:
            yield path


@rule
def files_are_short() -> Iterator[str]:
    for path, text in sources(*CODE, "tests").items():
        longest = LONGEST_TEST_FILE if path.startswith("tests/") else LONGEST_FILE
        if len(text.splitlines()) > longest:
            yield path


@rule
def functions_are_short() -> Iterator[str]:
    for path in sources(*CODE):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                if node.end_lineno - node.lineno + 1 > LONGEST_FUNCTION:
                    yield f"{path}: {node.name}"


@rule
def packages_say_what_lives_there() -> Iterator[str]:
    folders = {str(Path(path).parent) for path in sources(*CODE)}
    for folder in folders:
        init = f"{folder}/__init__.py"
        if init not in sources(*CODE) or not ast.get_docstring(tree(init)):
            yield folder


@rule
def every_package_is_installed() -> Iterator[str]:
    listed = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for path in sources(*CODE):
        package = str(Path(path).parent).replace("/", ".")
        if path.endswith("__init__.py") and f'    "{package}",' not in listed:
            yield package


@rule
def no_test_imports_another_test() -> Iterator[str]:
    for path in sources("tests"):
        if any(re.search(r"(^|\.)test_\w+$", name) for name in imported(path)):
            yield path


@pytest.mark.parametrize("name", RULES)
def test_the_rule_holds(name: str) -> None:
    assert list(RULES[name]()) == []


def test_the_rules_read_the_sources() -> None:
    assert len(sources(*CODE)) > 200
    assert "kgcore/errors.py" in sources(*CODE)
    assert "kgcore.errors" in set(imported("kgcore/graph.py")) | set(imported("kgcore/registry.py"))
