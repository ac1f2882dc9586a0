"""A `source:` section of a page of metrics: its address, and the series of each attribute."""

import ipaddress
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pansketch_fleet.sections.mqtt import is_host
from pansketch_fleet.sections.sources.sensors import read_interval
from pansketch_fleet.settings.section import join, nearest, section
from pansketch_fleet.settings.source_schema import MetricsSection
from pansketch_fleet.settings.sources import (
    MetricSeries,
    MetricsSource,
    PageAddress,
)
from pansketch_fleet.yaml.document import Document, is_file

PORTS = {"http": 80, "https": 443}
MAX_TARGET = 1024
_METRIC = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]{0,255})\s*(?:\{(.*)\}\s*)?", re.DOTALL)
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\[\\"n])*)"\s*(?:,|\Z)')
_ESCAPED = re.compile(r"\\(.)")
_EXAMPLE = "write http://127.0.0.1:9100/metrics, or https:// for another host"


def read_metrics(
    document: Document, where: str, raw: dict[str, Any], folder: Path, local: bool
) -> MetricsSource:
    """Read the section. Raises ConfigError; files must exist only if `local` is true."""
    given = section(document, where, raw, MetricsSection)
    try:
        address = page_address(given.url)
    except ValueError as error:
        raise document.error(join(where, "url"), str(error)) from None
    chosen = {}
    for name, text in given.metrics.items():
        try:
            chosen[name] = series(text)
        except ValueError as error:
            raise document.error(join(join(where, "metrics"), name), str(error)) from None
    ca_file = None if given.ca_file is None or not local else folder / given.ca_file
    if given.ca_file is not None and not address.tls:
        raise document.error(join(where, "ca_file"), "has no effect without TLS; write https://")
    if ca_file is not None and not is_file(ca_file):
        problem = f"there is no file {ca_file}; put the CA certificate of the page's server there"
        raise document.error(join(where, "ca_file"), problem)
    interval_seconds = read_interval(document, where, given.interval)
    return MetricsSource(address, chosen, interval_seconds, ca_file)


def page_address(text: str) -> PageAddress:
    """Parse an address. Raises ValueError, one line `problem; fix`, without its credentials."""
    try:
        url = urlsplit(text)
        port = url.port if url.port is not None else PORTS.get(url.scheme, 0)
    except ValueError:
        raise ValueError(f"is no address; {_EXAMPLE}") from None
    if "@" in url.netloc:
        raise ValueError(f"holds credentials, which this source cannot send; {_EXAMPLE}")
    host, target = url.hostname or "", url.path or "/"
    target += f"?{url.query}" if url.query else ""
    printable = target.isascii() and target.isprintable() and " " not in target
    if not (url.scheme in PORTS and 1 <= port <= 65535 and is_host(host)):
        raise ValueError(f"is no address of a page; {_EXAMPLE}")
    if not printable or len(target) > MAX_TARGET or url.fragment:
        raise ValueError(f"has a path that cannot be sent; {_EXAMPLE}")
    if url.scheme == "http" and not _is_loopback(host):
        raise ValueError(f"would send readings of {host} without TLS; {_EXAMPLE}")
    return PageAddress(url.scheme == "https", host, port, target)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def series(text: str) -> MetricSeries:
    """Parse `name{label="value"}`. Raises ValueError, one line `problem; fix`."""
    problem = f'{text[:60]!r} is no series; write a name, or name{{label="value"}}'
    found = _METRIC.fullmatch(text.strip())
    if found is None:
        raise ValueError(problem)
    labels, inner, place = {}, found[2] or "", 0
    while place < len(inner):
        label = _LABEL.match(inner, place)
        if label is None or label[1] in labels:
            raise ValueError(problem)
        labels[label[1]] = unescaped(label[2])
        place = label.end()
    return MetricSeries(found[1], labels)


def unescaped(text: str) -> str:
    """Return a label's value without its backslashes."""
    return _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], text)


def check_metrics(
    document: Document, where: str, source: MetricsSource, names: tuple[str, ...]
) -> None:
    """Raise ConfigError unless `metrics` has a series for each of the names, and no other."""
    place = join(where, "metrics")
    for name in source.metrics:
        if name not in names:
            problem = f"is no attribute of this stream; {nearest(name, names)}"
            raise document.error(join(place, name), problem)
    for name in names:
        if name not in source.metrics:
            fix = f"add {name}: a series that `pansketch-agent sources --page` lists"
            raise document.error(place, f"has no series for the attribute {name}; {fix}")
