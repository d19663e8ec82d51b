"""evidence: compute what the model and the training facts know of each held-out triple, beside its score."""

import logging
from collections.abc import Mapping, Sequence

import numpy as np

from kgcore.config import CalibrateConfig, CorruptConfig, EvidenceConfig, PrepareConfig
from kgcore.config.calibrate import FEWEST, OTHER_SCORES, UNSEEN_COMBINER
from kgcore.errors import InputError, MismatchError
from kgcore.registries import COMBINERS
from kgcore.registries import EVIDENCE as GROUPS
from kgcore.workers import find_device
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
    TWIN_EVIDENCE,
    TWINS,
    UNSEEN,
    UNSEEN_ANSWERS,
    UNSEEN_TEST,
)
from tasks.tracking.record import RunTags
from tasks.tracking.store import open_store
from tasks.workspace.resources import gpu_slot

log = logging.getLogger("kgcal")


def _body(run: StageRun, config: EvidenceConfig) -> None:
    from kgcore.combiners.unseen import fit_unseen
    from kgcore.evidence.base import Source
    from kgcore.evidence.table import Features, rows_with_evidence
    from kgcore.evidence.twins import UnknownTwins
    from kgcore.scores.table import TableEvidence

    table = run.load(SCORES)
    others = [run.store.known(run_id) for run_id in other_models(run.inputs)]
    check_others(StageRef("prepare", run.inputs["prepare"]), [StageRef(TRAIN.name, other.run_id) for other in others])
    model_ids = [model_id for other in others for model_id in other.model_ids]
    rows, groups = rows_with_evidence(table, config.evidence, bool(others), MATCH.name in run.inputs)
    with gpu_slot(find_device(run.context.device)) as device:
        first = run.load_model(EMBEDDINGS).to(device)
        further = tuple(run.store.load_model(model_id, EMBEDDINGS).to(device) for model_id in model_ids)
        fingerprints = tuple(other.fingerprint() for other in further)
        if len({table.model, *fingerprints}) <= len(further):
            raise InputError("--other-models names the same model twice, or the model itself: name different models")
        graph = run.load(GRAPH)
        features = Features.of(Source(graph, first, further), groups)
        evidence = features.evidence(table.triples[rows])
        matched = run.load(MIXTURE_TRIPLES) if MATCH.name in run.inputs else table.triples[:0]
        candidates = features.evidence(matched)
        fits_corruptions = rows[table.corruptions()].any() and run.config(CorruptConfig).calibration_filtered
        twins = UnknownTwins.of(graph) if graph.twins_together and fits_corruptions else None
        of_twins = features.evidence(table.triples[:0] if twins is None else twins.triples)
    run.save(EVIDENCE, TableEvidence(rows.nonzero()[0], evidence, groups, fingerprints))
    if twins is not None and len(of_twins):
        run.save(TWINS, twins)
        run.save(TWIN_EVIDENCE, TableEvidence(np.arange(len(of_twins)), of_twins, groups, fingerprints))
    if len(candidates):
        own = TableEvidence(np.arange(len(candidates)), candidates, groups, fingerprints)
        run.save(CANDIDATE_EVIDENCE, own)
    if run.has(UNSEEN):
        unseen = run.load(UNSEEN)
        if found := fit_unseen(graph, unseen.names, unseen.splits, features, table, config):
            run.save(UNSEEN_ANSWERS, found[0])
            run.save(UNSEEN_TEST, found[1])
    run.log_metrics({"rows": float(len(evidence) + len(candidates)), "features": float(len(evidence.names))})


EVIDENCE_STAGE = Stage(
    name="evidence",
    summary="Compute the evidence of the labelled validation triples and of the test triples.",
    title="evidence of {scores}",
    config=EvidenceConfig,
    body=_body,
    code=lambda config: (
        "kgcore.evidence.table",
        "kgcore.evidence.twins",
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
    """Return whether a combiner can be fitted to the labels of a prepare run: see `CalibrateConfig.can_combine`.

    matched  the match run; None: there are no candidates
    """
    if not config.combiners:
        return False
    store = open_store()
    counts, prepared = store.load(data.run_id, COUNTS), config_of(PrepareConfig, store.known(data.run_id))
    candidates = store.load(matched.run_id, MATCHED).fit.candidates if matched else None
    labels = counts["valid_positives"], counts["valid_negatives"]
    if config.can_combine(*labels, bool(prepared.given_confidence), candidates):
        return True
    needs = f"{FEWEST:,} true validation triples{', and as many candidates' if candidates is not None else ''}"
    there = f"there are {labels[0]:,} true and {labels[1]:,} false ones, and {candidates or 0:,} candidates"
    if prepared.given_confidence and candidates is None:
        needs, there = "candidates", "triples with confidences have no negatives"
    log.info("%s: left out. It needs %s: %s", ", ".join(config.combiners), needs, there)
    return False
