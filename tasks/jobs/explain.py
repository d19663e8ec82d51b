"""Explains the probability of a triple, and logs what was asked and what came out."""

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from kgcore.calibration.fit import calibration_samples
from kgcore.calibration.sample import CalibrationSample
from kgcore.config import CalibrateConfig, ExplainConfig
from kgcore.ensembles.pooled import PooledModel, pooled_table
from kgcore.errors import InputError
from kgcore.prediction.explanation import Explainer, Explanation
from kgcore.report.explanation import explanation_figure, explanation_page
from kgcore.storage import write_json
from tasks.jobs.calibrated_model import FoundModel
from tasks.jobs.request import Answered, Request, answering
from tasks.stages.running import config_of
from tasks.tracking.artifacts import SCORES
from tasks.tracking.record import RunTags
from tasks.tracking.registry import sources_of
from tasks.tracking.store import open_store

ENDINGS = (".html", ".json")


@dataclass(frozen=True, kw_only=True)
class Explained(Answered):
    """An explanation, and who explains."""

    explanation: Explanation


def explain_triple(triple: Sequence[str], request: Request, config: ExplainConfig) -> Explained:
    """Explain the probability of a triple, in an MLflow run with the page, the picture and the JSON as artifacts.

    triple   subject, predicate and object
    request  who explains; its output is an .html or .json file

    Raises InputError if there is no such model, for an unknown name, if the file cannot be written, or if the base rate
    is out of range.
    """
    if len(triple) != 3:
        raise InputError(f"{len(triple)} names are given: give a subject, a predicate and an object")
    output = request.output
    if output and Path(output).suffix.lower() not in ENDINGS:
        raise InputError(f"{output} is of an unknown kind: its name must end in {' or '.join(ENDINGS)}")
    by, store = answering(request), open_store()
    found, (subject, predicate, object_) = by.found, triple
    made = Explainer(by.model, calibration_sample(found), config).explain(subject, predicate, object_)
    tags = RunTags(stage="explain", dataset=found.dataset)
    with store.open_run(f"explain {found.dataset}", tags) as run_id, tempfile.TemporaryDirectory() as folder:
        asked = {"subject": subject, "predicate": predicate, "object": object_}
        store.log_params(run_id, {**asdict(config), **asked, **by.params})
        store.log_metrics(run_id, _metrics(made), model_id=found.model_id)
        page = explanation_page(made, found.dataset, found.uri, run_id)
        _write(Path(folder), made, page)
        store.log_files(run_id, Path(folder))
        if output.lower().endswith(".html"):
            _save(Path(output), page)
        elif output:
            write_json(Path(output), made.to_json())
    return Explained(**by.answered, explanation=made, run=run_id)


def calibration_sample(found: FoundModel) -> CalibrationSample:
    """Return the sample that a calibrator was fitted on. For a baseline: labelled triples, corruptions without labels.

    For an ensemble, the scores are those that it gives to these triples. Its recalibrator was fitted to log-odds of
    members that had not seen the triple, which differ a little.

    Raises InputError if a score run or a calibrate run upstream of the calibrator no longer exists.
    """
    store, scorer = open_store(), found.model.trained
    run = sources_of(store, found.model_id).run
    made_by = (
        [run]
        if not isinstance(scorer, PooledModel)
        else [store.get(run.tags.inputs[f"calibrate.{number}"]) for number in range(1, len(scorer.members) + 1)]
    )
    tables = [store.load(calibrated.tags.inputs["score"], SCORES) for calibrated in made_by]
    table = pooled_table(scorer, tables) if isinstance(scorer, PooledModel) else tables[0]
    samples = calibration_samples(table, config_of(CalibrateConfig, made_by[0]))
    return samples.get(found.model.calibrator.negatives) or samples.get("ground_truth") or samples["synthetic"]


def _metrics(made: Explanation) -> dict[str, float]:
    metrics = {"score": made.score, "subject_rank": made.subjects.rank, "object_rank": made.objects.rank}
    named = {"probability": made.probability, "low": made.low, "high": made.high}
    return metrics | {name: value for name, value in named.items() if value is not None}


def _write(folder: Path, made: Explanation, page: str) -> None:
    """Write explanation.json, explanation.html and, if there is a curve, figures/curve.png to the folder."""
    write_json(folder / "explanation.json", made.to_json())
    _save(folder / "explanation.html", page)
    if figure := explanation_figure(made):
        (folder / "figures").mkdir()
        figure.savefig(folder / "figures" / "curve.png", dpi=150)


def _save(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error
