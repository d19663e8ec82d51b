"""evidence: compute what the model and the training facts know of each held-out triple, beside its score."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kgcore.config import CalibrateConfig, EvidenceConfig, PrepareConfig
from kgcore.config.calibrate import OF_PAIRS, OTHER_SCORES
from kgcore.errors import InputError, MismatchError
from kgcore.registries import COMBINERS
from kgcore.registries import EVIDENCE as GROUPS
from kgcore.scores.table import LABELLED
from tasks.stages.match import MATCH
from tasks.stages.running import Stage, StageRef, StageRun, config_of
from tasks.stages.score import SCORE
from tasks.stages.train import TRAIN
from tasks.tracking.artifacts import (
    CANDIDATE_EVIDENCE,
    COUNTS,
    EMBEDDINGS,
    EVIDENCE,
    GRAPH,
    GRAPH_WITHOUT_TEST,
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

if TYPE_CHECKING:
    from kgcore.evidence.table import Features

NAMES = {"name_roles", "name_pairs", "name_likeness", "name_embeddings"}
UNSEEN_COMBINER = "boosted_trees"  # it answers about entities that training has not seen
FEWEST = 1_000  # positives, and negatives or candidates, that a combiner needs


def _body(run: StageRun, config: EvidenceConfig) -> None:
    from kgcore.evidence.base import Source
    from kgcore.evidence.table import Features
    from kgcore.scores.table import TableEvidence

    table = run.load(SCORES)
    rows = table.rows("valid", LABELLED) | table.measured("test")
    if synthetic := not (table.judged_alone("valid") or MATCH.name in run.inputs):
        rows |= table.corruptions()
    others = [run.store.known(run_id) for run_id in other_models(run.inputs)]
    check_others(StageRef("prepare", run.inputs["prepare"]), [StageRef(TRAIN.name, other.run_id) for other in others])
    model_ids = [model_id for other in others for model_id in other.model_ids]
    groups: tuple[str, ...] = (*config.evidence, *([OTHER_SCORES] if others else []))
    if synthetic:
        groups = tuple(name for name in groups if name in OF_PAIRS)
    if not groups:
        raise InputError(
            f"evidence is {', '.join(config.evidence)}: without labels and candidates, name at least one of "
            f"{', '.join(OF_PAIRS)}"
        )
    with gpu_slot(find_device(run.context.device)) as device:
        first = run.load_model(EMBEDDINGS).to(device)
        further = tuple(run.store.load_model(model_id, EMBEDDINGS).to(device) for model_id in model_ids)
        fingerprints = tuple(other.fingerprint() for other in further)
        if len({table.model, *fingerprints}) <= len(further):
            raise InputError("--other-models names the same model twice, or the model itself: name different models")
        features = Features.of(Source(run.load(GRAPH), first, further), groups)
        evidence = features.evidence(table.triples[rows])
        matched = run.load(MIXTURE_TRIPLES) if MATCH.name in run.inputs else table.triples[:0]
        candidates = features.evidence(matched)
    run.save(EVIDENCE, TableEvidence(rows.nonzero()[0], evidence, groups, fingerprints))
    if len(candidates):
        own = TableEvidence(np.arange(len(candidates)), candidates, groups, fingerprints)
        run.save(CANDIDATE_EVIDENCE, own)
    if run.has(UNSEEN) and NAMES & set(config.evidence) and table.rows("valid", LABELLED, 0).any():
        _answer_unseen(run, features, config)
    run.log_metrics({"rows": float(len(evidence) + len(candidates)), "features": float(len(evidence.names))})


def _answer_unseen(run: StageRun, features: "Features", config: EvidenceConfig) -> None:
    """Fit the answers about entities that training lacks, and answer for the test rows, if validation has enough."""
    from kgcore.combiners.unseen import UnseenAnswers, can_fit

    graph, unseen = run.load(GRAPH), run.load(UNSEEN)
    if not can_fit(unseen.splits["valid"]) or graph.valid.confidences is not None:
        return
    features, asked = features.extended(unseen.names), unseen.splits["test"].triples
    rng, combiner = np.random.default_rng(config.unseen_seed), COMBINERS.get(UNSEEN_COMBINER)()
    prints = run.load(SCORES).model, graph.fingerprint()
    labelled = graph.valid, unseen.splits["valid"]
    fitted = UnseenAnswers.fit(*prints, UNSEEN_COMBINER, combiner, features, *labelled, rng)
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
        "kgcore.combiners.unseen",
        COMBINERS.module(UNSEEN_COMBINER),
        *map(GROUPS.module, (*config.evidence, OTHER_SCORES)),
    ),
    inputs={"model": TRAIN, "scores": SCORE, "candidates": MATCH},
    optional=("candidates",),
    further={"other_models": TRAIN},
    on_device=True,
)


def other_models(inputs: Mapping[str, str]) -> list[str]:
    """Return the train runs of the further models, in their order, from the inputs of a run: stage -> run id."""
    names = (f"{TRAIN.name}.{number}" for number in range(1, len(inputs) + 1))
    return [inputs[name] for name in names if name in inputs]


def check_others(data: StageRef, others: Sequence[StageRef]) -> None:
    """Raise MismatchError if a further model was trained on other triples than those of a prepare run."""
    store = open_store()
    for other in others:
        own = store.finished(other.stage, other.run_id).tags.inputs["prepare"]
        graphs = (store.load(run_id, GRAPH_WITHOUT_TEST) for run_id in dict.fromkeys((data.run_id, own)))
        if len({graph.training_fingerprint() for graph in graphs}) > 1:
            raise MismatchError(
                f"the model of run {other.run_id} was trained on the triples of prepare run {own}, which differ from "
                f"those of prepare run {data.run_id}: a further model must have the same training triples"
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

    If there are neither, corruptions are the negatives. There are always enough of them. Triples with confidences
    have no negatives.

    matched  the match run; None: there are no candidates
    """
    if not config.combiners:
        return False
    store = open_store()
    counts = store.load(data.run_id, COUNTS)
    candidates = store.load(matched.run_id, MATCHED).fit.candidates if matched else 0
    known = counts["valid_negatives"] or matched or config_of(PrepareConfig, store.known(data.run_id)).given_confidence
    return min(counts["valid_positives"], max(counts["valid_negatives"], candidates) if known else FEWEST) >= FEWEST
