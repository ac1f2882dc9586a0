"""Posts of programs of this host: which become readings, and the responses to all others."""

import json
import socket
import threading
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pansketch_agent.__main__ import main
from pansketch_agent.diagnostics.check import check
from pansketch_agent.host.clock import Clock, system_clock
from pansketch_agent.runtime.stream_builder import open_source
from pansketch_agent.sources import http_push
from pansketch_fleet.config.loader import ConfigError
from testbed.embedded_broker import free_port
from tests.agent.sources.listening import listening
from tests.waiting import SECONDS, until

GOOD = '{"temp": 1.5, "wind": "N"}'
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def stream(device, port):
    return device.configure(source=f"{{type: http, port: {port}}}").streams[0]


@pytest.fixture
def served(stream, caplog):
    """The stream's source, which listens; its rows."""
    caplog.set_level("INFO")
    with listening(stream) as rows:
        until(lambda: "listening to http://127.0.0.1" in caplog.text, "it listens")
        yield rows


def post(port, body, headers=JSON, method="POST", target="/") -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        connection.request(method, target, body, dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def post_soon(port, body) -> None:
    """Post as soon as the source listens."""

    def posted() -> bool:
        with suppress(ConnectionRefusedError):
            return post(port, body)[0] == 202
        return False

    until(posted, "it listens")


def raw(port, *parts: bytes, end: bool = False) -> bytes:
    """The answer to bytes that no client would send."""
    with socket.create_connection(("127.0.0.1", port), SECONDS) as connection:
        for part in parts:
            connection.sendall(part)
        if end:
            connection.shutdown(socket.SHUT_WR)
        said = b""
        while got := connection.recv(4096):
            said += got
        return said


def test_an_object_is_a_reading_and_a_list_is_several(served, port):
    assert post(port, GOOD) == (202, "")
    assert post(port, f' [{GOOD}, {{"temp": -2, "wind": "calm"}}]') == (202, "")
    assert post(port, "[]") == (202, "")
    until(lambda: len(served) == 3, "the readings")
    assert served == [[1.5, 1.0], [1.5, 1.0], [-2.0, 0.0]]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, ""),
        (400, "1.5"),
        (400, GOOD[:-1]),
        (400, f"[{GOOD}, 17.348261]"),
        (400, f"[{GOOD}, {GOOD}"),
        (400, b"\xff"),
        (400, "[" * 16000),
        (413, " " * http_push.MAX_BODY_BYTES + GOOD),
        (413, " " * 500_000),
        (429, json.dumps([{}] * (http_push.MAX_ROWS + 1))),
    ],
)
def test_a_body_is_taken_as_a_whole_or_refused_without_any_of_it(served, port, status, body):
    assert post(port, body) == (status, http_push.RESPONSES[status][1] + "\n")
    assert post(port, GOOD) == (202, "")
    until(lambda: served, "the good one")
    assert served == [[1.5, 1.0]]


@pytest.mark.parametrize(
    ("status", "more"),
    [
        (404, {"target": "/?temp=1"}),
        (405, {"method": "GET"}),
        (405, {"method": "OPTIONS"}),
        (415, {"headers": {}}),
        # Requests that a page of another site can make a browser on this host send.
        (415, {"headers": {"Content-Type": "text/plain"}}),
        (403, {"headers": {**JSON, "Host": "rebound.example:80"}}),
        (411, {"headers": {**JSON, "Transfer-Encoding": "chunked"}, "body": iter([b"{}"])}),
        (431, {"headers": {**JSON, "X": "x" * http_push.MAX_HEAD_BYTES}}),
    ],
)
def test_other_requests_are_answered_with_the_fix(served, port, status, more):
    assert post(port, **{"body": GOOD, **more}) == (status, http_push.RESPONSES[status][1] + "\n")
    assert not served


def test_a_request_may_come_in_pieces_and_be_awaited(served, port):
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json; a=b\r\n"
    said = raw(port, head[:9], head[9:], b"Expect: 100-continue\r\nContent-Length: 26\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 408 "), "its body never came"
    assert raw(port, head + b"Content-Length: 26\r\n\r\n" + GOOD.encode()).startswith(
        b"HTTP/1.1 202 Accepted\r\n"
    )
    until(lambda: served, "the reading")


@pytest.mark.parametrize("data", [b"", b"\r\n\r\n", b"POST /\r\n\r\n", b"POST / HTTP/1.1\r\n"])
def test_what_is_no_request_does_not_end_the_source(served, port, data):
    assert raw(port, data, end=True).startswith(b"HTTP/1.1 400 ")
    assert post(port, GOOD) == (202, "")
    until(lambda: served, "the reading")


@given(data=st.binary(max_size=200))
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_answered(served, port, data):
    assert raw(port, data, end=True).startswith(b"HTTP/1.1 4")


def test_answers_are_independent_of_earlier_ones(served, port):
    """Of 300 readings and of none: the span's limiter, and the sketch, are asked after them."""
    requests = [(GOOD,), ("{",), (" " * 20_000,), (GOOD, JSON, "GET")]
    before = [post(port, *each) for each in requests]
    for _ in range(3):
        post(port, json.dumps([json.loads(GOOD)] * 100))
    assert [post(port, *each) for each in requests] == before


def test_programs_that_send_at_once_are_all_served(served, port):
    senders = [threading.Thread(target=post, args=(port, GOOD)) for _ in range(8)]
    for each in senders:
        each.start()
    for each in senders:
        each.join(SECONDS)
    until(lambda: len(served) == 8, "the readings")


def test_requests_and_bytes_are_bounded_by_pauses(stream, port):
    waits, stop, real = [], threading.Event(), system_clock()

    def wait(stopped: threading.Event, seconds: float) -> bool:
        waits.append(seconds)
        return stopped.is_set()

    clock = Clock(real.now, real.monotonic, wait)
    bodies = [GOOD, " " * 12_000 + GOOD]
    source = open_source(stream, clock, stop, Path("/"), lambda: 0.5, print)
    for body in bodies:
        sender = threading.Thread(target=post_soon, args=(port, body))
        sender.start()
        next(source)
        sender.join(SECONDS)
    stop.set()
    assert list(source) == []
    assert waits[0] == http_push.MIN_INTERVAL_SECONDS
    assert 12_000 / http_push.MAX_BYTES_PER_SECOND < waits[1] < 0.06


def test_a_port_of_another_program_is_logged_once_and_retried_with_backoff(stream, port, caplog):
    waits, stop = [], threading.Event()

    def wait(stopped: threading.Event, seconds: float) -> bool:
        waits.append(seconds)
        if len(waits) == 3:
            stop.set()
        return stopped.is_set()

    with socket.create_server(("127.0.0.1", port)):
        clock = Clock(lambda: 0.0, lambda: 0.0, wait)
        assert not list(open_source(stream, clock, stop, Path("/"), lambda: 0.5, print))
    assert waits == [1.0, 2.0, 4.0]
    assert [record.getMessage() for record in caplog.records] == [
        f"air: cannot listen to http://127.0.0.1:{port}/ (Address already in use); "
        "retrying until it is free"
    ]


def test_an_agent_releases_what_is_posted(device, broker, peer, port):
    device.configure(broker.url, source=f"{{type: http, port: {port}}}", window="2s")
    with peer(broker.url) as collector:
        agent = device.start("run")
        agent.wait_for_output(f"air: listening to http://127.0.0.1:{port}/")
        assert post(port, '{"temp": 17.348261, "wind": 12}') == (202, "")
        assert post(port, '{"temp": 17.348261')[0] == 400
        until(lambda: collector.releases, "a release")
        assert agent.stop() == 0
    assert "17.34" not in agent.output


def test_its_settings_are_shown(device, capsys):
    device.configure(source="{type: http, paths: {temp: s.t}}")
    assert main(["print-config", "--config", str(device.config)]) == 0
    assert main(["validate", "--config", str(device.config)]) == 0
    out = capsys.readouterr().out
    for words in ("source.port", "8787", "source.paths.temp", "s.t"):
        assert words in out
    assert "JSON that programs of this host post to http://127.0.0.1:8787/" in out


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (", port: 80", "source.port: 80 is impossible; write 1024 to 65535, such as 8787"),
        (", port: x", "source.port: is text; write a whole number"),
        (", host: 0.0.0.0", "source.host: unknown key"),
        (", paths: {hum: a}", "paths.hum: is not what this stream is about"),
    ],
)
def test_what_cannot_be_is_refused_where_it_stands(device, more, words):
    with pytest.raises(ConfigError) as refused:
        device.configure(source=f"{{type: http{more}}}")
    assert words in str(refused.value)


def test_check_states_who_listens(device, port, stream, served):
    def found() -> tuple[str, str]:
        config = device.configure(source=f"{{type: http, port: {port}}}")
        (of_source,) = [
            each
            for each in check(config, Path("/"), system_clock())
            if each.subject == "source air"
        ]
        return of_source.state, of_source.text

    assert found() == ("ok", f"http://127.0.0.1:{port}/: the running agent listens")
    port = free_port()
    assert found() == ("ok", f"http://127.0.0.1:{port}/: free for the agent")
    with socket.create_server(("127.0.0.1", port)) as other:
        threading.Thread(target=lambda: other.accept()[0].close()).start()
        state, text = found()
    assert state == "wrong"
    assert text.endswith("belongs to another program; stop it, or correct streams.air.source.port")
