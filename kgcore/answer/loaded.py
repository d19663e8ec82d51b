"""A calibrated model that was loaded from files, and answers questions about triples: `kgcore.load`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa

from kgcore.answer.answers import ANSWERS, Answers, check_free
from kgcore.answer.calibrated_model import CalibratedModel
from kgcore.answer.explainer import Explainer
from kgcore.answer.explanation import Explanation, UnseenExplanation
from kgcore.base_rate import BaseRate
from kgcore.config.jobs import DiscoverConfig, PredictConfig, SurveyConfig
from kgcore.data.frames import frame_of, names_of
from kgcore.errors import InputError, MismatchError, check_type
from kgcore.storage.folders import (
    CALIBRATOR_FILE,
    GRAPH_PART,
    MODEL_PART,
    parts_of,
    read_calibrator,
    read_graph,
    read_model,
    reading,
)

if TYPE_CHECKING:
    from kgcore.answer.population.calibration import Calibration
    from kgcore.answer.population.likeness import CalibrationTriples
    from kgcore.answer.population.lists import FileAnswer
    from kgcore.answer.population.population import Population
    from kgcore.answer.population.survey import Survey

_BOOLEANS = ("decision", "known")
TEXT = pd.StringDtype(na_value=np.nan)  # as in pandas 3; in pandas 2.3, "str" writes "None" for a missing value
_MODEL_FILES = ("model.json", "embeddings.safetensors")
_GRAPH_FILES = ("graph.json", *(f"{name}.parquet" for name in ("entities", "predicates", "train", "valid", "test")))


@dataclass(frozen=True, eq=False)
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

    def __repr__(self) -> str:
        return f"calibrated model of {self.dataset}: {self.label}, base rate {self.calibrated.calibrator.rate}"

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
        candidates: pd.DataFrame | Iterable[Sequence[str]],
        *,
        base_rate: float | None = None,
        completeness: str | float | None = None,
        threshold: float = PredictConfig().threshold,
        at_least: int = PredictConfig().at_least,
    ) -> pd.DataFrame:
        """Answer candidate triples. Return a frame of them with the columns of ANSWERS added.

        candidates a frame with the columns subject, predicate and object as text; it may have further columns. Or
                   triples in an order, such as [("aspirin", "treats", "pain")]
        base_rate  share of true ones among the triples, in (0, 1); None: that of the calibrator
        completeness
                   share of the true facts that the graph knows, instead of a base rate: as in `discover`
        threshold  a triple with a probability above it counts as true, in [0, 1]
        at_least   fewest calibration triples of a predicate, true and false each, for which its triples are answered

        50 unknown triples or more are compared with the calibration triples, which takes seconds. If they differ, the
        probabilities are calibrated to them, or missing if nothing is stated about them: see `answer_of_file`.
        `attrs["about"]` says what the probabilities are about.

        score, probability, low, high  float64, NaN if there is no value
        decision, known                boolean, NA if there is no value
        unseen                         the entities that training has not seen, if names answer for them
        reason                         why there is no answer; missing if there is an answer

        `Answers.table` explains the columns. Raises InputError for a column that is missing, for a value that is
        missing or not text, for a column of ANSWERS, and for an argument out of range.
        """
        from kgcore.answer.population.lists import as_sentence  # loads torch

        frame = frame_of(candidates)
        check_free(list(frame.columns))
        settings = PredictConfig(threshold=threshold, at_least=at_least)
        answers = self._answers.under(base_rate, settings.threshold, settings.at_least)
        names = names_of(frame)
        found = self.answer_of(answers, names, base_rate, "" if completeness is None else str(completeness))
        table = found.table(answers, names)
        columns = {name: table[name].to_pandas() for name in ANSWERS}
        columns |= {name: columns[name].astype("boolean") for name in _BOOLEANS}
        columns |= {name: columns[name].astype(TEXT) for name in ("unseen", "reason")}
        answered = frame.assign(**{name: column.set_axis(frame.index) for name, column in columns.items()})
        answered.attrs["about"] = as_sentence(found.about)
        return answered

    def answer_of(
        self, answers: Answers, names: pa.Table, base_rate: float | None, completeness: str = ""
    ) -> "FileAnswer":
        """Return who answers triples of names, and what the probabilities are about.

        answers       the model at the base rate, and the decisions
        base_rate     share of true ones among the triples, in (0, 1); None: not stated
        completeness  share of the true facts that the graph knows, as in `read_completeness`; '': not stated
        """
        from kgcore.answer.population.lists import answer_of_file  # loads torch

        triples, known = answers.numbers(names)
        model, distinct = answers.model, answers.model.graph.index(triples[known]).triples
        difference = partial(self._reference.difference, base_rate=model.calibrator.base_rate)
        stated = completeness, base_rate
        return answer_of_file(model, distinct, *stated, answers.at_least, difference, self._survey)

    def answers(
        self,
        subject: str = "",
        predicate: str = "",
        object: str = "",
        *,
        top: int = 10,
        completeness: str | float | None = None,
        base_rate: str | float | None = None,
    ) -> pd.DataFrame:
        """Rank the answers to (subject, predicate, ?) or (?, predicate, object). Return the `top` best as triples.

        top                      number of answers, at least 1; known facts are among them, and marked
        completeness, base_rate  as in `discover`: then the probabilities are about the missing facts of the predicate.
                                 Without them, they are those of `predict`, and their sum is no number of true answers

        The columns are subject, predicate, object, ANSWERS and flag. `attrs["about"]` says what the probabilities are
        about. Raises InputError if not exactly one side is open, for a name that is not in the graph, for what is
        stated out of range, and if validation has too few facts of the predicate.
        """
        from kgcore.answer.population.lists import answers_to  # loads torch
        from kgcore.answer.question import Question

        query = Question.of_query(self.calibrated.graph, subject, predicate, object)
        is_stated = completeness is not None or base_rate is not None
        calibration = self._calibration(query.predicate, completeness, base_rate, top) if is_stated else None
        found = answers_to(query, self._answers, calibration, top)
        frame: pd.DataFrame = found.table.to_pandas()
        frame.attrs["about"] = " ".join(found.about)
        return frame

    def discover(
        self,
        subject: str = "",
        predicate: str = "",
        object: str = "",
        *,
        top: int = DiscoverConfig().top,
        above: float = DiscoverConfig().above,
        completeness: str | float | None = None,
        base_rate: str | float | None = None,
    ) -> pd.DataFrame:
        """List the `top` most probable missing facts with a probability above a limit, as `kgcal discover` does.

        subject, predicate, object  the known parts of the facts; '': any. All empty: the whole graph
        above                       in [0, 1)
        completeness                share of the true facts that the graph knows, in (0, 1), or text as in
                                    `read_completeness`
        base_rate                   share of true ones among the missing facts, in (0, 1), or text LOW:HIGH

        The probabilities are calibrated to the missing facts, which takes seconds to minutes at the first call. Without
        a completeness and a base rate, the list has an order and no probabilities: these are NaN.

        The columns are subject, predicate, object, ANSWERS and flag. Raises InputError for a name that is not in the
        graph, for an argument out of range, and if validation has too few facts of the kind that is asked for.
        """
        from kgcore.answer.population.lists import listed  # loads torch
        from kgcore.answer.question import Question

        config = DiscoverConfig(top=top, above=above)
        question = Question.of(self.calibrated.graph, subject, predicate, object)
        calibration = self._calibration(question.predicate, completeness, base_rate, top)
        if above and calibration.true is None:
            raise InputError(f"above is {above:g}, but there are no probabilities: state completeness or base_rate")
        triples, _ = calibration.most_probable(question, config.top, config.above)
        table = listed(calibration, triples, Answers(calibration.model, PredictConfig().threshold, config.at_least))
        frame: pd.DataFrame = table.to_pandas()
        frame.attrs["about"] = calibration.about
        return frame

    def _calibration(
        self, predicate: int | None, completeness: str | float | None, base_rate: str | float | None, top: int
    ) -> "Calibration":
        """Calibrate to the missing facts of a predicate, or of all: None.

        Raises InputError if validation has too few facts of the predicate, or if what is stated is out of range.
        """
        from kgcore.answer.domains import Domains
        from kgcore.answer.population.calibration import Calibration
        from kgcore.answer.population.population import Population, stated_facts, too_few

        graph, at_least = self.calibrated.graph, DiscoverConfig().at_least
        population = Population.asked(Domains(graph), predicate, at_least)
        if population is None:
            raise InputError(too_few(graph, predicate, at_least))
        text = "" if completeness is None else str(completeness)
        true, models = stated_facts(population, text, base_rate, predicate), self.calibrated.trained.embedding_models
        config = SurveyConfig().for_list(top)
        rng = np.random.default_rng(config.survey_seed)
        return Calibration.of(population, self._survey(population, config), models, true, rng, predicate)

    def _survey(self, population: "Population", config: SurveyConfig = SurveyConfig()) -> "Survey":
        from kgcore.answer.population.draw import DrawSize
        from kgcore.answer.population.survey import survey

        size, rng = DrawSize(config.survey_top, config.survey_rest), np.random.default_rng(config.survey_seed)
        key = (tuple(block.predicate for block in population.blocks), config.survey_top)
        kept = self._surveys if population.rows is None else {}  # those of missing facts serve later calls
        if key not in kept:
            kept[key] = survey(population, self.calibrated.trained.embedding_models, size, rng)
        return kept[key]

    @cached_property
    def _surveys(self) -> "dict[object, Survey]":
        return {}

    @cached_property
    def _reference(self) -> "CalibrationTriples":
        from kgcore.answer.population.likeness import CalibrationTriples

        return CalibrationTriples(self.calibrated)

    def explain(
        self,
        subject: str,
        predicate: str,
        object: str,
        *,
        completeness: str | float | None = None,
        base_rate: str | float | None = None,
        missing: bool = False,
    ) -> Explanation | UnseenExplanation:
        """Explain the probability of a triple. The files have no calibration sample, so `evidence` is None.

        completeness, missing  calibrate to the missing facts of the predicate, as `answers` does. With `missing`, the
                               base rate is theirs
        base_rate              otherwise, as in `predict`

        An entity that training has not seen gets an `UnseenExplanation`, if the model has answers about these. Raises
        InputError for another name that is not in the graph, and for what is stated out of range.
        """
        from kgcore.answer.population.lists import explainer_of  # loads torch
        from kgcore.answer.question import Question

        if completeness is not None or missing:
            p = Question.of(self.calibrated.graph, "", predicate, "").predicate
            calibration = self._calibration(p, completeness, base_rate, DiscoverConfig().top)
            return explainer_of(calibration).about(subject, predicate, object)
        model = self.calibrated if (rate := BaseRate.read(base_rate)) is None else self.calibrated.at(rate)
        return Explainer(model).about(subject, predicate, object)

    @cached_property
    def _answers(self) -> Answers:
        return Answers(self.calibrated, PredictConfig().threshold, PredictConfig().at_least)


def load_folder(folder: str | PathLike[str]) -> LoadedModel:
    """Load a calibrated model from the folder of a logged model.

    folder  calibrator.json, model/, perhaps model_2/, ... and graph/, as the versions of a registered model have them:
            `mlflow artifacts download --artifact-uri models:/kgcal-NAME@champion --dst-path FOLDER`

    Raises InputError if a file is missing or damaged, MismatchError if the files belong to different models.
    """
    check_type("the folder", folder, str | PathLike, "a path")
    place = Path(folder).expanduser()
    if not place.is_dir():
        raise InputError(f"{place} is not a folder: give the folder of a logged model")
    if missing := missing_parts(place):
        raise InputError(
            f"{place} has no complete {', '.join(missing)}: download a version of a registered model, which has "
            "calibrator.json, model and graph"
        )
    return LoadedModel(read_calibrated(place))


def missing_parts(folder: Path) -> list[str]:
    """Return which parts of a calibrated model are not in the folder, or not with all of their files.

    The parts are calibrator.json, the folders of the embedding models, and graph. Raises InputError for a damaged file.
    """
    if not (folder / CALIBRATOR_FILE).is_file():
        return [CALIBRATOR_FILE, *(_incomplete(folder, MODEL_PART)), *(_incomplete(folder, GRAPH_PART))]
    with reading(f"the calibrated model in {folder}"):
        models = read_calibrator(folder).embedding_models
    return [name for part in (*parts_of(len(models)), GRAPH_PART) for name in _incomplete(folder, part)]


def _incomplete(folder: Path, part: str) -> list[str]:
    files = _GRAPH_FILES if part == GRAPH_PART else _MODEL_FILES
    return [] if all((folder / part / name).is_file() for name in files) else [part]


def read_calibrated(folder: Path, elsewhere: Mapping[str, Path] = MappingProxyType({})) -> "CalibratedModel":
    """Read a calibrated model from a folder that has all parts: see `missing_parts`.

    elsewhere  part -> folder, for parts that are in other places, such as `graph`

    Raises InputError if a file is missing or damaged, and MismatchError if the calibrator was fitted to another model
    or another graph.
    """
    with reading(f"the calibrated model in {folder}"):
        calibrator = read_calibrator(folder)
        parts = parts_of(len(calibrator.embedding_models))
        models = [read_model(elsewhere.get(part, folder / part)) for part in parts]
        graph = read_graph(elsewhere.get(GRAPH_PART, folder / GRAPH_PART))
        for expected, model in zip(calibrator.embedding_models, models, strict=True):
            _check(folder, "model", expected, model.fingerprint())
            if model.sizes != (len(graph.entities), len(graph.predicates)):
                raise InputError(f"{folder} has a model of another graph: use the files of one logged model")
        if scorer := calibrator.scorer:
            _check(folder, "scorer", calibrator.model, scorer.fingerprint())
        _check(folder, "graph", calibrator.dataset, graph.fingerprint())
        return CalibratedModel(calibrator.scorer_of(models, graph), calibrator, graph)


def _check(folder: Path, what: str, expected: str, found: str) -> None:
    if found != expected:
        raise MismatchError(
            f"the calibrator in {folder} was fitted to the {what} {expected[:12]}, but the {what} there is "
            f"{found[:12]}: use the files of one logged model"
        )
