"""Simulated releases are those that sketches of the same readings release, each with own noise."""

from collections import Counter

import numpy as np
import pytest

from pansketch import WindowId, decode, os_entropy
from pansketch_fleet.config.loader import load_collector
from pansketch_fleet.protocol.messages import Health, Status, digest
from pansketch_fleet.settings.device_spec import schedule_offset
from testbed.fleet_simulator.options import CONFIG
from testbed.fleet_simulator.releases import Load, SimulatedFleet, _column, releases
from tests.pansketch.sketches.families import DOMAIN, FAMILIES

LABELS = [WindowId(f"d{n}", "s", 1, 0, 60) for n in range(5)]
WHICH = np.array([0, 2, 2, 1, 0])


class Counted:
    """Entropy that adds the same to every counter, and counts the draws of each scale. Bits of keys
    are drawn as ever."""

    def __init__(self, added):
        self._added, self._real, self.draws = added, os_entropy(), Counter()

    def add_discrete_laplace(self, scale, counters):
        self.draws[scale] += counters.size
        counters += self._added

    def fill_bernoulli(self, chance, bits):
        self.draws[chance] += bits.size
        self._real.fill_bernoulli(chance, bits)

    def identifier(self):
        return self._real.identifier()


@pytest.mark.parametrize("name", FAMILIES)
def test_a_release_has_the_counts_and_the_draws_of_its_sketch(name):
    """Noise that is known makes both exact: many draws together are as many as one by one."""
    family = FAMILIES[name]
    readings = [family.draw(50, seed) for seed in range(3)]
    together, alone = Counted(3), Counted(3)
    found = releases(family.spec, LABELS, readings, WHICH, together)
    assert [release.windows for release in found] == [(label,) for label in LABELS]
    for label, n, release in zip(LABELS, WHICH, found, strict=True):
        sketch = family.spec.start(alone)
        sketch.update_many(readings[n])
        wanted = sketch.release(alone, label)
        assert release.draws == wanted.draws
        if family.linear:
            assert (release.counters == wanted.counters).all()
    assert together.draws == alone.draws


@pytest.fixture(scope="module")
def config():
    return load_collector(CONFIG, {})


def simulated(config, **load):
    fleet = SimulatedFleet(config, config.streams, Load(**load), os_entropy())
    return fleet, list(fleet.messages())


def test_labels_are_those_of_agents(config):
    fleet, messages = simulated(config, devices=20, windows=3)
    (stream,) = config.streams
    made = [m for m in messages if "/release/" in m.topic]
    labels = [decode(m.payload, stream.spec).windows[0] for m in made]
    assert len(made) == fleet.releases == 60
    assert [m.digest for m in made] == [digest(m.payload) for m in made]
    for label in labels:
        assert label.end - label.start == stream.window_seconds
        offset = schedule_offset(label.device, stream.window_seconds)
        assert label.start % stream.window_seconds == offset
    ledgers = {label.device: label.incarnation for label in labels}
    assert len(set(ledgers.values())) == 20
    assert all(label.incarnation == ledgers[label.device] for label in labels)
    for device in ledgers:
        own = [label for label in labels if label.device == device]
        assert [label.sequence for label in own] == [1, 2, 3]
        assert [label.start - own[0].start for label in own] == [0, 3600, 7200]
    births = [Status.decode(m.payload) for m in messages if m.topic.endswith("/status")]
    assert len(births) == 20
    assert births[0].streams["temp"].fingerprint == stream.spec.fingerprint.hex()


def test_every_release_has_noise_of_its_own(config):
    """Two of 69 counters with two draws of these scales are equal with a chance below 1e-60. The
    control has the readings alone, of which few profiles are."""
    (stream,) = config.streams
    _, messages = simulated(config, devices=200, windows=2)
    counters = [decode(m.payload, stream.spec).counters for m in messages if m.digest]
    assert len({row.tobytes() for row in counters}) == 400
    readings = [np.full((60, 1), each) for each in (1.0, 2.0, 3.0)]
    silent = releases(stream.spec, LABELS, readings, WHICH, Counted(0))
    assert len({release.counters.tobytes() for release in silent}) == 3, "the control"


def test_a_device_that_is_offline_publishes_in_its_next_window(config):
    fleet, messages = simulated(config, devices=50, windows=4, outages=0.5, health=2)
    (stream,) = config.streams
    order = {}
    for message in messages:
        if message.digest:
            label = decode(message.payload, stream.spec).windows[0]
            order.setdefault(label.device, []).append(label.sequence)
    assert len(order) == 50
    assert all(sequences == [1, 2, 3, 4] for sequences in order.values())
    # Of 150 chances of one half each; outside with a probability of 2e-10.
    assert 36 <= fleet.offline <= 114
    health = [Health.decode(m.payload) for m in messages if m.topic.endswith("/health")]
    assert len(health) == 2 * (200 - fleet.offline)


def test_readings_are_within_the_bounds_of_any_domain(config):
    rng = np.random.default_rng(1)
    for attribute in (*DOMAIN.attributes, *config.streams[0].domain.attributes):
        values = _column(attribute, 1000, rng)
        assert attribute.low <= values.min() < values.max() <= attribute.high
