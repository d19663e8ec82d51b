"""What every question to a calibrated model has in common: who answers, and to which candidates it is calibrated.

The survey of the candidates is a stage, and is re-used.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kgcore.answer.sink import check_ending
from kgcore.base_rate import BaseRate
from kgcore.config import DiscoverConfig
from kgcore.config.calibrate import BY_PREDICATE, share_of
from kgcore.config.jobs import SurveyConfig
from kgcore.errors import InputError
from kgcore.measure.report.result import Result, ResultTable
from kgcore.registries import COMBINERS, EVIDENCE
from kgcore.workers import find_device
from tasks.jobs.find_model import Ask, FoundModel, find_calibrated_model, locate
from tasks.stages.calibrate import completeness_of
from tasks.stages.running import Context, StageRef, StageRun, run_stage
from tasks.tracking.artifacts import ANSWER, SURVEY, save
from tasks.tracking.keys import digest, whole_code_fingerprint
from tasks.tracking.record import ENSEMBLE_NAME, RunTags
from tasks.tracking.registry import sources_of
from tasks.tracking.store import open_store
from tasks.workspace.flow_run import progress_bar
from tasks.workspace.resources import THREADS, each_part, gpu_slot
from tasks.workspace.settings import temporary_folder

if TYPE_CHECKING:
    from kgcore.answer.calibrated_model import CalibratedModel
    from kgcore.answer.population.calibration import Calibration
    from kgcore.answer.population.fit import Lost
    from kgcore.answer.population.population import Population
    from kgcore.answer.population.survey import Survey

_CODE = ("kgcore.answer.population.survey", COMBINERS.module("boosted_trees"), COMBINERS.module("folded"))
log = logging.getLogger("kgcal")
LARGE_LIMIT = 0.1  # a limit of a lost share above it says nothing if no fact is lost: it rests on few facts
MOST_EXAMPLES = 20  # rows that a summary keeps for the terminal and the Prefect UI


@dataclass(frozen=True)
class Request:
    """Who answers a question, and how.

    ask        which model answers
    output     file for the answer; '': no file
    base_rate  share of true triples that the probabilities assume, as `BaseRate.read` takes it; None: the calibrator's
    device     auto, cpu, cuda or cuda:N
    """

    ask: Ask = Ask()
    output: str = ""
    base_rate: float | str | None = None
    device: str = "auto"

    def check_table(self) -> None:
        """Raise InputError if the output is no .parquet, .csv or .tsv file."""
        if self.output:
            check_ending(Path(self.output))


@dataclass(frozen=True)
class AnsweringModel:
    """The model that answers a request.

    found   the model, as it is stored
    model   the model on the device and at the base rate of the request
    output  file for the answer; '': no file
    device  auto, cpu, cuda or cuda:N
    stated  whether the base rate of the question is known; if not, there are no probabilities
    basis   what the user has stated in place of the base rate, such as `completeness 0.8`; '': nothing
    """

    found: FoundModel
    model: "CalibratedModel"
    output: str
    device: str = "auto"
    stated: bool = True
    basis: str = ""

    @property
    def params(self) -> dict[str, object]:
        """Return who answers: facts of the result, and parameters of the MLflow run."""
        rate = self.model.calibrator.rate
        text = f"{rate.value:.3g}, by {self.basis}" if self.basis else str(rate)
        return {
            "model": self.found.uri,
            "calibrator": self.model.label,
            "base_rate": rate.value if self.stated else None,
            "base_rate_text": text if self.stated else "not stated",
            "output": self.output,
        }

    def under(self, calibration: "Calibration | None") -> "AnsweringModel":
        """Return the calibrated model; without a calibration, the stored one without probabilities."""
        if calibration is None:
            return replace(self, stated=False)
        stated = calibration.true is not None
        return replace(self, model=calibration.model, stated=stated, basis=calibration.basis)

    def __str__(self) -> str:
        who = self.params
        return f"model: {who['model']} ({who['calibrator']}), base rate {who['base_rate_text']}"


def answering_model(request: Request, its_calibrator: bool = True) -> AnsweringModel:
    """Find the model of a request. Raises InputError if there is no such model, base rate or device.

    its_calibrator  see `find_calibrated_model`
    """
    found = find_calibrated_model(request.ask, its_calibrator)
    rate = BaseRate.read(request.base_rate)
    model = found.model if rate is None else found.model.at(rate)
    trained = model.trained.to(find_device(request.device))
    return AnsweringModel(found, replace(model, trained=trained), request.output, request.device)


def expected_text(expected: float | None, interval: Sequence[float] | None, of: str = "") -> str:
    """Return the expected number of true rows, with its 95 % interval if it is known; '' for None.

    of  which rows, such as ` of the others`; '': all
    """
    if expected is None:
        return ""
    ends = " (95 % interval: {:,.0f} to {:,.0f})".format(*interval) if interval else ""
    return f"{expected:,.1f}{of} expected to be true{ends}"


def triple_text(row: Mapping[str, Any]) -> str:
    """Return the triple of a row as text."""
    return f"{row['subject']} {row['predicate']} {row['object']}"


def probability_texts(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return the probability of a row and its interval as texts; '' for what it does not have."""
    interval = "" if row["low"] is None else f"{_probability(row['low'])} to {_probability(row['high'])}"
    return "" if row["probability"] is None else _probability(row["probability"]), interval


def _probability(q: float) -> str:
    """Return q with four decimals, but no certainty that q is not: `<0.0001` and `>0.9999` for what they would hide."""
    text = f"{q:.4f}"
    if text in ("0.0000", "1.0000") and 0 < q < 1:
        return "<0.0001" if q < 0.5 else ">0.9999"
    return text


@dataclass(frozen=True)
class Stated:
    """What the user states about the candidates of a question.

    completeness  share of the true facts that the graph knows, as text: see `read_completeness`; '': not stated
    base_rate     share of true ones among the candidates, in (0, 1), or text LOW:HIGH; None or '': not stated
    """

    completeness: str = ""
    base_rate: str | float | None = None

    @property
    def is_given(self) -> bool:
        """Return whether the user states something."""
        return bool(self.completeness) or self.base_rate not in (None, "")

    def parameters(self) -> dict[str, object]:
        """Return what is stated as MLflow parameters, which may not be as long as the lines of a file."""
        return asdict(self) | {"completeness": BY_PREDICATE if "\t" in self.completeness else self.completeness}

    def check(self, above: float) -> None:
        """Raise InputError if a limit of probabilities is given, but nothing is stated from which there are some."""
        if above and not self.is_given:
            raise InputError(f"above is {above:g}, but there are no probabilities: state --completeness or --base-rate")

    def or_that_of(self, found: FoundModel) -> "Stated":
        """Return what is stated; if nothing is, the completeness that was stated to the run of the model."""
        if self.is_given:
            return self
        store = open_store()
        run = sources_of(store, found.model_id).run
        return Stated("" if run.tags.stage == ENSEMBLE_NAME else completeness_of(run))


def answered(
    question: str, request: Request, stated: Stated, asked: Sequence[object], answer: Callable[[], Result]
) -> Result:
    """Return the result of an earlier run of the same question to the same model, or that of `answer`.

    asked  what else the answer depends on, as JSON values

    An answer that writes a file, or that reads the completeness from one, is always made anew.
    """
    store, located = open_store(), locate(request.ask)
    basis = asdict(located), asdict(replace(request, ask=Ask())), asdict(stated)
    key = digest([question, *basis, asked, whole_code_fingerprint()])
    has_file = request.output or (stated.completeness and share_of(stated.completeness) is None)
    for run in [] if has_file else store.find(RunTags(stage=question, key=key)):
        with suppress(InputError):  # somebody has deleted the answer
            fields = store.load(run.run_id, ANSWER)
            if because := fields["facts"]["because"]:
                log.info("%s", because)
            log.info("%-9s re-used   run %s", question, run.run_id)
            store.log_reuse(run.run_id)
            return Result(**fields | {"tables": [ResultTable(**table) for table in fields["tables"]]})
    result = answer()
    with temporary_folder() as folder:
        save(folder, ANSWER, asdict(result))
        store.log_files(result.run, folder)
    store.log_tags(result.run, RunTags(key=key))
    return result


def calibrate_to(
    answering: AnsweringModel,
    population: "Population | None",
    stated: Stated,
    asked: int | None,
    config: SurveyConfig,
    runner: str = THREADS,
    parent: str | None = None,
) -> "Calibration | None":
    """Calibrate a stored model to a population, with the evidence of all its embedding models.

    answering   the stored model, on a device
    population  see `Population.asked`; None: there is none, and so no calibration
    asked       the predicate that is asked about; None: all
    parent      id of the MLflow run of the question, under which a new survey is nested; None: it is not nested

    Raises InputError if what is stated is wrong, FitError if a fit does not converge.
    """
    if population is None:
        return None
    from kgcore.answer.population.calibration import Calibration
    from kgcore.answer.population.population import stated_facts

    true = stated_facts(population, stated.completeness, stated.base_rate, asked)
    survey, rng = survey_of(answering, population, config, runner, parent), np.random.default_rng(config.survey_seed)
    return Calibration.of(population, survey, answering.model.trained.embedding_models, true, rng, asked)


def calibrate_to_missing(
    answering: AnsweringModel, predicate: str, stated: Stated, at_least: int = DiscoverConfig().at_least
) -> "Calibration":
    """Calibrate a stored model to the missing facts of a predicate, as `discover` does for a query.

    at_least  fewest validation facts of a predicate

    Raises InputError for an unknown predicate, if validation has too few facts of it, and as `calibrate_to` does.
    """
    from kgcore.answer.domains import Domains
    from kgcore.answer.population.population import Population, too_few
    from kgcore.answer.question import Question

    graph = answering.model.graph
    p = Question.of(graph, "", predicate, "").predicate
    population = Population.asked(Domains(graph), p, at_least)
    calibration = calibrate_to(answering, population, stated, p, SurveyConfig())
    if calibration is None:
        raise InputError(too_few(graph, p, at_least))
    return calibration


def survey_of(
    answering: AnsweringModel,
    population: "Population",
    config: SurveyConfig,
    runner: str = THREADS,
    parent: str | None = None,
) -> "Survey":
    """Survey a population, or read the survey of a finished run. The arguments are those of `calibrate_to`."""
    from kgcore.answer.population.survey import groups_of

    store, models = open_store(), answering.model.trained.embedding_models
    sources, groups = sources_of(store, answering.found.model_id), groups_of(models)
    trains = [StageRef("train", store.model(model_id).run_id or "") for model_id in sources.models]
    blocks = [(b.predicate, digest([b.subjects.tolist(), b.objects.tolist()])) for b in population.blocks]
    if population.rows is not None:
        blocks.append((-1, digest(population.rows.tolist())))
    code = (*_CODE, *map(EVIDENCE.module, groups))

    def body(run: StageRun) -> None:
        from kgcore.answer.population.draw import DrawSize
        from kgcore.answer.population.survey import survey

        size, rng = DrawSize(config.survey_top, config.survey_rest), np.random.default_rng(config.survey_seed)
        with gpu_slot(find_device(answering.device)), progress_bar("survey", 100) as move:
            each = partial(each_part, runner)
            made = survey(population, models, size, rng, lambda done: move(int(100 * done)), each)
        run.save(SURVEY, made)
        counts = {"candidates": population.sizes.sum(), "drawn": len(made.drawn), "facts": len(made.facts)}
        run.log_metrics({name: float(count) for name, count in counts.items()})

    upstream, context = [StageRef("prepare", sources.graph), trains[0]], Context(parent=parent, device=answering.device)
    ref = run_stage("survey", config, upstream, code, body, context, digest([blocks, list(groups)]), trains[1:])
    return store.load(ref.run_id, SURVEY)


def lost_by(lost: "Lost") -> tuple[dict[str, float], list[str]]:
    """Return what a list has lost, as metrics and in sentences; none of them if it has lost nothing."""
    if not lost.likely:
        return {}, []
    figures = {"likely_facts": lost.likely, "lost_facts": lost.outside, "lost_limit": lost.limit}
    limit = f"So at most {lost.limit:.2%} of the true facts are lost (95 %)"
    if not lost.outside and lost.limit > LARGE_LIMIT:
        limit = "These are too few to bound the share of the true facts that is lost"
    note = (
        "evidence was weighed for the candidates with the highest scores, and those that a rule proposes. "
        f"{lost.likely:,} validation facts are as probable as the last row; {lost.outside:,} of them are not among "
        f"these candidates. {limit}"
    )
    return {name: float(value) for name, value in figures.items()}, [note]
