"""Load a script of docs/scripts, which is not a package."""

import importlib.util
import sys
from types import ModuleType

from tests.docs.pages import CHECKOUT


def script(name: str) -> ModuleType:
    """Return a script of docs/scripts as a module."""
    folder = CHECKOUT / "docs" / "scripts"
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))  # `python docs/scripts/NAME.py` sets the same path
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module
