"""The rows to fit calibrators to again, after newly labelled rows have shown drift."""

from dataclasses import dataclass

import numpy as np

from kgcore.calibration.folds import draw_folds
from kgcore.external.read import ScoreFile
from kgcore.external.rows import ScoreRows


@dataclass(frozen=True)
class Again:
    """Rows to fit calibrators to again.

    what       the rows in words
    file       the rows to fit on, and those to measure on
    base_rate  the base rate to weigh them to
    """

    what: str
    file: ScoreFile
    base_rate: float


def halves(new: ScoreRows, seed: int) -> tuple[ScoreRows, ScoreRows]:
    """Divide new rows at random: a half to fit on, and a half to measure on. True rows are spread evenly."""
    fold = draw_folds(np.arange(len(new)), new.labels, 2, np.random.default_rng(seed))
    return new.part(fold == 0), new.part(fold == 1)


def fits_after(
    answer: str, old: ScoreRows, half: ScoreRows, measured: ScoreRows, base_rate: float, fewest: int
) -> list[Again]:
    """Return the fits that the answer of a check asks for.

    answer     shift: the base rate has moved, so the old rows are weighted to the new one. refit: the map has moved.
               Then the old rows show the old map, and the new ones are few: they are fitted with the old rows, and
               alone if at least `fewest` are true and as many false. The measured rows decide which of them is better
    old        rows that the calibrator was fitted to
    half       new rows to fit on
    measured   new rows to measure on
    base_rate  the new base rate, in (0, 1)

    Raises InputError as `ScoreRows.joined` does.
    """
    names = tuple(sorted({*old.names, *measured.names}))
    old, half, measured = old.named(names), half.named(names), measured.named(names)
    if answer == "shift":
        return [Again("the rows of the last fit, weighted to the new base rate", ScoreFile(old, measured), base_rate)]
    joined = ScoreRows.joined([old, half]).in_order()
    fits = [Again("the rows of the last fit and half of the new ones", ScoreFile(joined, measured), base_rate)]
    if min(half.positives, len(half) - half.positives) >= fewest:
        fits.append(Again("half of the new rows", ScoreFile(half, measured), base_rate))
    return fits
