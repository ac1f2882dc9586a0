"""An MQTT broker on a free loopback port (amqtt, MQTT 3.1.1), in this process or in its own.

`python -m testbed.embedded_broker PORT` prints `ready` and serves until the end of its standard
input.
"""

import asyncio
import logging
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

from amqtt.broker import Broker

from testbed.notify_socket import ProgramEnded, ProgramTimeout
from testbed.program import Program

START_SECONDS = 15.0
MONITOR_SECONDS = 1.0


def free_port() -> int:
    """A free TCP port of the loopback interface; another process may take it later."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class _Steady(dict[str, Any]):
    """Iterates over a copy: amqtt waits inside its loop over subscriptions, and a client that
    subscribes meanwhile would end the session of another one."""

    def __iter__(self) -> Iterator[str]:
        return iter(list(self.keys()))


class _SteadyBroker(Broker):  # type: ignore[misc]  # amqtt has no types.
    """Ends a session without harm to a later one of the same name.

    amqtt finds subscriptions by the client's name, and waits between finding an ended session and
    removing its subscriptions. A client that connected meanwhile would lose its own.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self._subscriptions: dict[str, Any] = _Steady()

    async def _session_monitor(self) -> None:
        while True:
            for name in list(self._sessions):
                session, _ = self._sessions.get(name, (None, None))
                ended = session is not None and session.transitions.is_disconnected()
                if ended and (session.is_anonymous or session.clean_session):
                    await self._cleanup_session(name)
            await asyncio.sleep(MONITOR_SECONDS)

    async def _cleanup_session(self, client_id: str) -> None:
        session, handler = self._sessions.pop(client_id, (None, None))
        if session:
            await self._del_all_subscriptions(session)  # Before anything that waits.
            session.clear_queues()
        if handler:
            await self._stop_handler(handler)


class EmbeddedBroker:
    """Runs amqtt in a thread of its own from `__enter__` to `__exit__`; bound to 127.0.0.1 only."""

    def __init__(self, port: int | None = None) -> None:
        self.port = port or free_port()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._broker: Broker | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def __enter__(self) -> "EmbeddedBroker":
        # amqtt reports every ordinary disconnect as a warning with a traceback.
        logging.getLogger("amqtt").setLevel(logging.CRITICAL)
        logging.getLogger("transitions").setLevel(logging.CRITICAL)
        # A client that vanishes in the middle of a packet is nothing to report either.
        self._loop.set_exception_handler(lambda loop, context: None)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(START_SECONDS)
        return self

    async def _start(self) -> None:
        self._broker = _SteadyBroker(
            {
                "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{self.port}"}},
                "plugins": {
                    "amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}
                },
            }
        )
        # amqtt abandons a connection whose CONNECT is incomplete; here each of them is closed.
        serve = self._broker.stream_connected

        async def kept(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter, listener_name: str
        ) -> None:
            self._writers.add(writer)
            try:
                await serve(reader, writer, listener_name)
            finally:
                writer.close()
                self._writers.discard(writer)

        self._broker.stream_connected = kept
        await self._broker.start()

    async def _stop(self) -> None:
        # From Python 3.12.1 on, a server waits for all connections before it is closed.
        for writer in self._writers:
            writer.transport.abort()
        if self._broker is not None:
            await self._broker.shutdown()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(START_SECONDS)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(START_SECONDS)
            self._loop.close()


@contextmanager
def broker_process(port: int | None = None) -> Iterator[tuple[int, Program]]:
    """Run a broker in its own process, which no work of the calling process can delay.

    Yields its port, by default a free one, and its process. Raises OSError if it does not start.
    """
    port = port or free_port()
    command = [sys.executable, "-m", "testbed.embedded_broker", str(port)]
    with TemporaryDirectory() as folder:
        broker = Program(command, Path(folder) / "log", stdin=subprocess.PIPE)
        try:
            try:
                broker.wait_for_output("ready\n")
            except ProgramEnded as error:
                raise OSError(f"the broker on port {port} ended at its start") from error
            yield port, broker
        finally:
            assert broker.process.stdin is not None
            broker.process.stdin.close()
            with suppress(ProgramTimeout):
                broker.wait(START_SECONDS)
            broker.close()


def main() -> int:
    # Ctrl-C reaches all programs of a terminal at once: those that are connected end first.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with EmbeddedBroker(int(sys.argv[1])):
        print("ready", flush=True)
        sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())
