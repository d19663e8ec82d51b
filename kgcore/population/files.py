"""Who answers the triples of a file: the stored calibrator, one that is fitted to them, or none."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from kgcore.arrays import Triples
from kgcore.calibrated import CalibratedModel
from kgcore.calibration.fit import CANDIDATES
from kgcore.config.jobs import SurveyConfig
from kgcore.graph import KnowledgeGraph
from kgcore.population.calibration import Calibration
from kgcore.population.likeness import SampleDifference
from kgcore.population.population import FEWEST_ROWS, Population, unstored
from kgcore.population.survey import Survey
from kgcore.population.unknown_facts import stated_facts
from kgcore.prediction.answers import Answers, without_probabilities
from kgcore.prediction.domains import Domains

LABEL = "Label some of them (kgcal recalibrate --labels FILE). The order by score needs no labels"
STATE = f"State which share of them is true (--base-rate) or how complete the graph is (--completeness). Or: {LABEL}"


@dataclass(frozen=True)
class FileAnswer:
    """Who answers the triples of a file.

    model        the model that answers
    about        what the probabilities are about, or why the rows get none: a sentence without its full stop
    counts       whether the sum of the probabilities is a number of true rows
    stated       whether there are probabilities
    calibration  the calibration to the rows; None: the stored calibrator answers, or there are no probabilities
    """

    model: CalibratedModel
    about: str
    counts: bool = False
    stated: bool = True
    calibration: Calibration | None = None

    def table(self, answers: Answers, names: pa.Table) -> pa.Table:
        """Return the rows of `names` with their answers, as `Answers.table` does.

        answers  the stored model and the decisions
        """
        by = answers if self.calibration is None else replace(answers, model=self.model)
        table = by.table(names)
        return table if self.stated else without_probabilities(table)


def answer_of_file(
    model: CalibratedModel,
    triples: Triples,
    completeness: str,
    base_rate: str | float | None,
    at_least: int,
    difference: Callable[[Triples], SampleDifference],
    survey: Callable[[Population], Survey],
) -> FileAnswer:
    """Return who answers the triples of a file, and what the probabilities are about.

    model         the stored model at the stated base rate
    triples       (n, 3) the distinct triples
    completeness  as `read_completeness` takes it; '': not stated
    base_rate     share of true ones among the triples, as `BaseRate.read` takes it; None: not stated
    at_least      fewest validation facts of a predicate to which its triples can be calibrated
    difference    compares unknown triples with the calibration triples: see `CalibrationTriples`
    survey        weighs the evidence about the triples

    If the triples look like the calibration triples of their predicates, the stored model answers. If they do not, a
    stated base rate or completeness calibrates a survey to them; without one, there are no probabilities. If there are
    too few to compare, the stored model answers, and nothing is counted.

    Raises InputError if what is stated is wrong, FitError if a fit does not converge.
    """
    graph, bound = model.graph, model.calibrator
    stored = FileAnswer(model, model.about, model.knows_base_rate)
    if bound.negatives in (CANDIDATES, "none") and not completeness:
        return stored
    rows = comparable(graph, triples)
    if len(rows) < FEWEST_ROWS:
        few = (
            f"too few of the {len(triples):,} triples are new to the graph to compare them with these or to calibrate "
            f"to them: at least {FEWEST_ROWS} with predicates of validation are needed, and half of all"
        )
        return replace(stored, about=f"{stored.about}; {few}", counts=False) if len(triples) > 1 else stored
    if not completeness:
        comparison = difference(rows)
        if comparison.alike:
            return replace(stored, about=f"{stored.about}; the triples look like these ({comparison})")
        if base_rate is None:
            return _refused(stored, f"the triples are unlike the calibration triples ({comparison}). {STATE}")
    population = Population.of_rows(Domains(graph), triples, at_least)
    if population is None:
        return _refused(stored, f"validation has too few facts of the predicates of the triples. {LABEL}")
    true, rng = stated_facts(population, completeness, base_rate), np.random.default_rng(SurveyConfig().survey_seed)
    calibration = Calibration.of(population, survey(population), model.trained.embedding_models, true, rng)
    unseen = bound.unseen  # answers about new entities come from their names, as before
    fitted = replace(calibration.model, calibrator=replace(calibration.model.calibrator, unseen=unseen))
    return FileAnswer(fitted, calibration.about, counts=True, calibration=calibration)


def comparable(graph: KnowledgeGraph, triples: Triples) -> Triples:
    """Return the triples (n, 3) of a file that the graph does not store, with a predicate of validation.

    If the graph stores most triples of the file, no triple is returned: the run has measured such triples.
    """
    unknown = unstored(graph, triples)
    rows: Triples = unknown[np.isin(unknown[:, 1], graph.valid.triples[:, 1])]
    return rows if 2 * len(unknown) >= len(triples) else rows[:0]


def _refused(stored: FileAnswer, why: str) -> FileAnswer:
    return replace(stored, about=f"no probabilities: {why}", counts=False, stated=False)
