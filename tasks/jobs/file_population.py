"""Answers a file by the stored model, or by one that is calibrated to its triples: kgcore/population/files.py."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from kgcore.arrays import Triples
from kgcore.calibration.fit import GROUND_TRUTH, SYNTHETIC
from kgcore.config import Config, EvidenceConfig
from kgcore.config.jobs import SurveyConfig
from kgcore.errors import InputError
from kgcore.prediction.candidates import Block
from kgcore.registries import EVIDENCE, STRATEGIES
from tasks.jobs.population import Stated, survey_of
from tasks.jobs.prediction import Predictor
from tasks.jobs.request import Answering
from tasks.stages.reference import Context, StageRef
from tasks.stages.running import StageRun, run_stage
from tasks.tracking.artifacts import DIFFERENCE
from tasks.tracking.keys import digest
from tasks.tracking.registry import sources_of
from tasks.tracking.store import open_store

if TYPE_CHECKING:
    from kgcore.population.likeness import SampleDifference

UNLIKE = (
    "fdr is {fdr:g}: it needs a file like the calibration triples, and this one differs from them at every share of "
    "true ones ({found}). Label some of its triples (kgcal recalibrate --labels FILE)"
)


def for_file(by: Predictor, blocks: Iterator[Block], stated: Stated) -> Predictor:
    """Return the predictor whose probabilities are about the triples of a file, or that has none.

    by      the stored model at the stated base rate
    blocks  the triples of the file

    Raises InputError if `fdr` is set and the triples are unlike the calibration triples, whose negatives the scores are
    compared with. Raises InputError and FitError as `answer_of_file` does.
    """
    from kgcore.population.files import answer_of_file

    triples, model = _triples(by, blocks), by.by.model
    if by.config.fdr and _compared(by, triples):
        return replace(by, counts=False, about=model.about)
    difference = partial(_difference, by.by, base_rate=model.calibrator.base_rate)
    survey = partial(survey_of, by.by, config=SurveyConfig())
    says = stated.completeness, stated.base_rate
    answer = answer_of_file(model, triples, *says, by.config.at_least, difference, survey)
    return replace(
        by,
        by=replace(by.by, model=answer.model, stated=answer.stated),
        counts=answer.counts,
        about=answer.about,
        unknown_only=answer.calibration is not None,
        calibration=answer.calibration,
    )


def _compared(by: Predictor, triples: Triples) -> bool:
    """Compare the triples of a file with the calibration triples, for `fdr`. Return False if they cannot be compared.

    Raises InputError if they are unlike these for every share of true ones.
    """
    from kgcore.population.files import comparable
    from kgcore.population.population import FEWEST_ROWS

    rows = comparable(by.by.model.graph, triples)
    if by.by.model.calibrator.negatives not in (GROUND_TRUTH, SYNTHETIC) or len(rows) < FEWEST_ROWS:
        return False
    found = _difference(by.by, rows, None)
    if not found.alike:
        raise InputError(UNLIKE.format(fdr=by.config.fdr, found=found))
    return True


def _difference(by: Answering, rows: Triples, base_rate: float | None) -> "SampleDifference":
    """Compare triples (n, 3) with the calibration triples at a base rate, or read the comparison of a finished run."""
    from kgcore.population.likeness import CalibrationTriples, SampleDifference

    store, bound = open_store(), by.model.calibrator
    made_by = sources_of(store, by.found.model_id).run
    groups = bound.combined.groups if bound.combined else EvidenceConfig().evidence
    strategies = bound.corruptions.strategy if bound.corruptions else {}
    modules = [EVIDENCE.module(name) for name in groups] + [STRATEGIES.module(name) for name in strategies]
    identity = digest([sha256(rows.tobytes()).hexdigest(), by.found.label, base_rate])

    def body(run: StageRun) -> None:
        found = CalibrationTriples(by.model).difference(rows, base_rate)
        run.save(DIFFERENCE, asdict(found))
        run.log_metrics(asdict(found))

    upstream = [StageRef(made_by.tags.stage or "", made_by.run_id)]
    code = ("kgcore.population.likeness", *modules)
    ref = run_stage("comparison", Config(), upstream, code, body, Context(device=by.device), identity)
    return SampleDifference(**store.load(ref.run_id, DIFFERENCE))


def _triples(by: Predictor, blocks: Iterator[Block]) -> Triples:
    """Return the distinct triples (n, 3) of the blocks whose three names are known."""
    parts = [np.zeros((0, 3), dtype=np.int64)]
    for block in blocks:
        triples, known = by.answers.numbers(block.names)
        parts.append(triples[known])
    return by.answers.model.graph.index(*parts).triples
