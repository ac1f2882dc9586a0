"""Clients that connect and send no whole request, two lengths at once, or read too slowly."""

import asyncio
import logging
import resource
import socket
from contextlib import ExitStack, suppress

import pytest

from pansketch_collector.http.server import access_control
from pansketch_collector.http.server.access_control import ResponseLimits, run_while_connected
from pansketch_collector.http.server.connection_limits import LogRateLimit

HALF = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: "
FLOOD = 2_100
MAX_LINES = 5


@pytest.fixture
def many_files():
    """Each end of a connection is a file of its process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4 * FLOOD, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def half_open(stack, port, head=HALF):
    client = stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))
    client.sendall(head)
    return client


def test_half_open_connections_block_no_request_and_fill_no_log(
    make_site, serve, until, many_files
):
    """New connections of the same address evict the first ones, with a single log line."""
    site = make_site()
    site.fill()
    with serve(site) as server, ExitStack() as stack, server.client() as client:
        lines = server.program.output.count("\n")
        flood = [half_open(stack, site.port) for _ in range(FLOOD)]
        for path in ("/healthz", "/metrics", "/v1/streams"):
            assert client.get(path, headers={"Connection": "close"}).status_code == 200
        with suppress(ConnectionResetError):  # where the server had not read all of it
            assert flood[0].recv(100) == b"", "the first one is cut"
        assert server.program.output.count("\n") - lines <= MAX_LINES, server.program.output
        assert "closing those that send no request" in server.program.output
        assert server.program.stop() == 0


def test_a_slow_request_head_ends_at_its_time_limit(shared):
    """Also the head of a second request on one connection."""
    whole = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with ExitStack() as stack:
        port = int(shared.url.rpartition(":")[2])
        silent, slow = half_open(stack, port, b""), half_open(stack, port)
        second = half_open(stack, port, whole)
        assert second.recv(15) == b"HTTP/1.1 200 OK"
        second.sendall(HALF)
        slow.settimeout(0.2)
        for _ in range(300):
            try:
                slow.sendall(b"x")
                if slow.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        else:
            pytest.fail("it dribbled for a minute")
        assert silent.recv(1) == b""
        while second.recv(4096):
            continue


@pytest.mark.parametrize("order", [1, -1])
def test_two_lengths_of_one_request_are_refused(shared, order):
    lengths = [b"Content-Length: 4", b"Transfer-Encoding: chunked"][::order]
    head = b"\r\n".join([b"GET /healthz HTTP/1.1", b"Host: 127.0.0.1", *lengths, b"", b""])
    with ExitStack() as stack:
        client = half_open(stack, int(shared.url.rpartition(":")[2]), head)
        answer = b""
        while piece := client.recv(4096):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"exclude each other" in answer


def test_slow_readers_yield_their_slots(monkeypatch):
    """A fast reader, or one that has not waited long, keeps its slot."""
    room = ResponseLimits(maxima={"download": 2})
    slow, quick = room.enter("download"), room.enter("download")
    quick.waited_seconds, quick.sent_bytes = 2 * access_control.SLOW_SECONDS, 1 << 30
    slow.waited_seconds = access_control.SLOW_SECONDS / 2
    assert room.enter("download") is None
    slow.waited_seconds = 3 * access_control.SLOW_SECONDS
    assert room.enter("download") is not None
    assert (slow.revoked.is_set(), quick.revoked.is_set()) == (True, False)
    assert room.enter("download") is None
    room.leave("download", slow)
    assert room.enter("download") is None, "a place is given back once"
    room.leave("download", quick)
    assert room.enter("download") is not None


def test_an_answer_whose_place_is_lost_is_given_up():
    async def go():
        revoked, began = asyncio.Event(), asyncio.Event()
        given_up = []

        async def endless(scope, receive, send):
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                given_up.append(True)

        async def receive():
            await asyncio.Event().wait()

        answer = asyncio.create_task(run_while_connected(endless, {}, receive, None, revoked))
        await began.wait()
        revoked.set()
        await answer
        return given_up

    assert asyncio.run(asyncio.wait_for(go(), 60)) == [True]


def test_a_frequent_log_line_passes_once_a_minute():
    rare, passed = LogRateLimit(), []
    for seconds in (0, 1, 2, 61, 62):
        record = logging.LogRecord("x", logging.WARNING, "", 0, "refused", None, None)
        record.created = 1e9 + seconds
        if rare.filter(record):
            passed.append(record.getMessage())
    assert passed == ["refused", "refused (2 more like this since)"]
