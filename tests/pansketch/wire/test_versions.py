"""The fields of a window on the wire; no other version of the format is read."""

import msgpack
import pytest

from pansketch import (
    Attribute,
    CellsSpec,
    DistinctSpec,
    Domain,
    HierarchySpec,
    MergeError,
    MomentsSpec,
    Privacy,
    WindowId,
    WireError,
    decode,
    encode,
    merge,
    os_entropy,
    peek,
)
from pansketch.randomness.keyed_hash import digest
from pansketch_cli.__main__ import main

DOMAIN = Domain([Attribute("temp", -40, 60), Attribute("wind", categories=("N", "E", "S"))])
SPECS = {
    "hierarchy": HierarchySpec(DOMAIN, Privacy(epsilon=1.0), depth=6, k=4, width=8, rows=2),
    "cells": CellsSpec(DOMAIN, Privacy(epsilon=1.0), depth=6, width=8, rows=2),
    "moments": MomentsSpec(DOMAIN, Privacy(epsilon=1.0), "rff", m=4, sigma=1.0),
    "count": DistinctSpec(Privacy(epsilon=1.0, unit="key"), universe=90, memory=100),
    "bitmap": DistinctSpec(
        Privacy(epsilon=6.0, unit="key"), expected_keys=30, memory=16, release="bitmap"
    ),
    "levels": DistinctSpec(Privacy(epsilon=1.0, unit="key"), memory=100),
}
CLOCKS = [None, True, False]
FIRST, SECOND = bytes(range(8)), bytes(range(8, 16))  # incarnations


@pytest.fixture(params=SPECS)
def spec(request):
    return SPECS[request.param]


def released(spec, sequence=1, clock=None, incarnation=FIRST):
    rng = os_entropy()
    start = sequence * 60
    window = WindowId("dev-1", "air", sequence, start, start + 60, clock, incarnation)
    return spec.start(rng).release(rng, window)


def clocks_of(release):
    return [window.clock_synchronised for window in release.windows]


def forged(version, change):
    """A release with one field of its first window changed, and a checksum that holds."""
    data = encode(released(SPECS["hierarchy"]))
    fields = msgpack.unpackb(data[13:])
    fields[2] = [change(fields[2][0])]
    body = msgpack.packb(fields)
    return b"PANS" + bytes([version]) + digest(body, 8) + body


def reason_of(data):
    with pytest.raises(WireError) as caught:
        decode(data, SPECS["hierarchy"])
    return caught.value.reason


@pytest.mark.parametrize("clock", CLOCKS)
def test_the_clock_comes_back(spec, clock):
    release = released(spec, clock=clock)
    data = encode(release)
    assert (data[4], peek(data).version) == (3, 3)
    assert clocks_of(peek(data)) == clocks_of(decode(data, spec)) == [clock]
    assert encode(decode(data, spec)) == data


@pytest.mark.parametrize("incarnation", [b"", FIRST])
def test_the_incarnation_comes_back(spec, incarnation):
    release = released(spec, incarnation=incarnation)
    data = encode(release)
    for windows in (peek(data).windows, decode(data, spec).windows):
        assert [window.incarnation for window in windows] == [incarnation]
        assert windows == release.windows
    assert encode(decode(data, spec)) == data


@pytest.mark.parametrize("incarnation", [b"1234567", b"123456789", b"1"])
def test_an_incarnation_of_another_length_is_not_encoded(incarnation):
    with pytest.raises(ValueError, match="8 bytes"):
        encode(released(SPECS["hierarchy"], incarnation=incarnation))


@pytest.mark.parametrize("incarnation", [b"1234567", b"123456789", "12345678", 1, None, [], [1]])
def test_what_is_no_incarnation_is_refused(incarnation):
    assert reason_of(forged(3, lambda window: [*window[:6], incarnation])) == "malformed"


def test_one_sequence_number_of_two_incarnations_is_two_releases():
    spec = SPECS["hierarchy"]
    both = [released(spec, 1, None, FIRST), released(spec, 1, None, SECOND)]
    assert len(merge(both).windows) == 2
    with pytest.raises(MergeError, match="twice"):
        merge([both[0], both[0]])


def test_a_clock_changes_only_its_own_byte():
    """Beside the checksum; so it carries nothing else."""
    release = released(SPECS["hierarchy"])
    bodies = []
    for clock in CLOCKS:
        object.__setattr__(release, "windows", (WindowId("d", "s", 1, 0, 9, clock),))
        bodies.append(encode(release)[13:])
    assert len({len(body) for body in bodies}) == 1
    for other in bodies[1:]:
        assert sum(a != b for a, b in zip(bodies[0], other, strict=True)) == 1


def test_a_label_is_the_same_for_any_state_of_its_clock():
    windows = [WindowId("d", "s", 1, 0, 9, clock) for clock in CLOCKS]
    assert len(set(windows)) == 1
    assert len({window.key for window in windows}) == 1


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("incarnation", [b"", FIRST])
def test_inspect_shows_what_is_known_of_a_window(tmp_path, capsys, clock, incarnation):
    data = encode(released(SPECS["hierarchy"], clock=clock, incarnation=incarnation))
    (tmp_path / "one").write_bytes(data)
    assert main(["inspect", str(tmp_path / "one")]) == 0
    suffixes = {None: "", True: ", clock synchronised", False: ", clock not synchronised"}
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].endswith(f"1970-01-01T00:02:00+00:00{suffixes[clock]}")
    name = f"dev-1/air 1 of {FIRST.hex()}:" if incarnation else "dev-1/air 1:"
    assert name in lines[-1]
    assert "wire format  3" in lines


@pytest.mark.parametrize("clock", [3, -1, 255, 2**40, True, None, "1", b"1", 1.0, [1], []])
def test_what_is_no_clock_is_refused(clock):
    assert reason_of(forged(3, lambda window: [*window[:5], clock, FIRST])) == "malformed"


@pytest.mark.parametrize("fields", [0, 1, 3, 4, 5, 6, 8, 9])
def test_a_window_has_seven_fields(fields):
    assert reason_of(forged(3, lambda window: [*window, 0, 0][:fields])) == "malformed"
    assert peek(forged(3, lambda window: [*window, 0, 0][:7])).version == 3


@pytest.mark.parametrize("version", [0, 1, 2, 4, 5, 128, 255])
@pytest.mark.parametrize("fields", [5, 6, 7])
def test_no_other_version_is_read(version, fields):
    assert reason_of(forged(version, lambda window: window[:fields])) == "version"


def test_every_truncation_and_every_flipped_byte_is_refused(spec):
    data = encode(released(spec))
    for length in range(len(data)):
        with pytest.raises(WireError):
            decode(data[:length], spec)
    for place in range(len(data)):
        for flip in (1, 3, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[place] ^= flip
            with pytest.raises(WireError):
                decode(bytes(damaged), spec)
    with pytest.raises(WireError):
        decode(data + b"\0", spec)
