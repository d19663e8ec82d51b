"""Keys: hashes of everything that a result depends on, and the fingerprint of the code that computes it.

The fingerprint of a stage's code is a hash of the kgcore modules that it calls and of all modules that they import.
"""

import ast
import hashlib
import importlib.util
import json
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import kgcore

# Modules that are not in a fingerprint, because messages and look-ups by name cannot change a result. kgcore.config is
# not in a fingerprint either: keys contain the settings themselves.
LEFT_OUT = {"kgcore", "kgcore.errors", "kgcore.registry", "kgcore.registries"}
# An import statement of kgcore at the start of a line. Parsing only these takes a third of the time of whole files.
IMPORT = re.compile(rb"^[ \t]*((?:from|import)[ \t]+kgcore\b(?:[^\n(]*\([^)]*\)|[^\n]*))", re.MULTILINE)
# Signs of an import that IMPORT does not find: after `;` or `:`, after another module's name, or on continued lines
OTHER_IMPORT = re.compile(rb"[;:][ \t]*(?:from|import)\b|^[ \t]*import[^\n]*,[^\n]*kgcore|\\\r?\n", re.MULTILINE)


def _snapshot() -> dict[Path, bytes]:
    """Read all files of kgcore at the start of the process, because later edits do not change the running code.

    What Python and Numba compile is not read: it is written while the process runs, and would change the fingerprint.
    """
    files = (path for path in Path(kgcore.__path__[0]).rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files if path.parent.name != "__pycache__"}


_FILES = _snapshot()


def _by_stem() -> dict[tuple[Path, str], list[Path]]:
    """Return (folder, name up to its first dot) -> the files with that name, sorted."""
    found: dict[tuple[Path, str], list[Path]] = {}
    for path in sorted(_FILES):
        found.setdefault((path.parent, path.name.partition(".")[0]), []).append(path)
    return found


_BY_STEM = _by_stem()


def digest(value: object) -> str:
    """Return the sha256 of a JSON value, in hexadecimal. Raises TypeError for a value that JSON cannot hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def code_fingerprint(modules: Iterable[str]) -> str:
    """Return the sha256 of these modules and all kgcore modules that they import, with data files such as templates.

    modules  dotted names. They must include the modules that a registry loads by name, because no import statement
             names these modules
    """
    hashed = hashlib.sha256()
    for name in sorted(closure(modules)):
        for path in _files(name):
            hashed.update(f"{name}/{path.name}".encode() + b"\0" + _read(path) + b"\0")
    return hashed.hexdigest()


@cache
def whole_code_fingerprint() -> str:
    """Return the sha256 of all files of kgcore."""
    hashed = hashlib.sha256()
    root = Path(kgcore.__path__[0])
    for path in sorted(_FILES):
        hashed.update(str(path.relative_to(root)).encode() + b"\0" + _FILES[path] + b"\0")
    return hashed.hexdigest()


def closure(modules: Iterable[str]) -> set[str]:
    """Return the names of these modules, of all kgcore modules that they import (also indirectly), and of packages."""
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
    """Return the module's source file and the data files with the same stem: page.html.j2 belongs to page.py."""
    source = _source(name)
    if source is None:
        return []
    return [source, *(path for path in _BY_STEM.get((source.parent, source.stem), ()) if path != source)]


def _read(path: Path) -> bytes:
    return _FILES[path] if path in _FILES else path.read_bytes()


@cache
def _source(name: str) -> Path | None:
    """Return the source file of a module; None if it has none. A process looks for it once.

    For a module of kgcore, this function searches the folders of its packages and the folders that a plug-in added to a
    package's path. It does not call `importlib.util.find_spec`, because that would import the packages and torch.
    """
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


def _statements(block: ast.AST) -> Iterator[ast.AST]:
    """Yield every statement of a file, also those in functions, classes and branches, but no expressions."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for statement in getattr(block, field, ()):
            yield statement
            yield from _statements(statement)


def _parsed_imports(source: bytes) -> ast.Module:
    """Return a syntax tree with every import of kgcore in a file. Parse the whole file if IMPORT may miss one."""
    if not OTHER_IMPORT.search(source):
        try:
            return ast.parse(b"\n".join(IMPORT.findall(source)))
        except SyntaxError:  # a comment with a bracket, or a docstring's line that begins like an import
            pass
    return ast.parse(source)


@cache
def _imports(path: Path) -> list[str]:
    """Return the kgcore modules that a file imports."""
    names: list[str] = []
    for node in _statements(_parsed_imports(_read(path))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return [name for name in names if name.startswith("kgcore.") and _source(name)]
