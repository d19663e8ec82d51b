"""The settings of the evidence that calibrators see beside the score."""

from dataclasses import dataclass
from typing import ClassVar

from kgcore.config.base import Config, setting
from kgcore.registries import EVIDENCE


@dataclass(frozen=True, kw_only=True)
class EvidenceConfig(Config):
    """The groups of evidence."""

    stage: ClassVar[str] = "evidence"

    evidence: tuple[str, ...] = setting(
        (
            *("score", "cohorts", "degrees", "types", "neighbours", "paths", "rules", "constants"),
            *("name_roles", "name_pairs", "name_likeness", "name_embeddings"),
        ),
        "groups of evidence about triples",
        choices=EVIDENCE,
    )
