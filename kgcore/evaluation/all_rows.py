"""The figures of all labelled test rows, those with entities that training has not seen included."""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Labels, Probabilities
from kgcore.metrics.proper import brier, log_loss


@dataclass(frozen=True)
class AllRows:
    """Accuracy, Brier score and log loss of all rows, and accuracy of the rows with unseen entities.

    rows    number of all rows
    unseen  number of the rows with an entity that training lacks
    """

    rows: int
    unseen: int
    accuracy: float
    brier: float
    log_loss: float
    unseen_accuracy: float

    @classmethod
    def of(
        cls, known: tuple[Probabilities, Labels], unseen: tuple[Probabilities, Labels], tau: float = 0.5
    ) -> "AllRows":
        """Measure the probabilities and labels (n,) of both kinds of rows together. tau: decision threshold."""
        q, labels = (np.concatenate([known[part], unseen[part]]) for part in (0, 1))
        right = (q > tau) == (labels == 1)
        own = float(right[len(known[1]) :].mean())
        return cls(len(q), len(unseen[1]), float(right.mean()), brier(q, labels), log_loss(q, labels), own)

    def figures(self) -> dict[str, float]:
        """Return the figures as metrics, whose names start with `all_rows_`."""
        return {f"all_rows_{name}": float(value) for name, value in vars(self).items()}

    def note(self, label: str) -> str:
        """Return the figures in a sentence. label: the calibrator that answers for the other rows."""
        return (
            f"All {self.rows:,} test rows, {self.unseen:,} with entities that training has not seen included: accuracy "
            f"{self.accuracy:.4f}, Brier score {self.brier:.4f}, log loss {self.log_loss:.3f}. Evidence answers for "
            f"the unseen entities, with accuracy {self.unseen_accuracy:.4f}, and {label} for the others."
        )
