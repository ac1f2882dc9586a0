"""When the device's status is published again: whenever something in it has changed.

It follows from the schedule, the configuration, the disk and what the broker sends.
"""

from collections.abc import Sequence

from pansketch_agent.mqtt.connection import DeviceClient
from pansketch_agent.runtime.control import MemoryCheck
from pansketch_agent.runtime.scale_adoption import ScaleAdoption
from pansketch_agent.runtime.stream_worker import StreamWorker
from pansketch_agent.status.health import Facts, farewell, statuses
from pansketch_fleet.config.programs import AgentConfig
from pansketch_fleet.protocol.messages import Status


class StatusReport:
    """The status of a running agent, for one thread. `facts`: as the connection was given them."""

    def __init__(
        self,
        config: AgentConfig,
        session: str,
        link: DeviceClient,
        workers: Sequence[StreamWorker],
        adoption: ScaleAdoption,
        memory: MemoryCheck,
        facts: Facts,
    ) -> None:
        self._config, self._session, self._link = config, session, link
        self._workers, self._adoption, self._memory = workers, adoption, memory
        self._facts = facts

    def step(self) -> None:
        """Publishes it where it has changed: a stream has stopped, or has other scales."""
        facts = self._now()
        if facts != self._facts:
            self._facts = facts
            self._link.change(*statuses(self._config, self._session, facts))

    def farewell(self) -> Status:
        """The last status, of a clean stop."""
        return farewell(self._config, self._session, self._now())

    def _now(self) -> Facts:
        return Facts(
            self._memory.protected,
            {name: each.failure for each in self._workers if each.failure for name in each.names},
            {**self._facts.specs, **{each.name: each.spec for each in self._workers}},
            dict(self._adoption.problems),
        )
