"""Calibrates the answers about a file to its triples: as the run's calibrator, with weights, or by a survey of them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kgcore.arrays import Bools, Triples
from kgcore.calibration.fit import CANDIDATES, GROUND_TRUTH, support_of
from kgcore.calibration.sample import CalibrationSample
from kgcore.config import ESTIMATED, EvidenceConfig
from kgcore.config.survey import SurveyConfig
from kgcore.errors import KgcalError, first_line
from kgcore.population.population import FEWEST_ROWS, Population, unstored
from kgcore.prediction.candidates import Block
from kgcore.prediction.domains import Domains
from tasks.jobs.calibration_sample import calibration_triples
from tasks.jobs.population import Stated, asked_of, calibrate_to, models_of
from tasks.jobs.prediction import Predictor
from tasks.workspace.cluster import THREADS

if TYPE_CHECKING:
    from kgcore.population.likeness import Likeness

MOST_ROWS = 4_000  # rows of the file, and calibration triples, that are compared
STATE = (
    "state which share of them is true (--base-rate) or how complete the graph is (--completeness), or label some of "
    "them (kgcal recalibrate --labels FILE)"
)


def for_file(by: Predictor, blocks: Iterator[Block], stated: Stated, device: str) -> Predictor:
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
            sample, of_sample = calibration_triples(by.by.found.model_id, by.by.found.model)
        except KgcalError as error:
            return replace(by, counts=False, notes=(*by.notes, f"not compared with the file: {first_line(error)}"))
        found, drawn = _compared(by, rows, sample, of_sample, device)
        if found.alike:
            return replace(by, notes=(f"the triples look like the calibration triples of their predicates: {found}",))
        if stated.base_rate is None:
            return _weighted(by, found, sample.part(drawn)) if _can_weight(by, found) else _refused(by, found)
    population = Population.of_rows(Domains(by.answers.model.graph), triples, by.config.at_least)
    calibration = calibrate_to(by.by.found, population, stated, None, SurveyConfig(), device, THREADS)
    if calibration is None:
        return _refused(by, None)
    unseen = by.by.model.calibrator.unseen  # answers about new entities come from their names, as before
    model = calibration.model.under(replace(calibration.model.calibrator, unseen=unseen))
    answering = asked_of(by.by, replace(calibration, model=model))
    return replace(by, by=answering, counts=True, about=calibration.about, unknown_only=True)


def _triples(by: Predictor, blocks: Iterator[Block]) -> Triples:
    """Return the distinct triples (n, 3) of the blocks whose three names are known."""
    parts = [np.zeros((0, 3), dtype=np.int64)]
    for block in blocks:
        triples, known = by.answers.numbers(block.names)
        parts.append(triples[known])
    return np.unique(np.concatenate(parts), axis=0)


def _too_few(by: Predictor, rows: int, triples: int) -> Predictor:
    """Return the predictor of a file that has too few unknown triples, or mostly stored ones."""
    if triples < 2:
        return by
    about = (
        f"{rows:,} of the {triples:,} triples are not in the graph: too few to calibrate to them, or to compare them "
        f"with calibration triples (at least {FEWEST_ROWS}, and half of the file)"
    )
    return replace(by, counts=False, about="; ".join(filter(None, (by.about, about))))


def _compared(
    by: Predictor, rows: Triples, sample: CalibrationSample, of_sample: Triples, device: str
) -> "tuple[Likeness, Bools]":
    """Compare the file with the calibration triples. Return the likeness to those that a mask of the sample chooses."""
    from kgcore.combiners.scorer import CombinedModel
    from kgcore.evidence.base import Source
    from kgcore.evidence.table import Features
    from kgcore.population.likeness import likeness

    model, rng = by.by.model, np.random.default_rng(0)
    of_file, rate, alpha = rng.permutation(rows)[:MOST_ROWS], sample.base_rate, model.calibrator.base_rate
    weights = sample.weights * np.where(sample.labels == 1, alpha / rate, (1 - alpha) / (1 - rate))
    weights *= np.isin(of_sample[:, 1], rows[:, 1])
    chances = np.minimum(1.0, MOST_ROWS * weights / max(weights.sum(), 1e-300))
    chosen = rng.random(len(weights)) < chances
    if isinstance(model.trained, CombinedModel):
        evidence = model.trained.evidence
    else:
        first, *others = models_of(by.by.found, device)
        evidence = Features.of(Source(model.graph, first, tuple(others)), EvidenceConfig().evidence).evidence
    parts = [(triples, evidence(triples)) for triples in (of_file, of_sample[chosen])]
    return likeness(parts[0], parts[1], (weights / np.maximum(chances, 1e-300))[chosen], rng), chosen


def _can_weight(by: Predictor, found: "Likeness") -> bool:
    """Return whether weighted calibration triples can stand for the file: nobody has labelled a corruption."""
    return by.by.model.calibrator.negatives == GROUND_TRUTH and found.overlaps


def _weighted(by: Predictor, found: "Likeness", sample: CalibrationSample) -> Predictor:
    """Return the predictor with its calibrator fitted to calibration triples that are weighted to the file."""
    kept, bound = found.weights > 0, by.by.model.calibrator
    sample = replace(sample.part(kept), weights=found.weights[kept])
    fitted = type(bound.calibrator)().fit_sample(sample)
    support = support_of(sample, fitted.by_predicate)
    bound = replace(
        bound,
        calibrator=fitted,
        support=support,
        base_rate=sample.base_rate,
        fitted_at=None,
        base_rate_is=ESTIMATED,
        limits=None,
    )
    about = (
        "the probabilities are about the triples of the file: labelled calibration triples are weighted to be like "
        f"them ({found}). This is right if triples with the same evidence are as often true in both"
    )
    answering = replace(by.by, model=by.by.model.under(bound))
    return replace(by, by=answering, counts=True, about=about, unknown_only=True)


def _refused(by: Predictor, found: "Likeness | None") -> Predictor:
    """Return the predictor without probabilities."""
    why = f"the triples are unlike the calibration triples ({found})" if found else "validation has too few facts"
    about = f"no probabilities: {why}, so {STATE}. The order by score needs neither"
    return replace(by, by=replace(by.by, stated=False), counts=False, about=about)
