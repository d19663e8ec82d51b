"""The addresses of the server of a graph, and of that of a scorer: JSON for programs, and a page for people."""

import logging
import os
import socket
import sys
from collections.abc import Callable, Collection, Iterator
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import torch
import uvicorn
from anyio import CapacityLimiter
from fastapi import Depends, FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException as StarletteError
from starlette.requests import ClientDisconnect

from kgcore.answer.population.lists import as_sentence
from kgcore.answer.population.population import FEWEST_ROWS
from kgcore.answer.sink import sink
from kgcore.data.formats.base import COLUMNS, read_candidates
from kgcore.errors import InputError, KgcalError, first_line
from tasks.jobs.find_model import Ask, FoundScores, is_of_scores
from tasks.jobs.request import Stated
from tasks.serving.limits import HEALTH, MOST_BYTES, Connection, LimitedBodies, Together, Turn, in_turn
from tasks.serving.model import Answerer, Served, ServedScores
from tasks.serving.replies import described, described_scores, predicted, predicted_scores, predicted_together, ranked
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
    sentence,
)
from tasks.workspace.services import port_is_taken
from tasks.workspace.settings import temporary_folder

log = logging.getLogger("kgcal")
HERE = Path(__file__).parent
UNANSWERED = {404: "there is no address {path}", 405: "{path} does not answer {method}"}
LOCAL = "127.0.0.1"
PART = 2**18  # bytes of a file that are sent at a time
MEDIA = {"csv": "text/csv", "tsv": "text/tab-separated-values", "parquet": "application/vnd.apache.parquet"}
AT_ONCE = 2**13  # bytes of a body to /predict: a smaller one does not wait for threads that work on large ones
MOST_TABS = 3  # of a file that is one line: more show that its line breaks were dropped
MOST_THREADS = 2  # that work on bodies of one kind: more would only wait for each other
GRACE = 5  # seconds for answers after SIGTERM


def create_app(served: Served | ServedScores, hosts: Collection[str] = ("*",)) -> FastAPI:
    """Return the server's application. A request is answered by the model that is current when the request begins.

    hosts  names of the server that a request may use, as in `serve`
    """
    if isinstance(served, ServedScores):
        app = new_app("Calibrated probabilities of the scores of one scorer.", "scores.html", hosts)
        _answer_scores(app, served)
    else:
        app = new_app("Calibrated probabilities of triples. Names are case-sensitive.", "page.html", hosts)
        _answer_triples(app, served)

    @app.get(HEALTH)
    async def health(query: Annotated[NoQuery, Query()], response: Response) -> dict[str, Any]:
        """Say which model answers, and whether the MLflow store answers."""
        response.headers["connection"] = "close"  # or a client could ask thousands of times without reading
        now = served.current
        model = described_scores(now, now.calibrator) if isinstance(now, FoundScores) else described(now, now.answers)
        return {"status": "ok", "model": model, "store_answers": served.store_answers}

    return app


def _answer_scores(app: FastAPI, served: ServedScores) -> None:
    """Add the addresses at which scores become probabilities."""
    threads = CapacityLimiter(MOST_THREADS)

    @app.post("/predict", openapi_extra=_body_schema(PredictScoresRequest, "rows"))
    async def predict(query: Annotated[NoQuery, Query()], request: Request) -> Response:
        """Give each score a probability and its 95 % interval."""
        now, body = served.current, await request.body()
        return await in_turn(request, threads, lambda turn: predicted_scores(now, body))

    @app.post("/file")
    async def file(query: Annotated[ScoreFileQuery, Query()], request: Request) -> Response:
        """Answer a file of scores, which is the body, with the same rows and their probabilities."""
        calibrator, body = served.current.calibrator.at(query.base_rate), await _file_of(request)

        def work(turn: Turn) -> Response:
            def answer(source: Path) -> Iterator[pa.Table]:
                return (turn.count(table) for table, _ in calibrator.answer_file(source, query.score, query.relation))

            return answer_file(body, "scores", query.format, answer)

        return await in_turn(request, threads, work)


def _answer_triples(app: FastAPI, served: Served) -> None:
    """Add the addresses at which triples, queries and names are answered."""
    few, many = CapacityLimiter(MOST_THREADS), CapacityLimiter(MOST_THREADS)
    small = Together(few, predicted_together)

    @app.post("/predict", openapi_extra=_body_schema(PredictRequest, "triples"))
    async def predict(query: Annotated[NoQuery, Query()], request: Request) -> Response:
        """Give each triple a score, a probability with an interval, and a decision.

        `about` says what the probabilities are about. 50 unknown triples or more are first compared with calibration
        triples, which takes seconds; with a completeness, a first answer takes up to minutes.
        """
        now, body = served.current, await request.body()
        if len(body) <= AT_ONCE:
            asked = read_body(body, PredictRequest)
            if len(asked.triples) < FEWEST_ROWS and not asked.completeness:
                return await small.answer(request, (now, asked))
        return await in_turn(request, many, lambda turn: predicted(now, read_body(body, PredictRequest)))

    @app.get("/answers")
    async def answers(query: Annotated[AnswersQuery, Query()], request: Request) -> Response:
        """Rank all answers to (subject, predicate, ?) or (?, predicate, object); known facts are marked.

        With a completeness or a base rate, the probabilities are about the missing facts of the predicate; the first
        answer takes seconds to minutes. `about` says what they are about, and in which order the answers stand.
        """
        now = served.current
        return await in_turn(request, many, lambda turn: ranked(now, query))

    @app.get("/explain")
    async def explain(query: Annotated[ExplainQuery, Query()], request: Request) -> dict[str, Any]:
        """Explain the probability of a triple: `sentences` in words, and the numbers behind them.

        With a completeness, or with `missing`, the probability is that of `answers`, about the missing facts.
        """
        now, asked = served.current, (query.predicate, query.base_rate, query.completeness, query.missing)

        def work(turn: Turn) -> dict[str, Any]:
            return now.explainer(*asked).about(query.subject, query.predicate, query.object).to_json()

        return await in_turn(request, many, work)

    @app.get("/names")
    async def names(query: Annotated[NamesQuery, Query()], request: Request) -> dict[str, list[str]]:
        """Complete the name of an entity or a predicate."""
        known = served.current.names[query.kind]
        return {"names": await in_turn(request, few, lambda turn: known.matching(query.text, query.limit))}

    @app.post("/file")
    async def file(query: Annotated[FileQuery, Query()], request: Request) -> Response:
        """Answer the candidates of a file, which is the body of the request, with a file of the same format.

        The header `about` says what the probabilities are about.
        """
        now, body = served.current, await _file_of(request)
        return await in_turn(request, many, lambda turn: _answer_file(now, query, body, turn))


async def _file_of(request: Request) -> bytes:
    """Return the body, which is a file. Raises HTTPException, with status 415, for what curl makes of one in a form.

    `curl -d @FILE` and `curl --data-binary @FILE` have the same content type, but the first one drops line breaks.
    """
    kind, body = request.headers.get("content-type", ""), await request.body()
    joined = (
        kind.startswith("application/x-www-form-urlencoded") and b"\n" not in body and body.count(b"\t") > MOST_TABS
    )
    if joined or kind.startswith("multipart/form-data"):
        raise HTTPException(415, "the body is a form, or has no line breaks: send it with `curl --data-binary @FILE`")
    return body


def _body_schema(kind: type[BaseModel], rows: str) -> dict[str, Any]:
    """Return the OpenAPI description of the body of a request to /predict, whose field `rows` is a list of objects."""
    schema = kind.model_json_schema()
    schema["properties"] = {rows: schema["properties"].pop(rows)} | schema["properties"]
    [schema["properties"][rows]["items"]] = schema.pop("$defs").values()
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _answer_file(now: Answerer, query: FileQuery, body: bytes, turn: Turn) -> Response:
    answers = query.under(now.answers)
    about: list[str] = []

    def answer(source: Path) -> Iterator[pa.Table]:
        named = [turn.count(block.names).select(COLUMNS) for block in read_candidates(source)]
        if not sum(map(len, named)):
            raise InputError(f"{source} has no rows: it must have at least one triple")
        found = now.file_answer(answers, pa.concat_tables(named), query.base_rate, query.completeness)
        about.append(as_sentence(found.about))
        for block in read_candidates(source):
            for part in turn.parts(block.names):
                yield found.table(answers, part)

    response = answer_file(body, "candidates", query.format, answer)
    response.headers["about"] = about[0]
    return response


def new_app(description: str, page: str, hosts: Collection[str]) -> FastAPI:
    """Return an application with a page for people at `/`, and the page of its API at `/docs`.

    description  a sentence about the answers
    page         name of the HTML file of the page's body, in this folder; frame.html has what pages share
    hosts        as in `serve`
    """

    async def to_this_host(request: Request) -> None:
        if not _is_trusted(request.headers.get("host", ""), hosts):
            raise HTTPException(421, f"{request.headers.get('host')} is not this server: name it with --trusted-host")

    checks = [Depends(to_this_host), Depends(_once)]
    app = FastAPI(title="kgcal", description=description, docs_url=None, redoc_url=None, dependencies=checks)
    app.add_middleware(LimitedBodies)
    _add_errors(app)

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def home() -> str:
        frame, body = ((HERE / name).read_text(encoding="utf-8") for name in ("frame.html", page))
        return frame.replace("MOST_BYTES", str(MOST_BYTES)).replace("PAGE", body)

    @app.get("/docs", response_class=HTMLResponse, include_in_schema=False)
    def docs() -> str:
        return (HERE / "docs.html").read_text(encoding="utf-8")

    return app


def answer_file(body: bytes, name: str, ending: str, answer: Callable[[Path], Iterator[pa.Table]]) -> Response:
    """Answer a file with a file of the same format. No file stays behind.

    body    the file
    name    its name in messages, without the ending
    ending  tsv, csv or parquet
    answer  function that reads a path, and yields the answers

    Raises HTTPException, with status 422, if `answer` raises KgcalError.
    """
    with temporary_folder() as folder:
        source, target = folder / f"{name}.{ending}", folder / f"answers.{ending}"
        try:
            source.write_bytes(body)
            with sink(target) as write:
                for table in answer(source):
                    write(table)
        except KgcalError as error:
            raise HTTPException(422, str(error).replace(f"{folder}/", "")) from error
        size, file = target.stat().st_size, target.open("rb")  # the file can be read without its folder
    headers = {"content-length": str(size), "content-disposition": f'attachment; filename="{target.name}"'}
    return StreamingResponse(iter(partial(file.read, PART), b""), headers=headers, media_type=MEDIA[ending])


def _is_trusted(host: str, hosts: Collection[str]) -> bool:
    """Return whether a request may have this header. A name is unsafe: any web page can give one to 127.0.0.1."""
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    try:
        return bool(ip_address(name))
    except ValueError:
        return name.lower() in hosts or "*" in hosts


def _add_errors(app: FastAPI) -> None:
    """Answer every error with {"error": one sentence}."""
    handlers: dict[type[Exception], Callable[[Request, Any], tuple[int, str]]] = {
        RequestValidationError: lambda request, error: sentence(error),
        StarletteError: _of_status,
        KgcalError: lambda request, error: (422, str(error)),
        ClientDisconnect: _of_left,
        Exception: lambda request, error: (500, "the server failed: its log says why"),
    }
    for kind, make in handlers.items():

        async def handle(
            request: Request, error: Exception, make: Callable[[Request, Any], tuple[int, str]] = make
        ) -> Response:
            status, text = make(request, error)
            return JSONResponse({"error": text}, status)

        app.add_exception_handler(kind, handle)


async def _once(request: Request) -> None:
    """Raise HTTPException if a parameter of the address is given twice."""
    names = [name for name, _ in request.query_params.multi_items()]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise HTTPException(422, f"{', '.join(twice)} is given twice: give each parameter once")


def _of_status(request: Request, error: StarletteError) -> tuple[int, str]:
    if error.status_code in UNANSWERED:
        text = UNANSWERED[error.status_code].format(path=request.url.path, method=request.method)
        return error.status_code, f"{text}: /docs lists the addresses"
    return error.status_code, str(error.detail)


def _of_left(request: Request, error: ClientDisconnect) -> tuple[int, str]:
    log.info("a client left before the answer of %s", request.url.path)
    return 499, "the client left"


def serve(ask: Ask, host: str, port: int, completeness: str = "", trusted: Collection[str] = ()) -> None:
    """Serve a calibrated model, or a calibrator of scores, until Ctrl-C.

    completeness  of the graph, for the requests that state none: see `Stated`; '': that of the model's run, if any
    trusted       names of the server that requests may use, beside localhost, `host` and IP addresses; *: any name

    Each request computes with one thread, because the server answers many requests at the same time. Raises InputError
    as `served_by` does, and if no server can be at this host and port.
    """
    if not host:
        raise InputError("--host is empty: name an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all")
    if port_is_taken(port):
        raise InputError(f"port {port} of 127.0.0.1 is in use: choose another port with --port")
    door = _door(host, port)
    torch.set_num_threads(1)
    sys.setswitchinterval(0.001)  # a thread that answers in a millisecond waits for so long for each that works
    served = served_by(ask, completeness)
    os.environ["KGCAL_OUTAGE_SECONDS"] = "0"  # the server asks the store again every few seconds
    served.start()
    if host != LOCAL:
        log.warning("everyone who can reach %s can ask: the server has no passwords", host)
    print(f"serving {served.located.uri} on http://{host}:{port}  (Ctrl-C ends it)", flush=True)
    app = create_app(served, {"localhost", host, *(name.lower() for name in trusted)})
    status = 0
    try:
        config = uvicorn.Config(app, http=Connection, log_level="warning", timeout_graceful_shutdown=GRACE)
        uvicorn.Server(config).run(sockets=[door])
    except KeyboardInterrupt:
        pass
    except SystemExit as reason:  # of SIGTERM
        status = int(reason.code or 0)
    os._exit(status)  # Python would wait for the threads that work on large requests


def _door(host: str, port: int) -> socket.socket:
    """Return the socket of the server, which refuses connections until the model is loaded."""
    door = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        door.bind((host, port))
    except (OSError, UnicodeError) as error:
        door.close()
        raise InputError(f"no server can be at {host}, port {port}: {first_line(error)}") from error
    return door


def served_by(ask: Ask, completeness: str = "") -> Served | ServedScores:
    """Load the model that is to be served: that of a data set, or the calibrator of a scorer.

    Raises InputError if both a data set and a scorer are named, or if there is no such model.
    """
    if ask.dataset and ask.scorer:
        raise InputError(
            f"--dataset {ask.dataset} and --scorer {ask.scorer} are given: a server has one model, give one"
        )
    return ServedScores(ask) if is_of_scores(ask) else Served(ask, Stated(completeness))
