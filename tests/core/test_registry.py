"""The registry: listed names, look-ups, options, files that are not listed, plug-ins, and registration errors."""

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from kgcore import registries
from kgcore.errors import InputError
from kgcore.registry import Joined, Registry, build

FILES = {
    "__init__.py": "",
    "circle.py": """
from shelf import SHELF

@SHELF.register("circle")
class Circle:
    def __init__(self, centre, radius=1.5, *, filled=False):
        self.radius = radius
""",
    "shapes.py": """
from shelf import SHELF

@SHELF.register("square")
class Square: ...

TABLE = SHELF.add("table", ("oak", 4))
""",
    "helpers.py": "def half(x): return x / 2\n",
}
ALL = {
    name: registry
    for name, registry in vars(registries).items()
    if isinstance(registry, Registry) and not isinstance(registry, Joined)
}


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """Return a registry for a package of its own; no module of the package is imported yet."""
    package = tmp_path / "shelf"
    package.mkdir()
    for name, text in FILES.items():
        (package / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    module: ModuleType = importlib.import_module("shelf")
    options = {"circle": "radius=1.5 filled=False"}
    module.SHELF = Registry("thing", "shelf", "circle", {"shapes": "square table"}, options)  # type: ignore[attr-defined]
    yield module.SHELF
    for name in [name for name in sys.modules if name.split(".")[0] == "shelf"]:
        del sys.modules[name]


def loaded() -> set[str]:
    return {name for name in sys.modules if name.startswith("shelf.")}


def test_names_options_and_modules_are_known_without_an_import(shelf: Registry) -> None:
    assert shelf.names() == ["circle", "square", "table"]
    assert shelf.module("square") == "shelf.shapes"
    assert shelf.module("table") == "shelf.shapes"
    assert shelf.options("circle") == {"radius": "1.5", "filled": "False"}
    assert shelf.options("square") == shelf.options("table") == {}
    assert shelf.check("circle") == "circle"
    assert loaded() == set()


def test_a_look_up_imports_only_the_file_of_the_name(shelf: Registry) -> None:
    assert shelf.get("table") == ("oak", 4)
    assert loaded() == {"shelf.shapes"}
    assert shelf.get("circle").__name__ == "Circle"
    assert shelf.get("square") is sys.modules["shelf.shapes"].Square  # two names in one file


@pytest.mark.parametrize("ask", ["check", "get", "module", "options"])
def test_an_unknown_name_is_refused_with_the_known_ones(shelf: Registry, ask: str) -> None:
    with pytest.raises(InputError, match=r"^unknown thing 'cube': the known ones are circle, square, table$"):
        getattr(shelf, ask)("cube")


@pytest.mark.parametrize("name", ["helpers", "a.b", "", "../x", "two words"])
def test_a_file_that_registers_nothing_is_no_component(shelf: Registry, name: str) -> None:
    with pytest.raises(InputError, match="unknown thing"):
        shelf.check(name)


@pytest.mark.parametrize("ask", ["check", "get", "module", "options"])
def test_a_view_without_some_names_refuses_them(shelf: Registry, ask: str) -> None:
    round_only = shelf.without(["table"]).without(["square"])
    assert round_only.names() == ["circle"]
    assert shelf.names() == ["circle", "square", "table"]
    with pytest.raises(InputError, match=r"unknown thing 'table': the known ones are circle$"):
        getattr(round_only, ask)("table")


def test_a_view_sees_components_that_are_added_later(shelf: Registry) -> None:
    view = shelf.without(["square"])
    shelf.add("chair", ("ash", 1))
    assert view.get("chair") == ("ash", 1)
    assert view.get("circle") is shelf.get("circle")


def test_a_component_added_at_run_time_is_one_of_the_names_until_it_is_removed(shelf: Registry) -> None:
    shelf.add("chair", ("ash", 1))
    assert shelf.names() == ["chair", "circle", "square", "table"]
    assert shelf.module("chair") == "builtins"
    assert shelf.options("chair") == {}
    with pytest.raises(ValueError, match="the thing 'chair' is registered twice"):
        shelf.add("chair", ("fir", 2))
    shelf.remove("chair")
    assert shelf.names() == ["circle", "square", "table"]


def test_a_registered_class_keeps_its_type_and_its_module(shelf: Registry) -> None:
    @shelf.register("local")
    class Local:
        def __init__(self, height: float = 2.0) -> None:
            self.height = height

    assert Local(3.0).height == 3.0
    assert shelf.get("local") is Local
    assert shelf.module("local") == __name__
    assert shelf.options("local") == {"height": "2.0"}


@pytest.mark.parametrize("ask", ["check", "get", "module", "options"])
def test_a_new_file_is_enough_for_a_new_component(shelf: Registry, tmp_path: Path, ask: str) -> None:
    (tmp_path / "shelf/cone.py").write_text('from shelf import SHELF\nSHELF.add("cone", 1)\n')
    importlib.invalidate_caches()
    answers = {"check": "cone", "get": 1, "module": "shelf.cone", "options": {}}
    assert getattr(shelf, ask)("cone") == answers[ask]
    assert shelf.names() == ["circle", "cone", "square", "table"]


def test_a_plug_in_beside_the_package_is_listed_and_loaded(shelf: Registry, tmp_path: Path) -> None:
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "globes.py").write_text('from shelf import SHELF\n\n@SHELF.register("globe")\nclass Globe: ...\n')
    sys.modules["shelf"].__path__.append(str(beside))
    importlib.invalidate_caches()
    assert shelf.names() == ["circle", "globe", "square", "table"]
    assert shelf.module("globe") == "shelf.globes"
    assert shelf.get("globe").__name__ == "Globe"


@pytest.mark.parametrize("name", ALL)
def test_the_listed_names_modules_and_options_are_those_that_the_package_registers(name: str) -> None:
    registry = ALL[name]
    listed = set(registry._modules)
    files = {file.name for file in pkgutil.iter_modules(importlib.import_module(registry._package).__path__)}
    for module in {*registry._modules.values(), *(f"{registry._package}.{file}" for file in files)}:
        importlib.import_module(module)
    assert set(registry._components) == listed, f"list the names of {name} in kgcore/registries.py"
    for component in listed:
        value = registry.get(component)
        assert registry.module(component) == registry._modules[component]
        assert not isinstance(value, type) or value.__module__ == registry._modules[component]
        unlisted = Registry(registry.kind, registry._package)
        unlisted.add(component, value)
        assert registry.options(component) == unlisted.options(component)


class Lamp:
    def __init__(self, k: int, watts: float = 40.0, dimmed: bool = False) -> None:
        self.k, self.watts, self.dimmed = k, watts, dimmed


def test_build_passes_options() -> None:
    lamp = build(Lamp, {"watts": 25, "dimmed": True}, 3)
    assert (lamp.k, lamp.watts, lamp.dimmed) == (3, 25, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"volts": 5}, "Lamp has no option 'volts': its options are watts, dimmed"),
        ({"k": 5}, "Lamp has no option 'k': its options are watts, dimmed"),
        ({"dimmed": 1}, "the option dimmed of Lamp is 1: it must be true or false"),
        ({"watts": True}, "the option watts of Lamp is true: it must be a number"),
    ],
)
def test_build_refuses_options_that_the_component_does_not_have(options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}$"):
        build(Lamp, options, 3)


class Plain:
    """A component without options."""


def test_build_says_that_a_component_has_no_options() -> None:
    with pytest.raises(InputError, match=r"^Plain has no option 'x': it has no options$"):
        build(Plain, {"x": 1})
