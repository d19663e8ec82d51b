"""The calibrator of scores that a server asks: the champion of the scorer, loaded anew when it changes."""

from dataclasses import dataclass

from kgcore.external.calibrator import ScoreCalibrator
from tasks.jobs.score_model import AskScores, FoundScoreModel, locate_scores, read_score_model
from tasks.serving.follow import Followed
from tasks.tracking.store import open_store


@dataclass(frozen=True)
class ScoreAnswerer:
    """A loaded calibrator of scores, as it is stored."""

    found: FoundScoreModel

    @property
    def uri(self) -> str:
        """Return the URI of the calibrator."""
        return self.found.uri

    def at(self, base_rate: float | None) -> ScoreCalibrator:
        """Return the calibrator for a base rate; None: its own base rate."""
        calibrator = self.found.calibrator
        return calibrator if base_rate is None else calibrator.at(base_rate)


class ServedScores(Followed[ScoreAnswerer]):
    """The calibrator of scores of a server."""

    def __init__(self, ask: AskScores) -> None:
        self._ask = ask
        super().__init__()

    def _load(self) -> ScoreAnswerer:
        store = open_store()
        return ScoreAnswerer(read_score_model(store, locate_scores(store, self._ask), self._ask.scorer))

    def _moved(self) -> bool:
        found = self.current.found
        located = locate_scores(open_store(), self._ask)
        return (located.model_id, located.uri) != (found.model_id, found.uri)
