"""The limit on the size of a request's body."""

from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 2**26  # of a body: 64 MiB


class LimitedBody:
    """Middleware that stops reading a body beyond the limit. The request is answered with status 413."""

    def __init__(self, app: ASGIApp, most_bytes: int = MOST_BYTES) -> None:
        self._app, self._most = app, most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count the bytes of its body."""
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._most:
                size = f"{self._most / 2**20:g} MiB"
                raise HTTPException(413, f"the body has more than {size}: divide it into several requests")
            return message

        await self._app(scope, counted, send)
