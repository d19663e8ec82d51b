"""The model that the server asks: the champion, loaded anew when it changes."""

import logging
import threading
from dataclasses import dataclass

from kgcore.config import PredictConfig
from kgcore.errors import KgcalError, first_line
from kgcore.prediction.answers import Answers, table_of
from tasks.jobs.calibrated_model import Ask, FoundModel, load, locate
from tasks.serving.names import Names

SECONDS = 5.0  # between two looks at the store
log = logging.getLogger("kgcal")


@dataclass(frozen=True)
class Answerer:
    """A loaded model, and what answers questions with it.

    found     the model, as it is stored
    answers   the model at the base rate of its calibrator, with the default decisions
    entities  the completion of entity names
    predicates  the completion of predicate names
    """

    found: FoundModel
    answers: Answers
    entities: Names
    predicates: Names


class Served:
    """The model of a server. A request uses `current` from its beginning to its end.

    A thread asks the store for the model every SECONDS seconds. If another model answers now, it is loaded, and then
    takes the place of the old one. If the store does not answer, the old model stays.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.current = self._load()
        self._ended = threading.Event()
        self._store_answers = True

    def start(self) -> None:
        """Start the thread. It ends with the process, or with `stop`."""
        threading.Thread(target=self._watch, daemon=True).start()

    def stop(self) -> None:
        """End the thread."""
        self._ended.set()

    def refresh(self) -> None:
        """Load the model that answers now, unless it is the current one."""
        try:
            if locate(self._ask) != self.current.found.located:
                self.current = self._load()
                log.info("now serving %s", self.current.found.uri)
            if not self._store_answers:
                log.info("the MLflow store answers again")
            self._store_answers = True
        except KgcalError as error:
            if self._store_answers:
                log.warning("serving %s without the store: %s", self.current.found.uri, first_line(error))
            self._store_answers = False

    def _load(self) -> Answerer:
        found, config = load(locate(self._ask)), PredictConfig()
        graph, answers = found.model.graph, Answers(found.model, config.decides_at, config.at_least)
        answers.table(table_of([(graph.entities[0], graph.predicates[0], graph.entities[0])]))  # fills its caches
        return Answerer(found, answers, Names(graph.entities), Names(graph.predicates))

    def _watch(self) -> None:
        while not self._ended.wait(SECONDS):
            self.refresh()
