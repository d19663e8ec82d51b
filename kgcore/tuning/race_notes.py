"""The file with what the contenders of a race have reached, from which a killed race continues."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FILE = "race.json"


@dataclass(frozen=True)
class Note:
    """What one contender has reached.

    values   a pair for each measurement: number of epochs, and metric on validation
    figures  every figure of the newest measurement
    seconds  time of its training and its measurements
    reason   why its training failed; '' if it has not
    """

    values: tuple[tuple[int, float], ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    reason: str = ""

    @property
    def epochs(self) -> int:
        """Number of epochs after which it was last measured."""
        return self.values[-1][0] if self.values else 0


class Notes:
    """The notes of all contenders, by name. Each change is written to the file FILE in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._path, self._notes = folder / FILE, dict[str, Note]()
        if self._path.exists():
            self._notes = {name: _note(**own) for name, own in json.loads(self._path.read_text()).items()}

    def __getitem__(self, name: str) -> Note:
        """Return the note of a contender; an empty one if there is none."""
        return self._notes.get(name, Note())

    def write(self, name: str, note: Note) -> None:
        """Set the note of a contender. An interruption never leaves an incomplete file."""
        self._notes[name] = note
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(".partial")
        partial.write_text(json.dumps({name: asdict(own) for name, own in self._notes.items()}))
        partial.replace(self._path)


def _note(values: list[list[float]], **others: Any) -> Note:
    return Note(tuple((int(epochs), value) for epochs, value in values), **others)
