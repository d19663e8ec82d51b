"""evidence: compute what the model and the training facts know of each held-out triple, beside its score."""

import logging

import numpy as np

from kgcore.calibration.unseen_answers import Origin, UnseenAnswers, can_fit
from kgcore.config import CalibrateConfig, EvidenceConfig
from kgcore.evidence.base import Source
from kgcore.evidence.table import Features, TableEvidence
from kgcore.registries import COMBINERS
from kgcore.registries import EVIDENCE as GROUPS
from kgcore.score_table import LABELLED
from tasks.stages.base import Stage
from tasks.stages.match import MATCH
from tasks.stages.reference import StageRef
from tasks.stages.running import StageRun
from tasks.stages.score import SCORE
from tasks.stages.train import TRAIN
from tasks.tracking.artifacts import (
    CANDIDATE_EVIDENCE,
    COUNTS,
    EMBEDDINGS,
    EVIDENCE,
    GRAPH,
    MATCHED,
    MIXTURE_TRIPLES,
    SCORES,
    UNSEEN,
    UNSEEN_ANSWERS,
    UNSEEN_TEST,
)
from tasks.tracking.record import RunTags
from tasks.tracking.store import open_store
from tasks.workspace.resources import find_device, gpu_slot

log = logging.getLogger("kgcal")
NAMES = {"name_roles", "name_pairs", "name_likeness", "name_embeddings"}
FEWEST = 1_000  # positives, and negatives or candidates, that a combiner needs


def _body(run: StageRun, config: EvidenceConfig) -> None:
    table = run.load(SCORES)
    rows = table.rows("valid", LABELLED) | table.measured("test")
    with gpu_slot(find_device(run.context.device)) as device:
        trained = run.load_model(EMBEDDINGS).to(device)
        features = Features.of(Source(run.load(GRAPH), trained), config.evidence)
        evidence = features.evidence(table.triples[rows])
        matched = run.load(MIXTURE_TRIPLES) if MATCH.name in run.inputs else table.triples[:0]
        candidates = features.evidence(matched)
    run.save(EVIDENCE, TableEvidence(rows.nonzero()[0], evidence, config.evidence))
    if len(candidates):
        run.save(CANDIDATE_EVIDENCE, TableEvidence(np.arange(len(candidates)), candidates, config.evidence))
    if run.has(UNSEEN) and NAMES & set(config.evidence) and table.rows("valid", LABELLED, 0).any():
        _answer_unseen(run, features, config)
    run.log_metrics({"rows": float(len(evidence) + len(candidates)), "features": float(len(evidence.names))})


def _answer_unseen(run: StageRun, features: Features, config: EvidenceConfig) -> None:
    """Fit the answers about entities that training lacks, and answer for the test rows, if validation has enough."""
    graph, unseen = run.load(GRAPH), run.load(UNSEEN)
    if not can_fit(unseen.splits["valid"]) or graph.valid.confidences is not None:
        return
    origin = Origin(config.unseen_combiner, run.load(SCORES).model, graph.fingerprint())
    features, asked = features.extended(unseen.names), unseen.splits["test"].triples
    rng, combiner = np.random.default_rng(config.unseen_seed), COMBINERS.get(config.unseen_combiner)()
    fitted = UnseenAnswers.fit(origin, combiner, features, graph.valid, unseen.splits["valid"], rng)
    run.save(UNSEEN_ANSWERS, fitted)
    run.save(UNSEEN_TEST, fitted.answers(asked, features.evidence(asked)))


EVIDENCE_STAGE = Stage(
    name="evidence",
    summary="Compute the evidence of the labelled validation triples and of the test triples.",
    title="evidence of {scores}",
    config=EvidenceConfig,
    body=_body,
    code=lambda config: (
        "kgcore.evidence.table",
        "kgcore.calibration.unseen_answers",
        COMBINERS.module(config.unseen_combiner),
        *map(GROUPS.module, config.evidence),
    ),
    inputs={"model": TRAIN, "scores": SCORE, "candidates": MATCH},
    optional=("candidates",),
    on_device=True,
)


def evidence_of(scores: StageRef, candidates: StageRef | None) -> StageRef | None:
    """Return the newest finished evidence run of a score run and a match run; None if there is none."""
    matched = candidates.run_id if candidates else None
    for run in open_store().find(RunTags(stage=EVIDENCE_STAGE.name, inputs={"score": scores.run_id})):
        if run.tags.inputs.get(MATCH.name) == matched:
            return StageRef(EVIDENCE_STAGE.name, run.run_id)
    return None


def wants_evidence(data: StageRef, config: CalibrateConfig, matched: StageRef | None) -> bool:
    """Return whether a combiner can be fitted: the settings name one, and there are enough labels or candidates.

    matched  the match run; None: there are no candidates
    """
    if not config.combiners:
        return False
    store = open_store()
    counts = store.load(data.run_id, COUNTS)
    candidates = store.load(matched.run_id, MATCHED).fit.candidates if matched else 0
    return min(counts["valid_positives"], max(counts["valid_negatives"], candidates)) >= FEWEST
