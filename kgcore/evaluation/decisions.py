"""The decisions by a separate score threshold for each relation, as summaries store them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ThresholdResult:
    """A relation's threshold on the score, and the accuracy of its decisions on the test triples."""

    threshold: float
    accuracy: float


@dataclass(frozen=True)
class RelationDecisions:
    """The results of the two thresholds of one relation on its test triples.

    predicate  position of the relation in the graph's vocabulary
    triples    number of its test triples
    learned    the result of the threshold with the best validation accuracy
    median     the result of the threshold at the median validation score
    """

    predicate: int
    triples: int
    learned: ThresholdResult
    median: ThresholdResult

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "RelationDecisions":
        """Build it from the dictionary that `dataclasses.asdict` gives. Keys that are not fields are ignored."""
        learned, median = (ThresholdResult(**data[rule]) for rule in ("learned", "median"))
        return cls(data["predicate"], data["triples"], learned, median)
