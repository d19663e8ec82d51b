"""Calibrates the answers about a file to its triples: as the run's calibrator, with weights, or by a survey of them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kgcore.arrays import Bools, Triples
from kgcore.calibration.fit import CANDIDATES, GROUND_TRUTH
from kgcore.calibration.sample import CalibrationSample
from kgcore.config import EvidenceConfig
from kgcore.config.survey import SurveyConfig
from kgcore.errors import InputError, first_line
from kgcore.population.population import FEWEST_ROWS, Population, unstored
from kgcore.prediction.candidates import Block
from kgcore.prediction.domains import Domains
from tasks.jobs.calibration_sample import calibration_triples
from tasks.jobs.population import Stated, asked_of, calibrate_to
from tasks.jobs.prediction import Predictor

if TYPE_CHECKING:
    from kgcore.evidence.table import Evidence
    from kgcore.population.likeness import Likeness

SEED = 0  # of the comparison, which is the same for the same file
FEWEST_OF_A_PREDICATE = 5  # calibration triples that are compared, on average
MOST_ROWS = 4_000  # rows of the file, and calibration triples, that are compared
STATE = (
    "State which share of them is true (--base-rate) or how complete the graph is (--completeness), or label some of "
    "them (kgcal recalibrate --labels FILE)"
)


def for_file(by: Predictor, blocks: Iterator[Block], stated: Stated) -> Predictor:
    """Return the predictor whose probabilities are about the triples of a file, or that has none.

    by      the stored model at the stated base rate
    blocks  the triples of the file

    Triples that the graph stores are not counted: they are like those that the run has measured. If the others look
    like the calibration triples of their predicates, the stored model answers. If they do not, a stated base rate or
    completeness calibrates a survey to them; without one, labelled calibration triples are weighted to them if they
    overlap. Otherwise there are no probabilities.
    """
    triples = _triples(by, blocks)
    rows = unstored(by.answers.model.graph, triples)
    if len(rows) < FEWEST_ROWS or 2 * len(rows) < len(triples):
        return _too_few(by, len(rows), len(triples))
    if by.by.model.calibrator.negatives in (CANDIDATES, "none"):
        return by
    if not stated.completeness:
        try:
            compared = _compared(by, rows)
        except InputError as error:  # the sample of the calibrator no longer exists
            return replace(by, counts=False, notes=(f"not compared with the file: {first_line(error)}",))
        if compared.found.alike:
            return replace(by, notes=(f"the triples look like the calibration triples: {compared.found}",))
        if stated.base_rate is None:
            return _weighted(by, compared)
    population = Population.of_rows(Domains(by.answers.model.graph), triples, by.config.at_least)
    calibration = calibrate_to(by.by, population, stated, None, SurveyConfig())
    if calibration is None:
        return _refused(by, "validation has too few facts of the predicates of the file")
    unseen = by.by.model.calibrator.unseen  # answers about new entities come from their names, as before
    model = replace(calibration.model, calibrator=replace(calibration.model.calibrator, unseen=unseen))
    answering = asked_of(by.by, replace(calibration, model=model))
    return replace(by, by=answering, counts=True, about=calibration.about, unknown_only=True)


def _triples(by: Predictor, blocks: Iterator[Block]) -> Triples:
    """Return the distinct triples (n, 3) of the blocks whose three names are known."""
    parts = [np.zeros((0, 3), dtype=np.int64)]
    for block in blocks:
        triples, known = by.answers.numbers(block.names)
        parts.append(triples[known])
    return by.answers.model.graph.index(*parts).triples


def _too_few(by: Predictor, rows: int, triples: int) -> Predictor:
    """Return the predictor of a file that has too few unknown triples, or mostly stored ones."""
    if triples < 2:
        return by
    about = (
        f"{rows:,} of the {triples:,} triples are not in the graph: too few to compare them with calibration triples "
        f"or to calibrate to them (at least {FEWEST_ROWS}, and half of the file)"
    )
    return replace(by, counts=False, about="; ".join(filter(None, (by.about, about))))


@dataclass(frozen=True)
class _Compared:
    """A file and calibration triples, both as triples and their evidence; and how like they are.

    sample, chosen  the sample that the calibrator was fitted to, and which of its triples are compared
    """

    rows: "tuple[Triples, Evidence]"
    sample: CalibrationSample
    chosen: Bools
    calibration: "tuple[Triples, Evidence]"
    found: "Likeness"


def _compared(by: Predictor, rows: Triples) -> _Compared:
    """Compare triples (n, 3) of a file with the calibration triples, weighted to the base rate that is asked for."""
    from kgcore.combiners.scorer import CombinedModel
    from kgcore.evidence.base import Source
    from kgcore.evidence.table import Features
    from kgcore.population.likeness import likeness

    sample, triples = calibration_triples(by.by.found.model_id, by.by.found.model)
    model, rng = by.by.model, np.random.default_rng(SEED)
    of_file, rate, alpha = rng.permutation(rows)[:MOST_ROWS], sample.base_rate, model.calibrator.base_rate
    weights = sample.weights * np.where(sample.labels == 1, alpha / rate, (1 - alpha) / (1 - rate))
    weights *= np.isin(triples[:, 1], rows[:, 1])
    share = MOST_ROWS * weights / max(weights.sum(), 1e-300)
    few = FEWEST_OF_A_PREDICATE / np.bincount(triples[:, 1])[triples[:, 1]] * (weights > 0)
    chances = np.minimum(1.0, np.maximum(share, few))
    chosen = rng.random(len(weights)) < chances
    if isinstance(model.trained, CombinedModel):
        evidence = model.trained.evidence
    else:
        first, *others = by.by.model.trained.embedding_models
        evidence = Features.of(Source(model.graph, first, tuple(others)), EvidenceConfig().evidence).evidence
    parts = [(own, evidence(own)) for own in (of_file, triples[chosen])]
    found = likeness(parts[0], parts[1], weights[chosen] / chances[chosen], rng)
    return _Compared(parts[0], sample, chosen, parts[1], found)


def _weighted(by: Predictor, compared: _Compared) -> Predictor:
    """Return the predictor whose calibrator is fitted to weighted calibration triples, if these can stand for the file.

    Only labels can: nobody knows whether corruptions with the evidence of the file are as often true.
    """
    from kgcore.population.weighted import fit_weighted

    found, bound = compared.found, by.by.model.calibrator
    if bound.negatives != GROUND_TRUTH or not found.overlaps:
        return _refused(by, f"the triples are unlike the calibration triples ({found})")
    kept = found.weights > 0
    sample = replace(compared.sample.part(compared.chosen).part(kept), weights=found.weights[kept])
    calibration = compared.calibration[0][kept], compared.calibration[1].rows(kept)
    scores = by.by.model.trained.score(compared.rows[0])
    fitted = fit_weighted(bound, sample, calibration, compared.rows, scores, np.random.default_rng(SEED))
    if not fitted.check.alike:
        return _refused(
            by, f"the triples that would count as true are unlike true calibration triples ({fitted.check})"
        )
    low, high = fitted.bound.limits or (0.0, 1.0)
    about = (
        f"the probabilities are about the triples of the file: labelled calibration triples are weighted to be like "
        f"them ({found}). This is right if triples with the same evidence are as often true in both: then "
        f"{fitted.bound.base_rate:.1%} of the file are true, otherwise {low:.1%} to {high:.1%}"
    )
    answering = replace(by.by, model=by.by.model.under(fitted.bound))
    return replace(by, by=answering, counts=False, about=about, unknown_only=True)


def _refused(by: Predictor, why: str) -> Predictor:
    """Return the predictor without probabilities."""
    about = f"no probabilities: {why}. {STATE}. The order by score needs none of these"
    return replace(by, by=replace(by.by, stated=False), counts=False, about=about)
