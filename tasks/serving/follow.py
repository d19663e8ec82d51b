"""The model of a server: the one that answers now, loaded anew when another one does."""

import logging
import threading
from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from kgcore.errors import first_line

SECONDS = 2.0  # between two looks at the store
log = logging.getLogger("kgcal")


class HasUri(Protocol):
    """Something that answers, and comes from a model of the store."""

    @property
    def uri(self) -> str:
        """Return the URI of the model."""
        ...


Current = TypeVar("Current", bound=HasUri)


class Followed(ABC, Generic[Current]):
    """The model of a server. A request uses `current` from its beginning to its end.

    A thread asks the store for the model every SECONDS seconds. If another model answers now, it is loaded, and then
    takes the place of the old one. If the store does not answer, the old model stays, and `store_answers` is false.
    """

    def __init__(self) -> None:
        self.current = self._load()
        self._ended = threading.Event()
        self.store_answers = True

    @abstractmethod
    def _load(self) -> Current:
        """Load the model that answers now."""

    @abstractmethod
    def _moved(self) -> bool:
        """Return whether another model than the current one answers now."""

    def start(self) -> None:
        """Start the thread. It ends with the process, or with `stop`."""
        threading.Thread(target=self._watch, daemon=True).start()

    def stop(self) -> None:
        """End the thread."""
        self._ended.set()

    def refresh(self) -> None:
        """Load the model that answers now, unless it is the current one."""
        try:
            if self._moved():
                self.current = self._load()
                log.info("now serving %s", self.current.uri)
            if not self.store_answers:
                log.info("the MLflow store answers again")
            self.store_answers = True
        except Exception as error:  # whatever it is, the server keeps answering with the model that it has
            if self.store_answers:
                log.warning("serving %s without the store: %s", self.current.uri, first_line(error))
            self.store_answers = False

    def _watch(self) -> None:
        while not self._ended.wait(SECONDS):
            self.refresh()
