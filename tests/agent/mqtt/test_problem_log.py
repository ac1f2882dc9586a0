"""Two agents with one name: each logs it, instead of a fault of the network."""

import re

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from pansketch_agent.mqtt.events import Disconnected
from pansketch_agent.mqtt.problem_log import SHORT_SECONDS, ClientIdConflicts, OutageLog
from pansketch_collector.reports.device_health import as_lines
from pansketch_collector.storage.device_reports import ReceivedHealth
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Health
from testbed.mosquitto import mosquitto
from tests.waiting import until

LASTS_NOT = "another client seems to use this name, for no connection lasts"
SAYS = re.compile(f"{LASTS_NOT}|another client uses this name")


@pytest.mark.needs("mosquitto")
@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_two_agents_with_one_name_log_it_once_each(device, tmp_path, protocol):
    """A broker of MQTT 3.1.1 just closes the older connection, and so does mosquitto before 2.0.12
    in either version. Later ones report why over MQTT 5.
    """
    with mosquitto(tmp_path) as port:
        device.configure(f"mqtt://127.0.0.1:{port}", source="{type: stdin}")
        text = device.config.read_text()
        device.config.write_text(text.replace(f':{port}"', f':{port}", protocol: "{protocol}"'))
        first = device.start("run")
        first.wait_until_connected()
        device.config.write_text(
            device.config.read_text().replace("device: dev-1", "device: dev-1, state: twin")
        )
        received = healths(port)
        second = device.start("run")
        for agent in (first, second):
            until(lambda agent=agent: SAYS.search(agent.output), lambda agent=agent: agent.output)
        until(lambda: any(health.name_conflicts for health in received), "a health that says it")
        for agent in (first, second):
            assert agent.stop() == 0
            assert len(SAYS.findall(agent.output)) == 1


def healths(port: int) -> list[Health]:
    """The health messages from now on."""
    received: list[Health] = []
    client = Client(CallbackAPIVersion.VERSION2)
    client.on_message = lambda _c, _u, message: received.append(Health.decode(message.payload))
    client.on_connect = lambda *_: client.subscribe(topics.health("testing", "dev-1"))
    client.connect("127.0.0.1", port)
    client.loop_start()
    return received


def test_a_broker_that_names_the_reason_is_believed_at_once():
    conflicts = ClientIdConflicts()
    assert conflicts.connection_lost("Session taken over", 10**6, False).startswith(
        "another client uses"
    )
    assert conflicts.count == 1


def test_connections_that_last_or_end_over_a_release_are_no_conflict():
    """Negative controls: a broker that restarts now and then, and one that takes nothing long."""
    conflicts = ClientIdConflicts()
    ends = [(1.0, False), (1.0, False), (SHORT_SECONDS, False), (1.0, False), (1.0, False)]
    ends += [(1.0, True), *[(1.0, False)] * 2]
    assert [conflicts.connection_lost("Unspecified error", *end) for end in ends] == [""] * len(
        ends
    )
    assert conflicts.connection_lost("Unspecified error", 1.0, False).startswith(LASTS_NOT)
    assert conflicts.count == 1


def test_it_is_logged_once_with_any_events_between(caplog):
    absence = OutageLog("broker:1883")
    caplog.set_level("INFO")
    connected = "connected to the broker at broker:1883 (MQTT 5)"
    absence.connected("5")
    for _ in range(3):
        absence.log(Disconnected("another client uses this name", taken_over=True))
        absence.connected("5")
    assert caplog.text.count("disconnected by the broker at broker:1883: another client") == 1
    assert caplog.text.count(connected) == 1
    absence.log(Disconnected("the connection ended"))
    absence.connected("5")
    assert caplog.text.count(connected) == 2, "the other client is gone, and the broker restarts"


def test_the_devices_table_names_the_device():
    health = Health("s1", "0.1.0", 60, True, 0, None, 0, 0, 0, name_conflicts=7)
    assert any(
        "dev-1: another client has this name" in line
        for line in as_lines({"dev-1": ReceivedHealth(0, health)})
    )
    quiet = Health("s1", "0.1.0", 60, True, 0, None, 0, 0, 0)
    assert b"name_conflicts" not in quiet.encode(), "an earlier collector reads it too"
    assert not any(
        "another client" in line for line in as_lines({"dev-1": ReceivedHealth(0, quiet)})
    )
