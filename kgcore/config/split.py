"""How the splits of a graph without splits are drawn: the setting `split`."""

from dataclasses import dataclass

from kgcore.config.choices import Spelling

RANDOM, TIME, COLD, GROUP = "random", "time", "cold", "group"
SPLIT_SPELLING = Spelling(
    "random, time:COLUMN, cold:subject or cold:object (of one predicate: cold:object:PREDICATE), or group:COLUMN",
    r"^(random|(time|group):.+|cold:(subject|object)(:.+)?)$",
)


@dataclass(frozen=True)
class SplitRule:
    """What the facts of valid and test have in common.

    kind       random: nothing. time: they are the newest. cold: an entity that has no fact of the predicate in train.
               group: the value of a column, which no fact of train has
    column     the column of times or groups: its name or its position from 1; empty for the other kinds
    side       subject or object: the side of the cold entity; empty for the other kinds
    predicate  the predicate of the cold entities; empty: every predicate
    """

    kind: str = RANDOM
    column: str = ""
    side: str = ""
    predicate: str = ""

    @classmethod
    def of(cls, text: str) -> "SplitRule":
        """Read the setting, such as `cold:object:treats`. Raises InputError if it is misspelt."""
        SPLIT_SPELLING.check("split", text)
        kind, _, rest = text.partition(":")
        if kind != COLD:
            return cls(kind, column=rest.strip())
        side, _, predicate = rest.partition(":")
        return cls(kind, side=side, predicate=predicate)

    @property
    def other_side(self) -> str:
        """The side whose entities are not cold, subject or object; empty if no entity is cold."""
        return {"subject": "object", "object": "subject"}.get(self.side, "")

    @property
    def cold_column(self) -> int | None:
        """The column of the cold entities in triples, 0 or 2; None if no entity is cold."""
        return {"subject": 0, "object": 2}.get(self.side)

    def __str__(self) -> str:
        """Return the setting as the user gives it."""
        return ":".join(part for part in (self.kind, self.column, self.side, self.predicate) if part)
