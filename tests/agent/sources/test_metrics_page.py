"""Pages of metrics: what of them becomes a reading, and what is missing, refused and checked."""

import json
import ssl
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import isnan, nan
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client import generate_latest as as_text
from prometheus_client.openmetrics.exposition import generate_latest as as_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from pansketch_agent.__main__ import main
from pansketch_agent.diagnostics.check import check
from pansketch_agent.host.clock import system_clock
from pansketch_agent.runtime.stream_builder import open_source
from pansketch_agent.sources import metrics_page
from pansketch_fleet.config.loader import ConfigError
from pansketch_fleet.sections.sources.metrics import series
from testbed.embedded_broker import free_port
from tests.agent.sources.manual_clock import ManualClock
from tests.packages import needs

METRICS = "temp: 'room_celsius{room=\"kitchen\"}', wind: wind_code"


def source(url: str, metrics: str = METRICS, more: str = "") -> str:
    return f'{{type: prometheus, url: "{url}", interval: 1s, metrics: {{{metrics}}}{more}}}'


@pytest.fixture
def exporter():
    """A real exporter: (its registry, the address of its page)."""
    registry, port = CollectorRegistry(), free_port()
    server, thread = start_http_server(port, "127.0.0.1", registry)
    yield registry, f"http://127.0.0.1:{port}/metrics"
    server.shutdown()
    server.server_close()
    thread.join()


@contextmanager
def page(body: bytes, status: int = 200, context=None):
    """A server of one page as it stands; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def reading(stream) -> list[float]:
    """Of the first tick."""
    stop, clock = threading.Event(), ManualClock(1000.25).clock()
    for found in open_source(stream, clock, stop, Path("/"), lambda: 0.5, print):
        assert found.at.tolist() == [1001.0]
        return found.rows[0].tolist()
    raise AssertionError("no tick")


def read(device, body: bytes, metrics: str = METRICS, **more) -> list[float]:
    with page(body, **more) as port:
        url = f"http://127.0.0.1:{port}/"
        return reading(device.configure(source=source(url, metrics)).streams[0])


def test_series_of_a_real_exporter_become_readings(device, exporter):
    registry, url = exporter
    rooms = Gauge("room_celsius", "Of rooms.", ["room", "floor"], registry=registry)
    rooms.labels("kitchen", "0").set(21.25)
    rooms.labels("hall", "0").set(17.5)
    Gauge("wind_code", "A code.", registry=registry).set(2)
    Counter("room_celsius_changes", "No room.", registry=registry).inc()
    stream = device.configure(source=source(url)).streams[0]
    assert reading(stream) == [21.25, 2.0]
    rooms.labels("kitchen", "1").set(30)
    assert np.array_equal(reading(stream), [nan, 2.0], equal_nan=True), "two series fit"
    rooms.clear()
    assert np.array_equal(reading(stream), [nan, 2.0], equal_nan=True), "none is there"


SAMPLE = st.tuples(
    st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,9}", fullmatch=True),
    st.dictionaries(
        st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True),
        st.text(st.characters(codec="utf-8"), max_size=9),
        max_size=3,
    ),
    st.floats(),
)


@given(SAMPLE)
def test_a_line_is_read_as_the_exporters_own_library_reads_it(sample):
    name, labels, value = sample
    registry = CollectorRegistry()
    gauge = Gauge("g", "text", list(labels), registry=registry)
    (gauge.labels(**labels) if labels else gauge).set(value)
    text = as_text(registry).decode().replace("\ng", f"\n{name}")
    (theirs,) = [each for family in text_string_to_metric_families(text) for each in family.samples]
    (ours,) = [found for line in text.split("\n") if (found := parsed(line)) is not None]
    assert (ours[0], ours[1]) == (theirs.name, theirs.labels)
    assert ours[2] == theirs.value or (isnan(ours[2]) and isnan(theirs.value))
    again = series(f"{name}{str_of(labels)}")
    assert (again.metric, again.labels) == (name, labels)
    assert series(str(again)) == again


def str_of(labels) -> str:
    def escaped(text: str) -> str:
        return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")

    inner = ", ".join(f'{name}="{escaped(text)}"' for name, text in labels.items())
    return f"{{{inner}}}"


def parsed(line: str):
    return metrics_page.parse(memoryview(line.encode()))


def test_openmetrics_with_exemplars_and_times_is_read_too():
    registry = CollectorRegistry()
    times = Histogram("answer_seconds", "text", registry=registry, buckets=[1, 2])
    times.observe(1.5, {"trace": "a } b"})
    found = [parsed(line) for line in as_openmetrics(registry).decode().split("\n")]
    assert ("answer_seconds_bucket", {"le": "2.0"}, 1.0) in found
    assert parsed('a{b="}\\""} 1.5e3 1520879607.789 # {id="2"} 3 4') == ("a", {"b": '}"'}, 1500.0)


@pytest.mark.parametrize(
    "line", ["", "# TYPE a gauge", "a", "a{", 'a{b="c} 1', "a{b=c} 1", "1 2", "{} 1", "\0", "é 1"]
)
def test_what_is_no_sample_is_passed_over(line):
    assert parsed(line) is None


@given(st.binary(max_size=99))
def test_any_line_is_taken_or_passed_over(line):
    found = metrics_page.parse(memoryview(b"a{" + line))
    assert found is None or isinstance(found[2], float)


FIT = b'room_celsius{room="kitchen"} 4\nwind_code 1\n'


@pytest.mark.parametrize(
    ("body", "more", "values"),
    [
        (FIT, {}, [4.0, 1.0]),
        (FIT[:-1], {}, [4.0, 1.0]),
        (FIT.replace(b"\n", b"\r\n"), {}, [4.0, 1.0]),
        (b"# HELP x y\n" * 9000 + FIT, {}, [4.0, 1.0]),
        (FIT.replace(b"4", b"NaN"), {}, [nan, 1.0]),
        (FIT.replace(b"4", b"soon"), {}, [nan, 1.0]),
        (FIT.replace(b"4", b"1_0"), {}, [nan, 1.0]),
        (b"", {}, [nan, nan]),
        (FIT, {"status": 500}, [nan, nan]),
        (FIT + b"x" * 9000, {}, [nan, nan]),
        (FIT + b"# no\n" * 1_000_000, {}, [nan, nan]),
    ],
)
def test_what_is_not_there_is_missing_and_reported_nowhere(device, caplog, body, more, values):
    assert np.array_equal(read(device, body, **more), values, equal_nan=True)
    assert not caplog.records


def test_an_absent_server_is_missing_data(device):
    url = f"http://127.0.0.1:{free_port()}/"
    found = reading(device.configure(source=source(url)).streams[0])
    assert np.isnan(found).all()


@pytest.fixture
@needs("openssl")
def own_certificate(device) -> ssl.SSLContext:
    """A server's; its own CA, in ca.pem. For an address: minimal systems lack the name."""
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
        "-subj /CN=here -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out ca.pem"
    )
    subprocess.run(command.split(), cwd=device.folder, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(device.folder / "ca.pem", device.folder / "key.pem")
    return context


def test_a_page_behind_tls_is_trusted_by_its_ca_alone(device, own_certificate):
    context = own_certificate
    with page(FIT, context=context) as port:
        for more, values in ((", ca_file: ca.pem", [4.0, 1.0]), ("", [nan, nan])):
            settings = source(f"https://127.0.0.1:{port}/", more=more)
            config = device.configure(source=settings)
            assert np.array_equal(reading(config.streams[0]), values, equal_nan=True)
        state, text = finding(config)
        config = device.configure(
            source=source(f"https://localhost:{port}/", more=", ca_file: ca.pem")
        )
        (device.folder / "ca.pem").unlink()  # It is being renewed: the stream goes on.
        assert np.isnan(reading(config.streams[0])).all()
    assert state == "wrong"
    assert "self-signed certificate" in text


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (source("http://192.0.2.1/"), "source.url: would send readings of 192.0.2.1 without TLS"),
        (source("http://me:s3cret@localhost/"), "source.url: holds credentials"),
        (source("mqtt://localhost/"), "source.url: is no address of a page"),
        (source("http://localhost:0/"), "source.url: is no address of a page"),
        (source("http://localhost/a b"), "source.url: has a path that cannot be sent"),
        (source("http://localhost/", "temp: a"), "source.metrics: has no series for the attribute"),
        (source("http://localhost/", "temp: a, hum: b"), "metrics.hum: is no attribute"),
        (source("http://localhost/", "temp: 'a{b}', wind: c"), "metrics.temp: 'a{b}' is no series"),
        (source("http://localhost/", more=", ca_file: x"), "ca_file: has no effect without TLS"),
        (source("https://localhost/", more=", ca_file: x"), "source.ca_file: there is no file"),
    ],
)
def test_what_cannot_be_is_refused_where_it_stands(device, settings, words):
    with pytest.raises(ConfigError) as refused:
        device.configure(source=settings)
    assert words in str(refused.value)
    assert "s3cret" not in str(refused.value)


def finding(config) -> tuple[str, str]:
    found = check(config, Path("/"), system_clock())
    (of_source,) = [each for each in found if each.subject == "source air"]
    return of_source.state, of_source.text


def test_check_names_the_series_without_a_value(device):
    body = b'room_celsius{room="kitchen"} 4.125\nroom_celsius{room="kitchen",floor="1"} 3\n'
    with page(body) as port:
        url = f"http://127.0.0.1:{port}/"
        state, text = finding(device.configure(source=source(url)))
        kitchen = 'room_celsius{room="kitchen"}'
        assert state == "wrong"
        assert text.startswith(
            f"{kitchen} (temp) fits 2 series, wind_code (wind) is not on the page at {url}; correct"
        )
        fits = "temp: 'room_celsius{floor=\"1\"}', wind: 'room_celsius{floor=\"1\"}'"
        state, text = finding(device.configure(source=source(url, fits)))
        assert (state, text[:12]) == ("ok", "readable at ")
    state, text = finding(device.configure(source=source(url)))
    assert text.startswith(f"no page at {url} (Connection refused); start its program")


def test_sources_lists_the_series_of_a_page_and_no_value(device, capsys):
    with page(FIT.replace(b"4", b"17.348261").replace(b"kitchen", b"it's")) as port:
        url = f"http://127.0.0.1:{port}/metrics"
        assert main(["sources", "--page", url]) == 0
        assert main(["sources", "--page", url, "--json"]) == 0
        out = capsys.readouterr().out
        assert "17.34" not in out
        found = json.loads(out.splitlines()[-1])
    assert [each["place"] for each in found] == ['room_celsius{room="it\'s"}', "wind_code"]
    for each in found:
        line = each["yaml"].partition("source: ")[2].replace("value:", "temp:", 1)
        series_line = line.replace("}}", ", wind: wind_code}}")
        assert device.configure(source=series_line).streams[0].source.metrics
    assert main(["sources", "--page", "http://192.0.2.1/"]) == 2


def test_an_agent_releases_what_a_page_shows(device, broker, peer, capsys):
    with page(FIT) as port, peer(broker.url) as collector:
        url = f"http://127.0.0.1:{port}/"
        device.configure(broker.url, source=source(url), window="1s")
        assert main(["validate", "--config", str(device.config)]) == 0
        assert main(["print-config", "--config", str(device.config)]) == 0
        out = capsys.readouterr().out
        assert f'room_celsius{{room="kitchen"}}, wind_code at {url}, every 1s' in out
        assert "source.metrics.temp" in out
        agent = device.start("once")
        assert agent.wait() == 0, agent.output
        assert collector.releases
