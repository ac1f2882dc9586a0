"""Readers of the API over plain sockets: a process each, or a thousand requests at once."""

import asyncio
import http.client
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from queue import Empty
from typing import Any

from benchmarks.harness.result import MeasurementFailed
from benchmarks.http.site import Site
from pansketch_fleet.child_process import end_with

PIECE_BYTES = 1 << 16
MAX_SECONDS = 120.0
REFUSED_PAUSE_SECONDS = 0.1
# A process of its own each, so that none waits for the interpreter of another one.
SPAWN = multiprocessing.get_context("spawn")


@contextmanager
def asked(site: Site, path: str) -> Iterator[http.client.HTTPResponse]:
    """An answer that is not read yet; its reader goes away at the end."""
    connection = http.client.HTTPConnection("127.0.0.1", site.http_port, timeout=MAX_SECONDS)
    try:
        connection.request("GET", path)
        yield connection.getresponse()
    finally:
        connection.close()


def read(site: Site, path: str) -> tuple[int, int]:
    """Status and bytes of an answer that is read to its end."""
    with asked(site, path) as response:
        found = 0
        while piece := response.read(PIECE_BYTES):
            found += len(piece)
        return response.status, found


@dataclass(frozen=True)
class Readers:
    """The answers that clients got until the stop: number by path and status, and maximum latency
    in seconds by path."""

    answers: Counter[tuple[str, int]]
    longest: dict[str, float]

    def served(self, path: str) -> int:
        return self.answers[path, 200]


@contextmanager
def reading(site: Site, paths: Sequence[str]) -> Iterator[Readers]:
    """A client for each path, which repeats its request after each answer. The figures are complete
    at the end."""
    found = Readers(Counter(), {})
    stop, reports = SPAWN.Event(), SPAWN.Queue()
    known = stop, reports, os.getpid()
    readers = [SPAWN.Process(target=_read_on, args=(site, each, *known)) for each in paths]
    for reader in readers:
        reader.start()
    try:
        for _ in readers:
            _get(reports)
        yield found
        stop.set()
        for _ in readers:
            path, answers, longest = _get(reports)
            found.answers.update({(path, status): n for status, n in answers.items()})
            found.longest[path] = longest
    finally:
        for reader in readers:
            reader.terminate()
            reader.join()


def _get(queue: Any) -> Any:
    try:
        return queue.get(timeout=MAX_SECONDS)
    except Empty:
        raise MeasurementFailed("web: a reader has ended by itself") from None


def _read_on(site: Site, path: str, stop: Event, reports: Any, parent: int) -> None:
    end_with(parent)
    answers: Counter[int] = Counter()
    longest = 0.0
    reports.put("ready")
    while not stop.is_set():
        began = time.monotonic()
        status = read(site, path)[0]
        longest = max(longest, time.monotonic() - began)
        answers[status] += not stop.is_set()
        if status != 200:
            time.sleep(REFUSED_PAUSE_SECONDS)
    reports.put((path, answers, longest))


def at_once(site: Site, paths: Sequence[str]) -> Counter[str]:
    """The number of concurrent requests by status; a failed request counts by the name of its
    error."""

    async def go() -> Counter[str]:
        return Counter(await asyncio.gather(*(_status(site, path) for path in paths)))

    return asyncio.run(go())


async def _status(site: Site, path: str) -> str:
    try:
        async with asyncio.timeout(MAX_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", site.http_port)
            head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
            writer.write(head.encode())
            status = (await reader.readline()).split()[1].decode()
            while await reader.read(PIECE_BYTES):
                pass
            writer.close()
            return status
    except (OSError, TimeoutError, IndexError) as error:
        return type(error).__name__
