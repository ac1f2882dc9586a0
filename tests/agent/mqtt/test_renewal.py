"""Another broker, given to a connection that is just being made."""

from pansketch_agent.mqtt.connection import DeviceClient
from pansketch_agent.mqtt.events import Connected
from pansketch_fleet.config.loader import load_agent
from pansketch_fleet.protocol.messages import Status
from testbed.embedded_broker import free_port


def test_a_connection_under_way_to_the_broker_before_is_given_up(
    device, broker, broker_at, peer, until
):
    """It has no socket yet, so there is nothing to end."""
    device.configure(broker.url)
    config = load_agent(device.config, {})

    with broker_at(free_port()) as other, peer(broker.url) as first, peer(other.url) as second:
        device.configure(other.url)
        later = load_agent(device.config, {})

        class Renewed(DeviceClient):
            done = False

            def make(self, terms):
                made = super().make(terms)
                if not (terms.probing or self.done):
                    self.done = True
                    self.renew(later.mqtt, None)
                return made

        birth, stopped = Status("online", "a" * 16, {}), Status("stopped", "a" * 16, {})
        link = Renewed(config.mqtt, "testing", "dev-1", birth, stopped)
        link.start()

        def received():
            if isinstance(link.next_event(0.1), Connected):
                link.announce()
            return [*first.statuses, *second.statuses]

        until(lambda: birth in received(), "the birth message")
        link.stop(stopped)
    assert birth in second.statuses
    assert birth not in first.statuses
