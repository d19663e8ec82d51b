"""One registry for everything that comes in kinds: a new model, loss, strategy, calibrator or dataset is ONE new file.

A component registers itself under its name in the file of the same name ('-' in the name is '_' in the file's):

    # kgcore/models/transe.py
    @MODELS.register("transe")
    class TransE(Model): ...

A look-up imports that one file and no other, so listing and checking names costs no import of torch.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Collection, Mapping
from copy import copy
from typing import Any, Generic, TypeVar

from kgcore.errors import InputError

T = TypeVar("T")
U = TypeVar("U")


class Registry(Generic[T]):
    """Named components of one kind that live in one package."""

    def __init__(self, kind: str, package: str, helpers: Collection[str] = ("base",), separator: str = "_") -> None:
        """`kind` is the word for a user, `package` where the files are, `helpers` its files that are no
        components, `separator` what stands in a name where its file has '_'."""
        self.kind, self._package, self._helpers = kind, package, frozenset(helpers)
        self._separator, self._left_out = separator, frozenset[str]()
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
        """Take a component out again, as tests and notebooks need."""
        del self._components[name]

    def without(self, names: Collection[str]) -> "Registry[T]":
        """The same components but these: where only some can be chosen."""
        part = copy(self)
        part._left_out = frozenset(names)
        return part

    def names(self) -> list[str]:
        """All known names, sorted."""
        path = importlib.import_module(self._package).__path__
        files = {module.name for module in pkgutil.iter_modules(path)} - self._helpers
        known = set(self._components) | {file.replace("_", self._separator) for file in files}
        return sorted(known - self._left_out)

    def check(self, name: str) -> str:
        """The name itself when it is known. Raises InputError that lists the known names."""
        if name not in self.names():
            raise InputError(f"there is no {self.kind} {name!r}: known are {', '.join(self.names())}")
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
        return f"{self._package}.{self.check(name).replace(self._separator, '_')}"


def build(component: Callable[..., U], options: Mapping[str, Any], *positional: Any) -> U:
    """component(*positional, **options). Raises InputError that names the options there are."""
    known = list(inspect.signature(component).parameters)[len(positional) :]
    for name in options:
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise InputError(f"{getattr(component, '__name__', component)} has no option {name!r}: {has}")
    return component(*positional, **options)
