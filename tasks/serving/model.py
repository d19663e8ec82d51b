"""Runs the web server of `kgcal serve`."""

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc

from kgcore.answer.answers import Answers, table_of
from kgcore.answer.explainer import Explainer
from kgcore.answer.loaded import LoadedModel
from kgcore.answer.population.calibration import Calibration
from kgcore.answer.population.lists import FileAnswer, explainer_of
from kgcore.answer.population.population import FEWEST_ROWS
from kgcore.calibrate.sample import CalibrationSample
from kgcore.config import ExplainConfig, PredictConfig
from kgcore.data.formats.base import COLUMNS
from kgcore.errors import InputError, KgcalError, first_line
from tasks.jobs.find_model import (
    Ask,
    FoundModel,
    FoundScores,
    counted_sample,
    find_calibrated_model,
    find_scores,
    locate,
)
from tasks.jobs.request import AnsweringModel, Stated, calibrate_to_missing
from tasks.tracking.keys import digest

log = logging.getLogger("kgcal")
SECONDS = 2.0  # between two looks at the store
MOST_KEPT = 8  # explainers, and calibrations to missing facts
Kept = TypeVar("Kept")


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


@dataclass(frozen=True)
class Answerer:
    """A loaded model, and what answers questions with it.

    found       the model, as it is stored
    answers     the model at the base rate of its calibrator, with the default decisions
    stated      what is stated about the missing facts, if a request states nothing
    sample      the sample that the calibrator was fitted on; None if its runs no longer exist
    """

    found: FoundModel
    answers: Answers
    stated: Stated
    sample: CalibrationSample | None
    _cache: dict[object, object] = field(default_factory=dict)
    _files: dict[object, object] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def calibration(self, predicate: str, base_rate: float | None, completeness: str) -> Calibration | None:
        """Calibrate to the missing facts of a predicate; None: nothing is stated about them.

        base_rate, completeness  of a request; None and '': not stated

        The first calibration of a predicate takes seconds to minutes; a further request for it waits. Raises InputError
        as `calibrate_to_missing` does.
        """
        stated = self._stated_by(base_rate, completeness)
        if not stated.is_given:
            return None
        answering, key = AnsweringModel(self.found, self.found.model, "", "cpu"), (predicate, stated)
        with nullcontext() if key in self._cache else self._lock:
            return _kept(self._cache, key, lambda: calibrate_to_missing(answering, predicate, stated))

    def explainer(self, predicate: str, base_rate: float | None, completeness: str, missing: bool) -> Explainer:
        """Return the explainer of `calibration`, if missing facts are asked about, or of the stored model.

        base_rate  of the missing facts, or that of the stored model's calibrator; None: not stated

        Raises InputError if nothing is stated about the missing facts, and as `calibration` does.
        """
        if not (missing or completeness):
            model = self.found.model if base_rate is None else self.found.model.at(base_rate)
            return _kept(self._cache, ("explainer", base_rate), lambda: Explainer(model, self.sample, ExplainConfig()))
        calibration = self.calibration(predicate, base_rate, completeness)
        if calibration is None:
            raise InputError("missing is true, but nothing says how many facts are missing: state completeness")
        key = ("explainer", predicate, self._stated_by(base_rate, completeness))
        return _kept(self._cache, key, lambda: explainer_of(calibration))

    def file_answer(self, answers: Answers, names: pa.Table, base_rate: float | None, completeness: str) -> FileAnswer:
        """Return who answers the triples of a request: see `LoadedModel.answer_of`. The last ones are kept.

        A first comparison takes seconds, and one that calibrates up to minutes; a further request for it waits.
        """
        if len(names) < FEWEST_ROWS and not completeness:
            return self.loaded.answer_of(answers, names, base_rate, completeness)
        key = digest([base_rate, completeness, answers.at_least, *(names[name].to_pylist() for name in COLUMNS)])
        with nullcontext() if key in self._files else self._lock:
            return _kept(self._files, key, lambda: self.loaded.answer_of(answers, names, base_rate, completeness))

    def _stated_by(self, base_rate: float | None, completeness: str) -> Stated:
        stated = Stated(completeness, base_rate)
        return stated if stated.is_given else self.stated

    @cached_property
    def names(self) -> dict[str, Names]:
        """The completion of the names of entities and predicates."""
        graph = self.found.model.graph
        return {"entity": Names(graph.entities), "predicate": Names(graph.predicates)}

    @cached_property
    def loaded(self) -> LoadedModel:
        """The model that answers files, which keeps the tables of its evidence."""
        return LoadedModel(self.found.model)


def _kept(cache: dict[object, object], key: object, make: Callable[[], Kept]) -> Kept:
    """Return what is kept under a key. It is made at its first use, because its tables take time."""
    kept = cache.get(key)
    if kept is None:
        kept = make()
        if len(cache) >= MOST_KEPT:
            cache.clear()
        cache[key] = kept
    return cast(Kept, kept)


Current = TypeVar("Current", bound="Answerer | FoundScores")


class Followed(ABC, Generic[Current]):
    """The model of a server. A request uses `current` from its beginning to its end.

    A thread asks the store for the model every SECONDS seconds. If another model answers now, it is loaded, and then
    takes the place of the old one. If the store does not answer, the old model stays, and `store_answers` is false.
    """

    def __init__(self, ask: Ask) -> None:
        self.ask, self.located = ask, locate(ask)
        self.current = self._load()
        self.store_answers = True

    @abstractmethod
    def _load(self) -> Current:
        """Load the model that answers now."""

    def start(self) -> None:
        """Start the thread. It ends with the process."""
        threading.Thread(target=self._watch, daemon=True).start()

    def refresh(self) -> None:
        """Load the model that answers now, unless it is the current one."""
        try:
            if (located := locate(self.ask)) != self.located:
                self.current, self.located = self._load(), located
                log.info("now serving %s", self.located.uri)
            if not self.store_answers:
                log.info("the MLflow store answers again")
            self.store_answers = True
        except Exception as error:  # whatever it is, the server keeps answering with the model that it has
            if self.store_answers:
                log.warning("serving %s without the store: %s", self.located.uri, first_line(error))
            self.store_answers = False

    def _watch(self) -> None:
        while True:
            time.sleep(SECONDS)
            self.refresh()


class Served(Followed[Answerer]):
    """The calibrated model of a server."""

    def __init__(self, ask: Ask, stated: Stated = Stated()) -> None:
        self._stated = stated
        super().__init__(ask)

    def _load(self) -> Answerer:
        found, config = find_calibrated_model(self.ask), PredictConfig()
        graph, answers = found.model.graph, Answers(found.model, config.decides_at, config.at_least)
        answers.table(table_of([(graph.entities[0], graph.predicates[0], graph.entities[0])]))  # fills its caches
        if found.model.answers_unseen:
            answers.table(table_of([(graph.entities[0], graph.predicates[0], f"{graph.entities[0]} ")]))
        try:
            sample = counted_sample(found.model_id, found.model)
        except KgcalError as error:
            log.warning("explanations have no calibration triples: %s", first_line(error))
            sample = None
        return Answerer(found, answers, self._stated.or_that_of(found), sample)


class ServedScores(Followed[FoundScores]):
    """The calibrator of scores of a server."""

    def _load(self) -> FoundScores:
        return find_scores(self.ask)
