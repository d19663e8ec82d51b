"""Finds the calibrated model that answers: the champion of a data set, or a model that the user names."""

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kgcore.config import CalibrateConfig
from kgcore.data.graph import KnowledgeGraph
from kgcore.errors import InputError, MismatchError
from tasks.jobs.compare import check_dataset, dataset_name
from tasks.jobs.manifest import named_run, newest_pipeline, resolve
from tasks.stages.calibrate import completeness_of, scores_of
from tasks.stages.running import config_of
from tasks.tracking.artifacts import (
    CALIBRATION_AUDIT,
    COMBINED_MIXTURE,
    GRAPH,
    HELD_OUT_LOG_ODDS,
    MANIFEST,
    MIXTURE,
    SCORE_CALIBRATOR,
)
from tasks.tracking.record import CALIBRATE_SCORES, ENSEMBLE_NAME, LATEST, RunRecord, RunTags, model_name
from tasks.tracking.registry import CHAMPION, aliased, load_calibrated, model_of_uri, sources_of
from tasks.tracking.store import Store, open_store

if TYPE_CHECKING:  # scikit-learn and torch take more than a second to load
    from kgcore.answer.calibrated_model import CalibratedModel
    from kgcore.answer.loaded import LoadedModel
    from kgcore.calibrate.sample import CalibrationSample
    from kgcore.wings.external.calibrator import ScoreCalibrator

FEW_LABELS = "The labelled false triples are too few to answer."
LEAST_SHARED = 0.5  # share of the champion's training facts that a graph of the same name has
SEED = 0  # of the draw of negatives
log = logging.getLogger("kgcal")


@dataclass(frozen=True)
class Located:
    """The place of a calibrated model in the store.

    model_id  id of the LoggedModel of the calibrator or the ensemble
    uri       URI of the champion's version or of this LoggedModel
    """

    model_id: str
    uri: str


@dataclass(frozen=True)
class FoundModel(Located):
    """A calibrated model, its place and its names.

    dataset  name of the data set that it was trained on
    label    label of the calibrator, such as `synthetic.isotonic`, or of the ensemble, such as `synthetic.linear`
    model    the model itself
    because  why it answers, in sentences; '' if the user has named it
    """

    dataset: str
    label: str
    model: "CalibratedModel"
    because: str = ""


@dataclass(frozen=True)
class FoundScores(Located):
    """A calibrator of scores, and its place in the store."""

    calibrator: "ScoreCalibrator"


@dataclass(frozen=True)
class Ask:
    """The choice of the calibrated model that answers.

    model       a run id or `latest`, the newest run of the data set, or the URI of a calibrator, of an ensemble or of a
                version of a registered model; '': the champion of the data set or, if it has none, its newest run
    dataset     name of the data set, or the folder of the user's files; '': the data set of the newest pipeline
    calibrator  label of one of the calibrators or ensembles of a run, such as `synthetic.isotonic` or
                `synthetic.linear`; '': the best on validation of those fitted on labelled negatives if there are
                enough, otherwise to candidates if there are any
    scorer      name of a scorer of `calibrate-scores`, in place of a data set; '': a data set is asked, or the model's
                scorer
    """

    model: str = ""
    dataset: str = ""
    calibrator: str = ""
    scorer: str = ""


def registered_scores(scorer: str) -> str:
    """Return the name under which calibrators of a scorer are registered, without the prefix `kgcal-`."""
    return f"scores-{model_name(scorer)}"


def is_of_scores(ask: Ask) -> bool:
    """Return whether a choice names a calibrator of scores. Raises InputError if the model does not exist."""
    if ask.scorer or ask.dataset or ask.model in ("", LATEST):
        return bool(ask.scorer)
    return named_run(open_store(), ask.model).tags.stage == CALIBRATE_SCORES


def find_scores(ask: Ask) -> FoundScores:
    """Return the calibrator of scores that a choice names.

    Raises InputError as `locate` does and for a model of a data set, MismatchError if it belongs to another scorer.
    """
    store, located = open_store(), locate(ask)
    if "scorer" not in store.model(located.model_id).params:
        raise InputError(
            f"the model {located.uri} is not a calibrator of scores: use `kgcal predict --model {ask.model}`"
        )
    found = FoundScores(located.model_id, located.uri, store.load_model(located.model_id, SCORE_CALIBRATOR))
    if ask.scorer:
        found.calibrator.check_scorer(ask.scorer)
    return found


def find_calibrated_model(ask: Ask, its_calibrator: bool = True) -> FoundModel:
    """Return the calibrated model that a choice names. Raises InputError as `locate` and `read_located` do.

    its_calibrator  whether its calibrator answers. If not, its embedding models do, with evidence, and one that is
                    calibrated to the question
    """
    found, because = read_located(locate(ask)), list[str]()
    if ask.model:
        check_dataset(found.dataset, ask.dataset, f"the model {ask.model}")
    if not ask.calibrator and found.uri == f"models:/{found.model_id}" != ask.model:
        newest = "calibrators answer" if its_calibrator else "models answer, calibrated to the question"
        because += [] if ask.model else [f"{found.dataset} has no champion: the newest {newest}."]
        because += [_because(found)] if its_calibrator else []
    elif not ask.model and not ask.calibrator:
        label = (
            f"answers: {found.label.replace('_', ' ')}," if its_calibrator else "answers, calibrated to the question:"
        )
        because = [f"The champion {label} {found.uri}."]
        because += _of_another_graph(found)
    found = replace(found, because=" ".join(because))
    if found.because:
        log.info("%s", found.because)
    return found


def _of_another_graph(champion: FoundModel) -> list[str]:
    """Return a sentence if the newest run of the champion's data set has a graph of the same name, but of other facts.

    The graph is read only if it is not the champion's.
    """
    store = open_store()
    newest = store.find(RunTags(stage="pipeline", dataset=champion.dataset))
    if not newest:
        return []
    prepared = store.load(newest[0].run_id, MANIFEST)["prepare"]
    if store.get(prepared).dataset == store.get(sources_of(store, champion.model_id).graph).dataset:
        return []
    shared = shared_facts(store.load(prepared, GRAPH), champion.model.graph)
    if shared >= LEAST_SHARED:
        return []
    return [
        f"The newest run has another graph of this name, with {shared:.0%} of the champion's training facts: "
        "`--model latest` asks it."
    ]


def shared_facts(graph: KnowledgeGraph, other: KnowledgeGraph) -> float:
    """Return the share of another graph's training facts that are training facts of a graph, by their names."""
    theirs = other.names_of(other.train.triples)
    triples, known = graph.number(theirs)
    return float(graph.index(graph.train.triples).contains(triples[known]).sum() / len(theirs))


def _because(found: FoundModel) -> str:
    """Return why this calibrator answers, and not another one of its run."""
    from kgcore.calibrate.validation import answers_because, few_labels_note

    store, (negatives, _, name) = open_store(), found.label.rpartition(".")
    audits = _audits_of(store.known(store.model(found.model_id).run_id or ""))
    why = answers_because(audits.get(negatives, {})) or (
        f"The calibrator {name.replace('_', ' ')} answers: the first one of its run with "
        f"{negatives.replace('_', ' ')} negatives."
    )
    return f"{FEW_LABELS} {why}" if few_labels_note(audits) else why


def _audits_of(run: RunRecord) -> dict[str, dict[str, float]]:
    """Return the figures of the calibrators of a run by kind of negatives; empty if it has none."""
    audited = CALIBRATION_AUDIT.path in (run.tags.artifacts or {})
    return open_store().load(run.run_id, CALIBRATION_AUDIT) if audited else {}


def locate(ask: Ask) -> Located:
    """Return the place of the calibrated model that a choice names.

    Raises InputError if there is no such model, or if `ask.calibrator` is given although the model already is a
    calibrator.
    """
    store, model, calibrator = open_store(), ask.model, ask.calibrator
    if model == LATEST and ask.dataset and not ask.scorer:
        model = _newest_calibration(store, dataset_name(ask.dataset))
    if not model:
        if ask.scorer:
            name = registered_scores(ask.scorer)
        else:
            name = dataset_name(ask.dataset) if ask.dataset else _newest_dataset(store)
        champion = aliased(store, name, CHAMPION)
        if champion is not None and not calibrator:
            return Located(champion.model_id, champion.uri)
        model = LATEST if ask.scorer else _newest_calibration(store, name)
    if model.startswith("models:/"):
        if calibrator:
            raise InputError(f"the model {model} already is a calibrator: leave out --calibrator {calibrator}")
        return Located(model_of_uri(store, model), model)
    run_id = _newest_scores(store, ask.scorer) if ask.scorer and model == LATEST else model
    stage = CALIBRATE_SCORES if ask.scorer else str(named_run(store, run_id).tags.stage)
    stage = stage if stage in (ENSEMBLE_NAME, CALIBRATE_SCORES) else "calibrate"
    model_id = _calibrator_of(store, resolve(stage, run_id).run_id, calibrator)
    return Located(model_id, f"models:/{model_id}")


def load(model: str = "", dataset: str = "", calibrator: str = "") -> "LoadedModel":
    """Return a calibrated model of the store, which answers as one from `kgcore.load` does.

    model, dataset, calibrator  as in `Ask`; `model` may be the URI models:/kgcal-NAME@champion

    Raises InputError as `find_calibrated_model` does.
    """
    from kgcore.answer.loaded import LoadedModel

    return LoadedModel(find_calibrated_model(Ask(model, dataset, calibrator)).model)


def read_located(located: Located) -> FoundModel:
    """Read a calibrated model from the store. Raises InputError if the model has no calibrator."""
    store = open_store()
    record = store.model(located.model_id)
    if "scorer" in record.params:
        raise InputError(f"the model {located.uri} calibrates scores: use `kgcal calibrate-scores --model`")
    if not record.label:
        raise InputError(f"the model {located.uri} has no calibrator: name a calibrator, a calibrate run or a pipeline")
    model_id, model = located.model_id, load_calibrated(store, located.model_id)
    if model.label != record.label:
        raise MismatchError(
            f"the files of the model {located.uri} are of {model.label}, not of {record.label}: copy the home again"
        )
    return FoundModel(model_id, located.uri, record.params["dataset"], record.label, model)


def _calibrator_of(store: Store, run_id: str, label: str) -> str:
    """Return the id of the LoggedModel of a calibrator, or of an ensemble, that a run has logged."""
    run = store.known(run_id)
    labels = {store.model(model_id).label: model_id for model_id in run.model_ids}
    if label:
        return labels[chosen(label, list(labels), f"run {run_id}")]
    if (best := run.params.get("best", "")) in labels:
        return labels[best]
    for negatives in ("ground_truth", "candidates", "synthetic"):
        for name, model_id in labels.items():
            if name.startswith(f"{negatives}."):
                return model_id
    raise InputError(f"run {run_id} has no calibrator: run `kgcal calibrate`")


def chosen(name: str, labels: list[str], place: str = "") -> str:
    """Return the label that a user means: `beta` is `ground_truth.beta` if no other label ends so.

    place  the run that has the calibrators with these labels; empty: they are not logged yet

    Raises InputError for an unknown name.
    """
    ending = [label for label in labels if label.rpartition(".")[2] == name]
    if name in labels or len(ending) == 1:
        return name if name in labels else ending[0]
    lacks, has = (f"{place} has", "it has") if place else ("there is", "there are")
    raise InputError(f"{lacks} no calibrator {name!r}: {has} {', '.join(labels)}")


def _newest_scores(store: Store, scorer: str) -> str:
    """Return the id of the newest finished run that calibrated the scores of a scorer."""
    runs = store.find(RunTags(stage=CALIBRATE_SCORES, dataset=scorer))
    if not runs:
        raise InputError(f"no calibrator of the scorer {scorer!r} was fitted: give a file of its labelled scores first")
    return runs[0].run_id


def _newest_dataset(store: Store) -> str:
    """Return the name of the data set of the newest finished pipeline."""
    prepared = store.load(newest_pipeline(store).run_id, MANIFEST)["prepare"]
    return store.get(prepared).dataset.name


def _newest_calibration(store: Store, dataset: str) -> str:
    """Return the id of the calibrate run of the newest finished pipeline on a data set, which may be an older one.

    A newer calibrate run that is in no pipeline counts, too. Without both, it is that of an unfinished pipeline.
    """
    prepared = store.find_all(RunTags(stage="prepare", dataset=dataset))
    fits = [
        run for one in prepared for run in store.find_all(RunTags(stage="calibrate", inputs={"prepare": one.run_id}))
    ]
    finished = store.find(RunTags(stage="pipeline", dataset=dataset)) + [run for run in fits if not run.tags.parent]
    if not finished and not fits:
        raise InputError(
            f"{dataset} has neither a champion nor a finished run: run `kgcal run --dataset {dataset}` first"
        )
    newest = max(finished or fits, key=lambda run: run.started)
    return str(store.load(newest.run_id, MANIFEST)["calibrate"]) if newest.tags.stage == "pipeline" else newest.run_id


def counted_sample(model_id: str, model: "CalibratedModel") -> "CalibrationSample":
    """Return the sample of `calibration_sample` for methods that count its rows: see `even_sample`."""
    from kgcore.calibrate.sample import even_sample

    sample, rng = calibration_sample(model_id, model), np.random.default_rng(SEED)
    return even_sample(sample, rng, repeat=model.calibrator.mixture is None)


def calibration_sample(model_id: str, model: "CalibratedModel") -> "CalibrationSample":
    """Return the sample that a calibrator was fitted on. For a baseline: labelled triples, corruptions without labels.

    model_id  id of the LoggedModel of the calibrator or of the ensemble
    model     the calibrated model itself

    For an ensemble, the scores are those that it gives to these triples. Its recalibrator was fitted to log-odds of
    members that had not seen the triple, which differ a little. For a combiner, the scores are the log-odds of
    combiners that had not seen the triple.

    Raises InputError if a score run or a calibrate run upstream of the calibrator no longer exists.
    """
    from kgcore.calibrate.fit import calibration_bases
    from kgcore.mixture.calibrate import candidate_sample
    from kgcore.mixture.matched import Matched
    from kgcore.wings.ensembles.ensemble import PooledModel, pooled_table

    store, scorer = open_store(), model.trained
    run = sources_of(store, model_id).run
    if isinstance(matched := model.calibrator.mixture, Matched):
        combined = model.calibrator.combined is not None
        place = (run.run_id, COMBINED_MIXTURE) if combined else (run.tags.inputs["match"], MIXTURE)
        return candidate_sample(store.load(*place), matched, model.calibrator.calibrator.by_predicate)
    made_by = (
        [run]
        if not isinstance(scorer, PooledModel)
        else [store.known(run.tags.inputs[f"calibrate.{number}"]) for number in range(1, len(scorer.members) + 1)]
    )
    tables = [scores_of(calibrated.tags.inputs, completeness_of(calibrated)) for calibrated in made_by]
    table = tables[0]
    if isinstance(scorer, PooledModel):
        table = pooled_table(scorer, [own.without_search() for own in tables])
    config, kind = config_of(CalibrateConfig, made_by[0]), model.calibrator.negatives
    bases = calibration_bases(table, config)
    kind = kind if kind in bases else min(bases)  # a baseline: labelled triples, or corruptions without labels
    if model.calibrator.combined is not None:
        return bases[kind].scored(store.load(run.run_id, HELD_OUT_LOG_ODDS)[model.calibrator.label]).sample
    return bases[kind].sample
