"""A calibrated model with all calibrators of its fit, and with the test split on which they are measured."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pandas as pd

from kgcore.answer.calibrated_model import CalibratedModel
from kgcore.answer.loaded import LoadedModel, missing_parts
from kgcore.arrays import Ints
from kgcore.calibrate.calibrated import Calibrated
from kgcore.config import ClassifyConfig, EvaluateConfig
from kgcore.config.base import divided
from kgcore.errors import InputError
from kgcore.measure.evaluation.evaluate import Measured, evaluate
from kgcore.measure.evaluation.predictions import Predictions
from kgcore.measure.metrics.proper import brier
from kgcore.measure.report.plots import reliability_figures
from kgcore.measure.report.results import Results, first_table
from kgcore.storage.folders import CALIBRATOR_FILE, GRAPH_PART, MODEL_PART, write_calibrated

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class MetricsFrame(pd.DataFrame):
    """A table of metrics, whose text has all rows and columns, however narrow the terminal is."""

    def __repr__(self) -> str:
        return self.to_string()


_PART = rf"{CALIBRATOR_FILE}|{GRAPH_PART}|{MODEL_PART}(_\d+)?"  # names in the folder of a model


def _is_model(folder: Path) -> bool:
    try:
        return not missing_parts(folder)
    except InputError:
        return False


@dataclass(frozen=True, repr=False, eq=False)
class MeasuredModel(LoadedModel):
    """A calibrated model that answers as a loaded one does, with all calibrators of its fit, and test to measure them.

    fitted       every calibrator, and the baselines; of each kind of negatives, the best on validation comes first
    predictions  of all of them on test
    source       (m,) the positive that each corruption of test was made from; None: the negatives are labelled
    cold         column of the cold entities, 0 or 2; None: test was not drawn by entities
    """

    fitted: Sequence[Calibrated]
    predictions: Predictions
    source: Ints | None = None
    cold: int | None = None

    @property
    def labels(self) -> list[str]:
        """The labels of all calibrators and baselines, such as `synthetic.per_relation`."""
        return [bound.label for bound in self.fitted]

    def __getitem__(self, name: str) -> "MeasuredModel":
        """Return the same model with the calibrator that has this label or name.

        Raises InputError if no calibrator has it.
        """
        kind = self.calibrated.calibrator.negatives
        ordered = sorted(self.fitted, key=lambda bound: bound.negatives != kind)
        found = next((bound for bound in ordered if name in (bound.label, bound.shown_name)), None)
        if found is None:
            raise InputError(f"there is no calibrator {name!r}: there are {', '.join(self.labels)}")
        model, graph = self.calibrated.trained.embedding_models, self.calibrated.graph
        return replace(self, calibrated=CalibratedModel(found.scorer_of(model, graph), found, graph))

    def evaluate(self, *, every: bool = False, **settings: Any) -> pd.DataFrame:
        """Measure all calibrators on test. Return a row for each label, the best first, and a column for each metric.

        The fitted calibrators come before the baselines, and those with the lowest Brier score come first.

        every     return all metrics, not only those of the first table of a report
        settings  of EvaluateConfig and ClassifyConfig: bins, tau, ...

        `attrs["about"]` says what the figures are about.

        >>> import kgcore as kg
        >>> graph = kg.read("family", size=300)
        >>> model = kg.train(graph, "transe", epochs=20)
        >>> calibrated = kg.calibrate(model, graph, calibrators="platt", calibration_eta=5)
        >>> calibrated.evaluate(bootstrap_replicates=50).loc["uncalibrated"].index.tolist()
        ['brier', 'log_loss', 'ece', 'sharpness', 'accuracy']
        """
        results = Results.of(self._measured(settings))
        frame = pd.DataFrame.from_dict({row.label: row.metrics for row in results.best_first()}, orient="index")
        first = list(first_table(results.confidences))
        frame = MetricsFrame(frame[[*first, *(frame.columns.difference(first) if every else ())]])
        frame.attrs["about"] = " ".join(self.predictions.notes(self.calibrated.calibrator.rate))
        return frame

    def plot_reliability(self, **settings: Any) -> "Figure":
        """Draw the reliability diagram of the calibrators with the same negatives as this one. Settings: `evaluate`.

        Raises InputError for a baseline, which has no diagram.
        """
        if (negatives := self.calibrated.calibrator.negatives) == "none":
            raise InputError(f"{self.label} is a baseline, which has no diagram: take one of the calibrators")
        figures = reliability_figures(self._measured(settings), self.predictions.confidences is not None)
        return figures[f"reliability_{negatives}"]

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the folder that `kgcore.load` reads: calibrator, embedding models, graph.

        A model that the folder has is replaced. Raises InputError if `folder` is a file, if it has other files, and if
        it cannot be written.
        """
        place, model = Path(folder).expanduser().resolve(), self.calibrated
        if place.exists() and not place.is_dir():
            raise InputError(f"{place} is a file: name a folder")
        has = [path.name for path in place.glob("[!.]*")]
        odd = sorted(name for name in has if not re.fullmatch(_PART, name))
        if has and (odd or not _is_model(place)):
            reason = f", for it has {odd[0]}" if odd else ""
            raise InputError(f"{place} is no folder of a model{reason}: name a new or an empty folder")
        try:
            place.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=place, prefix=".") as both:
                old, new = Path(both, "old"), Path(both, "new")
                old.mkdir()
                write_calibrated(new, model.calibrator, model.trained.embedding_models, model.graph)
                for name in has:
                    (place / name).rename(old / name)
                for path in new.iterdir():
                    path.rename(place / path.name)
        except OSError as error:
            raise InputError(f"{place} cannot be written: {error.strerror}") from error

    def _measured(self, settings: Mapping[str, Any]) -> dict[str, Measured]:
        evaluation, decisions = divided(settings, EvaluateConfig, ClassifyConfig)
        config, tau = EvaluateConfig(**evaluation), ClassifyConfig(**decisions).tau
        return evaluate(self.predictions, config, tau, self.source, cold=self.cold)

    def __repr__(self) -> str:
        test, label = self.predictions, self.label
        score = brier(test.probabilities[label], test.truth, test.weights)
        others = ", ".join(other for other in self.labels if other != label)
        return f"{super().__repr__()}\nBrier score on test: {score:.4f}\nother calibrators: {others}"
