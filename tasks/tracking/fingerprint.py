"""The fingerprint of the code a stage runs: kgcore's modules that its entry points import, directly or not."""

import ast
import hashlib
import importlib.util
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import kgcore

# Their content reaches a key as values (settings) or cannot change a result (messages, look-ups).
LEFT_OUT = {"kgcore", "kgcore.errors", "kgcore.registry", "kgcore.registries"}


def _snapshot() -> dict[Path, bytes]:
    """Every file of kgcore as it is when this process starts: what is edited later is not what this process runs."""
    files = (path for path in Path(kgcore.__path__[0]).rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path: path.read_bytes() for path in files}


_FILES = _snapshot()


def code_fingerprint(modules: Iterable[str]) -> str:
    """sha256 over the sources of these modules and of all kgcore modules they import, with their data files such as
    templates. Components that a registry loads by name are not seen from imports: pass their modules, too."""
    digest = hashlib.sha256()
    for name in sorted(closure(modules)):
        for path in _files(name):
            digest.update(f"{name}/{path.name}".encode() + b"\0" + _read(path) + b"\0")
    return digest.hexdigest()


@cache
def whole_code_fingerprint() -> str:
    """sha256 over every file of kgcore."""
    digest = hashlib.sha256()
    root = Path(kgcore.__path__[0])
    for path in sorted(_FILES):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + _FILES[path] + b"\0")
    return digest.hexdigest()


def closure(modules: Iterable[str]) -> set[str]:
    """The modules and all of kgcore that they import, packages' __init__ files included."""
    found: set[str] = set()
    pending = list(modules)
    while pending:
        name = pending.pop()
        if name in found or name in LEFT_OUT or f"{name}.".startswith("kgcore.config."):
            continue
        found.add(name)
        pending += [package for package in _parents(name) if package.startswith("kgcore.")]
        for path in _files(name):
            if path.suffix == ".py":
                pending += _imports(path)
    return found


def _parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:i]) for i in range(1, len(parts))]


def _files(name: str) -> list[Path]:
    """The module's source, and the data files that are named after it: page.html.j2 belongs to page.py."""
    source = _source(name)
    if source is None:
        return []
    data = (p for p in _FILES if p.parent == source.parent and p.name.startswith(f"{source.stem}.") and p != source)
    return [source, *sorted(data)]


def _read(path: Path) -> bytes:
    return _FILES[path] if path in _FILES else path.read_bytes()


def _source(name: str) -> Path | None:
    """The file of a module. One of kgcore is looked for in the folders of its packages, those that were added to a
    package's path included: to ask Python for its place would load the packages that it is in, torch with them."""
    package, *parts = name.split(".")
    if package != "kgcore":
        module = sys.modules.get(name)
        spec = getattr(module, "__spec__", None) or (importlib.util.find_spec(name) if module is None else None)
        origin = spec.origin if spec else getattr(module, "__file__", None)
        return Path(origin) if origin else None
    folders = [Path(folder) for folder in kgcore.__path__]
    for part in parts[:-1]:
        package = f"{package}.{part}"
        own = getattr(sys.modules.get(package), "__path__", None)
        folders = [folder / part for folder in folders] if own is None else [Path(folder) for folder in own]
    files = (folder / file for folder in folders for file in (f"{parts[-1]}/__init__.py", f"{parts[-1]}.py"))
    return next((file for file in files if file.is_file()), None)


@cache
def _imports(path: Path) -> list[str]:
    """The kgcore modules that a file imports."""
    names: list[str] = []
    for node in ast.walk(ast.parse(_read(path))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return [name for name in names if name.startswith("kgcore.") and _source(name)]
