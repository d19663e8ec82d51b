"""What the servers have in common: pages, errors, limits, and files that are answered with files."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException as StarletteError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kgcore.errors import KgcalError
from kgcore.prediction.sink import sink
from tasks.serving.requests import sentence

HERE = Path(__file__).parent
MOST_BYTES = 2**26  # of a body: 64 MiB
UNANSWERED = {404: "there is no address {path}", 405: "{path} does not answer {method}"}


def new_app(description: str, page: str) -> FastAPI:
    """Return an application with a page for people at `/`, and the page of its API at `/docs`.

    description  a sentence about the answers
    page         name of the HTML file of the page's body, in this folder; frame.html has what pages share
    """
    app = FastAPI(title="kgcal", description=description, docs_url=None, redoc_url=None, dependencies=[Depends(_once)])
    app.add_middleware(LimitedBody)
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
    folder = Path(tempfile.mkdtemp(prefix="kgcal-"))
    source, target = folder / f"{name}.{ending}", folder / f"answers.{ending}"
    try:
        source.write_bytes(body)
        with sink(target) as write:
            for table in answer(source):
                write(table)
    except KgcalError as error:
        shutil.rmtree(folder)
        raise HTTPException(422, str(error).replace(f"{folder}/", "")) from error
    except BaseException:
        shutil.rmtree(folder)
        raise
    return FileResponse(target, filename=target.name, background=BackgroundTask(shutil.rmtree, folder))


class LimitedBody:
    """Middleware that stops reading a body beyond the limit. The request is answered with status 413."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count the bytes of its body."""
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > MOST_BYTES:
                size = f"{MOST_BYTES / 2**20:g} MiB"
                raise HTTPException(413, f"the body has more than {size}: divide it into several requests")
            return message

        await self._app(scope, counted, send)


def _add_errors(app: FastAPI) -> None:
    """Answer every error with {"error": one sentence}."""
    handlers: dict[type[Exception], Callable[[Request, Any], tuple[int, str]]] = {
        RequestValidationError: lambda request, error: sentence(error),
        StarletteError: _of_status,
        KgcalError: lambda request, error: (422, str(error)),
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
