"""A registry for each kind of component: a new model, loss, strategy, calibrator or data set is ONE new file.

A component registers itself under its name when its file is imported:

    # kgcore/embed/models/transe.py
    @MODELS.register("transe")
    class TransE(Model): ...

kgcore/registries.py lists the names, so that settings can check them before torch is loaded; `get` imports the file of
a name. The file of a name that is not listed is `NAME.py`: it is found when somebody asks for the name. Folders that a
plug-in adds to the package's `__path__` are imported for the list of names, too.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Collection, Mapping
from copy import copy
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from kgcore.errors import InputError

T = TypeVar("T")
U = TypeVar("U")


class Registry(Generic[T]):
    """The named components of one kind, which live in one package."""

    def __init__(
        self,
        kind: str,
        package: str,
        names: str = "",
        files: Mapping[str, str] = MappingProxyType({}),
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Create a registry of the components in a package. Spaces separate names.

        kind     what messages call a component, such as "model"
        package  dotted name of the package with the components' files
        names    the names whose file has the same name, with underscores for hyphens
        files    file -> the names that it registers, for files with other names
        options  name -> its options with defaults, `NAME=VALUE NAME=VALUE`. None: `options` imports the components
        """
        self.kind, self._package, self._options = kind, package, options
        self._modules = {name: _module(package, name) for name in names.split()}
        self._modules |= {name: f"{package}.{file}" for file, listed in files.items() for name in listed.split()}
        self._excluded = frozenset[str]()
        self._components: dict[str, T] = {}

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
        """Return all known names, sorted. Files in folders that a plug-in has added are imported."""
        for folder in list(importlib.import_module(self._package).__path__)[1:]:
            for file in pkgutil.iter_modules([folder]):
                importlib.import_module(f"{self._package}.{file.name}")
        return sorted((self._modules.keys() | self._components.keys()) - self._excluded)

    def check(self, name: str) -> str:
        """Return the name unchanged. Raises InputError with the known names if the name is unknown."""
        if name not in self._excluded and not (name in self._modules or name in self._components):
            self._import(name)
        if name in self._excluded or not (name in self._modules or name in self._components):
            raise InputError(f"unknown {self.kind} {name!r}: the known ones are {', '.join(self.names())}")
        return name

    def get(self, name: str) -> T:
        """Return the component of that name. Raises InputError with the known names if the name is unknown."""
        self.check(name)
        if name not in self._components:
            self._import(name)
        return self._components[name]

    def module(self, name: str) -> str:
        """Return the dotted name of the component's module. The code of this module is part of a result's fingerprint.

        Raises InputError with the known names if the name is unknown.
        """
        self.check(name)
        component = self._components.get(name)
        if isinstance(component, type):
            return component.__module__
        return self._modules.get(name) or _file_of(self._package, name) or type(component).__module__

    def options(self, name: str) -> dict[str, str]:
        """Return option -> default as text, for each keyword argument with a default.

        Raises InputError with the known names if the name is unknown.
        """
        if self._options is not None and name in self._modules and name not in self._excluded:
            return dict(option.split("=") for option in self._options.get(name, "").split())
        component = self.get(name)
        parameters = inspect.signature(component).parameters.values() if callable(component) else ()
        return {p.name: repr(p.default) for p in parameters if p.default is not p.empty}

    def _import(self, name: str) -> None:
        """Import the file of a name, if it exists."""
        if module := self._modules.get(name) or _file_of(self._package, name):
            importlib.import_module(module)


class Joined(Registry[Any]):
    """The components of several registries, for a setting that allows the names of all of them."""

    def __init__(self, kind: str, *parts: Registry[Any]) -> None:
        """Join registries whose names differ. `kind` is what messages call a component."""
        super().__init__(kind, "")
        self._parts = parts

    def names(self) -> list[str]:
        return sorted(name for part in self._parts for name in part.names())

    def check(self, name: str) -> str:
        for part in self._parts:
            try:
                return part.check(name)
            except InputError:
                continue
        raise InputError(f"unknown {self.kind} {name!r}: the known ones are {', '.join(self.names())}")

    def get(self, name: str) -> Any:
        return self._part(name).get(name)

    def module(self, name: str) -> str:
        return self._part(name).module(name)

    def options(self, name: str) -> dict[str, str]:
        return self._part(name).options(name)

    def _part(self, name: str) -> Registry[Any]:
        self.check(name)
        return next(part for part in self._parts if name in part.names())


def _module(package: str, name: str) -> str:
    return f"{package}.{name.replace('-', '_')}"


def _file_of(package: str, name: str) -> str | None:
    """Return the module of the file that has the name of a component, or None. The module is not imported."""
    module = _module(package, name)
    return module if name.replace("-", "_").isidentifier() and find_spec(module) else None


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
