"""What a request may take: bytes, rows, columns, text, time and threads. It ends when its client leaves."""

import asyncio
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from threading import Event
from typing import Any, ClassVar, Generic, TypeVar
from weakref import WeakKeyDictionary

import pyarrow as pa
from anyio import CapacityLimiter, to_thread
from fastapi import HTTPException, Request
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

MOST_BYTES, MOST_HELD = 2**26, 2**28  # of a body, and of all bodies that are in memory: 64 and 256 MiB
SMALL = 2**-12  # of MOST_HELD: a body below this, 64 KiB, is never refused for the bodies of others
MOST_FILE_ROWS, MOST_COLUMNS, MOST_TEXT = 1_000_000, 100, 2**27  # of a file; text in bytes
MOST_SECONDS = 300.0  # of the work on a request, and of its wait for a thread
HEALTH = "/health"  # its answer takes a tenth of a millisecond
UNREAD = 30.0  # seconds after which a client that takes nothing of its answer is left
AHEAD = 2**17  # more than a request's head may have
SLICE = 2**12  # bytes of a body in chunks that are looked at in a round of the event loop: milliseconds
ENCODINGS = {b"gzip", b"x-gzip", b"deflate", b"br", b"zstd", b"compress", b"x-compress"}  # of bodies that are not read
ENDS = "the server ends: ask again when it is back"
ROWS_AT_ONCE = 10_000  # rows after which the time is checked
MOST_TOGETHER = 100  # small requests that are answered together
Q = TypeVar("Q")
T = TypeVar("T")


class Turn:
    """The work on a request. Its methods raise HTTPException beyond a limit, and ClientDisconnect after `left`."""

    def __init__(self) -> None:
        self.left, self._ends, self._rows, self._text = Event(), time.monotonic() + MOST_SECONDS, 0, 0

    def check(self) -> None:
        """Check the time, and that somebody waits for the answer."""
        if self.left.is_set():
            raise ClientDisconnect
        if time.monotonic() > self._ends:
            raise HTTPException(503, f"the answer took over {MOST_SECONDS:g} s: divide the file, or try again later")

    def count(self, table: pa.Table) -> pa.Table:
        """Return a block of a file, and count its rows, its columns and its text."""
        self.check()
        self._rows, self._text = self._rows + len(table), self._text + table.nbytes
        counts = {"rows": (self._rows, MOST_FILE_ROWS), "columns": (table.num_columns, MOST_COLUMNS)}
        for what, (count, most) in (counts | {"bytes of text": (self._text, MOST_TEXT)}).items():
            if count > most:
                raise HTTPException(413, f"the file has over {most:,} {what}: divide it into several requests")
        return table

    def parts(self, table: pa.Table) -> Iterator[pa.Table]:
        """Yield ROWS_AT_ONCE rows of a block at a time."""
        for start in range(0, len(table), ROWS_AT_ONCE):
            self.check()
            yield table.slice(start, ROWS_AT_ONCE)


async def in_turn(request: Request, threads: CapacityLimiter, work: Callable[[Turn], T]) -> T:
    """Work on a request in one of some threads, when one is free. The work ends when the client leaves.

    Raises what the work raises, and ClientDisconnect if the client leaves. The event loop stays free.
    """
    turn = Turn()
    working = asyncio.ensure_future(to_thread.run_sync(work, turn, limiter=threads, abandon_on_cancel=True))
    try:
        return await _unless_left(request, working)
    finally:
        turn.left.set()


class Together(Generic[Q, T]):
    """Answers small requests that wait at the same time in one call: most of what a call costs is not for a row.

    threads  as in `in_turn`
    work     function that returns the answers to some questions, in their order. If it fails for several, it is called
             for each of them
    """

    def __init__(self, threads: CapacityLimiter, work: Callable[[Sequence[Q]], Sequence[T]]) -> None:
        self._threads, self._work = threads, work
        self._waiting = list[tuple[Q, asyncio.Future[T]]]()
        self._worker: asyncio.Task[None] | None = None

    async def answer(self, request: Request, question: Q) -> T:
        """Answer the question of a request, with the others that wait. Raises as `in_turn` does."""
        answered = asyncio.get_running_loop().create_future()
        self._waiting.append((question, answered))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._answer_all())
        return await _unless_left(request, answered)

    async def _answer_all(self) -> None:
        """Answer until nobody waits."""
        while self._waiting:
            some = [pair for pair in self._waiting[:MOST_TOGETHER] if not pair[1].done()]
            del self._waiting[:MOST_TOGETHER]
            for (_, answered), answer in zip(some, await self._answers([pair[0] for pair in some]), strict=True):
                if answered.done():  # its client has left
                    continue
                if isinstance(answer, Exception):
                    answered.set_exception(answer)
                else:
                    answered.set_result(answer)

    async def _answers(self, questions: Sequence[Q]) -> Sequence[T | Exception]:
        """Return the answers, or what they raise: one by one if a question among them fails."""
        try:
            return await to_thread.run_sync(self._work, questions, limiter=self._threads)
        except Exception as error:
            if len(questions) == 1:
                return [error]
            return [answer for question in questions for answer in await self._answers([question])]


async def _unless_left(request: Request, working: asyncio.Future[T]) -> T:
    """Wait for work. It ends when the client leaves: then, raise ClientDisconnect."""
    leaving = asyncio.ensure_future(_left(request))
    either: list[asyncio.Future[Any]] = [working, leaving]
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    except asyncio.CancelledError:
        raise HTTPException(503, ENDS) from None
    finally:
        working.cancel()
        leaving.cancel()


async def _left(request: Request) -> None:
    """Wait until the client leaves. Its body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


class LimitedBodies:
    """Middleware that stops reading a body beyond MOST_BYTES, status 413, and large ones beyond MOST_HELD, 503.

    One request at a time begins, or reads a part of its body. A request for HEALTH does not wait for others.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._held, self._door = app, 0, asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count the bytes of its body until it is answered."""
        seen, reads = 0, scope.get("method") != "GET"
        headers = {name: value.lower() for name, value in scope.get("headers", ())}
        if {b"content-length", b"transfer-encoding"} <= headers.keys():  # a proxy may have read the other one
            return await _refused(400, "send either a Content-Length or a Transfer-Encoding", scope, receive, send)
        if headers.get(b"content-encoding") in ENCODINGS:
            return await _refused(415, "the body has a Content-Encoding: send it as it is", scope, receive, send)

        async def counted() -> Message:
            nonlocal seen, reads
            if not reads:
                return await receive()
            await self._enter(scope)
            try:
                message = await receive()
            except asyncio.CancelledError:
                raise HTTPException(503, ENDS) from None
            reads = message.get("more_body", False)
            seen, self._held = seen + len(message.get("body", b"")), self._held + len(message.get("body", b""))
            if seen > MOST_BYTES:
                size = f"{MOST_BYTES / 2**20:g} MiB"
                raise HTTPException(413, f"the body has more than {size}: divide it into several requests")
            if self._held > MOST_HELD and seen > MOST_HELD * SMALL:
                raise HTTPException(503, "the server holds too many large requests: try again later")
            return message

        try:
            await self._enter(scope)
        except HTTPException as error:
            return await _refused(error.status_code, error.detail, scope, receive, send)
        try:
            await self._app(scope, counted, send)
        finally:
            self._held -= seen

    async def _enter(self, scope: Scope) -> None:
        """Wait until no other request goes on in this round of the event loop, so that rounds stay short."""
        if scope.get("path") != HEALTH:
            try:
                async with self._door:
                    await asyncio.sleep(0)
            except asyncio.CancelledError:
                raise HTTPException(503, ENDS) from None


async def _refused(status: int, sentence: str, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request whose body is not read, and end its connection."""
    await JSONResponse({"error": sentence}, status, {"connection": "close"})(scope, receive, send)


class Connection(H11Protocol):
    """A connection of uvicorn that ends when its client takes nothing of an answer for UNREAD seconds.

    Linux ends it. Elsewhere such a connection, and the answer, stay until the client leaves. Of the requests that a
    client sends before it has its answers, about AHEAD bytes are read. A connection also ends when its client sends
    nothing more of a request that it has begun, or nothing of its first one, for UNREAD seconds.

    A chunk of one byte takes as long to read as a thousand bytes. So one connection at a time takes SLICE bytes in a
    round of the event loop, unless its request has a length.
    """

    _slicing: ClassVar["WeakKeyDictionary[asyncio.AbstractEventLoop, deque[Connection]]"] = WeakKeyDictionary()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Set the time on the socket of a new connection."""
        super().connection_made(transport)
        self._unseen = bytearray()
        self.flow = Flow(transport, lambda: len(self.conn.trailing_data[0]) + len(self._unseen))
        self._heard = self.loop.time()
        self._later = self.loop.call_later(UNREAD, self._end_if_silent)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            connection = transport.get_extra_info("socket")
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNREAD * 1000))

    def connection_lost(self, exc: Exception | None) -> None:
        """Look at the connection no more: what waits for it would keep what was read of it."""
        self._later.cancel()
        self._unseen.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes of the client, or keep them for later rounds of the event loop."""
        self._heard = self.loop.time()
        if self._unseen or (len(data) > SLICE and not self._has_length()):
            self._unseen += data
            self.flow.pause_reading()
            waiting = self._slicing.setdefault(self.loop, deque())
            if self not in waiting:
                waiting.append(self)
                if len(waiting) == 1:  # otherwise another one is due
                    self.loop.call_soon(self._take_slices)
        else:
            super().data_received(data)

    def _has_length(self) -> bool:
        """Return whether the bytes that come now are of a body whose length is known."""
        asked: RequestResponseCycle | None = self.cycle
        names = [name for name, _ in self.headers or ()]
        return asked is not None and asked.more_body and b"transfer-encoding" not in names

    def _take_slices(self) -> None:
        """Take a slice of the connection that waits longest, and go on in the next round."""
        waiting = self._slicing[self.loop]
        first = waiting.popleft()
        data = bytes(first._unseen if first._has_length() else first._unseen[:SLICE])
        del first._unseen[: len(data)]
        try:
            if data and not first.transport.is_closing():  # no bytes would be the end of the connection
                H11Protocol.data_received(first, data)
        except Exception:  # asyncio ends a connection whose bytes fail, such as a broken chunk after the answer
            first._unseen.clear()
            first.transport.abort()
        asked: RequestResponseCycle | None = first.cycle
        if first.transport.is_closing():
            first._unseen.clear()
        elif first._unseen:
            waiting.append(first)
        elif asked is None or len(asked.body) <= HIGH_WATER_LIMIT:
            first.flow.resume_reading()
        if waiting:
            self.loop.call_soon(self._take_slices)

    def _end_if_silent(self) -> None:
        """End the connection if its client owes the rest of a request, and look again later otherwise."""
        asked: RequestResponseCycle | None = self.cycle
        if self._unseen:
            owes = False
        elif asked is None:
            owes = True
        elif asked.response_complete:  # uvicorn ends a kept connection, unless a next request has begun
            owes = self.conn.trailing_data[0] != b"" and not self.transport.get_write_buffer_size()
        else:
            owes = asked.more_body and not self.flow.read_paused
        silent = self.loop.time() - self._heard if owes else 0.0
        if silent >= UNREAD:
            self.transport.abort()
        else:
            self._later = self.loop.call_later(max(UNREAD - silent, 1.0), self._end_if_silent)


class Flow(FlowControl):
    """Reads on when requests are answered, unless many more wait: uvicorn would read 256 kB for each answer.

    waiting  function that returns the bytes that were read and are not looked at
    """

    def __init__(self, transport: asyncio.Transport, waiting: Callable[[], int]) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        """Read on."""
        if self.read_paused and self._waiting() <= AHEAD:
            super().resume_reading()
