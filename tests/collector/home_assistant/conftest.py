"""A model of Home Assistant: it validates announcements, and reads topics by templates.

The form is that of its MQTT device discovery, as its documentation of 2024.11 and later has it.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment
from paho.mqtt.enums import CallbackAPIVersion

from testbed.mosquitto import mosquitto
from tests.packages import needs
from tests.waiting import SECONDS

TOPIC = re.compile(r"homeassistant/device/(?P<object_id>[a-zA-Z0-9_-]+)/config")
DEVICE = {"identifiers", "name", "manufacturer", "model", "sw_version"}
COMMON = {
    *("platform", "unique_id", "name", "entity_category", "device_class", "state_topic"),
    *("value_template", "expire_after", "availability_topic", "availability_template"),
}
KEYS = {"binary_sensor": COMMON, "sensor": {*COMMON, "unit_of_measurement", "state_class"}}
CLASSES = {"binary_sensor": {"connectivity", "problem"}, "sensor": {"duration", "data_size"}}
UNITS = {"duration": {"d", "h", "min", "s"}, "data_size": {"B", "kB", "MB", "GiB"}}
STATE_CLASSES = {"measurement", "total", "total_increasing"}


def find_faults(message: dict) -> Iterator[str]:
    """The parts of an announcement that Home Assistant would reject or ignore."""
    if set(message) != {"device", "origin", "components"}:
        yield "the keys of the message"
        return
    device, origin, components = message["device"], message["origin"], message["components"]
    if not device.get("identifiers") or not set(device) <= DEVICE:
        yield "the device"
    if not origin.get("name") or not set(origin) <= {"name", "sw_version", "support_url"}:
        yield "the origin"
    for key, entity in components.items():
        yield from (f"{key}: {fault}" for fault in _entity_faults(entity))
    names = [entity.get("unique_id") for entity in components.values()]
    if len(set(names)) < len(names) or None in names:
        yield "unique ids"


def _entity_faults(entity: dict) -> Iterator[str]:
    platform, kind = entity.get("platform"), entity.get("device_class")
    if platform not in KEYS:
        yield "platform"
        return
    if not set(entity) <= KEYS[platform]:
        yield "keys"
    if kind is not None and kind not in CLASSES[platform]:
        yield "device class"
    if kind in UNITS and entity.get("unit_of_measurement") not in UNITS[kind]:
        yield "unit"
    if entity.get("state_class", "measurement") not in STATE_CLASSES:
        yield "state class"
    if entity.get("entity_category") != "diagnostic":
        yield "category"
    if not isinstance(entity.get("state_topic"), str):
        yield "state topic"


@pytest.fixture(scope="session")
def faults() -> Callable[[dict], list[str]]:
    return lambda message: list(find_faults(message))


@pytest.fixture(scope="session")
def render() -> Callable[[str, bytes], str]:
    """A template over a payload, in the sandbox of Home Assistant: `value`, and `value_json` where
    the payload is JSON. Raises what a template raises."""
    compiled = cache(ImmutableSandboxedEnvironment().from_string)

    def run(template: str, payload: bytes) -> str:
        text = payload.decode(errors="replace")
        known = {"value": text}
        with suppress(ValueError, RecursionError):
            known["value_json"] = json.loads(text, parse_constant=_no_number)
        return compiled(template).render(known).strip()

    return run


def _no_number(text: str) -> float:
    raise ValueError(text)


class Household:
    """Home Assistant as a client of the broker: it receives announcements and the devices' topics.

    `kept`: the newest payload by topic, without empty ones. `retained`: topics with a message that
    the broker had retained. `emptied`: topics with an empty message. `announcements`: their number.
    """

    def __init__(self, port: int, *filters: str) -> None:
        self.kept: dict[str, bytes] = {}
        self.retained: set[str] = set()
        self.emptied: set[str] = set()
        self.announcements = 0
        ready = threading.Event()
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.on_message = self._on_message
        self._client.on_subscribe = lambda *_: ready.set()
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        self._client.subscribe([(name, 1) for name in filters or ("#",)])
        assert ready.wait(SECONDS)

    def _on_message(self, client: object, userdata: object, message: paho.MQTTMessage) -> None:
        if not message.payload:
            self.emptied.add(message.topic)
            self.kept.pop(message.topic, None)
            return
        if TOPIC.fullmatch(message.topic):
            self.announcements += 1
        if message.retain:
            self.retained.add(message.topic)
        self.kept[message.topic] = message.payload

    def announced(self) -> dict[str, dict]:
        """The announcements, by the name of their device."""
        found = [json.loads(p) for t, p in list(self.kept.items()) if TOPIC.fullmatch(t)]
        return {message["device"]["name"]: message for message in found}

    def __enter__(self) -> "Household":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@pytest.fixture
def household() -> type[Household]:
    return Household


@pytest.fixture
@needs("mosquitto")
def broker(tmp_path: Path) -> Callable[..., object]:
    """A mosquitto of the field, which forgets everything when it ends."""
    return partial(mosquitto, tmp_path)
