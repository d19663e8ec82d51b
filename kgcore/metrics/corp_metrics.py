"""The metrics of the CORP decompositions: three parts of the Brier score and three of the log loss.

All metrics of a draw use the same recalibration. All metrics of one score use the same decomposition.
"""

from kgcore.arrays import Floats
from kgcore.metrics.base import NOT_NEGATIVE, Draw, Metric
from kgcore.metrics.corp import Decomposition, decompose, entropy_loss, recalibrated, variance_loss
from kgcore.metrics.proper import brier_of, expected_brier_of, log_loss_of
from kgcore.registries import METRICS


def brier_parts(draw: Draw) -> Decomposition:
    """Decompose the Brier score of a draw."""
    if draw.tally.errors is None:
        return decompose(draw.once(brier_of), variance_loss, *draw.once(_blocks))
    expected = draw.once(expected_brier_of)
    return decompose(expected, variance_loss, *draw.once(_blocks)).without(expected - draw.once(brier_of))


def log_loss_parts(draw: Draw) -> Decomposition:
    """Decompose the log loss of a draw, in nats."""
    return decompose(draw.once(log_loss_of), entropy_loss, *draw.once(_blocks))


def _blocks(draw: Draw) -> tuple[Floats, Floats]:
    return recalibrated(draw.tally)


METRICS.add(
    "brier_miscalibration",
    Metric(
        "miscalibration (Brier)",
        "calibration",
        "lowest",
        lambda draw: draw.once(brier_parts).miscalibration,
        interval=False,
        order=80,
        column=40,
    ),
)
METRICS.add(
    "brier_discrimination",
    Metric(
        "discrimination (Brier)",
        "discrimination",
        "highest",
        lambda draw: draw.once(brier_parts).discrimination,
        interval=False,
        order=90,
        column=10,
    ),
)
METRICS.add(
    "brier_uncertainty",
    Metric("uncertainty (Brier)", "uncertainty", "neither", lambda draw: draw.once(brier_parts).uncertainty, order=100),
)
METRICS.add(
    "log_loss_miscalibration",
    Metric(
        "miscalibration (log loss)",
        "calibration",
        "lowest",
        lambda draw: draw.once(log_loss_parts).miscalibration,
        interval=False,
        range=NOT_NEGATIVE,
        order=110,
        column=50,
    ),
)
METRICS.add(
    "log_loss_discrimination",
    Metric(
        "discrimination (log loss)",
        "discrimination",
        "highest",
        lambda draw: draw.once(log_loss_parts).discrimination,
        interval=False,
        range=NOT_NEGATIVE,
        order=120,
        column=20,
    ),
)
METRICS.add(
    "log_loss_uncertainty",
    Metric(
        "uncertainty (log loss)",
        "uncertainty",
        "neither",
        lambda draw: draw.once(log_loss_parts).uncertainty,
        range=NOT_NEGATIVE,
        order=130,
    ),
)
