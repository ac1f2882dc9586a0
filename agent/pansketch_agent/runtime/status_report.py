"""Publishes the device's status again whenever it has changed.

The status depends on the schedule, the configuration, the disk and messages of the broker.
"""

from collections.abc import Sequence

from pansketch_agent.mqtt.connection import DeviceClient
from pansketch_agent.runtime.control import MemoryCheck
from pansketch_agent.runtime.scale_adoption import ScaleAdoption
from pansketch_agent.runtime.stream_worker import StreamWorker
from pansketch_agent.status.health import Facts, statuses, stopped_status
from pansketch_fleet.config.programs import AgentConfig
from pansketch_fleet.protocol.messages import Status


class StatusReport:
    """The status of a running agent, for one thread. `facts`: those of the first connection."""

    def __init__(
        self,
        config: AgentConfig,
        session: str,
        client: DeviceClient,
        workers: Sequence[StreamWorker],
        adoption: ScaleAdoption,
        memory: MemoryCheck,
        facts: Facts,
    ) -> None:
        self._config, self._session, self._client = config, session, client
        self._workers, self._adoption, self._memory = workers, adoption, memory
        self._facts = facts

    def step(self) -> None:
        """Publish the status if it has changed: a stream has stopped, or has other scales."""
        facts = self._now()
        if facts != self._facts:
            self._facts = facts
            self._client.change_status(*statuses(self._config, self._session, facts))

    def stopped_status(self) -> Status:
        """Return the last status, of a clean stop."""
        return stopped_status(self._config, self._session, self._now())

    def _now(self) -> Facts:
        return Facts(
            self._memory.protected,
            {name: each.failure for each in self._workers if each.failure for name in each.names},
            {**self._facts.specs, **{each.name: each.spec for each in self._workers}},
            dict(self._adoption.problems),
        )
