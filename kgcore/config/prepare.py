"""The settings of the stage prepare: which graph, and how to read it."""

from dataclasses import dataclass
from typing import ClassVar

from kgcore.config.base import Config, setting
from kgcore.config.choices import AUTO, COLUMNS_SPELLING
from kgcore.config.split import RANDOM, SPLIT_SPELLING, SplitRule
from kgcore.errors import InputError

NO_CONFIDENCE = "none"


@dataclass(frozen=True, kw_only=True)
class PrepareConfig(Config):
    """The settings of the graph.

    Only the generated family graph uses `size` and `graph_seed`. Only a user's own tables use `columns` and
    `confidence`. Only a graph without validation and test splits uses `split`, the shares and `split_seed`.
    """

    stage: ClassVar[str] = "prepare"

    dataset: str = setting(
        "family", "data set: a name from `kgcal datasets`, a folder, a file, or several files separated by commas"
    )
    columns: str = setting(
        AUTO,
        "columns of subject, predicate and object, and of the label if there are labels",
        spelling=COLUMNS_SPELLING,
    )
    confidence: str = setting(
        NO_CONFIDENCE,
        "column with the confidence of each triple, a number from 0 to 1: its name or its position from 1",
    )
    split: str = setting(
        RANDOM,
        "how valid and test are drawn, if the data set has no splits; they should be as new as the triples that you "
        "will ask about",
        spelling=SPLIT_SPELLING,
    )
    valid_share: float = setting(
        0.1, "share of the triples that go to valid, if the data set has no splits", gt=0, lt=0.5
    )
    test_share: float = setting(
        0.1, "share of the triples that go to test, if the data set has no splits", gt=0, lt=0.5
    )
    split_seed: int = setting(0, "seed of the split, if the data set has no splits", ge=0)
    size: int = setting(2_000, "number of people in the generated family graph", ge=200)
    graph_seed: int = setting(0, "seed of the generated family graph", ge=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.given_columns)) < len(self.given_columns):
            raise InputError(f"columns is {self.columns!r}: it must name every column once")

    @property
    def given_columns(self) -> tuple[str, ...]:
        """The entries of `columns`; empty if the columns are to be found."""
        return () if self.columns == AUTO else tuple(entry.strip() for entry in self.columns.split(","))

    @property
    def split_rule(self) -> SplitRule:
        """The setting `split` in its parts."""
        return SplitRule.of(self.split)

    @property
    def given_confidence(self) -> str:
        """The column of confidences; empty without one."""
        return "" if self.confidence == NO_CONFIDENCE else self.confidence.strip()
