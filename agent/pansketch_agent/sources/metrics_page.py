"""A page of metrics (Prometheus text, OpenMetrics): one GET, and the series of the attributes.

The page is read line by line into one fixed buffer that is overwritten. Only lines of a chosen
metric become Python objects: a parser of whole pages would leave each of its samples in memory. Any
failure is a missing value, unlogged, because it may be data. `pansketch-agent check` explains it.
"""

import re
import socket
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from math import isnan, nan
from typing import Any, cast

from pansketch_agent.host.clock import Clock
from pansketch_agent.sources.readings import FloatArray
from pansketch_fleet.mqtt import tls
from pansketch_fleet.sections.sources.metrics import unescaped
from pansketch_fleet.settings.sources import (
    MetricSeries,
    MetricsSource,
    Mqtt,
    PageAddress,
)

SECONDS = 5.0  # for a whole page
MAX_LINE_BYTES, MAX_PAGE_BYTES = 8192, 4 * 2**20
SMALL_READ_BYTES = 64  # The buffer of the connection: blocks so small are overwritten.
HEADERS = {"Accept": "text/plain;version=0.0.4", "User-Agent": "pansketch-agent"}
_NAME = re.compile(rb"[ \t]*([a-zA-Z_:][a-zA-Z0-9_:]*)[ \t]*(\{)?")
_LABEL = re.compile(rb'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*,?')
_CLOSE = re.compile(rb"[ \t]*\}[ \t]*")
_VALUE = re.compile(rb"([^ \t\r\n]+)")


class PageError(Exception):
    """The page cannot be read; one line, without any content of the page."""


def check(source: MetricsSource) -> None:
    """Raise TlsFilesError for a file that cannot be used."""
    _connection(source)


def measuring(
    source: MetricsSource, names: tuple[str, ...], clock: Clock
) -> Callable[[FloatArray], None]:
    """Return a function that writes the current values of `names`.

    A value is NaN if the page has no such series, or several.
    """
    wanted = [source.metrics[name] for name in names]

    def measure(values: FloatArray) -> None:
        values.fill(nan)
        seen = [0] * len(wanted)
        try:
            for metric, labels, value in samples(source, clock, {each.metric for each in wanted}):
                for index, series in enumerate(wanted):
                    if metric == series.metric and series.labels.items() <= labels.items():
                        seen[index] += 1
                        values[index] = value if seen[index] == 1 else nan
        except PageError:
            values.fill(nan)  # Half a page would be a reading of some of its lines.

    return measure


def problems(source: MetricsSource, names: tuple[str, ...], clock: Clock) -> list[str]:
    """Return why attributes have no value now, with their names. Raises PageError."""
    wanted = {name: source.metrics[name] for name in names}
    seen: dict[str, list[bool]] = {name: [] for name in names}
    for metric, labels, value in samples(source, clock, {each.metric for each in wanted.values()}):
        for name, series in wanted.items():
            if metric == series.metric and series.labels.items() <= labels.items():
                seen[name].append(not isnan(value))
    texts = {0: "is not on the page", 1: "has no number"}
    return [
        f"{wanted[name]} ({name}) {texts.get(len(found), f'fits {len(found)} series')}"
        for name, found in seen.items()
        if found != [True]
    ]


def samples(
    source: MetricsSource, clock: Clock, metrics: set[str] | None = None
) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Yield (metric, labels, value) of every line, or of the lines of these metrics.

    Raises PageError.
    """
    names = None if metrics is None else {metric.encode() for metric in metrics}
    for line in _lines(source, clock):
        if (sample := parse(line, names)) is not None:
            yield sample


def parse(
    line: memoryview, names: set[bytes] | None = None
) -> tuple[str, Mapping[str, str], float] | None:
    """Parse a line of a page; None for a comment, an invalid sample, and other `names`."""
    name = _NAME.match(line)
    if name is None or (names is not None and name[1] not in names):
        return None
    labels, index = {}, name.end()
    if name[2]:
        while label := _LABEL.match(line, index):
            labels[label[1].decode()] = unescaped(label[2].decode(errors="replace"))
            index = label.end()
        close = _CLOSE.match(line, index)
        if close is None:
            return None
        index = close.end()
    value = _VALUE.match(line, index)
    return None if value is None else (name[1].decode(), labels, _number(value[1]))


def _number(text: bytes) -> float:
    try:
        return nan if b"_" in text else float(text)
    except ValueError:
        return nan


def _lines(source: MetricsSource, clock: Clock) -> Iterator[memoryview]:
    """Yield the lines of the page, as views of the buffer. Raises PageError."""
    buffer = bytearray(MAX_LINE_BYTES)
    view = memoryview(buffer)
    until = clock.monotonic() + SECONDS
    try:
        connection = _connection(source)
    except tls.TlsFilesError as error:
        raise PageError(str(error)) from None  # Perhaps the file is being renewed.
    filled = total = 0
    try:
        connection.request("GET", source.address.target, headers=HEADERS)
        response = connection.getresponse()
        if response.status != 200:
            raise PageError(f"it answers with status {response.status}")
        while True:
            got = response.readinto(view[filled:])
            filled, total = filled + got, total + got
            if total > MAX_PAGE_BYTES or clock.monotonic() > until:
                raise PageError("it is too large, or too slow")
            begin, end = 0, filled if not got else buffer.rfind(b"\n", 0, filled) + 1
            while begin < end:
                stop = buffer.find(b"\n", begin, end)
                stop = end if stop < 0 else stop
                yield view[begin:stop]
                begin = stop + 1
            if not got:
                return
            if not end and filled == MAX_LINE_BYTES:
                raise PageError(f"it has a line of more than {MAX_LINE_BYTES} bytes")
            filled -= end
            view[:filled] = bytes(view[end : end + filled])
    except (OSError, HTTPException, ValueError) as error:
        # An error of the protocol quotes what it has read.
        reason = getattr(error, "verify_message", None) or getattr(error, "strerror", None)
        raise PageError(str(reason or type(error).__name__)) from None
    finally:
        connection.close()
        view[:] = bytes(MAX_LINE_BYTES)


class _Response(HTTPResponse):
    """A response with so small a buffer that its memory is overwritten."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp.close()
        self.fp = cast(Any, sock.makefile("rb", SMALL_READ_BYTES))


def _connection(source: MetricsSource) -> HTTPConnection:
    """Return a connection, not open yet. Raises TlsFilesError."""
    address = source.address
    made: HTTPConnection
    if address.tls:
        context = tls.context(_server(source))
        made = HTTPSConnection(address.host, address.port, timeout=SECONDS, context=context)
    else:
        made = HTTPConnection(address.host, address.port, timeout=SECONDS)
    made.response_class = _Response
    return made


def _server(source: MetricsSource) -> Mqtt:
    """Return settings that verify this server as a broker is verified."""
    address = source.address
    return Mqtt(address.host, address.port, address.tls, source.ca_file)


def list_series(address: PageAddress, clock: Clock) -> Iterator[tuple[MetricSeries, bool]]:
    """Yield each series of a page, and whether it has a number now. Raises PageError."""
    for metric, labels, value in samples(MetricsSource(address, {}, 1.0), clock):
        yield MetricSeries(metric, labels), not isnan(value)
