"""An MQTT broker inside this process, on a free loopback port (amqtt, MQTT 3.1.1)."""

import asyncio
import logging
import socket
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from amqtt.broker import Broker

START_SECONDS = 15.0


def free_port() -> int:
    """A TCP port of the loopback interface that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class _Steady(dict[str, Any]):
    """Iterates over a copy: amqtt waits inside its loop over subscriptions, and a client that
    subscribes meanwhile would end the session of another one."""

    def __iter__(self) -> Iterator[str]:
        return iter(list(self.keys()))


class EmbeddedBroker:
    """Runs amqtt in a thread of its own from `__enter__` to `__exit__`; bound to 127.0.0.1 only."""

    def __init__(self, port: int | None = None) -> None:
        self.port = port or free_port()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._broker: Broker | None = None

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
        self._broker = Broker(
            {
                "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{self.port}"}},
                "plugins": {
                    "amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}
                },
            }
        )
        self._broker._subscriptions = _Steady(self._broker._subscriptions)
        await self._broker.start()

    async def _stop(self) -> None:
        if self._broker is not None:
            await self._broker.shutdown()

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
