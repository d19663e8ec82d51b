"""The rules of this project that no other tool checks. The tests read the sources and import nothing.

import-linter (pyproject.toml) checks layers and circular imports, ruff checks style, mypy checks types.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = ("kgcore", "tasks", "flows", "kgcal")
LONGEST_FILE, LONGEST_TEST_FILE, LONGEST_FUNCTION = 400, 400, 60
SHORTEST_MODULE = 80  # lines of a module that only one other module imports, unless it is a component
ROOMS_WITHOUT_PIECES = (
    "kgcore/",
    *(f"flows/{room}/" for room in ("cli", "jobs", "local")),
    *(f"tasks/{room}/" for room in ("jobs", "serving", "stages", "tracking", "workspace")),
)
# what registers itself, a stage, a job, commands, and a script
COMPONENT = r"^(@[A-Z_]+\.register\(|[A-Z_]+\.add\(|[A-Z_]+ = Stage\(|@job\(|@question\(|def add\(app|if __name__ == )"
TABLE_OF_STAGES = "tasks/stages/table.py"  # the place of a new stage, which its recipe names

# `dict[str, Any]` is the type of a JSON object: in these methods, and in the files that read or write artifacts.
JSON_METHODS = {"parameters", "from_parameters", "to_json", "from_json"}
JSON_FILES = {
    "kgcore/config/base.py",
    "kgcore/config/calibrate.py",
    "kgcore/config/race.py",
    "kgcore/storage/folders.py",
    "kgcore/storage/tables.py",
    "kgcore/embed/training/loop.py",
    "tasks/serving/api.py",
    "tasks/serving/replies.py",
    "tasks/tracking/artifacts.py",
}
FLOW_RUN_FILE = "tasks/workspace/flow_run.py"  # the only file that asks Prefect for the current flow run

# the command line imports the module of a command and calls its `add`: flows/cli/main.py
COMMANDS = r"flows/cli/commands/\w+\.py: add"
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)

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
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


def tree(path: str) -> ast.Module:
    return parsed((ROOT / path).read_text(encoding="utf-8"))


def imported(path: str) -> Iterator[str]:
    """Yield the modules that a file imports, also inside functions."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def module_of(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def uses(path: str, code: ast.Module) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Return module and name of what a file imports, and of what it uses: reads from an imported module, or itself.

    A text that a call takes counts as the name of something in an imported module: see tasks/tracking/artifacts.py.
    """
    imported, used, modules = set[tuple[str, str]](), set[tuple[str, str]](), dict[str, str]()
    for node in ast.walk(code):
        if isinstance(node, ast.ImportFrom) and node.module:
            imported |= {(node.module, alias.name) for alias in node.names}
            modules |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name: alias.name for alias in node.names}
    for statement in code.body:
        itself = statement.name if isinstance(statement, FUNCTION) else ""
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id != itself:
                used.add((module_of(path), node.id))
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
                used.add((modules[node.value.id], node.attr))
            elif isinstance(node, ast.Call):
                texts = {argument.value for argument in node.args if isinstance(argument, ast.Constant)}
                used |= {(module, text) for module in modules.values() for text in texts if isinstance(text, str)}
    return imported, used


def unused(texts: Mapping[str, str], docs: str) -> Iterator[str]:
    """Yield the public functions that nothing in these files uses, no decorator registers, and no page names in full.

    An import is a use, because ruff reports unused imports. An export of an `__init__.py` needs a further use.
    """
    trees = {path: parsed(text) for path, text in texts.items()}
    found, exports = set[tuple[str, str]](), dict[tuple[str, str], tuple[str, str]]()
    for path, code in trees.items():
        imported, used = uses(path, code)
        own = module_of(path)
        exported = {pair for pair in imported if path.endswith("__init__.py") and (own, pair[1]) not in used}
        found |= used | (imported - exported)
        exports |= {pair: (own, pair[1]) for pair in exported}
    for path, code in trees.items():
        for node in code.body:
            if isinstance(node, FUNCTION) and not node.name.startswith("_") and not node.decorator_list:
                pair = module_of(path), node.name
                if found.isdisjoint({pair, exports.get(pair, pair)}) and ".".join(pair) not in docs:
                    yield f"{path}: {node.name}"


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
        allowed = path.startswith("tasks/tracking/") or path == "kgcal/pyfunc.py"  # MLflow's loader of a logged model
        if not allowed and any(name.split(".")[0] == "mlflow" for name in imported(path)):
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
def only_backends_have_compiled_formulas() -> Iterator[str]:
    """The formulas of models, losses and optimisers are compiled loops in kgcore/wings/fast_cpu alone."""
    for path in sources("kgcore/embed"):
        if any(name.startswith(("kgcore.loops", "numba")) for name in imported(path)):
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
def calibrated_things_are_made_in_one_place() -> Iterator[str]:
    calls = [
        f"{path}:{node.lineno}"
        for path in sources(*CODE)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Calibrated"
    ]
    if len(calls) != 1:
        yield from calls


@rule
def packages_say_what_lives_there() -> Iterator[str]:
    folders = {str(Path(path).parent) for path in sources(*CODE)}
    for folder in folders:
        init = f"{folder}/__init__.py"
        if init not in sources(*CODE) or not ast.get_docstring(tree(init)):
            yield folder


@rule
def no_test_imports_another_test() -> Iterator[str]:
    for path in sources("tests"):
        if any(re.search(r"(^|\.)test_\w+$", name) for name in imported(path)):
            yield path


@rule
def public_functions_are_used() -> Iterator[str]:
    pages = (path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
    for function in unused(sources(*CODE), "\n".join(pages)):
        if not re.fullmatch(COMMANDS, function):
            yield function


def unread_methods(texts: Mapping[str, str], docs: str) -> Iterator[str]:
    """Yield the public methods that no file reads from an object or names in a text, and no page or template names."""
    trees = {path: parsed(text) for path, text in texts.items()}
    nodes = [node for code in trees.values() for node in ast.walk(code)]
    read = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    read |= {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    for path, code in trees.items():
        for node in (node for node in ast.walk(code) if isinstance(node, ast.ClassDef)):
            for method in node.body:
                public = isinstance(method, FUNCTION) and not method.name.startswith("_")
                if public and method.name not in read and not re.search(rf"\b{method.name}\b", docs):
                    yield f"{path}: {node.name}.{method.name}"


@rule
def public_methods_are_used() -> Iterator[str]:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "kgcore").rglob("*.j2")]
    yield from unread_methods(sources(*CODE), "\n".join(path.read_text(encoding="utf-8") for path in pages))


def single_use(texts: Mapping[str, str], rooms: tuple[str, ...]) -> Iterator[str]:
    """Yield the modules below a page that are no component, and that at most one module beside them imports.

    A component registers itself. A module that runs as a script (`__main__`) has no importers by its nature. The module
    of a job or of commands is imported by its name, and the work of a job by its flow.
    """
    importers: dict[str, set[str]] = {}
    for path, text in texts.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                    importers.setdefault(name, set()).add(path)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    importers.setdefault(alias.name, set()).add(path)
    for path, text in texts.items():
        component = path == TABLE_OF_STAGES or re.search(COMPONENT, text, re.MULTILINE)
        used = importers.get(module_of(path), set())
        small = len(text.splitlines()) < SHORTEST_MODULE and not path.endswith("__init__.py")
        beside = all(Path(importer).parent == Path(path).parent for importer in used)
        if path.startswith(rooms) and small and not component and len(used) < 2 and beside:
            yield path


def names_of_several_classes(texts: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of public classes that more than one file defines."""
    files: dict[str, list[str]] = {}
    for path, text in texts.items():
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files.setdefault(node.name, []).append(path)
    yield from (f"{name}: {', '.join(paths)}" for name, paths in files.items() if len(paths) > 1)


@rule
def the_name_of_a_public_class_exists_once() -> Iterator[str]:
    yield from names_of_several_classes(sources(*CODE))


@rule
def a_module_is_a_component_or_shared_or_a_page() -> Iterator[str]:
    yield from single_use(sources(*CODE), ROOMS_WITHOUT_PIECES)


@pytest.mark.parametrize("name", RULES)
def test_the_rule_holds(name: str) -> None:
    assert list(RULES[name]()) == []


def test_the_rules_read_the_sources() -> None:
    assert len(sources(*CODE)) > 200
    assert "kgcore/errors.py" in sources(*CODE)
    assert "kgcore.errors" in set(imported("kgcore/data/graph.py")) | set(imported("kgcore/registry.py"))


def test_a_function_without_a_caller_is_found() -> None:
    texts = {
        "kgcore/__init__.py": "from kgcore.a import exported, forgotten\n__all__ = ['exported', 'forgotten']\n",
        "kgcore/a.py": "def exported(): ...\ndef forgotten(): ...\ndef named(): ...\ndef itself(): itself()\n",
        "kgcore/b.py": "def called(): ...\ndef read(): ...\ndef lost(): ...\nx = called\n@add('b')\ndef added(): ...\n",
        "tasks/c.py": "import kgcore\nfrom kgcore import b\nkgcore.exported()\nb.read()\ndef _private(): lost()\n",
    }
    found = list(unused(texts, "`kgcore.a.named` is for users"))
    assert found == ["kgcore/a.py: forgotten", "kgcore/a.py: itself", "kgcore/b.py: lost"]


def test_a_method_without_a_reader_is_found() -> None:
    text = (
        "class A:\n def read(self): ...\n def named(self): ...\n def lost(self): ...\n def _own(self): ...\nA().read()"
    )
    assert list(unread_methods({"kgcore/a.py": text}, "`named` is for users")) == ["kgcore/a.py: A.lost"]


def test_a_class_name_of_two_files_is_found() -> None:
    texts = {"kgcore/a.py": "class Rows: ...\nclass _Own: ...", "tasks/b.py": "class Rows: ...\nclass _Own: ..."}
    assert list(names_of_several_classes(texts)) == ["Rows: kgcore/a.py, tasks/b.py"]


def test_a_piece_of_a_module_is_found() -> None:
    texts = {
        "kgcore/wings/audit/__init__.py": "",
        "kgcore/wings/audit/piece.py": "x = 1\n",
        "kgcore/wings/audit/shared.py": "y = 1\n",
        "kgcore/wings/audit/page.py": "z = 1\n" * SHORTEST_MODULE,
        "kgcore/wings/audit/component.py": "from kgcore.wings.audit.shared import y\n\nTHINGS.add('c', y)\n",
        "kgcore/wings/audit/main.py": "from kgcore.wings.audit import piece\nfrom kgcore.wings.audit.shared import y\n"
        + "\n" * SHORTEST_MODULE,
        "kgcore/embed/models/other.py": "x = 1\n",
    }
    assert list(single_use(texts, ("kgcore/wings/audit/",))) == ["kgcore/wings/audit/piece.py"]
