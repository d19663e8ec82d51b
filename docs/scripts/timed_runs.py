"""Whole runs of `kgcal run` in a folder, each in a process of its own, with their CPU times."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

Results = dict[str, Any]


class Runs:
    """The whole runs and the searches in a folder, with their CPU times."""

    def __init__(self, out: Path) -> None:
        self._out = out
        (out / "homes").mkdir(parents=True, exist_ok=True)

    def path(self, name: str) -> Path:
        """Return the path of a file of the folder."""
        return self._out / name

    @property
    def seconds(self) -> dict[str, float]:
        """The CPU seconds of each run and search, with all their processes."""
        path = self.path("seconds.json")
        found: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def spent(self, name: str, seconds: float) -> None:
        """Add CPU seconds to a run or a search."""
        known = self.seconds
        self.path("seconds.json").write_text(json.dumps(known | {name: round(known.get(name, 0.0) + seconds, 1)}))

    def run(self, name: str, options: list[str]) -> Results:
        """Return the results of `kgcal run` with these options."""
        path = self.path(f"{name}.json")
        if not path.exists():
            before = _of_children()
            command = [sys.executable, "-m", "kgcal", "run", *options, "--json", str(path.absolute())]
            home = str((self._out / "homes" / name).absolute())
            with self.path(f"{name}.log").open("w") as log:
                environment = os.environ | {"KGCAL_HOME": home}
                subprocess.run(command, check=True, stdout=log, stderr=log, env=environment)  # noqa: S603
            self.spent(name, _of_children() - before)
        found: Results = json.loads(path.read_text())
        return found


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
