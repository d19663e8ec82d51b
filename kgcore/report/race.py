"""The table of a race, with a row for each contender, and what the terminal, MLflow and the model card show of it."""

import math
from typing import TYPE_CHECKING

from kgcore.config import TrainConfig
from kgcore.config.base import value_text
from kgcore.report.result import ResultTable, table_of
from kgcore.tuning.race_result import Race, RaceRow

if TYPE_CHECKING:
    import pandas as pd

# figures that are shown beside the metric of a race -> their headings
BESIDE = {"negatives": "hard", "answers": "MRR", "missing_facts": "missing"}


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


def contenders_table(race: Race) -> ResultTable:
    """Return what was tried, without the settings, and what was chosen, by how much it is better."""
    if race.no_race:
        return ResultTable(notes=race.sentences())
    rows = table_of(race_head(race)[:-1], (cells[:-1] for cells in race_cells(race)))
    chosen = [f"{race.winner.name}: {settings_text(race.winner) or 'the defaults'}"]
    words, above = ("configuration", "result"), race.sentences()
    return ResultTable("", rows, words, chosen, drops=("seconds",), above=above)
