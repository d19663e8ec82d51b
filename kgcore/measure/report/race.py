"""The result of a race: a row for each contender, the sentences about it, and the table that people see."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Self

from kgcore.config import TrainConfig
from kgcore.config.base import GAIN, OBJECTIVES, value_text
from kgcore.measure.report.result import ResultTable, table_of

if TYPE_CHECKING:
    import pandas as pd

CHOSEN, OUT, FAILED, STOPPED = "chosen", "out", "failed", "stopped"
SHARES = (1 / 9, 1 / 3, 1.0)  # of the epochs, after which contenders are measured and the worse ones leave
MOST_REASONS = 3  # failed contenders whose reasons are told
# figures that are shown beside the metric of a race -> their headings
BESIDE = {"negatives": "hard", "answers": "MRR", "missing_facts": "missing"}


def epochs_at(share: float, epochs: int) -> int:
    """Return the number of epochs of a share, at least 1."""
    return max(1, round(share * epochs))


@dataclass(frozen=True)
class RaceRow:
    """What one contender has reached.

    name      its name in the portfolio
    state     chosen; out: another contender was better; failed: its training failed; stopped: the time was up; ''
              during the race
    of        number of epochs of its whole training
    values    a pair for each measurement: number of epochs, and metric on validation
    seconds   time of its training and its measurements
    settings  its training settings
    usual     whether these are the settings of the preset `default`
    reason    why it failed; '' if it has not
    figures   every figure of the newest measurement: see `Objective`
    """

    name: str
    state: str
    of: int
    values: tuple[tuple[int, float], ...]
    seconds: float
    settings: Mapping[str, Any]
    usual: bool = False
    reason: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def started(
        cls, name: str, settings: Mapping[str, Any], usual: bool, values: Sequence[Sequence[float]] = (), **reached: Any
    ) -> Self:
        """Return the row of a running contender. values, reached: the output of `reached_json`; nothing at first."""
        pairs = tuple((int(epochs), value) for epochs, value in values)
        return cls(name, "", settings["epochs"], pairs, reached.pop("seconds", 0.0), settings, usual, **reached)

    def reached_json(self) -> dict[str, object]:
        """Return what the contender has reached, without its settings."""
        return {name: getattr(self, name) for name in ("values", "figures", "seconds", "reason")}

    @property
    def epochs(self) -> int:
        """Number of epochs after which it was last measured; 0 if it was never measured."""
        return self.values[-1][0] if self.values else 0

    @property
    def value(self) -> float | None:
        """Its newest metric; None if it was never measured."""
        return self.values[-1][1] if self.values else None

    @property
    def reached(self) -> int:
        """How many of SHARES it has reached."""
        return sum(epochs_at(share, self.of) <= self.epochs for share in SHARES)


@dataclass(frozen=True)
class Race:
    """The result of a race.

    metric      the metric that decides it
    rows        the contenders: the chosen one, then those that got further, then the better ones, then the failed ones
    no_race     why there was no race; '' if there was one
    time_is_up  whether the time limit ended it
    part        numbers of training triples of the race and of the graph, if it was held on a part; None: on all
    """

    metric: str
    rows: tuple[RaceRow, ...]
    no_race: str = ""
    time_is_up: bool = False
    part: tuple[int, int] | None = None

    @property
    def winner(self) -> RaceRow:
        """The chosen contender."""
        return self.rows[0]

    @property
    def healthy(self) -> tuple[RaceRow, ...]:
        """The contenders that have not failed, the best one first."""
        return tuple(row for row in self.rows if row.state != FAILED)

    @property
    def usual(self) -> RaceRow | None:
        """The contender with the settings of the preset `default`, unless it was chosen or never measured."""
        return next((row for row in self.rows[1:] if row.usual and row.values), None)

    def sentences(self) -> list[str]:
        """Return what was chosen, by how much it is better than the usual settings, and what went wrong."""
        best = self.winner
        if self.no_race:
            return [f"There was no race: {self.no_race}. The training settings are those of `{best.name}`."]
        text = f"Of {len(self.rows)} configurations, `{best.name}` was chosen"
        if best.value is not None:
            text += f": {self.metric_title} {best.value:.4f} on validation after {best.epochs} of {best.of} epochs"
        said = [f"{text}.", *self._gain()]
        if self.metric == GAIN:
            said.append("A gain is 0 for a forecast that knows nothing, and 1 for a perfect one.")
        if self.part:
            said.append(
                "The race was held on a connected part of the graph: {:,} of {:,} training triples.".format(*self.part)
            )
            if (epochs := best.settings["epochs"]) < best.of:
                said.append(f"An epoch of all of them has more steps: the model is trained for {epochs} epochs.")
        if self.time_is_up:
            said.append("The time limit ended the race: the best configuration by then was chosen.")
        failed = [row for row in self.rows if row.state == FAILED]
        return said + [f"`{row.name}` failed: {row.reason}." for row in failed[:MOST_REASONS]]

    @property
    def metric_title(self) -> str:
        """The metric that decides the race, for people."""
        return {"brier": "Brier score", "mrr": "MRR"}.get(self.metric, self.metric.replace("_", " "))

    def _gain(self) -> list[str]:
        """Return a comparison with the usual settings at the last share of the epochs that both have reached."""
        for share in reversed(SHARES if self.usual else ()):
            assert self.usual is not None
            mine, theirs = (dict(row.values).get(epochs_at(share, row.of)) for row in (self.winner, self.usual))
            if mine is not None and theirs is not None:
                gain = theirs - mine if OBJECTIVES[self.metric] == "minimize" else mine - theirs
                return [
                    f"After {share:.0%} of the epochs, its {self.metric_title} is {mine:.4f}, and that of the "
                    f"preset `default` {theirs:.4f}: better by {gain:.4f}."
                ]
        return []

    def to_json(self) -> dict[str, Any]:
        """Return the keys metric, rows, no_race, time_is_up and part."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Race":
        """Read the output of `to_json`."""
        rows = (
            RaceRow(**(row | {"values": tuple((at, value) for at, value in row["values"])})) for row in data["rows"]
        )
        part = tuple(data["part"]) if data["part"] else None
        return cls(data["metric"], tuple(rows), data["no_race"], data["time_is_up"], part)


def race_table(race: Race) -> "pd.DataFrame":
    """Return a row for each contender, with the columns contender, state, epochs, of, METRIC, seconds, reason, others.

    They are the figures of BESIDE that were measured, and the settings that differ between the contenders.
    """
    import pandas as pd  # the help of work needs no table

    names = [name for name in race.winner.settings if len({str(row.settings[name]) for row in race.rows}) > 1]
    return pd.DataFrame(
        [
            {
                "contender": row.name,
                "state": row.state,
                "epochs": row.epochs,
                "of": row.of,
                race.metric: math.nan if row.value is None else row.value,
                "seconds": round(row.seconds, 3),
                "reason": row.reason,
            }
            | {name: row.figures.get(name, math.nan) for name in _beside(race)}
            | {name: row.settings[name] for name in names}
            for row in race.rows
        ]
    )


def _beside(race: Race) -> list[str]:
    """Return the figures of BESIDE that were measured and do not decide the race."""
    return [name for name in BESIDE if name != race.metric and any(name in row.figures for row in race.rows)]


def settings_text(row: RaceRow) -> str:
    """Return the settings of a contender that differ from the defaults: `model=complex, epochs=60`."""
    usual = TrainConfig().as_dict()
    return ", ".join(
        f"{name.replace('_', ' ')} {value_text(value)}" for name, value in row.settings.items() if value != usual[name]
    )


def race_head(race: Race) -> list[str]:
    """Return the headings of `race_cells`."""
    beside = [BESIDE[name] for name in _beside(race)]
    metric = race.metric_title if beside else f"{race.metric_title} on validation"
    return ["configuration", "epochs", metric, *beside, "seconds", "result", "settings"]


def race_cells(race: Race) -> list[tuple[str, ...]]:
    """Return the cells of the table for people, a row for each contender."""
    return [
        (
            row.name,
            f"{row.epochs} of {row.of}",
            "" if row.value is None else f"{row.value:.4f}",
            *(f"{row.figures[name]:.3f}" if name in row.figures else "" for name in _beside(race)),
            f"{row.seconds:.1f}",
            row.state,
            settings_text(row) or "defaults",
        )
        for row in race.rows
    ]


def contenders_text(race: Race) -> str:
    """Return in Markdown what was chosen, by how much it is better, and what was tried, without the settings."""
    if race.no_race:
        return "\n\n".join(race.sentences())
    rows = table_of(race_head(race)[:-1], (cells[:-1] for cells in race_cells(race)))
    chosen = [f"{race.winner.name}: {settings_text(race.winner) or 'the defaults'}"]
    return "\n\n".join([*race.sentences(), ResultTable(rows=rows, notes=chosen).markdown()])
