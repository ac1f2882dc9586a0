"""The broker's part of the main loop: events, deliveries and health."""

import logging
from collections.abc import Sequence

from pansketch_agent.delivery.delivery import Delivery
from pansketch_agent.host.clock import Clock
from pansketch_agent.mqtt.connection import DeviceClient
from pansketch_agent.mqtt.events import (
    AckArrived,
    Connected,
    Disconnected,
    Event,
    MarkArrived,
    PublishAcknowledged,
    ScalesArrived,
    Subscribed,
)
from pansketch_agent.mqtt.problem_log import AclErrors, OutageLog
from pansketch_agent.runtime.mark_check import MarkCheck
from pansketch_agent.runtime.scale_adoption import ScaleAdoption
from pansketch_agent.runtime.stream_worker import StreamWorker
from pansketch_agent.status.health import HealthSchedule
from pansketch_fleet.config.programs import AgentConfig
from pansketch_fleet.protocol.messages import Ack
from pansketch_fleet.protocol.topics import is_mark
from pansketch_fleet.systemd import Notifier

LOG = logging.getLogger(__name__)


class BrokerSession:
    """The agent's work with its broker over all connections; for one thread."""

    def __init__(
        self,
        config: AgentConfig,
        clock: Clock,
        notifier: Notifier,
        client: DeviceClient,
        delivery: Delivery,
        health: HealthSchedule,
        mark_check: MarkCheck,
        adoption: ScaleAdoption,
        workers: Sequence[StreamWorker],
    ) -> None:
        self._clock, self._notifier, self._client = clock, notifier, client
        self._delivery, self._health, self._mark_check = delivery, health, mark_check
        self._adoption, self._workers, self._outbox = adoption, workers, delivery.outbox
        self._acl = AclErrors(config.agent.device)
        self._name_broker(config)
        self._connected, self._unsubscribed = False, set(client.subscriptions)

    def process_events(self, timeout_seconds: float) -> bool:
        """Wait for an event, handle all, and return whether the last one was a lost connection."""
        disconnected = False
        event = self._client.next_event(timeout_seconds)
        while event is not None:
            self._handle(event)
            disconnected = isinstance(event, Disconnected)
            event = self._client.next_event(0)
        return disconnected

    def deliver(self, now: float) -> None:
        """Send the health and the releases that are due."""
        self._outbox.persist_overdue(now)
        if not self._connected:
            return
        self._health.step(now)
        self._mark_check.step(now)
        if not self._mark_check.done:
            return
        self._mark_check.sent = True
        self._delivery.step(now)
        if self._delivery.stalled(now):
            self._set_disconnected()
            LOG.warning("the broker at %s does not answer; reconnecting", self._broker)
            self._client.reopen()

    def renew(self, config: AgentConfig) -> None:
        """Reconnect with the broker and the credentials of this configuration."""
        self._name_broker(config)
        # The end of this connection must not count against a release.
        self._set_disconnected()
        self._client.renew(config.mqtt, config.agent.credentials)

    def report_last(self) -> None:
        """Publish the last health before a graceful disconnect."""
        if self._connected:
            self._health.connected(self._clock.monotonic())

    def state(self) -> str:
        """Return a line for `systemctl status`; it depends on the schedule and the network only."""
        broker = "connected" if self._connected else "not connected"
        dropped = f", dropped ever: {self._outbox.dropped}" if self._outbox.dropped else ""
        waiting = f"releases waiting: {len(self._outbox)}{dropped}"
        return f"{broker} to the broker at {self._broker}, {waiting}"

    def _name_broker(self, config: AgentConfig) -> None:
        self._broker = f"{config.mqtt.host}:{config.mqtt.port}"
        self._outages = OutageLog(self._broker)

    def _set_disconnected(self) -> None:
        self._connected = False
        self._mark_check.disconnected()

    def _handle(self, event: Event) -> None:
        match event:
            case Connected(version):
                self._set_connected(version)
            case Disconnected():
                if self._connected:
                    self._delivery.disconnected()
                self._set_disconnected()
                self._notifier.connected(False)
                self._outages.log(event)
            case Subscribed(topic, failure):
                self._acl.set_result("hear", topic, failure)
                (self._unsubscribed.add if failure else self._unsubscribed.discard)(topic)
                self._notifier.connected(not self._unsubscribed)
                if failure and is_mark(topic):
                    self._mark_check.subscription_denied()
            case PublishAcknowledged(publication, failure):
                self._acl.set_result("write", publication.topic, failure)
                self._delivery.publish_acknowledged(publication, failure)
            case MarkArrived():
                self._mark_check.arrived(event, self._clock.monotonic())
            case ScalesArrived():
                self._adoption.arrived(event, {each.name: each for each in self._workers})
            case AckArrived(payload):
                self._acknowledge(payload)

    def _set_connected(self, version: str) -> None:
        now = self._clock.monotonic()
        self._connected, self._unsubscribed = True, set(self._client.subscriptions)
        self._mark_check.connected(now)
        self._outages.connected(version)
        self._client.announce()
        self._health.connected(now)
        self._delivery.connected(now)

    def _acknowledge(self, payload: bytes) -> None:
        try:
            ack = Ack.decode(payload)
        except ValueError:
            return  # The release is still in the outbox, and is retransmitted.
        self._delivery.acknowledged(ack)
