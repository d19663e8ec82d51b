"""evaluate: measure the quality of the probabilities."""

from typing import TYPE_CHECKING

from kgcore.config import CalibrateConfig, ClassifyConfig, EvaluateConfig, PrepareConfig, TrainConfig
from kgcore.measure.report.results import Results
from kgcore.measure.report.summary import Summary, summarise_relations
from kgcore.registries import METRICS
from tasks.stages.calibrate import calibrator_params
from tasks.stages.classify import CLASSIFY
from tasks.stages.rank import RANK
from tasks.stages.running import Stage, StageRun
from tasks.tracking.artifacts import (
    CALIBRATION_AUDIT,
    CALIBRATOR,
    CORRUPTION_AUDIT,
    CORRUPTIONS,
    COUNTS,
    GRAPH,
    GRAPH_WITHOUT_TEST,
    MATCHED,
    MEASURED,
    PREDICATES,
    PREDICTIONS,
    RANK_METRICS,
    RANKS,
    SUMMARY,
    UNSEEN,
    UNSEEN_TEST,
)
from tasks.tracking.record import RunTags, labelled_metrics
from tasks.workspace.flow_run import progress_bar

if TYPE_CHECKING:
    from kgcore.measure.evaluation.evaluate import Measured
    from kgcore.measure.evaluation.groups import AllRows
    from kgcore.measure.evaluation.predictions import Predictions

_CODE = (
    "kgcore.measure.evaluation.evaluate",
    "kgcore.measure.evaluation.evaluate",
    "kgcore.calibrate.validation",
    "kgcore.measure.report.summary",
    "kgcore.measure.report.summary",
    "kgcore.measure.report.results",
)


def _body(run: StageRun, config: EvaluateConfig) -> None:
    from kgcore.calibrate.validation import answering_label, answering_notes, cautions, few_labels_note, thin_notes
    from kgcore.measure.evaluation.evaluate import miscalibrated
    from kgcore.measure.evaluation.groups import reliability_by_knowledge, reliability_by_relation
    from kgcore.measure.report.data import completeness_notes, data_notes, hidden_fact_notes, rank_notes, score_notes
    from kgcore.measure.report.summary import briefs

    predictions, tau = run.load(PREDICTIONS), run.config(ClassifyConfig).tau
    measured = measure(run, predictions, config, tau)
    run.save(MEASURED, measured)
    names, counts = run.load(PREDICATES), run.load(COUNTS)
    calibrate = run.config(CalibrateConfig)
    fitted = [bound for bound in run.load_models(CALIBRATOR) if bound.negatives != "none"]
    bounds = {bound.label: bound for bound in fitted}
    audits = run.load(CALIBRATION_AUDIT)
    answers = answering_label(fitted, audits)
    wrong = miscalibrated(bounds, predictions, measured, bool(calibrate.completeness))
    notes = predictions.notes(calibrate.rate, counts["valid_negatives"], answers not in wrong)
    few = few_labels_note(audits)
    decisive = [*predictions.cautions(counts["valid_negatives"]), *([few] if few else []), *cautions(audits, answers)]
    if answers.startswith("candidates."):
        decisive += run.load(MATCHED).sentences()[1:]
    notes += [*_candidates(run, predictions), *answering_notes(audits)]
    notes += [
        *thin_notes(audits),
        *score_notes(run.config(TrainConfig).cohort_weight),
        *data_notes(counts, run.config(PrepareConfig).split),
        *rank_notes(len(run.load(RANKS)[0]), counts["test_positives"]),
    ]
    notes += hidden_fact_notes(run.load(CORRUPTION_AUDIT)["valid"]["true_in_test"], audits["synthetic"])
    notes += completeness_notes(calibrate.completeness, predictions.synthetic_negatives)
    graph, everything = run.load(GRAPH_WITHOUT_TEST), _all_rows(run, predictions)
    notes += [one.note(label) for label, one in everything.items()]
    summary = Summary(
        results=Results.of(measured),
        accuracy_per_relation=predictions.accuracy_per_relation,
        ranks=run.load(RANK_METRICS),
        relations=summarise_relations(names, predictions.relations, reliability_by_relation(predictions)),
        knowledge=tuple(reliability_by_knowledge(predictions, graph, config.bins, tau)),
        notes=tuple(notes),
        rate=calibrate.rate,
        answers=answers,
        miscalibrated=wrong,
        briefs=briefs(bounds, predictions, measured, wrong, bool(calibrate.completeness), graph, run.dataset.name),
        cautions=tuple(decisive),
    )
    run.save(SUMMARY, summary)
    upstream = {name: run.inputs[name] for name in EVALUATE.lineage() if name in run.inputs}
    run.tag(RunTags(base_rate=str(calibrate.rate), note=summary.note(upstream)))
    _log_by_calibrator(run, measured, predictions.rows_fingerprint())
    for one in everything.values():
        run.log_metrics(one.figures())


def _all_rows(run: StageRun, predictions: "Predictions") -> "dict[str, AllRows]":
    """Measure all test rows, those with unseen entities included: label of the calibrator that answers -> figures.

    Empty without answers about unseen entities, without labelled test negatives, and at a base rate that differs from
    that of the validation labels.
    """
    from kgcore.calibrate.fit import GROUND_TRUTH
    from kgcore.measure.evaluation.groups import AllRows

    if not run.has(UNSEEN_TEST) or predictions.synthetic_negatives:
        return {}
    labels = run.load(UNSEEN).splits["test"].labels
    first = next((bound for bound in run.load_models(CALIBRATOR) if bound.negatives == GROUND_TRUTH), None)
    if first is None or first.fitted_at is not None:
        return {}
    known = predictions.probabilities[first.label], predictions.labels
    found = AllRows.of(known, (run.load(UNSEEN_TEST).probabilities, labels), run.config(ClassifyConfig).tau)
    return {first.label: found}


def _candidates(run: StageRun, predictions: "Predictions") -> list[str]:
    """Return what the probabilities of calibrators fitted to candidates are about; nothing without candidates."""
    if "match" not in run.inputs:
        return []
    said = run.load(MATCHED).sentences()
    if predictions.synthetic_negatives:
        said.append(
            "The rows `candidates` are not comparable with the others here: the test negatives are corruptions, and "
            "these calibrators are for the mistakes of the candidates."
        )
    return said


def measure(run: StageRun, predictions: "Predictions", config: EvaluateConfig, tau: float) -> "dict[str, Measured]":
    """Measure every calibrator, and show a progress bar. Return calibrator label -> results.

    tau  decision threshold, in [0, 1]

    If the test negatives are corruptions, the bootstrap draws each positive together with its corruptions. If test was
    drawn by cold entities, it draws all rows of an entity together.
    """
    from kgcore.measure.evaluation.evaluate import evaluate, kept_sources

    source, cold = None, run.config(PrepareConfig).split_rule.cold_column
    if predictions.synthetic_negatives:
        made, positives = run.load(CORRUPTIONS)["test"], run.load(GRAPH).test.positives
        source = kept_sources(made.source, positives[:, 1], made.triples[:, 1])
    with progress_bar("evaluate", config.bootstrap_replicates) as bar:
        return evaluate(predictions, config, tau, source, bar, cold)


def _log_by_calibrator(run: StageRun, measured: "dict[str, Measured]", rows: str) -> None:
    """Log the metrics of each calibrator twice: for its LoggedModel, and as a separate run that the UI can sort."""
    fitted = dict(zip(run.model_ids("calibrate"), run.load_models(CALIBRATOR), strict=True))
    every = {model_id: measured[bound.label].with_ends() for model_id, bound in fitted.items()}
    run.log_model_metrics({model_id: labelled_metrics(fitted[model_id].label, own) for model_id, own in every.items()})
    for model_id, bound in fitted.items():
        run.log_measurement(calibrator_params(run, bound), every[model_id], model_id, str(bound.rate), rows)


EVALUATE = Stage(
    name="evaluate",
    summary="Evaluate the predictions of a classify run, and add the ranks of a rank run.",
    title="evaluate {predictions}",
    config=EvaluateConfig,
    body=_body,
    code=lambda config: (*_CODE, *map(METRICS.module, METRICS.names())),
    inputs={"predictions": CLASSIFY, "ranks": RANK},
)
