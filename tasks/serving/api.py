"""The addresses of the server of a graph, and of that of a scorer: JSON for programs, and a page for people."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
from fastapi import FastAPI, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool

from kgcore.datasets.formats.base import COLUMNS, read_candidates
from kgcore.errors import InputError
from kgcore.external.calibrator import RELATION, SCORE, ScoreCalibrator
from kgcore.external.tables import TableBlock
from kgcore.population.answers import answers_to, as_sentence
from kgcore.population.population import FEWEST_ROWS
from kgcore.prediction.answers import Answers, table_of
from kgcore.prediction.question import Question
from tasks.jobs.calibrated_model import FoundScores
from tasks.serving.application import answer_file, new_app
from tasks.serving.model import Answerer, Served, ServedScores
from tasks.serving.requests import (
    AnswersQuery,
    ExplainQuery,
    FileQuery,
    NamesQuery,
    NoQuery,
    PredictRequest,
    PredictScoresRequest,
    ScoreFileQuery,
    read_body,
)

AT_ONCE = 2**16  # bytes of a body to /predict: a smaller body is answered without a thread, which is faster


def create_app(served: Served | ServedScores) -> FastAPI:
    """Return the server's application. A request is answered by the model that is current when the request begins."""
    if isinstance(served, ServedScores):
        app = new_app("Calibrated probabilities of the scores of one scorer.", "scores.html")
        _answer_scores(app, served)
    else:
        app = new_app("Calibrated probabilities of triples. Names are case-sensitive.", "page.html")
        _answer_triples(app, served)

    @app.get("/health")
    def health(query: Annotated[NoQuery, Query()]) -> dict[str, Any]:
        """Say which model answers, and whether the MLflow store answers."""
        now = served.current
        model = _described_scores(now, now.calibrator) if isinstance(now, FoundScores) else _described(now, now.answers)
        return {"status": "ok", "model": model, "store_answers": served.store_answers}

    return app


def _answer_scores(app: FastAPI, served: ServedScores) -> None:
    """Add the addresses at which scores become probabilities."""

    @app.post("/predict", openapi_extra=_body_schema(PredictScoresRequest, "rows"))
    async def predict(query: Annotated[NoQuery, Query()], request: Request) -> Response:
        """Give each score a probability and its 95 % interval."""
        return await run_in_threadpool(_predicted_scores, served.current, await request.body())

    @app.post("/file")
    async def file(query: Annotated[ScoreFileQuery, Query()], request: Request) -> Response:
        """Answer a file of scores, which is the body, with the same rows and their probabilities."""
        calibrator = served.current.calibrator.at(query.base_rate)

        def answer(source: Path) -> Iterator[pa.Table]:
            return (table for table, _ in calibrator.answer_file(source, query.score, query.relation))

        return await run_in_threadpool(answer_file, await request.body(), "scores", query.format, answer)


def _answer_triples(app: FastAPI, served: Served) -> None:
    """Add the addresses at which triples, queries and names are answered."""

    @app.post("/predict", openapi_extra=_body_schema(PredictRequest, "triples"))
    async def predict(query: Annotated[NoQuery, Query()], request: Request) -> Response:
        """Give each triple a score, a probability with an interval, and a decision.

        `about` says what the probabilities are about. 50 unknown triples or more are first compared with calibration
        triples, which takes seconds.
        """
        now, body = served.current, await request.body()
        if len(body) <= AT_ONCE and len((asked := read_body(body, PredictRequest)).triples) < FEWEST_ROWS:
            return _predicted(now, asked)
        return await run_in_threadpool(lambda: _predicted(now, read_body(body, PredictRequest)))

    @app.get("/answers")
    def answers(query: Annotated[AnswersQuery, Query()]) -> Response:
        """Rank all answers to (subject, predicate, ?) or (?, predicate, object); known facts are marked.

        With a completeness or a base rate, the probabilities are about the missing facts of the predicate; the first
        answer takes seconds to minutes. `about` says what they are about, and in which order the answers stand.
        """
        return _ranked(served.current, query)

    @app.get("/explain")
    def explain(query: Annotated[ExplainQuery, Query()]) -> dict[str, Any]:
        """Explain the probability of a triple: `sentences` in words, and the numbers behind them.

        With a completeness, or with `missing`, the probability is that of `answers`, about the missing facts.
        """
        asked = query.predicate, query.base_rate, query.completeness, query.missing
        explainer = served.current.explainer(*asked)
        return explainer.about(query.subject, query.predicate, query.object).to_json()

    @app.get("/names")
    def names(query: Annotated[NamesQuery, Query()]) -> dict[str, list[str]]:
        """Complete the name of an entity or a predicate."""
        now = served.current
        index = now.entities if query.kind == "entity" else now.predicates
        return {"names": index.matching(query.text, query.limit)}

    @app.post("/file")
    async def file(query: Annotated[FileQuery, Query()], request: Request) -> Response:
        """Answer the candidates of a file, which is the body of the request, with a file of the same format.

        The header `about` says what the probabilities are about.
        """
        now, body = served.current, await request.body()
        return await run_in_threadpool(_answer_file, now, query, body)


def _body_schema(kind: type[BaseModel], rows: str) -> dict[str, Any]:
    """Return the OpenAPI description of the body of a request to /predict, whose field `rows` is a list of objects."""
    schema = kind.model_json_schema()
    [schema["properties"][rows]["items"]] = schema.pop("$defs").values()
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _answer_file(now: Answerer, query: FileQuery, body: bytes) -> Response:
    answers = now.answers.under(query.base_rate, query.threshold, query.at_least)
    about: list[str] = []

    def answer(source: Path) -> Iterator[pa.Table]:
        named = [block.names.select(COLUMNS) for block in read_candidates(source)]
        if not sum(map(len, named)):
            raise InputError(f"{source} has no rows: it must have at least one triple")
        found = now.file_answer(answers, pa.concat_tables(named), query.base_rate, query.completeness)
        about.append(as_sentence(found.about))
        for block in read_candidates(source):
            yield found.table(answers, block.names)

    response = answer_file(body, "candidates", query.format, answer)
    response.headers["about"] = about[0]
    return response


def _ranked(now: Answerer, query: AnswersQuery) -> Response:
    question = Question.of_query(now.found.model.graph, query.subject, query.predicate, query.object)
    calibration = now.calibration(query.predicate, query.base_rate, query.completeness)
    conditions = now.answers.under(None, query.threshold, query.at_least)
    found = answers_to(question, conditions, calibration, query.top)
    by = conditions if calibration is None else replace(conditions, model=calibration.model)
    return _response(now, by, found.table, {"about": found.about, "true": found.count and asdict(found.count)})


def _predicted(now: Answerer, request: PredictRequest) -> Response:
    answers = now.answers.under(request.base_rate, request.threshold, request.at_least)
    names = table_of([(triple.subject, triple.predicate, triple.object) for triple in request.triples])
    found = now.file_answer(answers, names, request.base_rate, request.completeness)
    by = replace(answers, model=found.model)
    return _response(now, by, found.table(answers, names), {"about": [as_sentence(found.about)]})


def _response(now: Answerer, answers: Answers, table: pa.Table, further: dict[str, object] | None = None) -> Response:
    body = {"model": _described(now, answers), "threshold": answers.threshold, "answers": table.to_pylist()}
    return Response(to_json(body | (further or {})), media_type="application/json")


def _described(now: Answerer, answers: Answers) -> dict[str, Any]:
    return {
        "uri": now.found.uri,
        "dataset": now.found.dataset,
        "because": now.found.because,
        "calibrator": answers.model.label,
        "base_rate": answers.model.calibrator.base_rate,
        "base_rate_is": answers.model.calibrator.rate.origin,
    }


def _predicted_scores(now: FoundScores, body: bytes) -> Response:
    request = read_body(body, PredictScoresRequest)
    calibrator = now.calibrator.at(request.base_rate)
    if request.scorer is not None:
        calibrator.check_scorer(request.scorer)
    relations = [row.relation for row in request.rows]
    if calibrator.by_relation and None in relations:
        where, name = f"rows[{relations.index(None)}].relation", calibrator.bound.name
        raise InputError(f"{where} is missing: the calibrator {name} has a map for each relation")
    columns = {SCORE: [row.score for row in request.rows], RELATION: pa.array(relations, pa.string())}
    table = calibrator.answer(TableBlock("rows", pa.table(columns), unit="", first=0))
    answered = {"model": _described_scores(now, calibrator), "answers": table.to_pylist()}
    return Response(to_json(answered), media_type="application/json")


def _described_scores(now: FoundScores, calibrator: ScoreCalibrator) -> dict[str, Any]:
    return {
        "uri": now.located.uri,
        "scorer": calibrator.scorer,
        "scale": calibrator.scale,
        "calibrator": calibrator.bound.label,
        "relations": list(calibrator.relations) if calibrator.by_relation else [],
        "base_rate": calibrator.bound.base_rate,
        "base_rate_is": calibrator.bound.rate.origin,
    }
