"""Connections of the server whose clients send much, or nothing, and bodies that would make many errors."""

import gc
import json
import socket
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn
from fastapi.exceptions import RequestValidationError
from fastapi.testclient import TestClient

from kgcore.errors import InputError
from tasks.jobs.find_model import Ask
from tasks.serving import api, limits, requests
from tasks.serving.limits import AHEAD, SLICE, Connection, LimitedBodies

REQUEST = b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n"
LARGE = b"x" * 16_000_000
ANSWER = b"HTTP/1.1 204 No Content\r\n"


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """Read the body, and answer nothing, or much."""
    while (await receive()).get("more_body"):
        pass
    is_large = scope["path"] == "/large"
    await send({"type": "http.response.start", "status": 200 if is_large else 204, "headers": []})
    await send({"type": "http.response.body", "body": LARGE if is_large else b""})


@contextmanager
def connected(kind: type[Connection] = Connection) -> Iterator[socket.socket]:
    """Yield a connection to a server of `answer`."""
    config = uvicorn.Config(answer, http=kind, lifespan="off", log_level="error")
    server, door = uvicorn.Server(config), socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [door]})
    thread.start()
    try:
        with socket.create_connection(door.getsockname(), timeout=20) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(timeout=20)


@pytest.mark.long
def test_requests_that_wait_are_read_only_so_far_and_all_are_answered() -> None:
    waiting = [0]

    class Seen(Connection):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            waiting[0] = max(waiting[0], len(self.conn.trailing_data[0]) + len(self._unseen))

    count = 60_000  # 2 MB of requests
    with connected(Seen) as client:
        sender = threading.Thread(target=lambda: client.sendall(REQUEST * count))
        sender.start()
        text, answers = b"", 0
        while answers < count:
            text = text[-len(ANSWER) + 1 :] + client.recv(2**20)
            answers += text.count(ANSWER)
            text = text.rpartition(ANSWER)[2]
        sender.join()
    assert AHEAD < waiting[0] < AHEAD + 2**19  # some 256 kB are read at a time


def test_chunks_of_one_byte_are_read_in_turns() -> None:
    """Each takes as long as a thousand bytes: without turns, another connection waits until all are read."""
    most = [0]

    class Seen(Connection):
        def handle_events(self) -> None:
            asked: Any = self.cycle
            before = len(asked.body) if asked else 0
            super().handle_events()
            if b"transfer-encoding" in dict(self.headers):
                most[0] = max(most[0], len(self.cycle.body) - before)

    with connected(Seen) as client:
        client.sendall(b"POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        client.sendall(b"1\r\n \r\n" * 50_000 + b"0\r\n\r\n" + REQUEST)
        text = b""
        while text.count(ANSWER) < 2:
            text += client.recv(2**20)
        client.sendall(b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n" + b" " * 1_000_000)
        while text.count(ANSWER) < 3:
            text += client.recv(2**20)
    assert SLICE // 10 < most[0] < SLICE


@pytest.mark.parametrize(
    ("header", "value", "status", "sentence"),
    [
        ("transfer-encoding", "chunked", 400, "send either a Content-Length or a Transfer-Encoding"),
        ("content-encoding", "gzip", 415, "the body has a Content-Encoding: send it as it is"),
    ],
)
def test_a_body_that_others_may_read_otherwise_is_refused(header: str, value: str, status: int, sentence: str) -> None:
    done = TestClient(LimitedBodies(answer)).post("/predict", content=b"{}", headers={header: value})
    assert (done.status_code, done.json()) == (status, {"error": sentence})
    assert done.headers["connection"] == "close"


def test_chunks_that_are_broken_after_the_answer_stop_nobody() -> None:
    """h11 refuses them, and uvicorn cannot answer once more: two such connections stopped the turns of all others."""
    config = uvicorn.Config(refuse, http=Connection, lifespan="off", log_level="critical")
    server, door = uvicorn.Server(config), socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [door]})
    thread.start()
    try:
        begun = b"POST /x HTTP/1.1\r\nHost: l\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"
        bad = [socket.create_connection(door.getsockname(), timeout=20) for _ in range(2)]
        for client in bad:
            client.sendall(begun)
            assert client.recv(1000).startswith(ANSWER)
        for client in bad:
            client.sendall(b"ZZZ\r\n" * 1000)
        with socket.create_connection(door.getsockname(), timeout=20) as client:
            client.sendall(b"POST /x HTTP/1.1\r\nHost: l\r\nContent-Length: 20000\r\n\r\n" + b" " * 20_000)
            assert client.recv(1000).startswith(ANSWER)
    finally:
        server.should_exit = True
        thread.join(timeout=20)


async def refuse(scope: Any, receive: Any, send: Any) -> None:
    """Answer without a look at the body."""
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def test_nothing_keeps_a_connection_that_has_ended() -> None:
    """What would look at it after UNREAD seconds would keep 256 kB that were read, and a flood ends thousands."""
    made: weakref.WeakSet[Connection] = weakref.WeakSet()

    class Seen(Connection):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            made.add(self)

    with connected(Seen) as client:
        others = [socket.create_connection(client.getpeername()) for _ in range(20)]
        for other in others:
            other.sendall(REQUEST[:9])
        end = time.monotonic() + 10
        while len(made) < 21 and time.monotonic() < end:
            time.sleep(0.01)
        assert len(made) == 21
        for other in others:
            other.close()
        while len(made) > 1 and time.monotonic() < end:
            time.sleep(0.1)
            gc.collect()
        assert len(made) == 1


@pytest.mark.long
@pytest.mark.parametrize(
    "begun", [b"", b"GET /x HT", b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf", REQUEST + b"GET"]
)
def test_a_client_that_sends_nothing_more_of_its_request_is_left(begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UNREAD", 1.0)
    with connected() as client:
        client.sendall(begun)
        started, text = time.monotonic(), b"-"
        while text:
            try:
                text = client.recv(1000)
            except ConnectionResetError:
                break
        assert 0.5 < time.monotonic() - started < 4  # after 5, uvicorn ends a kept connection


def test_a_client_that_takes_a_large_answer_slowly_gets_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UNREAD", 1.0)
    with connected() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)
        client.sendall(REQUEST.replace(b"/x", b"/large"))
        got = 0
        while got < len(LARGE):
            text = client.recv(2**20)
            assert text
            got += len(text)
            time.sleep(0.1 if got < 2**21 else 0)


def test_a_body_that_comes_slowly_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UNREAD", 1.0)
    with connected() as client:
        client.sendall(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\n")
        for _ in range(6):
            time.sleep(0.4)
            client.sendall(b"x")
        assert client.recv(1000).startswith(ANSWER)


@pytest.mark.parametrize(
    ("kind", "rows"), [(requests.PredictRequest, "triples"), (requests.PredictScoresRequest, "rows")]
)
def test_a_body_has_one_error_however_many_faults(kind: Any, rows: str) -> None:
    keys = {str(number): 1 for number in range(200)}
    for body in ({rows: [keys] * 1000}, {rows: [{}] * 1000}, keys, {rows: [{}], **keys}):
        with pytest.raises(RequestValidationError) as caught:
            requests.read_body(json.dumps(body).encode(), kind)
        assert len(caught.value.errors()) < 5
        assert requests.sentence(caught.value)[0] == 422
    assert requests.sentence(caught.value)[1] == "0 is unknown: leave it out"


@pytest.mark.parametrize(
    ("host", "sentence"),
    [
        ("", "--host is empty: name an address"),
        ("nosuch.invalid", "no server can be at nosuch.invalid, port"),
        ("a..b", r"no server can be at a\.\.b, port"),
    ],
)
def test_a_host_that_is_none_is_refused_before_it_is_said_to_serve(
    host: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match=sentence):
        api.serve(Ask(), host, 0)
    assert "serving" not in capsys.readouterr().out
