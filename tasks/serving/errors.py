"""The answers to invalid requests: {"error": one sentence}."""

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException as StarletteError

from kgcore.errors import KgcalError
from tasks.serving.requests import sentence

UNANSWERED = {404: "there is no address {path}", 405: "{path} does not answer {method}"}


def add_errors(app: FastAPI) -> None:
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


async def once(request: Request) -> None:
    """Raise HTTPException if a parameter of the address is given twice."""
    names = [name for name, _ in request.query_params.multi_items()]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise HTTPException(422, f"{', '.join(twice)} is given twice: give each parameter once")


def _of_status(request: Request, error: StarletteError) -> tuple[int, str]:
    if error.status_code in UNANSWERED:
        found = UNANSWERED[error.status_code].format(path=request.url.path, method=request.method)
        return error.status_code, f"{found}: /docs lists the addresses"
    return error.status_code, str(error.detail)
