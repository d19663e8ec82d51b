"""A calibrated model that was loaded from files, and answers questions about triples: `kgcore.load`."""

from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import pandas as pd
import pyarrow as pa

from kgcore.calibrated import CalibratedModel
from kgcore.combiners.scorer import CombinedModel
from kgcore.config import DiscoverConfig, EvidenceConfig, PredictConfig
from kgcore.config.evidence import OTHER_SCORES
from kgcore.config.survey import SurveyConfig
from kgcore.datasets.formats.base import COLUMNS
from kgcore.ensembles.pooled import PooledModel
from kgcore.errors import InputError
from kgcore.prediction.answers import ANSWERS, Answers, check_free, without_probabilities
from kgcore.prediction.explanation import Explainer, Explanation
from kgcore.prediction.unseen_explanation import UnseenExplanation
from kgcore.storage import missing_parts, read_calibrated

if TYPE_CHECKING:
    from kgcore.models.trained import TrainedModel
    from kgcore.population.population import Population
    from kgcore.population.survey import Survey

_BOOLEANS = ("decision", "known")


@dataclass(frozen=True)
class LoadedModel:
    """A calibrated model that answers. Several threads may ask it at the same time.

    calibrated  the embedding model or the pool of an ensemble, the calibrator, and the graph with the names and the
                known facts
    """

    calibrated: CalibratedModel

    @property
    def dataset(self) -> str:
        """Return the name of the data set that the model was trained on."""
        return self.calibrated.graph.name

    @property
    def label(self) -> str:
        """Return the label, such as `synthetic.isotonic`, or `synthetic.linear` for an ensemble."""
        return self.calibrated.label

    @property
    def base_rate(self) -> float:
        """Return the share of true triples, in (0, 1), that the probabilities assume unless a call states another."""
        return self.calibrated.calibrator.base_rate

    def predict(
        self,
        frame: pd.DataFrame,
        *,
        base_rate: float | None = None,
        threshold: float = PredictConfig.threshold,
        at_least: int = PredictConfig.at_least,
    ) -> pd.DataFrame:
        """Answer candidate triples. Return the frame with the columns of ANSWERS added.

        frame      n rows, the columns subject, predicate and object as text; it may have further columns
        base_rate  share of true triples that the probabilities assume, in (0, 1); None: that of the calibrator
        threshold  a triple with a probability above it counts as true, in [0, 1]
        at_least   fewest calibration triples of a predicate, true and false each, for which its triples are answered

        score, probability, low, high  float64, NaN if there is no value
        decision, known                boolean, NA if there is no value
        unseen                         the entities that training has not seen, if names answer for them
        reason                         why there is no answer; missing if there is an answer

        `Answers.table` explains the columns. Raises InputError for a column that is missing, for a value that is
        missing or not text, for a column of ANSWERS, and for an argument out of range.
        """
        check_free(list(frame.columns))
        settings = PredictConfig(threshold=threshold, at_least=at_least)
        answers = self._answers.under(base_rate, settings.threshold, settings.at_least)
        table = answers.table(names_of(frame))
        columns = {name: table[name].to_pandas() for name in ANSWERS}
        columns |= {name: columns[name].astype("boolean") for name in _BOOLEANS}
        columns |= {name: columns[name].astype("str") for name in ("unseen", "reason")}
        return frame.assign(**{name: column.set_axis(frame.index) for name, column in columns.items()})

    def answers(
        self, subject: str = "", predicate: str = "", object: str = "", *, top: int = 10, base_rate: float | None = None
    ) -> pd.DataFrame:
        """Rank the answers to (subject, predicate, ?) or (?, predicate, object). Return the `top` best as triples.

        top        number of answers, at least 1; known facts are among them, and marked
        base_rate  as in `predict`

        The columns are subject, predicate, object and ANSWERS. Raises InputError if not exactly one side is open, for a
        name that is not in the graph, and for a base rate out of range.
        """
        from kgcore.prediction.ranked import ranked_answers  # loads torch

        answers = self._answers.under(base_rate, PredictConfig.threshold, PredictConfig.at_least)
        frame: pd.DataFrame = ranked_answers(answers, subject, predicate, object, top).to_pandas()
        return frame

    def discover(
        self,
        subject: str = "",
        predicate: str = "",
        object: str = "",
        *,
        top: int = DiscoverConfig.top,
        above: float = DiscoverConfig.above,
        completeness: str | float | None = None,
        base_rate: float | None = None,
    ) -> pd.DataFrame:
        """List the `top` most probable missing facts with a probability above a limit, as `kgcal discover` does.

        subject, predicate, object  the known parts of the facts; '': any. All empty: the whole graph
        above                       in [0, 1)
        completeness                share of the true facts that the graph knows, in (0, 1), or text as in
                                    `read_completeness`
        base_rate                   share of true ones among the missing facts, in (0, 1)

        The probabilities are calibrated to the missing facts, which takes seconds to minutes at the first call. Without
        a completeness and a base rate, the list has an order and no probabilities: these are NaN.

        The columns are subject, predicate, object and ANSWERS. Raises InputError for a name that is not in the graph,
        for an argument out of range, and if validation has too few facts of the kind that is asked for.
        """
        from kgcore.population.calibration import Calibration  # loads torch
        from kgcore.population.population import Population
        from kgcore.population.unknown_facts import stated_facts
        from kgcore.prediction.discovery import Discovery
        from kgcore.prediction.domains import Domains

        config = DiscoverConfig(top=top, above=above, completeness="" if completeness is None else str(completeness))
        graph = self.calibrated.graph
        discovery = Discovery(self.calibrated, Domains(graph), config.at_least)
        question = discovery.question(subject, predicate, object)
        population = Population.asked(discovery.domains, question.predicate, config.at_least)
        if population is None:
            raise InputError("validation has too few facts of the kind that is asked for: there are no probabilities")
        true = stated_facts(population, config.completeness, base_rate, question.predicate)
        if above and true is None:
            raise InputError(f"above is {above:g}, but there are no probabilities: state completeness or base_rate")
        survey, models = self._survey(population, SurveyConfig().for_list(top)), self._models
        calibration = Calibration.of(population, survey, models, true, np.random.default_rng(SurveyConfig.survey_seed))
        triples, _ = calibration.most_probable(question, config.top, config.above)
        answers = Answers(calibration.model, PredictConfig.threshold, config.at_least)
        table = answers.table(answers.named(triples))
        frame: pd.DataFrame = (table if true is not None else without_probabilities(table)).to_pandas()
        return frame

    def _survey(self, population: "Population", config: SurveyConfig) -> "Survey":
        """Return the survey of a population. It is kept for later calls."""
        from kgcore.evidence.base import Source
        from kgcore.population.draw import DrawSize
        from kgcore.population.survey import survey

        key = (tuple(block.predicate for block in population.blocks), config.survey_top)
        if key not in self._surveys:
            first, *others = self._models
            source, size = (
                Source(population.graph, first, tuple(others)),
                DrawSize(config.survey_top, config.survey_rest),
            )
            groups = (*EvidenceConfig().evidence, *([OTHER_SCORES] if others else []))
            rng = np.random.default_rng(config.survey_seed)
            self._surveys[key] = survey(population, source, groups, [own.fingerprint() for own in others], size, rng)
        return self._surveys[key]

    @cached_property
    def _surveys(self) -> "dict[object, Survey]":
        return {}

    @property
    def _models(self) -> "tuple[TrainedModel, ...]":
        """The embedding models, first the one whose score is the main evidence."""
        trained = self.calibrated.trained
        if isinstance(trained, CombinedModel):
            return (trained.trained, *trained.others)
        if isinstance(trained, PooledModel):
            return trained.members
        return (cast("TrainedModel", trained),)

    def explain(
        self, subject: str, predicate: str, object: str, *, base_rate: float | None = None
    ) -> Explanation | UnseenExplanation:
        """Explain the probability of a triple. The files have no calibration sample, so `evidence` is None.

        base_rate  as in `predict`

        An entity that training has not seen gets an `UnseenExplanation`, if the model has answers about these. Raises
        InputError for another name that is not in the graph, and for a base rate out of range.
        """
        model = self.calibrated if base_rate is None else self.calibrated.at(base_rate)
        return Explainer(model).about(subject, predicate, object)

    @cached_property
    def _answers(self) -> Answers:
        return Answers(self.calibrated, PredictConfig.threshold, PredictConfig.at_least)


def load_folder(folder: str | PathLike[str]) -> LoadedModel:
    """Load a calibrated model from the folder of a logged model.

    folder  calibrator.json, model/ and graph/, or ensemble.json, model_1/, model_2/, ... and graph/, as the versions
            of a registered model have them:
            `mlflow artifacts download --artifact-uri models:/kgcal-NAME@champion --dst-path FOLDER`

    Raises InputError if a file is missing or damaged, MismatchError if the files belong to different models.
    """
    place = Path(folder)
    if not place.is_dir():
        raise InputError(f"{place} is not a folder: give the folder of a logged model")
    if missing := missing_parts(place):
        raise InputError(
            f"{place} has no complete {', '.join(missing)}: download a version of a registered model, which has "
            "calibrator.json, model and graph"
        )
    return LoadedModel(read_calibrated(place))


def names_of(frame: pd.DataFrame) -> pa.Table:
    """Return the columns subject, predicate and object of a frame (n rows) as a table of strings.

    Raises InputError if a column is missing or occurs twice, or if a value is missing or not text.
    """
    found = list(frame.columns)
    if missing := [name for name in COLUMNS if name not in found]:
        raise InputError(f"the candidates have no column {', '.join(missing)}: they must have {', '.join(COLUMNS)}")
    if twice := [name for name in COLUMNS if found.count(name) > 1]:
        raise InputError(f"the candidates have the column {', '.join(twice)} twice: give every column its own name")
    return pa.table({name: _text(name, frame[name]) for name in COLUMNS})


def _text(name: str, column: "pd.Series[str]") -> pa.Array:
    try:
        array = pa.array(column, from_pandas=True)
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if len(array) == 0 or (not array.null_count and _is_text(array.type)):
            return array.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError):
        pass  # the message below names the row
    row, value = next((i, value) for i, value in enumerate(column.to_numpy(dtype=object)) if not _is_name(value))
    if value is None or value is pd.NA or (isinstance(value, float | np.floating) and np.isnan(value)):
        raise InputError(f"row {row + 1:,} has no {name}: every triple needs a subject, a predicate and an object")
    raise InputError(f"row {row + 1:,} has the {name} {value!r} ({type(value).__name__}): names must be UTF-8 text")


def _is_name(value: object) -> bool:
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:  # a surrogate without its pair
        return False


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
