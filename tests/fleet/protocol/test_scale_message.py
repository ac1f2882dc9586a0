"""The message of published scales and a device's file of them: strict, bounded, reproducible."""

import json

import pytest

from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.scale_message import (
    MAX_ATTRIBUTES,
    MAX_KNOTS,
    SCALES_LIMIT_BYTES,
    HeldScales,
    Scales,
    TakenScales,
)

SCALES = Scales(1, "air", "00ff" * 4, 86_400, {"temp": (-40.0, 5.5, 60.0)})
BYTES = (
    b'{"version":1,"stream":"air","domain":"00ff00ff00ff00ff","begins":86400,'
    b'"knots":{"temp":[-40.0,5.5,60.0]}}'
)


def test_the_bytes_are_fixed():
    assert SCALES.encode() == BYTES
    assert Scales.decode(BYTES) == SCALES
    assert Scales.decode(BYTES.replace(b"-40.0", b"-40")) == SCALES
    configured = Scales(1, "air", "00ff" * 4, 0, {})
    assert Scales.decode(configured.encode()) == configured


def test_the_largest_message_fits():
    """Numbers with all their digits, but of names that are not the longest."""
    knots = tuple(-1.2345678901234567e-300 * n for n in range(1, MAX_KNOTS + 1))
    most = Scales(1, "air", "0" * 16, 1, {f"name-{n:02}": knots for n in range(MAX_ATTRIBUTES)})
    assert len(most.encode()) < SCALES_LIMIT_BYTES


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"version":1', b'"version":2'),
        (b'"stream":"air"', b'"stream":"Air"'),
        (b"00ff00ff00ff00ff", b"00ff"),
        (b"86400", b"-1"),
        (b"86400", b"253402300800"),
        (b"86400", b"86400.5"),
        (b"[-40.0,5.5,60.0]", b"[-40.0,60.0]"),
        (b"[-40.0,5.5,60.0]", b"[" + b",".join([b"1"] * (MAX_KNOTS + 1)) + b"]"),
        (b"5.5", b"NaN"),
        (b"5.5", b"1e999"),
        (b"5.5", b'"5.5"'),
        (b'"temp"', b'""'),
        (b'"temp"', b'"' + b"t" * 65 + b'"'),
        (b'{"version":1', b'{"more":1,"version":1'),
        (b'{"version":1', b'{"stream":"air","version":1'),
        (b'{"version"', b'[{"version"'),
        (b"}}", b"}}" + b" " * SCALES_LIMIT_BYTES),
    ],
)
def test_what_is_no_such_message_is_refused_by_a_single_line(old, new):
    data = BYTES.replace(old, new)
    assert data != BYTES
    with pytest.raises(ValueError, match=r"\w") as refusal:
        Scales.decode(data)
    assert len(str(refusal.value).splitlines()) == 1


def test_a_file_holds_two_at_most_in_order():
    two = TakenScales((HeldScales(10, SCALES), HeldScales(20, SCALES)))
    assert TakenScales.decode(two.encode()) == two
    for times in ([20, 10], [1, 2, 3], [-1]):
        held = [{"at": at, "scales": json.loads(BYTES)} for at in times]
        with pytest.raises(ValueError, match=r"held|at"):
            TakenScales.decode(json.dumps({"held": held}).encode())


def test_no_device_writes_where_scales_are_read():
    topic = topics.scale("house", "air")
    assert topic == "pansketch/v1/house/all.devices/scale/air"
    found = topics.parse(topic)
    assert (found.kind, found.device, found.stream) == ("scale", "", "air")
    assert topics.is_retained(topic)
    assert topics.is_scale(topic)
    assert not topics.is_id("all.devices")
    assert topics.parse("pansketch/v1/house/dev-1/scale/air") is None
    assert not topics.is_scale(topics.release("house", "dev-1", "scale"))
