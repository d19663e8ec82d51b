"""Explains the probability of a triple, and logs what was asked and what came out."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from kgcore.answer.explainer import Explainer
from kgcore.answer.explanation import Explanation, UnseenExplanation
from kgcore.answer.explanation_page import explanation_figure, explanation_page
from kgcore.answer.question import positions_of
from kgcore.answer.sink import check_ending
from kgcore.config import ExplainConfig
from kgcore.errors import InputError
from kgcore.measure.report.result import Result, ResultTable, table_of
from kgcore.storage.folders import write_json
from tasks.jobs.find_model import counted_sample
from tasks.jobs.request import AnsweringModel, Request, Stated, answering_model, calibrate_to_missing
from tasks.tracking.record import RunTags
from tasks.tracking.store import open_store
from tasks.workspace.settings import temporary_folder

ENDINGS = (".html", ".json")
ANSWER = ("probability", "95 % interval")  # columns of tables
LEAST_SHOWN = 0.05  # log-odds of a feature


def _common(made: Explanation | UnseenExplanation) -> list[ResultTable]:
    """Return the tables that both kinds of explanation have."""
    tables = []
    if made.contributions:
        shown = [row for row in made.contributions if abs(row.log_odds) >= LEAST_SHOWN]
        total = sum(row.log_odds for row in made.contributions)
        left = sum(row.log_odds for row in made.contributions if abs(row.log_odds) < LEAST_SHOWN)
        values = ("" if row.value is None else f"{row.value:.4g}" for row in shown)
        cells = [(row.feature, value, f"{row.log_odds:+.3f}") for row, value in zip(shown, values, strict=True)]
        cells += [("others", "", f"{left:+.3f}"), ("sum: log-odds of the probability", "", f"{total:+.3f}")]
        rows = table_of(("evidence", "value", "adds"), cells)
        tables.append(ResultTable("what adds to the log-odds", rows, ("evidence",)))
    if made.at_base_rates:
        cells = [(f"{row.base_rate:.4g}", row.text, row.interval_text) for row in made.at_base_rates]
        tables.append(ResultTable("other base rates", table_of(("base rate", *ANSWER), cells)))
    return tables


def _tables(made: Explanation) -> list[ResultTable]:
    """Return each further table that is not empty."""
    tables = []
    for side, query, others in (
        ("object", f"{made.subject} {made.predicate} ?", made.objects),
        ("subject", f"? {made.predicate} {made.object}", made.subjects),
    ):
        cells = [(row.name, f"{row.score:.4g}", row.text, row.interval_text) for row in others.best]
        rows = table_of((side, "score", *ANSWER), cells)
        tables.append(ResultTable(f"best alternatives: {query}", rows, (side,)))
    names = ("subject", "object", "split")
    groups = (made.support.same_subject, made.support.same_object, made.support.others)
    facts = [
        (fact.subject, fact.object, fact.split, f"{fact.similarity:.2f}") for group in groups for fact in group.nearest
    ]
    rows = table_of((*names, "similarity"), facts)
    tables.append(ResultTable(f"nearest known facts of {made.predicate}", rows, names))
    return [table for table in tables if table.rows]


def explain_triple(triple: Sequence[str], request: Request, config: ExplainConfig) -> Result:
    """Explain the probability of a triple, in an MLflow run with the page, the picture and the JSON as artifacts.

    triple   subject, predicate and object
    request  who explains; its output is an .html or .json file

    Raises InputError if there is no such model, for an unknown name, if the file cannot be written, or if the base rate
    is out of range.
    """
    if len(triple) != 3:
        raise InputError(f"{len(triple)} names are given: give a subject, a predicate and an object")
    output = request.output
    if output:
        check_ending(Path(output), ENDINGS)
    answering, explainer = _explainer(triple, request, config)
    store, found, (subject, predicate, object_) = open_store(), answering.found, triple
    made = explainer.about(subject, predicate, object_)
    tags = RunTags(stage="explain", dataset=found.dataset)
    with store.open_run(f"explain {found.dataset}", tags) as run_id, temporary_folder() as folder:
        names = {"subject": subject, "predicate": predicate, "object": object_}
        store.log_params(run_id, {**config.as_dict(), **names, **answering.params})
        store.log_metrics(run_id, _metrics(made), model_id=found.model_id)
        page = explanation_page(made, found.dataset, found.uri, run_id)
        _write(folder, made, page)
        store.log_files(run_id, folder)
        if output.lower().endswith(".html"):
            _save(Path(output), page)
        elif output:
            write_json(Path(output), made.to_json())
    asked = f"{made.subject} {made.predicate} {made.object}"
    sentences = ResultTable(asked, notes=[f"* {sentence}" for sentence in made.sentences])
    return Result(
        title=asked,
        tables=[sentences, *_common(made), *(_tables(made) if isinstance(made, Explanation) else [])],
        sentences=[str(answering)],
        files={"explanation": output},
        run=run_id,
        rows=[asdict(row) for row in made.at_base_rates],
        facts=made.to_json(),
    )


def _explainer(triple: Sequence[str], request: Request, config: ExplainConfig) -> tuple[AnsweringModel, Explainer]:
    """Return who explains, and what: it is calibrated to the missing facts of the predicate if they are asked for."""
    if not config.completeness and not config.missing:
        answering = answering_model(request)
        return answering, Explainer(
            answering.model, counted_sample(answering.found.model_id, answering.found.model), config
        )
    from kgcore.answer.population.lists import explainer_of

    answering = answering_model(replace(request, base_rate=None), its_calibrator=False)
    stated = Stated(config.completeness, request.base_rate).or_that_of(answering.found)
    if not stated.is_given:
        raise InputError("nothing says how many facts are missing: state --completeness or --base-rate")
    subject, predicate, object_ = triple
    positions_of(answering.model.graph, (subject, predicate, object_))  # reports unknown names before a survey
    calibration = calibrate_to_missing(answering, predicate, stated, config.at_least)
    return answering.under(calibration), explainer_of(calibration, config)


def _metrics(made: Explanation | UnseenExplanation) -> dict[str, float]:
    metrics: dict[str, float] = {}
    if isinstance(made, Explanation):
        metrics = {"score": made.score, "subject_rank": made.subjects.rank, "object_rank": made.objects.rank}
    named = {"probability": made.probability, "low": made.low, "high": made.high}
    return metrics | {name: value for name, value in named.items() if value is not None}


def _write(folder: Path, made: Explanation | UnseenExplanation, page: str) -> None:
    """Write explanation.json, explanation.html and, if there is a curve, figures/curve.png to the folder."""
    write_json(folder / "explanation.json", made.to_json())
    _save(folder / "explanation.html", page)
    if isinstance(made, Explanation) and (figure := explanation_figure(made)):
        (folder / "figures").mkdir()
        figure.savefig(folder / "figures" / "curve.png", dpi=150)


def _save(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error
