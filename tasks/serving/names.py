"""The completion of names: those that begin with a text, then those that contain it."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc


class Names:
    """A vocabulary that can be searched without regard to case, in O(n) per search."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = pa.array(sorted(names), pa.string())
        self._lower = pc.utf8_lower(self._names)

    def matching(self, text: str, limit: int) -> list[str]:
        """Return at most `limit` names, sorted: first those that begin with the text, then those that contain it."""
        text = text.lower()
        begins = self._names.filter(pc.starts_with(self._lower, text)).slice(0, limit).to_pylist()
        if len(begins) == limit:
            return list(begins)
        inside = pc.and_not(pc.match_substring(self._lower, text), pc.starts_with(self._lower, text))
        return [*begins, *self._names.filter(inside).slice(0, limit - len(begins)).to_pylist()]
