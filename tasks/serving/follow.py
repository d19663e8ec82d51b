"""The model of a server: the one that answers now, loaded anew when another one does."""

import logging
import threading
from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from kgcore.errors import first_line
from tasks.jobs.calibrated_model import Ask, FoundScores, Located, find_scores, locate

SECONDS = 2.0  # between two looks at the store
log = logging.getLogger("kgcal")


class HasPlace(Protocol):
    """Something that answers, and comes from a model of the store."""

    @property
    def located(self) -> Located:
        """Return the place of the model."""
        ...


Current = TypeVar("Current", bound=HasPlace)


class Followed(ABC, Generic[Current]):
    """The model of a server. A request uses `current` from its beginning to its end.

    A thread asks the store for the model every SECONDS seconds. If another model answers now, it is loaded, and then
    takes the place of the old one. If the store does not answer, the old model stays, and `store_answers` is false.
    """

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.current = self._load()
        self._ended = threading.Event()
        self.store_answers = True

    @abstractmethod
    def _load(self) -> Current:
        """Load the model that answers now."""

    def start(self) -> None:
        """Start the thread. It ends with the process, or with `stop`."""
        threading.Thread(target=self._watch, daemon=True).start()

    def stop(self) -> None:
        """End the thread."""
        self._ended.set()

    def refresh(self) -> None:
        """Load the model that answers now, unless it is the current one."""
        try:
            if locate(self.ask) != self.current.located:
                self.current = self._load()
                log.info("now serving %s", self.current.located.uri)
            if not self.store_answers:
                log.info("the MLflow store answers again")
            self.store_answers = True
        except Exception as error:  # whatever it is, the server keeps answering with the model that it has
            if self.store_answers:
                log.warning("serving %s without the store: %s", self.current.located.uri, first_line(error))
            self.store_answers = False

    def _watch(self) -> None:
        while not self._ended.wait(SECONDS):
            self.refresh()


class ServedScores(Followed[FoundScores]):
    """The calibrator of scores of a server."""

    def _load(self) -> FoundScores:
        return find_scores(self.ask)
