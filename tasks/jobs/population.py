"""Calibrates a model to the missing facts that a question asks about. The survey of them is a stage, and is re-used."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from kgcore.config import DiscoverConfig
from kgcore.config.calibrate import BY_PREDICATE
from kgcore.config.jobs import SurveyConfig
from kgcore.errors import InputError
from kgcore.registries import COMBINERS, EVIDENCE
from tasks.jobs.calibrated_model import FoundModel
from tasks.jobs.request import Answering
from tasks.stages.calibrate import completeness_of
from tasks.stages.reference import Context, StageRef
from tasks.stages.running import StageRun, run_stage
from tasks.tracking.artifacts import SURVEY
from tasks.tracking.keys import digest
from tasks.tracking.labels import ENSEMBLE_NAME
from tasks.tracking.registry import sources_of
from tasks.tracking.store import open_store
from tasks.workspace.cluster import THREADS, each_part
from tasks.workspace.progress import progress_bar
from tasks.workspace.resources import find_device, gpu_slot

if TYPE_CHECKING:
    from kgcore.models.trained import TrainedModel
    from kgcore.population.calibrate import Lost
    from kgcore.population.calibration import Calibration
    from kgcore.population.population import Population
    from kgcore.population.survey import Survey

_CODE = ("kgcore.population.survey", COMBINERS.module("boosted_trees"), COMBINERS.module("folded"))


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


def calibrate_to(
    by: Answering,
    population: "Population | None",
    stated: Stated,
    asked: int | None,
    config: SurveyConfig,
    runner: str = THREADS,
    parent: str | None = None,
) -> "Calibration | None":
    """Calibrate a stored model to a population, with the evidence of all its embedding models.

    by          the stored model, on a device
    population  see `Population.asked`; None: there is none, and so no calibration
    asked       the predicate that is asked about; None: all
    parent      id of the MLflow run of the question, under which a new survey is nested; None: it is not nested

    Raises InputError if what is stated is wrong, FitError if a fit does not converge.
    """
    if population is None:
        return None
    from kgcore.population.calibration import Calibration
    from kgcore.population.population import stated_facts

    true = stated_facts(population, stated.completeness, stated.base_rate, asked)
    survey, rng = survey_of(by, population, config, runner, parent), np.random.default_rng(config.survey_seed)
    return Calibration.of(population, survey, by.model.trained.embedding_models, true, rng, asked)


def calibrate_to_missing(
    by: Answering, predicate: str, stated: Stated, at_least: int = DiscoverConfig().at_least
) -> "Calibration":
    """Calibrate a stored model to the missing facts of a predicate, as `discover` does for a query.

    at_least  fewest validation facts of a predicate

    Raises InputError for an unknown predicate, if validation has too few facts of it, and as `calibrate_to` does.
    """
    from kgcore.population.population import TOO_FEW, Population
    from kgcore.prediction.domains import Domains
    from kgcore.prediction.question import Question

    p = Question.of(by.model.graph, "", predicate, "").predicate
    population = Population.asked(Domains(by.model.graph), p, at_least)
    calibration = calibrate_to(by, population, stated, p, SurveyConfig())
    if calibration is None:
        raise InputError(TOO_FEW)
    return calibration


def survey_of(
    by: Answering, population: "Population", config: SurveyConfig, runner: str = THREADS, parent: str | None = None
) -> "Survey":
    """Survey a population, or read the survey of a finished run. The arguments are those of `calibrate_to`."""
    from kgcore.population.survey import groups_of

    store, models = open_store(), by.model.trained.embedding_models
    sources, groups = sources_of(store, by.found.model_id), groups_of(models)
    trains = [StageRef("train", store.model(model_id).run_id or "") for model_id in sources.models]
    blocks = [(b.predicate, digest([b.subjects.tolist(), b.objects.tolist()])) for b in population.blocks]
    if population.rows is not None:
        blocks.append((-1, digest(population.rows.tolist())))
    code = (*_CODE, *map(EVIDENCE.module, groups))
    body = partial(_body, population=population, models=models, config=config, runner=runner)
    upstream, context = [StageRef("prepare", sources.graph), trains[0]], Context(parent=parent, device=by.device)
    identity = digest([blocks, list(groups)])
    ref = run_stage("survey", config, upstream, code, body, context, identity, trains[1:])
    return store.load(ref.run_id, SURVEY)


def _body(
    run: StageRun, population: "Population", models: "Sequence[TrainedModel]", config: SurveyConfig, runner: str
) -> None:
    """Draw candidates of the population, and weigh the evidence about them."""
    from kgcore.population.draw import DrawSize
    from kgcore.population.survey import survey

    size, rng = DrawSize(config.survey_top, config.survey_rest), np.random.default_rng(config.survey_seed)
    with gpu_slot(find_device(run.context.device)), progress_bar("survey", 100) as move:

        def on_part(done: float) -> None:
            move(int(100 * done))

        made = survey(population, models, size, rng, on_part, partial(each_part, runner))
    run.save(SURVEY, made)
    counts = {"candidates": population.sizes.sum(), "drawn": len(made.drawn), "facts": len(made.facts)}
    run.log_metrics({name: float(count) for name, count in counts.items()})


def lost_figures(lost: "Lost") -> dict[str, float]:
    """Return what a list has lost, as metrics; none if it has lost nothing."""
    found = {"likely_facts": lost.likely, "lost_facts": lost.outside, "lost_limit": lost.limit}
    return {name: float(value) for name, value in found.items()} if lost.likely else {}


def lost_notes(lost: "Lost") -> list[str]:
    """Return what a list has lost, in sentences; none if it has lost nothing."""
    if not lost.likely:
        return []
    return [
        f"evidence was weighed for the candidates with the highest scores: {lost.outside:,} of the {lost.likely:,} "
        f"validation facts that are as probable as the last row have lower scores, so that at most {lost.limit:.2%} of "
        "the true facts are lost (95 %)"
    ]


def asked_of(by: Answering, calibration: "Calibration | None") -> Answering:
    """Return who answers: the calibrated model, or the stored one without probabilities if there is no calibration."""
    if calibration is None:
        return replace(by, stated=False)
    return replace(by, model=calibration.model, stated=calibration.true is not None)
