"""The addresses of the server of a scorer: scores become probabilities."""

from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.responses import Response
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool

from kgcore.errors import InputError
from kgcore.external.answers import ANSWERS, ScoreAnswers
from kgcore.external.calibrator import ScoreCalibrator
from kgcore.external.tables import read_table
from kgcore.prediction.sink import sink
from tasks.serving.application import answer_file, new_app
from tasks.serving.requests import NoQuery, read_body
from tasks.serving.score_requests import ScoreFileQuery, ScoresRequest, columns_of
from tasks.serving.scores import ScoreAnswerer, ServedScores


def create_score_app(served: ServedScores) -> FastAPI:
    """Return the server's application. A request is answered by the calibrator that is current when it begins."""
    app = new_app("Calibrated probabilities of the scores of one scorer.", "scores.html")

    @app.post("/predict", openapi_extra=_schema())
    async def predict(query: Annotated[NoQuery, Query()], request: Request) -> Response:
        """Give each score a probability and its 95 % interval."""
        return await run_in_threadpool(_predicted, served.current, await request.body())

    @app.post("/file")
    async def file(query: Annotated[ScoreFileQuery, Query()], request: Request) -> Response:
        """Answer a file of scores, which is the body, with the same rows and their probabilities."""
        return await run_in_threadpool(_answered, served.current, query, await request.body())

    @app.get("/health")
    def health(query: Annotated[NoQuery, Query()]) -> dict[str, Any]:
        """Say which calibrator answers, and whether the MLflow store answers."""
        now = served.current
        found = _described(now, now.found.calibrator)
        return {"status": "ok", "model": found, "store_answers": served.store_answers}

    return app


def _schema() -> dict[str, Any]:
    """Return the OpenAPI description of the body of a request to /predict."""
    schema = ScoresRequest.model_json_schema()
    schema["properties"]["rows"]["items"] = schema.pop("$defs")["ScoreRow"]
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _predicted(now: ScoreAnswerer, body: bytes) -> Response:
    request = read_body(body, ScoresRequest)
    if request.scorer is not None:
        now.found.calibrator.check_scorer(request.scorer)
    calibrator = now.at(request.base_rate)
    found = calibrator.predict(*columns_of(request.rows, calibrator))
    columns = [values.tolist() for values in found]
    answers = [
        {"score": row.score, "relation": row.relation} | dict(zip(ANSWERS, values, strict=True))
        for row, *values in zip(request.rows, *columns, strict=True)
    ]
    made = {"model": _described(now, calibrator), "answers": answers}
    return Response(to_json(made, inf_nan_mode="null"), media_type="application/json")


def _answered(now: ScoreAnswerer, query: ScoreFileQuery, body: bytes) -> Response:
    answers = ScoreAnswers(now.at(query.base_rate), query.score, query.relation)

    def answer(source: Path, target: Path) -> None:
        rows = 0
        with sink(target) as write:
            for block in read_table(source, answers.columns()):
                write(answers.table(source, block))
                rows += len(block.table)
        if not rows:
            raise InputError(f"{source} has no rows after its header: it must have a row for each score")

    return answer_file(body, "scores", query.format, answer)


def _described(now: ScoreAnswerer, calibrator: ScoreCalibrator) -> dict[str, Any]:
    bound = calibrator.bound
    return {
        "uri": now.uri,
        "scorer": calibrator.scorer,
        "scale": calibrator.scale,
        "calibrator": bound.label,
        "relations": list(calibrator.relations) if bound.calibrator.by_predicate else [],
        "base_rate": bound.base_rate,
        "base_rate_is": bound.base_rate_is,
    }
