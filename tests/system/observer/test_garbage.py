"""Malformed messages on a fleet's topics: all are quarantined with a reason and delay no
release."""

from dataclasses import replace

import numpy as np

from pansketch import encode, os_entropy, peek
from pansketch_fleet.config.loader import load_collector
from pansketch_fleet.protocol import topics

HOURS = 20
SPEED = 3600 * 15  # fifteen windows a second
ENTROPY = os_entropy()


def topic(device, stream="air"):
    return topics.release("home", device, stream)


def changed(payload, place):
    """The payload with one bit flipped."""
    return payload[:place] + bytes([payload[place] ^ 1]) + payload[place + 1 :]


def forged(config_file, device, window, stream="air"):
    """A well-formed release of a window in a device's name, under any configuration."""
    spec = load_collector(config_file, {}).streams[0].spec
    sketch = spec.start(ENTROPY)
    sketch.update_many(np.array([[60.0, 1000.0]] * 1000))
    return encode(sketch.release(ENTROPY, replace(window, device=device, stream=stream)))


def garbage(fleet, real):
    """(topic, payload, reason) of what a hostile or broken client may send; `real` is of dev-1."""
    foreign_config = fleet.configure("stranger", [], fleet="villa")
    own_config = fleet.folder / "dev-1.yaml"
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
        (topic("dev-1", "water"), forged(own_config, "dev-1", window, "water"), "stream"),
        (topic("dev-3"), forged(foreign_config, "dev-3", window), "fingerprint"),
        (topic("dev-1"), forged(own_config, "dev-1", window), "equivocation"),
        (topics.status("home", "dev-1"), b"\xff{}", "status"),
    ]


def test_garbage_goes_to_quarantine_and_every_release_arrives(fleet, hourly, listen):
    devices = ("dev-1", "dev-2")
    for device in devices:
        source = f"{{type: replay, path: {device}.csv, speed: {SPEED}}}"
        fleet.configure(device, hourly(HOURS, 5), source=source, epsilon=100)
    fleet.start_broker()
    collector = fleet.collector()
    listener = listen(fleet)
    agents = [fleet.agent("dev-1")]
    fleet.until(lambda: fleet.stored(), "a release of dev-1 to copy")
    real = listener.on("dev-1/release/air")[0]
    sent = garbage(fleet, real)
    for place, payload, _ in sent[::2]:
        listener.publish(place, payload)
    # The first device may have ended by now. This one sends its releases amid malformed messages.
    agents.append(fleet.agent("dev-2"))
    for place, payload, _ in sent[1::2]:
        listener.publish(place, payload)
    assert [agent.wait() for agent in agents] == [0, 0]
    expected = sorted((place, reason) for place, _, reason in sent)
    fleet.until(
        lambda: fleet.quarantine() == expected, lambda: f"{expected}, not {fleet.quarantine()}"
    )
    for device in devices:
        kept = sorted(fleet.stored(device))
        assert [sequence for sequence, _, _ in kept] == list(range(1, HOURS + 1))
        assert fleet.ledger(device) == kept
        assert fleet.outbox(device) == []
    assert fleet.rows("SELECT device, stream FROM disputed") == [("dev-1", "air")]
    assert not fleet.stored("dev-3")
    assert "Traceback" not in collector.output
    # A release forged at the upper bounds counts nowhere.
    forged_readings = fleet.ask(
        "query", "--stream", "air", "range", "temp", "55", "60", "pm25", "900", "1000"
    )
    assert float(forged_readings.split()[0].replace(",", "")) < 100
