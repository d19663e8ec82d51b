"""evaluate: what the probabilities are worth."""

from kgcore.config import CalibrateConfig, ClassifyConfig, EvaluateConfig
from kgcore.evaluation.by_relation import reliability_by_relation
from kgcore.evaluation.evaluate import Measured, evaluate
from kgcore.evaluation.predictions import Predictions
from kgcore.registries import METRICS
from kgcore.report.markdown import markdown
from kgcore.report.results import Results
from kgcore.report.summary import Summary, summarise_relations
from tasks.stages.base import Stage
from tasks.stages.calibrate import calibrator_params
from tasks.stages.classify import CLASSIFY
from tasks.stages.rank import RANK
from tasks.stages.running import StageRun
from tasks.tracking.artifacts import CALIBRATOR, CORRUPTIONS, MEASURED, PREDICATES, PREDICTIONS, RANK_METRICS, SUMMARY
from tasks.tracking.names import short_label
from tasks.tracking.record import RunTags
from tasks.workspace.progress import progress_bar

_CODE = ("kgcore.evaluation.evaluate", "kgcore.report.summary", "kgcore.report.markdown")


def _body(run: StageRun, config: EvaluateConfig) -> None:
    judged = run.load(PREDICTIONS)
    measured = _evaluate(run, judged, config)
    run.save(MEASURED, measured)
    names = run.load(PREDICATES)
    summary = Summary(
        results=Results.of(measured),
        accuracy_per_relation=judged.accuracy_per_relation,
        ranks=run.load(RANK_METRICS),
        relations=summarise_relations(names, judged.relations, reliability_by_relation(judged)),
        notes=tuple(judged.notes(run.config(CalibrateConfig).base_rate)),
    )
    run.save(SUMMARY, summary)
    upstream = {name: run.inputs[name] for name in EVALUATE.line() if name in run.inputs}
    run.tag(RunTags(note=markdown(summary.results, upstream)))
    _log_by_calibrator(run, measured)


def _evaluate(run: StageRun, judged: Predictions, config: EvaluateConfig) -> dict[str, Measured]:
    """What is measured of the predictions. Corruptions are resampled with the positives that they were made from."""
    source = run.load(CORRUPTIONS)["test"].source if judged.synthetic_negatives else None
    with progress_bar("evaluate", config.bootstrap_replicates) as bar:
        return evaluate(judged, config, run.config(ClassifyConfig).tau, source, on_replicate=bar)


def _log_by_calibrator(run: StageRun, measured: dict[str, Measured]) -> None:
    """Log each calibrator's metrics to its LoggedModel, and as a run that the UI can sort."""
    for bound, model_id in zip(run.load_models(CALIBRATOR), run.model_ids("calibrate"), strict=True):
        result, label = measured[bound.label], short_label(bound.label)
        metrics = result.with_ends()
        run.log_metrics({f"{label}.{name}": value for name, value in metrics.items()}, model_id=model_id)
        params = calibrator_params(run, bound)
        run.log_measurement(f"{params['model']} {params['loss']} {label}", params, metrics, model_id)


EVALUATE = Stage(
    name="evaluate",
    summary="Measure the predictions of a classify run, beside the ranks of a rank run.",
    title="evaluate {predictions}",
    config=EvaluateConfig,
    body=_body,
    code=lambda config: (*_CODE, *map(METRICS.module, METRICS.names())),
    inputs={"predictions": CLASSIFY, "ranks": RANK},
)
