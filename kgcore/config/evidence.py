"""The settings of the evidence that calibrators see beside the score."""

from dataclasses import dataclass
from typing import ClassVar

from kgcore.config.base import Config, setting
from kgcore.registries import EVIDENCE

OTHER_SCORES = "other_scores"  # the group of the further models: a run has it if it has further models
FOLD = "fold"  # the group that says by which of several combiners a triple is judged
# The groups about both entities together. They alone are used with corruptions as negatives: what is known of one
# entity betrays how the entity of a corruption was drawn
OF_PAIRS = ("score", "cohorts", "neighbours", "paths", "rules", "name_likeness", "name_embeddings", OTHER_SCORES)


@dataclass(frozen=True, kw_only=True)
class EvidenceConfig(Config):
    """The groups of evidence, and what answers about entities that training has not seen."""

    stage: ClassVar[str] = "evidence"

    evidence: tuple[str, ...] = setting(
        (
            *("score", "cohorts", "degrees", "types", "neighbours", "paths", "rules", "constants"),
            *("name_roles", "name_pairs", "name_likeness", "name_embeddings"),
        ),
        "groups of evidence about triples",
        choices=EVIDENCE.without((OTHER_SCORES, FOLD)),
    )
    unseen_seed: int = setting(
        0, "seed of the fit of the combiner that answers about entities that training has not seen", ge=0
    )
