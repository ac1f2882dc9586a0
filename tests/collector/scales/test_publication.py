"""The publication of scales, and the scales that other clients publish."""

import json

import numpy as np
import pytest

from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.scales.publication import RESTORE_SECONDS, ScalePublication
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.config_epochs import newest_scales
from pansketch_collector.storage.reader import reading
from pansketch_collector.validation.validation import Rules
from pansketch_collector.validation.verdicts import Accepted, Rejected, ScalesReceived
from pansketch_fleet.config.published_scales import domain_name, rescaled
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Status, StreamBirth
from pansketch_fleet.protocol.scale_message import Scales
from tests.collector.small_fleet import DAY, incoming
from tests.seeded_noise import seeded_noise
from tests.waiting import until

STREAM = """
  loose:
    source: {type: system, interval: 10s}
    window: 1d
    scales: {every: 7d}
    privacy: {epsilon: 50}
    attributes:
      temp: {low: -1000, high: 1000, unit: degC, step: 0.25}
      wind: {categories: [calm, north]}
    sketch: {depth: 12, k: 4096, width: 64}
collector:"""
TOPIC = topics.scale("testing", "loose")
KNOTS = {"temp": (-1000.0, -500.1, -0.1, 9.9, 10.1, 500.1, 600.1, 750.1, 1000.0)}


def readings(seed):
    rng = np.random.default_rng(seed)
    temp = np.round(4 * rng.normal(17, 4, 20_000)) / 4
    return np.column_stack([temp, temp > 17]).astype(float)


class Broker:
    """Keeps what is retained."""

    def __init__(self):
        self.connected, self.retained, self.times = True, {}, 0

    def announce(self, topic, payload):
        self.retained[topic] = payload
        self.times += 1

    @property
    def scales(self):
        return Scales.decode(self.retained[TOPIC]) if self.retained.get(TOPIC) else None


class Serving:
    """One serving process with a clock that is set by hand, days from 1970 on."""

    def __init__(self, small_fleet, opened, day):
        self.small_fleet, self.opened, self.broker = small_fleet, opened, Broker()
        self.uptime, self.now = 0.0, day * DAY
        config = small_fleet.config
        self.rules = Rules.of(config, opened.serve_settings(config, self.now))
        self.task = ScalePublication(config, opened.epochs, self.rules, self.broker)

    @property
    def stream(self):
        return next(s for s in self.small_fleet.config.streams if s.name == "loose")

    def stored(self, days, **changes):
        """Outcomes of releases of these days."""
        topic, release = self.small_fleet.topic("one", "loose"), self.small_fleet.release
        payloads = (release("one", day, "loose", readings(day), **changes) for day in days)
        found = [incoming(topic, payload) for payload in payloads]
        return commit_batch(self.opened, found, self.rules, self.now)

    def passes(self, days=0.0, seconds=1.0):
        self.now += round(days * DAY)
        self.uptime += days * DAY + seconds
        self.task.step(self.uptime, self.now)

    def learns(self):
        """Steps until an attempt to learn has ended."""
        each = self.task._streams["loose"]
        self.passes()
        until(lambda: each.learner is None or each.learner.found is not None, "an attempt")
        self.passes()

    def receive(self, scales):
        payload = scales if isinstance(scales, bytes) else scales.encode()
        (outcome,) = commit_batch(self.opened, [incoming(TOPIC, payload)], self.rules, self.now)
        assert outcome == ScalesReceived("loose", payload)
        self.task.receive(incoming(TOPIC, payload), outcome)

    def scales(self, begins, knots=None):
        held = KNOTS if knots is None else knots
        return Scales(1, "loose", domain_name(self.stream), begins, held)

    def spec_on(self, scales):
        return rescaled(self.stream, scales, self.small_fleet.config.profile).spec


@pytest.fixture
def fleet(small_fleet):
    small_fleet.path.write_text(small_fleet.path.read_text().replace("\ncollector:", STREAM))
    return small_fleet


@pytest.fixture
def opened(fleet):
    with store.opened(fleet.database) as found:
        yield found


@pytest.fixture
def serving(fleet, opened):
    return Serving(fleet, opened, 10)


def test_scales_are_learned_once_there_are_releases(serving):
    serving.learns()
    assert serving.broker.retained == {}
    serving.stored([8, 9])
    serving.passes(seconds=60)
    serving.learns()
    found = serving.broker.scales
    assert list(found.knots) == ["temp"]
    assert np.mean(np.abs(np.array(found.knots["temp"]) - 17) < 17) > 0.4  # configured: 0.017
    assert found.begins == 11 * DAY  # the first boundary that is ten minutes away
    assert found.domain == domain_name(serving.stream)


def test_releases_on_them_are_taken_at_once_and_after_a_restart(fleet, serving):
    serving.stored([8, 9])
    serving.learns()
    scales = serving.broker.scales
    spec = serving.spec_on(scales)
    serving.now = 20 * DAY
    assert isinstance(serving.stored([11], spec=spec)[0], Accepted)
    # A device that was disconnected has the configured scale, and counts too.
    assert isinstance(serving.stored([12])[0], Accepted)
    again = Serving(fleet, serving.opened, 30)
    assert isinstance(again.stored([13], spec=spec)[0], Accepted)
    again.passes()
    assert again.broker.scales == scales


def test_the_next_ones_come_after_every_and_only_if_they_gain(serving):
    serving.stored([8, 9])
    serving.learns()
    first, times = serving.broker.scales, serving.broker.times
    serving.passes(days=3)
    assert serving.task._streams["loose"].learner is None
    serving.stored([13])
    serving.passes(days=5)
    serving.learns()
    assert (serving.broker.scales, serving.broker.times) == (first, times)


@pytest.mark.parametrize(("epsilon", "publishes"), [(0.001, False), (50, True)])
def test_noise_is_not_published(fleet, opened, epsilon, publishes):
    """The noise is seeded. The second case is the negative control."""
    fleet.path.write_text(fleet.path.read_text().replace("epsilon: 50}", f"epsilon: {epsilon}}}"))
    serving = Serving(fleet, opened, 10)
    serving.stored([8, 9], entropy=seeded_noise(1))
    serving.learns()
    assert bool(serving.broker.retained) is publishes


def test_the_configured_scales_are_published_again(fleet, serving):
    serving.stored([8, 9])
    serving.learns()
    text = fleet.path.read_text().replace("every: 7d", "every: 7d, publish: configured")
    fleet.path.write_text(text)
    back = Serving(fleet, serving.opened, 12)
    back.passes()
    assert (back.broker.scales.knots, back.broker.scales.begins > 11 * DAY) == ({}, True)
    times = back.broker.times
    back.passes(days=30)
    assert back.broker.times == times


def test_a_restored_database_receives_the_scales_of_the_devices(serving):
    """Its copy is older than the scales that the broker holds."""
    serving.passes()
    lost = serving.scales(9 * DAY)
    assert isinstance(serving.stored([9], spec=serving.spec_on(lost))[0], Rejected)
    serving.receive(lost)
    assert isinstance(serving.stored([9], spec=serving.spec_on(lost))[0], Accepted)
    serving.passes()
    assert serving.broker.times == 0  # The retained message stays.


@pytest.mark.parametrize(
    "hostile",
    [
        lambda serving: b"{",
        lambda serving: serving.scales(40 * DAY, {"temp": (-1000.0, 990.1, 1000.0)}),
        lambda serving: serving.scales(serving.broker.scales.begins),
        lambda serving: serving.scales(0),
        lambda serving: serving.scales(300 * 366 * DAY),
    ],
)
def test_scales_that_no_device_adopts_are_replaced_once_a_minute(serving, hostile):
    serving.stored([8, 9])
    serving.learns()
    own, times = serving.broker.scales, serving.broker.times
    for turn in range(1, 3):
        serving.receive(hostile(serving))
        serving.passes(seconds=RESTORE_SECONDS + 1)
        assert (serving.broker.scales, serving.broker.times) == (own, times + turn)
        serving.receive(hostile(serving))
        serving.passes(seconds=1)
        assert serving.broker.times == times + turn
        serving.passes(seconds=RESTORE_SECONDS + 1)
        times += 1


def test_newer_scales_of_another_collector_are_taken(serving):
    serving.stored([8, 9])
    serving.learns()
    theirs = serving.scales(13 * DAY)
    times = serving.broker.times
    serving.receive(theirs)
    serving.passes(seconds=RESTORE_SECONDS + 1)
    assert serving.broker.times == times
    serving.now = 20 * DAY
    assert isinstance(serving.stored([14], spec=serving.spec_on(theirs))[0], Accepted)


def test_unusable_scales_are_cleared_before_any_are_published(serving):
    """Devices may wait for a scale of the far future: they stay on the configured ones."""
    serving.receive(serving.scales(300 * 366 * DAY))
    serving.passes()
    assert serving.broker.scales.knots == {}


def test_scales_of_a_stream_that_adopts_none_are_cleared(serving):
    topic = topics.scale("testing", "air")
    outcome = ScalesReceived("air", b"x")
    serving.task.receive(incoming(topic, b"x"), outcome)
    assert serving.broker.retained[topic] == b""
    serving.task.receive(incoming(topic, b""), ScalesReceived("air", b""))
    assert serving.broker.times == 1


def test_offline_nothing_is_learned_until_the_next_connection(serving):
    serving.broker.connected = False
    serving.stored([8, 9])
    serving.passes()
    assert serving.task._streams["loose"].learner is None
    serving.broker.connected = True
    serving.learns()
    serving.broker.connected = False
    serving.passes()
    serving.broker.retained.clear()
    serving.broker.connected = True
    serving.passes()
    assert serving.broker.scales is not None


def test_devices_and_settings_show_which_scales_are_in_force(fleet, serving, run):
    serving.stored([8, 9])
    serving.learns()
    scales = serving.broker.scales

    def birth(spec, problem=""):
        said = StreamBirth(spec.fingerprint.hex(), str(spec.guarantee), DAY, "", problem)
        return Status("online", "s1", {"loose": said}).encode()

    new, old = serving.spec_on(scales), serving.stream.spec
    for device, payload in (
        ("one", birth(new)),
        ("two", birth(old, "published scales are refused: x")),
    ):
        message = incoming(topics.status("testing", device), payload)
        commit_batch(serving.opened, [message], serving.rules, serving.now)
    code, out, err = run("devices")
    assert code == 0, err
    begins = "windows from 1970-01-12 on"
    assert f"scales: loose: learned for temp ({begins})" in out
    assert "scales: two loose: published scales are refused: x" in out
    assert "other settings" not in out
    found = json.loads(run("devices", "--json")[1])
    assert found["scales"]["loose"]["now"] == {"from": "1970-01-12", "learned": ["temp"]}
    runs = {each["device"]: each["settings"]["loose"]["now"] for each in found["devices"]}
    assert runs == {"one": True, "two": False}
    rows = json.loads(run("settings", "--json")[1])["settings"]
    assert [row["now"] for row in rows if row["stream"] == "loose"] == [True, False]


def test_damaged_scales_are_as_if_there_were_none(fleet, serving):
    serving.stored([8, 9])
    serving.learns()
    serving.opened.connection.execute("UPDATE scales SET message = x'7b'")
    with reading(fleet.database) as reader:
        assert newest_scales(reader.connection, serving.stream) is None
