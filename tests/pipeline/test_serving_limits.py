"""What a request to the server may take, and from which hosts it may come."""

import asyncio
import json
import logging
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pandas as pd
import pytest
import uvicorn
from anyio import CapacityLimiter
from fastapi import HTTPException
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import ClientDisconnect, Request
from uvicorn.server import ServerState

from tasks.jobs.find_model import Ask
from tasks.serving import api, limits
from tasks.serving.api import create_app
from tasks.serving.limits import LimitedBodies, Together, Turn, in_turn
from tasks.serving.model import Served
from tasks.serving.replies import predicted, predicted_together
from tasks.serving.requests import PredictRequest
from tests.conftest import use_home
from tests.core.fuzzed import CELLS, FUZZ, damaged, graph_file, objects, tables
from tests.pipeline.finished import finished

COLUMNS = ("subject", "predicate", "object")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        kgcal, _ = finished(tmp_path_factory.mktemp("serving"))
        use_home(kgcal.home, patch)
        yield Served(Ask(dataset="family"))


@pytest.fixture
def client(served: Served) -> TestClient:
    return TestClient(create_app(served), raise_server_exceptions=False)


def csv_of(rows: int, columns: int = 3) -> bytes:
    names = [*COLUMNS, *(f"c{number}" for number in range(columns - 3))]
    frame = pd.DataFrame([["person_1", "cousin_of", "person_2", *["x"] * (columns - 3)]] * rows, columns=names)
    return frame.to_csv(index=False).encode()


@pytest.mark.parametrize(
    ("limit", "value", "status", "message"),
    [
        ("MOST_FILE_ROWS", 40, 413, "the file has over 40 rows: divide it into several requests"),
        ("MOST_COLUMNS", 4, 413, "the file has over 4 columns: divide it into several requests"),
        ("MOST_TEXT", 500, 413, "the file has over 500 bytes of text: divide it into several requests"),
        ("MOST_SECONDS", 0.0, 503, "the answer took over 0 s: divide the file, or try again later"),
        ("MOST_HELD", 100, 503, "the server holds too many large requests: try again later"),
    ],
)
def test_a_file_beyond_a_limit_is_refused_in_one_sentence(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, limit: str, value: float, status: int, message: str
) -> None:
    assert client.post("/file", params={"format": "csv"}, content=csv_of(41, 5)).status_code == 200
    monkeypatch.setattr(limits, limit, value)
    done = client.post("/file", params={"format": "csv"}, content=csv_of(41, 5))
    assert (done.status_code, done.json()) == (status, {"error": message})


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "jsonl", "nt"])
def test_any_bytes_in_a_file_are_answered_or_refused_in_one_sentence(client: TestClient, ending: str) -> None:
    kinds = st.one_of(damaged(graph_file(f".{ending}")), tables(), objects(), st.binary(max_size=60))

    @FUZZ
    @given(kinds)
    def answers(data: bytes) -> None:
        done = client.post("/file", params={"format": ending}, content=data)
        assert done.status_code == 200 or (done.status_code < 500 and "\n" not in done.json()["error"]), data

    answers()


@pytest.mark.parametrize("address", ["/predict", "/answers", "/explain"])
def test_any_body_is_answered_or_refused_in_one_sentence(client: TestClient, address: str) -> None:
    rows = st.dictionaries(st.sampled_from(COLUMNS), CELLS | st.sampled_from(["person_1", "cousin_of"]))
    values = st.recursive(rows | CELLS | st.none() | st.booleans() | st.floats() | st.integers(), st.lists)
    keys = st.sampled_from(["triples", "triple", *COLUMNS, "base_rate", "completeness", "top", "threshold", "model"])
    bodies = st.dictionaries(keys, values, max_size=6).map(json.dumps).map(str.encode)

    @FUZZ
    @given(bodies | objects() | st.binary(max_size=60))
    def answers(data: bytes) -> None:
        done = client.post(address, content=data, headers={"content-type": "application/json"})
        assert done.status_code == 200 or (done.status_code < 500 and "\n" not in done.json()["error"]), data

    answers()


def test_a_file_in_parts_has_the_answers_of_the_whole(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = client.post("/file", params={"format": "csv"}, content=csv_of(41)).content
    monkeypatch.setattr(limits, "ROWS_AT_ONCE", 7)
    assert client.post("/file", params={"format": "csv"}, content=csv_of(41)).content == whole


def test_bodies_that_are_answered_are_no_longer_held(monkeypatch: pytest.MonkeyPatch, client: TestClient) -> None:
    monkeypatch.setattr(limits, "MOST_HELD", 2 * len(csv_of(41)))
    for _ in range(4):
        assert client.post("/file", params={"format": "csv"}, content=csv_of(41)).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *[
            (host, 200)
            for host in ("localhost", "LOCALHOST:8080", "127.0.0.1", "127.0.0.1:8080", "[::1]:8080", "10.0.0.7")
        ],
        *[(host, 200) for host in ("kg.example.com", "kg.example.com:443")],
        *[(host, 421) for host in ("evil.example.com", "evil.example.com:8080", "localhost.evil.com", "", "[x]")],
    ],
)
def test_only_trusted_hosts_are_answered(served: Served, host: str, status: int) -> None:
    client = TestClient(create_app(served, {"localhost", "kg.example.com"}))
    for address in ("/health", "/", "/names?kind=entity"):
        done = client.get(address, headers={"host": host})
        assert done.status_code == status
        assert status == 200 or done.json()["error"].endswith("is not this server: name it with --trusted-host")


def asked(leaves: threading.Event) -> Request:
    """Return a request whose body was read, and whose client leaves at an event."""

    async def receive() -> dict[str, str]:
        while not leaves.is_set():
            await asyncio.sleep(0.001)
        return {"type": "http.disconnect"}

    return Request({"type": "http", "path": "/file"}, receive)


def test_the_work_ends_when_its_client_leaves() -> None:
    begun, ended = threading.Event(), threading.Event()

    def work(turn: Turn) -> None:
        begun.set()
        try:
            while True:
                time.sleep(0.001)
                turn.check()
        finally:
            ended.set()

    async def run() -> None:
        with pytest.raises(ClientDisconnect):
            await in_turn(asked(begun), CapacityLimiter(1), work)

    asyncio.run(run())
    assert ended.wait(5)


def test_work_waits_for_a_thread_and_its_errors_are_raised() -> None:
    seen: list[int] = []

    def work(turn: Turn) -> int:
        seen.append(1)
        time.sleep(0.01)
        assert sum(seen) == 1
        seen.append(-1)
        return 7

    def fails(turn: Turn) -> None:
        raise HTTPException(413, "too large")

    async def run() -> None:
        one = CapacityLimiter(1)
        assert await asyncio.gather(*(in_turn(asked(threading.Event()), one, work) for _ in range(5))) == [7] * 5
        with pytest.raises(HTTPException, match="too large"):
            await in_turn(asked(threading.Event()), one, fails)

    asyncio.run(run())


def test_small_requests_that_wait_are_answered_together_and_fail_alone() -> None:
    calls: list[list[int]] = []

    def work(numbers: list[int]) -> list[int]:
        calls.append(numbers)
        time.sleep(0.01)
        if 13 in numbers:
            raise HTTPException(422, "13 is no number")
        return [number**2 for number in numbers]

    async def run() -> list[int | BaseException]:
        small, gone = Together(CapacityLimiter(1), work), threading.Event()
        first = asyncio.create_task(small.answer(asked(threading.Event()), 2))
        await asyncio.sleep(0.005)  # it is answered now, and the others wait
        others = [small.answer(asked(gone if number == 5 else threading.Event()), number) for number in (3, 13, 4, 5)]
        gone.set()
        return await asyncio.gather(first, *others, return_exceptions=True)

    two, three, fails, four, left = asyncio.run(run())
    assert (two, three, four) == (4, 9, 16)
    assert isinstance(fails, HTTPException)
    assert isinstance(left, ClientDisconnect)
    assert calls == [[2], [3, 13, 4], [3], [13], [4]]


def test_together_requests_get_the_answers_of_each_alone(served: Served) -> None:
    facts, now = served.current.found.model.graph, served.current
    names = facts.names_of(facts.test.triples[:40]).to_dict("records")
    bodies = [
        {"triples": names[start : start + size], **further}
        for start, size, further in ((0, 1, {}), (1, 20, {}), (3, 2, {"base_rate": 0.1}), (5, 7, {"at_least": 0}))
    ]
    bodies += [{"triples": [{"subject": "nobody", "predicate": "cousin_of", "object": "person_1"}]}, bodies[0]]
    questions = [PredictRequest.model_validate(body) for body in bodies]
    together = [json.loads(reply.body) for reply in predicted_together([(now, question) for question in questions])]
    assert together == [json.loads(predicted(now, question).body) for question in questions]
    assert together[4]["answers"][0]["reason"] == "unknown subject"


def test_a_client_that_leaves_during_its_upload_costs_one_line(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[Any] = []

    async def receive() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/predict", "query_string": b"", "headers": [(b"host", b"x")]}
    lines: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        lines.append(record.getMessage())
        return True

    logger = logging.getLogger("kgcal")
    logger.addFilter(keep)  # a filter sees each message once, whichever handlers other tests have added
    try:
        with caplog.at_level(logging.INFO, "kgcal"):
            asyncio.run(create_app(served)(scope, receive, send))
    finally:
        logger.removeFilter(keep)
    assert lines == ["a client left before the answer of /predict"]
    assert sent[0]["status"] == 499


def test_small_requests_are_answered_while_large_ones_are_worked_on(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large requests occupy all threads and do not end. Small requests are answered nevertheless."""
    begun, end = threading.Semaphore(0), threading.Event()

    def busy(*arguments: Any) -> None:
        begun.release()
        end.wait(30)
        raise HTTPException(503, "ended")

    monkeypatch.setattr(api, "_answer_file", busy)
    with TestClient(create_app(served)) as client:  # one event loop for all requests
        large = [
            threading.Thread(target=lambda: client.post("/file", params={"format": "csv"}, content=csv_of(3)))
            for _ in range(50)
        ]
        for request in large:
            request.start()
        for _ in range(api.MOST_THREADS):
            begun.acquire(timeout=20)
        rows = [dict(zip(COLUMNS, ("person_1", "cousin_of", "person_2"), strict=True))]
        try:
            assert client.get("/names", params={"kind": "entity"}).status_code == 200
            assert client.post("/predict", json={"triples": rows}).status_code == 200
            assert client.get("/health").status_code == 200
        finally:
            end.set()
            for request in large:
                request.join()


def test_health_is_answered_before_the_requests_that_came_first(served: Served) -> None:
    """300 requests come before /health. At most a few of them are answered before it."""
    app, order = create_app(served), list[str]()

    async def ask(path: str, query: bytes) -> None:
        messages = iter([{"type": "http.request", "body": b""}])

        async def receive() -> Any:
            return next(messages, None) or await asyncio.Event().wait()

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                assert message["status"] == 200
                order.append(path)

        headers = [(b"host", b"localhost")]
        await app(
            {"type": "http", "method": "GET", "path": path, "query_string": query, "headers": headers}, receive, send
        )

    async def run() -> None:
        await asyncio.gather(*(ask("/names", b"kind=entity") for _ in range(300)), ask("/health", b""))

    asyncio.run(run())
    assert len(order) == 301
    assert order.index("/health") < 10


def test_small_requests_are_answered_when_large_bodies_take_all_the_memory(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    [bodies] = [kind for kind in client.app.user_middleware if kind.cls is LimitedBodies]  # type: ignore[attr-defined]
    held = limits.MOST_HELD + 1

    class Full(LimitedBodies):
        def __init__(self, app: Any) -> None:
            super().__init__(app)
            self._held = held

    monkeypatch.setattr(bodies, "cls", Full)
    rows = {"triples": [dict(zip(COLUMNS, ("person_1", "cousin_of", "person_2"), strict=True))]}
    assert client.post("/predict", json=rows).status_code == 200
    assert client.get("/answers", params={"subject": "person_1", "predicate": "cousin_of"}).status_code == 200
    assert client.post("/file", params={"format": "csv"}, content=csv_of(10_000)).status_code == 503


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux ends such connections")
def test_a_client_that_never_reads_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UNREAD", 0.2)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * 2**25})

    async def ask(address: Any, state: ServerState) -> None:
        with socket.create_connection(address) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            while not state.total_requests:
                await asyncio.sleep(0.01)
            while state.connections:  # without an end, if nobody leaves the client
                await asyncio.sleep(0.01)

    with_server(app, ask)


def test_a_header_without_an_end_ends_its_connection() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        pytest.fail("the header is not whole")

    async def ask(address: Any, state: ServerState) -> None:
        _, writer = await asyncio.open_connection(*address)
        writer.write(b"GET / HTTP/1.1\r\nX: ")
        with suppress(ConnectionError):
            while True:  # without an end, if the server takes everything
                writer.write(b"x" * 2**16)
                await writer.drain()

    with_server(app, ask)


def with_server(app: Any, ask: Callable[[Any, ServerState], Awaitable[None]]) -> None:
    """Serve an application by connections like those of `kgcal serve`, until `ask` returns, at most a minute."""

    async def run() -> None:
        config, state = uvicorn.Config(app, log_level="warning"), ServerState()
        config.load()
        made = lambda: limits.Connection(config=config, server_state=state, app_state={})  # noqa: E731
        async with await asyncio.get_running_loop().create_server(made, "127.0.0.1", 0) as server:
            await ask(server.sockets[0].getsockname(), state)

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_body_beyond_the_limit_of_all_bodies_frees_what_it_held() -> None:
    bodies = LimitedBodies(lambda scope, receive, send: receive())  # type: ignore[arg-type, return-value]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"x" * (limits.MOST_BYTES + 1)}

    async def run() -> None:
        with pytest.raises(HTTPException, match="the body has more than 64 MiB"):
            await bodies({"type": "http"}, receive, receive)  # type: ignore[arg-type]

    asyncio.run(run())
    assert bodies._held == 0
