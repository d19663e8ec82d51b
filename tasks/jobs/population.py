"""Calibrates a model to the missing facts that a question asks about. The survey of them is a stage, and is re-used."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from kgcore.config import EvidenceConfig
from kgcore.config.evidence import OTHER_SCORES
from kgcore.config.survey import SurveyConfig
from kgcore.errors import InputError
from kgcore.registries import COMBINERS, EVIDENCE
from tasks.jobs.calibrated_model import FoundModel
from tasks.jobs.request import Answering
from tasks.stages.reference import Context, StageRef
from tasks.stages.running import StageRun, run_stage
from tasks.tracking.artifacts import EMBEDDINGS, SURVEY
from tasks.tracking.keys import digest
from tasks.tracking.registry import sources_of
from tasks.tracking.store import open_store
from tasks.workspace.cluster import each_part
from tasks.workspace.progress import progress_bar
from tasks.workspace.resources import find_device, gpu_slot

if TYPE_CHECKING:
    from kgcore.models.trained import TrainedModel
    from kgcore.population.calibrate import Lost
    from kgcore.population.calibration import Calibration
    from kgcore.population.population import Population

TOO_FEW = (
    "no probabilities: there are too few candidates, or validation has too few facts of the kind that is asked for"
)
_CODE = ("kgcore.population.survey", COMBINERS.module("boosted_trees"), COMBINERS.module("folded"))


@dataclass(frozen=True)
class Stated:
    """What the user states about the candidates of a question.

    completeness  share of the true facts that the graph knows, as text: see `read_completeness`; '': not stated
    base_rate     share of true ones among the candidates, in (0, 1); None: not stated
    """

    completeness: str = ""
    base_rate: float | None = None

    def check(self, above: float) -> None:
        """Raise InputError if a limit of probabilities is given, but nothing is stated from which there are some."""
        if above and not self.completeness and self.base_rate is None:
            raise InputError(f"above is {above:g}, but there are no probabilities: state --completeness or --base-rate")


def calibrate_to(
    found: FoundModel,
    population: "Population | None",
    stated: Stated,
    asked: int | None,
    config: SurveyConfig,
    device: str,
    runner: str,
    parent: str | None = None,
) -> "Calibration | None":
    """Calibrate a stored model to a population, with the evidence of all its embedding models.

    found       the stored model, whose embedding models are used
    population  see `Population.asked`; None: there is none, and so no calibration
    asked       the predicate that is asked about; None: all
    parent      id of the MLflow run of the question, under which a new survey is nested; None: it is not nested

    Raises InputError if what is stated is wrong, FitError if a fit does not converge.
    """
    if population is None:
        return None
    from kgcore.population.calibration import Calibration
    from kgcore.population.unknown_facts import stated_facts

    true = stated_facts(population, stated.completeness, stated.base_rate, asked)
    models = models_of(found, device)
    ref = _survey_run(found, population, models, config, runner, Context(parent=parent, device=device))
    survey = open_store().load(ref.run_id, SURVEY)
    return Calibration.of(population, survey, models, true, np.random.default_rng(config.survey_seed), asked)


def _survey_run(
    found: FoundModel,
    population: "Population",
    models: "Sequence[TrainedModel]",
    config: SurveyConfig,
    runner: str,
    context: Context,
) -> StageRef:
    """Run the survey, or find a finished run of it."""
    store = open_store()
    sources = sources_of(store, found.model_id)
    trains = [StageRef("train", store.model(model_id).run_id or "") for model_id in sources.models]
    groups = (*EvidenceConfig().evidence, *([OTHER_SCORES] if len(trains) > 1 else []))
    blocks = [(b.predicate, digest([b.subjects.tolist(), b.objects.tolist()])) for b in population.blocks]
    if population.rows is not None:
        blocks.append((-1, digest(population.rows.tolist())))
    code = (*_CODE, *map(EVIDENCE.module, groups))
    body = partial(_body, population=population, models=models, groups=groups, config=config, runner=runner)
    upstream = [StageRef("prepare", sources.graph), trains[0]]
    return run_stage("survey", config, upstream, code, body, context, digest([blocks, list(groups)]), trains[1:])


def _body(
    run: StageRun,
    population: "Population",
    models: "Sequence[TrainedModel]",
    groups: Sequence[str],
    config: SurveyConfig,
    runner: str,
) -> None:
    """Draw candidates of the population, and weigh the evidence about them."""
    from kgcore.evidence.base import Source
    from kgcore.population.draw import DrawSize
    from kgcore.population.survey import survey

    source, rng = Source(population.graph, models[0], tuple(models[1:])), np.random.default_rng(config.survey_seed)
    size, fingerprints = DrawSize(config.survey_top, config.survey_rest), [other.fingerprint() for other in models[1:]]
    with gpu_slot(find_device(run.context.device)), progress_bar("survey", 100) as move:

        def on_part(done: float) -> None:
            move(int(100 * done))

        made = survey(population, source, groups, fingerprints, size, rng, on_part, partial(each_part, runner))
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


def models_of(found: FoundModel, device: str) -> "tuple[TrainedModel, ...]":
    """Return the embedding models of a stored model."""
    store, place = open_store(), find_device(device)
    ids = sources_of(store, found.model_id).models
    return tuple(store.load_model(model_id, EMBEDDINGS).to(place) for model_id in ids)
