"""A registry for each kind of component: a new model, loss, strategy, calibrator or data set is ONE new file.

A component registers itself under its name, in any file of the package for its kind:

    # kgcore/models/transe.py
    @MODELS.register("transe")
    class TransE(Model): ...

The registry finds names by searching the source files for the line with `@MODELS.register`, which must start in the
first column. Therefore it can list and check names without an import, and `get` imports only the file that registers
the name.
"""

import ast
import importlib
import inspect
import os
import re
from collections.abc import Callable, Collection, Mapping
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from kgcore.errors import InputError

T = TypeVar("T")
U = TypeVar("U")


class Registry(Generic[T]):
    """The named components of one kind, which live in one package."""

    def __init__(self, kind: str, package: str, variable: str) -> None:
        """Create a registry of the components in a package.

        kind      what messages call a component, such as "model"
        package   dotted name of the package with the components' files
        variable  name of the registry in these files, such as "MODELS"
        """
        self.kind, self._package, self._variable = kind, package, variable
        self._excluded = frozenset[str]()
        self._components: dict[str, T] = {}
        self._found: dict[str, str] = {}  # at the last look into the package's folders

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that adds a component. Raises ValueError if the name is already registered."""
        return lambda component: self.add(name, component)

    def add(self, name: str, component: T) -> T:
        """Add a component and return it. Raises ValueError if the name is already registered."""
        if name in self._components:
            raise ValueError(f"the {self.kind} {name!r} is registered twice")
        self._components[name] = component
        return component

    def remove(self, name: str) -> None:
        """Remove a component, so that its name can be registered again. Raises KeyError if nothing registered it."""
        del self._components[name]

    def without(self, names: Collection[str]) -> "Registry[T]":
        """Return a view of this registry without these names, for a setting that allows only some of the components."""
        view = copy(self)
        view._excluded = self._excluded | frozenset(names)
        return view

    def names(self) -> list[str]:
        """Return all known names, sorted. Raises InputError if two files register the same name."""
        return sorted((self._components.keys() | self._files().keys()) - self._excluded)

    def check(self, name: str) -> str:
        """Return the name unchanged. Raises InputError with the known names if the name is unknown.

        The folders are searched for an unknown name only: a command checks thousands of names.
        """
        seen = name not in self._excluded and (name in self._components or name in self._found)
        if not seen and name not in (known := self.names()):
            raise InputError(f"unknown {self.kind} {name!r}: the known ones are {', '.join(known)}")
        return name

    def get(self, name: str) -> T:
        """Return the component of that name. Raises InputError with the known names if the name is unknown."""
        if name in self._components and name not in self._excluded:
            return self._components[name]
        modules = self._modules()
        self.check(name)
        if name not in self._components:
            importlib.import_module(modules[name])
        return self._components[name]

    def module(self, name: str) -> str:
        """Return the dotted name of the component's module. The code of this module is part of a result's fingerprint.

        For a class, this is the module of its definition. For a value, this is the module that registers it or, if it
        was added at run time, the module of its class. Raises InputError with the known names if the name is unknown.
        """
        self.check(name)
        component = self._components.get(name)
        if isinstance(component, type):
            return component.__module__
        return self._modules().get(name) or type(component).__module__

    def options(self, name: str) -> dict[str, str]:
        """Return option -> default as text, for each keyword argument with a default, without an import.

        Raises InputError with the known names if the name is unknown.
        """
        self.check(name)
        component = self._components.get(name)
        if component is None:
            return _keyword_defaults(ast.parse(Path(self._files()[name]).read_text(encoding="utf-8")), name)
        parameters = inspect.signature(component).parameters.values() if callable(component) else ()
        return {p.name: repr(p.default) for p in parameters if p.default is not p.empty}

    def _modules(self) -> dict[str, str]:
        """Return name -> module of every component that a file of the package registers."""
        return {name: f"{self._package}.{Path(path).stem}" for name, path in self._files().items()}

    def _files(self) -> dict[str, str]:
        """Return name -> path of the file that registers the name.

        All folders in the package's `__path__` are searched, because plug-ins may add folders. Files whose names start
        with an underscore are not read. Raises InputError if two files register the same name.
        """
        found: dict[str, str] = {}
        for folder in importlib.import_module(self._package).__path__:
            for file in _sources(folder):
                status = file.stat()
                for name in _registered(file.path, self._variable, status.st_mtime_ns, status.st_size):
                    if name in found:
                        twice = f"the {self.kind} {name!r} is registered twice"
                        raise InputError(f"{twice}: rename it in {found[name]} or in {file.path}")
                    found[name] = file.path
        self._found = found
        return found


class Joined(Registry[Any]):
    """The components of several registries, for a setting that allows the names of all of them."""

    def __init__(self, kind: str, *parts: Registry[Any]) -> None:
        """Join registries whose names differ. `kind` is what messages call a component."""
        super().__init__(kind, "", "")
        self._parts = parts

    def names(self) -> list[str]:
        return sorted(name for part in self._parts for name in part.names())

    def get(self, name: str) -> Any:
        return self._part(name).get(name)

    def module(self, name: str) -> str:
        return self._part(name).module(name)

    def options(self, name: str) -> dict[str, str]:
        return self._part(name).options(name)

    def _part(self, name: str) -> Registry[Any]:
        self.check(name)
        return next(part for part in self._parts if name in part.names())


def _sources(folder: str) -> "list[os.DirEntry[str]]":
    """Return the Python files of a folder that are to be searched for components, by name.

    A command looks up hundreds of names, and Path.glob takes four times as long. For the same reason the registry keeps
    texts, not objects of the class Path.
    """
    try:
        with os.scandir(folder) as entries:
            found = [entry for entry in entries if entry.name.endswith(".py") and not entry.name.startswith("_")]
    except OSError:  # a plug-in named a folder that does not exist
        return []
    return sorted(found, key=lambda entry: entry.name)


@cache
def _registered(path: str, variable: str, modified: int, size: int) -> list[str]:
    """Return the names that a file registers. The cache reads a file again if its modification time or size differs."""
    entry = rf'^(?:@|\w+ = )?{variable}\.(?:register|add)\(\s*"([^"]+)"'
    return re.findall(entry, Path(path).read_text(encoding="utf-8"), re.MULTILINE)


def _keyword_defaults(module: ast.Module, name: str) -> dict[str, str]:
    """Return the options of the class that the module registers under that name; empty if it defines no `__init__`."""
    classes = (node for node in module.body if isinstance(node, ast.ClassDef))
    for node in classes:
        if any(_names_component(decorator, name) for decorator in node.decorator_list):
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                    return _defaults(method.args)
    return {}


def _names_component(decorator: ast.expr, name: str) -> bool:
    """Return whether the decorator is a call of a registry's `register` with that name."""
    return (
        isinstance(decorator, ast.Call)
        and isinstance(decorator.func, ast.Attribute)
        and decorator.func.attr == "register"
        and [ast.unparse(argument) for argument in decorator.args] == [repr(name)]
    )


def _defaults(arguments: ast.arguments) -> dict[str, str]:
    """Return argument -> default, as written in the source."""
    named = arguments.args[len(arguments.args) - len(arguments.defaults) :] + arguments.kwonlyargs
    defaults = [*arguments.defaults, *arguments.kw_defaults]
    pairs = zip(named, defaults, strict=True)
    return {argument.arg: ast.unparse(default) for argument, default in pairs if default is not None}


def build(component: Callable[..., U], options: Mapping[str, float | bool], *positional: Any) -> U:
    """Return component(*positional, **options), after a check of the options.

    Raises InputError if an option is unknown, if a switch is neither true nor false, or if a number is one of these.
    """
    parameters = dict(list(inspect.signature(component).parameters.items())[len(positional) :])
    title = getattr(component, "__name__", str(component))
    for name, value in options.items():
        if name not in parameters:
            known = f"its options are {', '.join(parameters)}" if parameters else "it has no options"
            raise InputError(f"{title} has no option {name!r}: {known}")
        is_switch = isinstance(parameters[name].default, bool)
        if is_switch != isinstance(value, bool):
            wanted = "true or false" if is_switch else "a number"
            raise InputError(f"the option {name} of {title} is {str(value).lower()}: it must be {wanted}")
    return component(*positional, **options)
