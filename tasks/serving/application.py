"""What the servers have in common: pages, errors, limits, and files that are answered with files."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import FileResponse, HTMLResponse, Response
from starlette.background import BackgroundTask

from kgcore.errors import KgcalError
from kgcore.prediction.sink import sink
from tasks.serving.errors import add_errors, once
from tasks.serving.limits import MOST_BYTES, LimitedBody

HERE = Path(__file__).parent


def new_app(description: str, page: str) -> FastAPI:
    """Return an application with a page for people at `/`, and the page of its API at `/docs`.

    description  a sentence about the answers
    page         name of the HTML file of the page's body, in this folder; frame.html has what pages share
    """
    app = FastAPI(title="kgcal", description=description, docs_url=None, redoc_url=None, dependencies=[Depends(once)])
    app.add_middleware(LimitedBody)
    add_errors(app)

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

    def remove() -> None:
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()

    source, target = folder / f"{name}.{ending}", folder / f"answers.{ending}"
    try:
        source.write_bytes(body)
        with sink(target) as write:
            for table in answer(source):
                write(table)
    except KgcalError as error:
        remove()
        raise HTTPException(422, str(error).replace(f"{folder}/", "")) from error
    except BaseException:
        remove()
        raise
    return FileResponse(target, filename=target.name, background=BackgroundTask(remove))
