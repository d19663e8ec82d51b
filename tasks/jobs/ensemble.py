"""ensemble: several calibrated models of one data set as one, measured beside its members."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kgcore import storage
from kgcore.config import ClassifyConfig, CorruptConfig, EnsembleConfig, EvaluateConfig
from kgcore.corruptions.base import Corruptions
from kgcore.ensembles.ensemble import Ensemble
from kgcore.ensembles.fit import fit_ensembles
from kgcore.ensembles.judge import Judged, judge
from kgcore.evaluation.evaluate import Measured, evaluate
from kgcore.evaluation.predictions import Predictions
from kgcore.registries import CALIBRATORS, POOLS
from kgcore.report.ensembles import ensemble_markdown
from kgcore.report.plots import reliability_figures
from kgcore.report.summary import summarise, with_intervals
from tasks.jobs.compare import ENSEMBLE
from tasks.jobs.members import Member, check_members, member_names
from tasks.stages.base import Context, StageRef, StageRun, config_of, digest, run_stage, stage_task
from tasks.stages.calibrate import corruption_params
from tasks.tracking.names import short_label
from tasks.tracking.store import open_store
from tasks.workspace.progress import progress_bar

FILE = "ensemble.json"
JUDGED_BY = (ClassifyConfig(), EvaluateConfig())


@stage_task
def ensemble_models(runs: Sequence[StageRef], config: EnsembleConfig, context: Context = Context()) -> StageRef:
    """Pool the models of calibrate runs, in whatever order they are named, and measure pools and members on the test
    split. LoggedModels: one ensemble.json each. Artifacts: predictions.parquet, disagreement.parquet, measured.json,
    summary.json, figures/.

    All have to be calibrated on the same corruptions. Raises InputError or MismatchError where they do not belong
    together, before a run is opened.
    """
    members = sorted((Member(open_store(), ref) for ref in runs), key=lambda member: member.order)
    check_members(members)
    names = member_names([member.settings for member in members])
    first = StageRef("corrupt", members[0].inputs["corrupt"])
    calibrators = sorted({config.member_calibrator, config.recalibrator})
    code = ["kgcore.ensembles.fit", "kgcore.ensembles.judge", "kgcore.evaluation.evaluate", "kgcore.report.plots"]
    code += [*map(POOLS.module, config.pools), *map(CALIBRATORS.module, calibrators)]

    def body(run: StageRun) -> None:
        tables = [member.scores() for member in members]
        corruptions = run.load("corrupt", "corruptions.parquet", storage.read_corruptions)
        drawn = config_of(CorruptConfig, first)
        calibrate, rng = members[0].calibrate, np.random.default_rng(config.fold_seed)
        ensembles = fit_ensembles(tables, corruptions["valid"].source, drawn, calibrate, config, rng)
        judged = judge(ensembles, tables, names, calibrate.base_rate, JUDGED_BY[0])
        measured = _evaluate(judged.predictions, corruptions)
        summary: dict[str, Any] = {
            "dataset": run.dataset[0],
            "members": [_told(name, member) for name, member in zip(names, members, strict=True)],
            "pools": list(config.pools),
            "ensembles": {ensemble.label: _figures(ensemble, judged, names) for ensemble in ensembles},
            "notes": judged.predictions.notes(calibrate.base_rate),
        } | {name: table for name, table in summarise(measured, {}, {}).items() if name in ("metrics", "intervals")}
        _write(run, judged, measured, summary)
        models = _log_models(run, ensembles, members, names)
        for label, result in measured.items():
            _log_metrics(run, label, with_intervals(result.metrics(), result.intervals), models[label])
        for ensemble in ensembles:
            label = ensemble.label
            _log_metrics(run, label, asdict(judged.disputed[label]), models[label])
            name, params = f"{ENSEMBLE} {short_label(label)}", _params(run, ensemble, members, names)
            metrics = with_intervals(measured[label].metrics(), measured[label].intervals)
            run.log_measurement(name, params, metrics, models[label])

    identity = digest([asdict(settings) for settings in JUDGED_BY])
    refs = [member.ref for member in members]
    return run_stage(ENSEMBLE, config, (first,), code, body, context, identity, refs)


def ensemble_summary(ref: StageRef) -> dict[str, Any]:
    """The results of an ensemble's run:

    dataset, notes, run
    members             [{name, model, loss, seed, train, calibrate, model_id}]
    pools               their names
    metrics, intervals  {ground_truth | synthetic: {member or pool: {...}}}
    ensembles           {ground_truth.linear ...: {weights, disagreement, brier_agreed, brier_disputed}}
    """
    summary: dict[str, Any] = open_store().load(ref.run_id, "summary.json", storage.read_json)
    return summary | {"run": ref.run_id}


def _evaluate(predictions: Predictions, made: dict[str, Corruptions]) -> dict[str, Measured]:
    """What is measured of the predictions, corruptions being resampled with the positives that they were made from."""
    classify, config = JUDGED_BY
    source = made["test"].source if predictions.synthetic_negatives else None
    with progress_bar("evaluate", config.bootstrap_replicates) as bar:
        return evaluate(predictions, config, classify.tau, source, on_replicate=bar)


def _told(name: str, member: Member) -> dict[str, Any]:
    settings = {key: member.settings[key] for key in ("model", "loss", "seed")}
    runs = {"train": member.inputs["train"], "calibrate": member.ref.run_id}
    return {"name": name} | settings | runs | {"model_id": member.model_id}


def _figures(ensemble: Ensemble, judged: Judged, names: Sequence[str]) -> dict[str, Any]:
    weights = dict(zip(names, ensemble.pool.weights.tolist(), strict=True))
    return {"weights": weights} | asdict(judged.disputed[ensemble.label])


def _write(run: StageRun, judged: Judged, measured: dict[str, Measured], summary: dict[str, Any]) -> None:
    storage.write_predictions(run.folder / "predictions.parquet", judged.predictions)
    storage.write_disagreement(run.folder / "disagreement.parquet", judged.predictions.triples, judged.disagreement)
    storage.write_measured(run.folder / "measured.json", measured)
    storage.write_json(run.folder / "summary.json", summary)
    for name, figure in reliability_figures(measured).items():
        run.log_figure(name, figure)
    run.store.log_tags(run.run_id, {"mlflow.note.content": ensemble_markdown(summary)})


def _log_models(
    run: StageRun, ensembles: Sequence[Ensemble], members: Sequence[Member], names: Sequence[str]
) -> dict[str, str]:
    """Each ensemble as a LoggedModel; label -> id, those of the members among them: of their calibrator where it was
    fitted, of the embedding model where it was not."""
    models: dict[str, str] = {}
    for ensemble in ensembles:
        for name, member in zip(names, members, strict=True):
            fitted = f"{ensemble.negatives}.{ensemble.members[0].name}"
            models.setdefault(f"{ensemble.negatives}.{name}", member.calibrators().get(fitted, member.model_id))
    for number, ensemble in enumerate(ensembles):
        params = _params(run, ensemble, members, names)
        name = f"{params['dataset']}-{ENSEMBLE}-{ensemble.label.replace('.', '-')}"
        write = partial(_write_ensemble, models=[member.model_id for member in members], ensemble=ensemble)
        models[ensemble.label] = run.log_model(number, name, write, params, {"label": ensemble.label})
    return models


def _write_ensemble(folder: Path, models: Sequence[str], ensemble: Ensemble) -> None:
    storage.write_json(folder / FILE, {"models": models, "ensemble": ensemble.to_json()})


def read_ensemble(folder: Path) -> tuple[list[str], Ensemble]:
    """The ids of the members' LoggedModels, and the ensemble, in a LoggedModel's folder."""
    data = storage.read_json(folder / FILE)
    return data["models"], Ensemble.from_json(data["ensemble"])


def _log_metrics(run: StageRun, label: str, metrics: dict[str, float], model_id: str) -> None:
    run.log_metrics({f"{short_label(label)}.{name}": value for name, value in metrics.items()}, model_id=model_id)


def _params(run: StageRun, ensemble: Ensemble, members: Sequence[Member], names: Sequence[str]) -> dict[str, Any]:
    """What ensembles are compared by, beside single models."""
    params = {
        "calibrator": ensemble.name,
        "negatives": ensemble.negatives,
        "base_rate": ensemble.base_rate,
        "model": ENSEMBLE,
        "loss": " ".join(sorted({member.settings["loss"] for member in members})),
        "dataset": run.dataset[0],
        "members": " ".join(names),
    }
    return params | corruption_params(run) if ensemble.negatives == "synthetic" else params
