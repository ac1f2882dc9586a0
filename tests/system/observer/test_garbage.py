"""Garbage on a fleet's topics: all of it in quarantine, with the reason, and none in the way."""

from dataclasses import replace

import numpy as np

from pansketch import encode, os_entropy, peek
from pansketch_fleet.config.loader import load_collector
from pansketch_fleet.protocol import topics

HOURS = 20
SPEED = 3600 * 15  # fifteen windows a second
ENTROPY = os_entropy()


def topic(device, stream="air"):
    return topics.release("house", device, stream)


def changed(payload, place):
    """The payload with one bit flipped."""
    return payload[:place] + bytes([payload[place] ^ 1]) + payload[place + 1 :]


def forged(config_file, device, window, stream="air"):
    """A well-formed release of a window in a device's name, under any configuration."""
    spec = load_collector(config_file, {}).streams[0].spec
    sketch = spec.start(ENTROPY)
    sketch.update_many(np.array([[60.0, 1000.0]] * 1000))
    return encode(sketch.release(ENTROPY, replace(window, device=device, stream=stream)))


def garbage(house, real):
    """(topic, payload, reason) of what a hostile or broken client may send; `real` is of dev-1."""
    foreign_house = house.configure("stranger", [], fleet="villa")
    own_house = house.folder / "dev-1.yaml"
    version, end = 4, len(real) - 1
    (window,) = peek(real).windows
    return [
        (topic("dev-1"), changed(real, len(real) // 2), "checksum"),
        (topic("dev-1"), changed(real, end), "checksum"),
        (topic("dev-1"), changed(real, 0), "magic"),
        (topic("dev-1"), changed(real, version), "version"),
        (topic("dev-1"), real[:end], "checksum"),
        (topic("dev-1"), real[:9], "size"),
        (topic("dev-1"), real + b"\0", "checksum"),
        (topic("dev-1"), b"", "size"),
        (topic("dev-1"), bytes(4_000_000), "length"),
        (topic("dev-2"), real, "identity"),
        (topic("dev-1", "water"), real, "identity"),
        (topic("dev-1", "water"), forged(own_house, "dev-1", window, "water"), "stream"),
        (topic("dev-3"), forged(foreign_house, "dev-3", window), "fingerprint"),
        (topic("dev-1"), forged(own_house, "dev-1", window), "equivocation"),
        (topics.status("house", "dev-1"), b"\xff{}", "status"),
    ]


def test_garbage_goes_to_quarantine_and_every_release_arrives(house, hourly, listen):
    devices = ("dev-1", "dev-2")
    for device in devices:
        source = f"{{type: replay, path: {device}.csv, speed: {SPEED}}}"
        house.configure(device, hourly(HOURS, 5), source=source, epsilon=100)
    house.start_broker()
    collector = house.collector()
    ear = listen(house)
    agents = [house.agent("dev-1")]
    house.until(lambda: house.stored(), "a release of dev-1 to copy")
    real = ear.on("dev-1/release/air")[0]
    sent = garbage(house, real)
    for place, payload, _ in sent[::2]:
        ear.say(place, payload)
    # Whatever became of the first one meanwhile, this one's releases come amid garbage.
    agents.append(house.agent("dev-2"))
    for place, payload, _ in sent[1::2]:
        ear.say(place, payload)
    assert [agent.ends() for agent in agents] == [0, 0]
    expected = sorted((place, reason) for place, _, reason in sent)
    house.until(
        lambda: house.quarantine() == expected, lambda: f"{expected}, not {house.quarantine()}"
    )
    for device in devices:
        kept = sorted(house.stored(device))
        assert [sequence for sequence, _, _ in kept] == list(range(1, HOURS + 1))
        assert house.ledger(device) == kept
        assert house.outbox(device) == []
    assert house.rows("SELECT device, stream FROM disputed") == [("dev-1", "air")]
    assert not house.stored("dev-3")
    assert "Traceback" not in collector.said
    # What was forged at the upper bounds counts nowhere.
    forged_readings = house.ask(
        "query", "--stream", "air", "range", "temp", "55", "60", "pm25", "900", "1000"
    )
    assert float(forged_readings.split()[0].replace(",", "")) < 100
