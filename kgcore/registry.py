"""One registry for everything that comes in kinds: a new model, loss, strategy, calibrator or data set is ONE new file.

A component registers itself under its name, in any file of its kind's package:

    # kgcore/models/transe.py
    @MODELS.register("transe")
    class TransE(Model): ...

The registry finds the names by reading the sources for that line, so listing and checking names imports nothing. A
look-up imports the one file that registers the name.
"""

import ast
import importlib
import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from copy import copy
from pathlib import Path
from typing import Any, Generic, TypeVar

from kgcore.errors import InputError

T = TypeVar("T")
U = TypeVar("U")


class Registry(Generic[T]):
    """Named components of one kind that live in one package."""

    def __init__(self, kind: str, package: str, variable: str) -> None:
        """`kind` is the word for a user, `package` holds the files, `variable` is the registry's name in them."""
        self.kind, self._package = kind, package
        self._entry = re.compile(rf'^@?(?:\w+ = )?{variable}\.(?:register|add)\(\s*"([^"]+)"', re.MULTILINE)
        self._left_out = frozenset[str]()
        self._components: dict[str, T] = {}

    def register(self, name: str) -> Callable[[U], U]:
        """Decorator that enters a component. Raises ValueError when the name is taken."""

        def enter(component: U) -> U:
            self.add(name, component)  # type: ignore[arg-type]
            return component

        return enter

    def add(self, name: str, component: T) -> T:
        """Enter a component that is a value, and return it. Raises ValueError when the name is taken."""
        if name in self._components:
            raise ValueError(f"the {self.kind} {name!r} is registered twice")
        self._components[name] = component
        return component

    def remove(self, name: str) -> None:
        """Remove a component again, as tests and notebooks need."""
        del self._components[name]

    def without(self, names: Collection[str]) -> "Registry[T]":
        """The same components without these, for a setting that allows only some of them."""
        part = copy(self)
        part._left_out = frozenset(names)
        return part

    def names(self) -> list[str]:
        """All known names, sorted."""
        return sorted((set(self._components) | set(self._modules())) - self._left_out)

    def check(self, name: str) -> str:
        """The name itself when it is known. Raises InputError that lists the known names."""
        if name not in self.names():
            raise InputError(f"unknown {self.kind} {name!r}: the known ones are {', '.join(self.names())}")
        return name

    def get(self, name: str) -> T:
        """The component of that name. Raises InputError that lists the known names."""
        self.check(name)
        if name not in self._components:
            importlib.import_module(self.module(name))
        return self._components[name]

    def module(self, name: str) -> str:
        """The dotted name of the module that holds the component: its code belongs to a result's fingerprint."""
        component = self._components.get(name)
        if component is not None and isinstance(component, type):
            return component.__module__
        return self._modules()[self.check(name)]

    def options(self, name: str) -> dict[str, str]:
        """Option -> default, as the component's source spells them: its keyword arguments that have a default."""
        component = self._components.get(name)
        if component is not None:
            parameters = inspect.signature(component).parameters.values()  # type: ignore[arg-type]
            return {p.name: repr(p.default) for p in parameters if p.default is not p.empty}
        for path in self._files():
            if name in self._entry.findall(path.read_text(encoding="utf-8")):
                return _keyword_defaults(ast.parse(path.read_text(encoding="utf-8")), name)
        return {}

    def _modules(self) -> dict[str, str]:
        """Name -> module of every component that a file of the package registers."""
        return {
            name: f"{self._package}.{path.stem}"
            for path in self._files()
            for name in self._entry.findall(path.read_text(encoding="utf-8"))
        }

    def _files(self) -> Iterator[Path]:
        for folder in importlib.import_module(self._package).__path__:
            yield from sorted(Path(folder).glob("*.py"))


def _keyword_defaults(module: ast.Module, name: str) -> dict[str, str]:
    """The options of the class that is registered under that name."""
    for node in module.body:
        decorators = node.decorator_list if isinstance(node, ast.ClassDef) else []
        if isinstance(node, ast.ClassDef) and any(f"'{name}'" in ast.unparse(line) for line in decorators):
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                    named = [argument.arg for argument in method.args.args]
                    defaults = [ast.unparse(default) for default in method.args.defaults]
                    return dict(zip(named[len(named) - len(defaults) :], defaults, strict=True))
    return {}


def build(component: Callable[..., U], options: Mapping[str, Any], *positional: Any) -> U:
    """component(*positional, **options). A switch may be given as 1 or 0, as earlier versions stored it.

    Raises InputError for an unknown option, and for a switch that is neither true nor false.
    """
    known = dict(list(inspect.signature(component).parameters.items())[len(positional) :])
    title, given = getattr(component, "__name__", str(component)), dict[str, Any]()
    for name, value in options.items():
        if name not in known:
            has = f"its options are {', '.join(known)}" if known else "it has none"
            raise InputError(f"{title} has no option {name!r}: {has}")
        switch = isinstance(known[name].default, bool)
        if switch != isinstance(value, bool) and not (switch and value in (0, 1)):
            wanted = "true or false" if switch else "a number"
            raise InputError(f"the option {name} of {title} is {str(value).lower()}: it must be {wanted}")
        given[name] = bool(value) if switch else value
    return component(*positional, **given)
