"""The addresses of the server: JSON for programs, and a page for people."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool

from kgcore.errors import KgcalError
from kgcore.prediction.answers import Answers, table_of
from kgcore.prediction.candidates import read_candidates
from kgcore.prediction.ranked import ranked_answers
from kgcore.prediction.sink import sink
from tasks.serving.limits import LimitedBody
from tasks.serving.model import Answerer, Served
from tasks.serving.requests import AnswersQuery, ExplainQuery, FileQuery, NamesQuery, PredictRequest, sentence

PAGE = Path(__file__).with_name("page.html")


def create_app(served: Served) -> FastAPI:
    """Return the server's application. A request is answered by the model that is current when the request begins."""
    app = FastAPI(
        title="kgcal",
        description="Calibrated probabilities of triples. Names are case-sensitive.",
        docs_url="/docs",
        redoc_url=None,
    )
    app.add_middleware(LimitedBody)
    _add_errors(app)

    @app.post("/predict")
    def predict(request: PredictRequest) -> dict[str, Any]:
        """Give each triple a score, a probability with an interval, and a decision."""
        now = served.current
        answers = now.answers.under(request.base_rate, request.threshold, request.at_least)
        rows = [(triple.subject, triple.predicate, triple.object) for triple in request.triples]
        return _response(now, answers, answers.table(table_of(rows)))

    @app.get("/answers")
    def answers(query: Annotated[AnswersQuery, Query()]) -> dict[str, Any]:
        """Rank all answers to (subject, predicate, ?) or (?, predicate, object); known facts are marked."""
        now = served.current
        conditions = now.answers.under(query.base_rate, query.threshold, query.at_least)
        table = ranked_answers(conditions, query.subject, query.predicate, query.object, query.top)
        return _response(now, conditions, table)

    @app.get("/explain")
    def explain(query: Annotated[ExplainQuery, Query()]) -> dict[str, Any]:
        """Explain the probability of a triple: `sentences` in words, and the numbers behind them."""
        return served.current.explainer(query.base_rate).explain(query.subject, query.predicate, query.object).to_json()

    @app.get("/names")
    def names(query: Annotated[NamesQuery, Query()]) -> dict[str, list[str]]:
        """Complete the name of an entity or a predicate."""
        now = served.current
        index = now.entities if query.kind == "entity" else now.predicates
        return {"names": index.matching(query.text, query.limit)}

    @app.post("/file")
    async def file(query: Annotated[FileQuery, Query()], request: Request) -> Response:
        """Answer the candidates of a file, which is the body of the request, with a file of the same format."""
        now, body = served.current, await request.body()
        conditions = now.answers.under(query.base_rate, query.threshold, query.at_least)
        return await run_in_threadpool(_answer_file, conditions, query.format, body)

    @app.get("/health")
    def health() -> dict[str, Any]:
        """Say which model answers."""
        return {"status": "ok", "model": _described(served.current, served.current.answers)}

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def page() -> str:
        return PAGE.read_text(encoding="utf-8")

    return app


def _answer_file(answers: Answers, ending: str, body: bytes) -> Response:
    folder = Path(tempfile.mkdtemp(prefix="kgcal-"))

    def remove() -> None:
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()

    source, target = folder / f"candidates.{ending}", folder / f"answers.{ending}"
    try:
        source.write_bytes(body)
        with sink(target) as write:
            for block in read_candidates(source):
                write(answers.table(block.names))
    except KgcalError as error:
        remove()
        raise HTTPException(422, str(error).replace(f"{folder}/", "")) from error
    return FileResponse(target, filename=target.name, background=BackgroundTask(remove))


def _response(now: Answerer, answers: Answers, table: pa.Table) -> dict[str, Any]:
    return {"model": _described(now, answers), "threshold": answers.threshold, "answers": table.to_pylist()}


def _described(now: Answerer, answers: Answers) -> dict[str, Any]:
    found = now.found
    return {
        "uri": found.uri,
        "dataset": found.dataset,
        "calibrator": found.label,
        "base_rate": answers.model.calibrator.base_rate,
    }


def _add_errors(app: FastAPI) -> None:
    """Answer every error with {"error": one sentence}."""

    def answer(status: int, text: str) -> JSONResponse:
        return JSONResponse({"error": text}, status)

    handlers: dict[type[Exception], Callable[[Any], JSONResponse]] = {
        RequestValidationError: lambda error: answer(*sentence(error)),
        HTTPException: lambda error: answer(error.status_code, str(error.detail)),
        KgcalError: lambda error: answer(422, str(error)),
    }
    for kind, make in handlers.items():

        async def handle(request: Request, error: Exception, make: Callable[[Any], JSONResponse] = make) -> Response:
            return make(error)

        app.add_exception_handler(kind, handle)
