"""A network that fails on demand: a TCP proxy on the loopback interface, a port for each link.

Every call may come from any thread. A link that is mended drops the connections that have missed
bytes, as a real one would not have lost any in the middle.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal

from testbed.mqtt_packets import AnswerReader

CHUNK_BYTES = 65536
CALL_SECONDS = 10.0
DISCONNECT_SECONDS = 1.0  # So long one side may go on after the other has ended.

Way = Literal["up", "down"]
Tap = Callable[[bytes], object]
MakeTap = Callable[[], Tap]


@dataclass(eq=False)
class _Connection:
    """One client's connection and ours to the broker."""

    client: asyncio.StreamWriter
    tap: Tap
    upstream: asyncio.StreamWriter | None = None

    def abort(self) -> None:
        """Resets both sides."""
        for writer in self._writers():
            _reset(writer)

    def close(self) -> None:
        """Ends both sides; what was written still arrives."""
        for writer in self._writers():
            writer.close()

    def _writers(self) -> list[asyncio.StreamWriter]:
        return [writer for writer in (self.client, self.upstream) if writer is not None]


@dataclass
class _State:
    """The current faults of a link. `truncate_after`: bytes of the next chunk that are still
    forwarded."""

    cut: bool = False
    swallowed: frozenset[Way] = frozenset()
    delay_seconds: float = 0.0
    truncate_after: int | None = None


@dataclass(eq=False)
class Link:
    """One link: clients connect to `port` and reach the `upstream` port, both on 127.0.0.1.

    `make_tap` makes a tap for each connection, which receives all bytes of the client, also lost
    ones. `accepted`: the number of unencrypted connections that the broker has ever accepted.
    """

    upstream: int
    make_tap: MakeTap
    _loop: asyncio.AbstractEventLoop
    port: int = 0
    accepted: int = 0
    _state: _State = field(default_factory=_State)
    _open: set[_Connection] = field(default_factory=set)
    _server: asyncio.Server | None = None

    def cut(self) -> None:
        """Reset open connections, and close each new one at once, until the link is repaired."""
        self._call(_State(cut=True), reset=True)

    def silence(self, *ways: Way) -> None:
        """Nothing comes through in these directions until it is mended; connections stay."""
        self._call(_State(swallowed=frozenset(ways)))

    def slow(self, delay_seconds: float) -> None:
        """Every chunk is late, each way, until it is mended."""
        self._call(_State(delay_seconds=delay_seconds))

    def truncate(self, after_bytes: int) -> None:
        """The next chunk that a client sends is cut after so many bytes, and so is the connection.
        The link is whole again after it."""
        self._call(_State(truncate_after=after_bytes))

    def reset(self) -> None:
        """Resets what is open; new connections work."""
        self._call(self._state, reset=True)

    def mend(self) -> None:
        """Whole again. Connections that missed anything are reset."""
        self._call(_State(), reset=bool(self._state.swallowed))

    def _call(self, state: _State, reset: bool = False) -> None:
        async def change() -> None:
            self._state = state
            for connection in list(self._open) if reset else ():
                connection.abort()

        _wait(change(), self._loop)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        if self._server is not None:
            self._server.close()
        await asyncio.sleep(0)  # A connection that was just accepted is among the open ones then.
        for connection in list(self._open):
            connection.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(writer, self.make_tap())
        self._open.add(connection)
        try:
            if not self._state.cut:
                await self._join(connection, reader)
        except OSError:
            pass  # no broker: the client's connection ends too
        finally:
            self._open.discard(connection)
            connection.close()

    async def _join(self, connection: _Connection, reader: asyncio.StreamReader) -> None:
        answers, upstream = await asyncio.open_connection("127.0.0.1", self.upstream)
        connection.upstream = upstream
        pumps = {
            asyncio.ensure_future(self._pump("up", reader, upstream, connection.tap)),
            asyncio.ensure_future(self._pump("down", answers, connection.client, self._count())),
        }
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait(pumps, timeout=DISCONNECT_SECONDS)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    def _count(self) -> Tap:
        """Receives the bytes that the broker sends in one connection."""
        reader = AnswerReader()

        def tap(content: bytes) -> None:
            self.accepted += reader.feed(content)

        return tap

    async def _pump(
        self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tap: Tap | None
    ) -> None:
        """Carries bytes one way until either side ends, or the link is truncated."""
        while content := await reader.read(CHUNK_BYTES):
            if tap is not None:
                tap(content)
            if self._state.delay_seconds:
                await asyncio.sleep(self._state.delay_seconds)
            if way in self._state.swallowed:
                continue
            if way == "up" and self._state.truncate_after is not None:
                writer.write(content[: self._state.truncate_after])
                self._state.truncate_after = None
                await writer.drain()
                return _finish(writer)
            writer.write(content)
            await writer.drain()
        return _finish(writer)


class Network:
    """All links, in a thread of their own from `__enter__` to `__exit__`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._links: list[Link] = []

    def __enter__(self) -> "Network":
        # A connection that breaks is what this is for, and nothing to report.
        self._loop.set_exception_handler(lambda loop, context: None)
        self._thread.start()
        return self

    def link(self, upstream: int, make_tap: MakeTap = lambda: lambda content: None) -> Link:
        """A new link; it listens when this returns."""
        made = Link(upstream, make_tap, self._loop)
        _wait(made._listen(), self._loop)
        self._links.append(made)
        return made

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _wait(self._end(), self._loop)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_SECONDS)
        self._loop.close()

    async def _end(self) -> None:
        for link in self._links:
            await link._end()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


def _wait(work: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> None:
    asyncio.run_coroutine_threadsafe(work, loop).result(CALL_SECONDS)


def _finish(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, RuntimeError):
        writer.write_eof()


def _reset(writer: asyncio.StreamWriter) -> None:
    made = writer.get_extra_info("socket")
    with suppress(OSError):
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
