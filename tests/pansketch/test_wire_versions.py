"""Both versions of the wire: the first is still read, and neither is taken for the other."""

import msgpack
import numpy as np
import pytest

from command.__main__ import main
from pansketch import (
    Attribute,
    CellsSpec,
    DistinctSpec,
    Domain,
    HierarchySpec,
    MomentsSpec,
    Privacy,
    WindowId,
    WireError,
    decode,
    decode_all,
    encode,
    merge,
    os_entropy,
    peek,
)
from pansketch.hashing import digest

DOMAIN = Domain([Attribute("temp", -40, 60), Attribute("wind", categories=("N", "E", "S"))])
SPECS = {
    "hierarchy": HierarchySpec(DOMAIN, Privacy(epsilon=1.0), depth=6, k=4, width=8, rows=2),
    "cells": CellsSpec(DOMAIN, Privacy(epsilon=1.0), depth=6, width=8, rows=2),
    "moments": MomentsSpec(DOMAIN, Privacy(epsilon=1.0), "rff", m=4, sigma=1.0),
    "count": DistinctSpec(Privacy(epsilon=1.0, unit="key"), universe=90, memory=100),
    "bitmap": DistinctSpec(
        Privacy(epsilon=6.0, unit="key"), expected_keys=30, memory=16, release="bitmap"
    ),
}
CLOCKS = [None, True, False]


@pytest.fixture(params=SPECS)
def spec(request):
    return SPECS[request.param]


def released(spec, sequence=1, clock=None):
    rng = os_entropy()
    window = WindowId("dev-1", "air", sequence, sequence * 60, sequence * 60 + 60, clock)
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
    assert (data[4], peek(data).version) == (2, 2)
    assert clocks_of(peek(data)) == clocks_of(decode(data, spec)) == [clock]
    assert encode(decode(data, spec)) == data


def test_a_clock_costs_a_byte_and_changes_only_its_own(as_version_1):
    """Beside the checksum; so it carries nothing else."""
    release = released(SPECS["hierarchy"])
    bodies = []
    for clock in CLOCKS:
        object.__setattr__(release, "windows", (WindowId("d", "s", 1, 0, 9, clock),))
        bodies.append(encode(release)[13:])
    assert {len(body) for body in bodies} == {len(as_version_1(encode(release))) - 13 + 1}
    for other in bodies[1:]:
        assert sum(a != b for a, b in zip(bodies[0], other, strict=True)) == 1


def test_version_1_is_read_and_its_clocks_are_unknown(spec, as_version_1):
    release = released(spec, clock=True)
    old = as_version_1(encode(release))
    again = decode(old, spec)
    assert peek(old).version == 1
    assert (again.counters == release.counters).all()
    assert (again.windows, clocks_of(again)) == (release.windows, [None])


def test_old_and_new_bytes_are_read_and_merged_together(spec, as_version_1):
    data = [encode(released(spec, n, CLOCKS[n % 3])) for n in range(1, 5)]
    data[1:3] = map(as_version_1, data[1:3])
    releases = decode_all(data, spec)
    assert [clocks_of(release) for release in releases] == [[True], [None], [None], [True]]
    if spec.additive:
        whole = merge(releases)
        assert clocks_of(whole) == [True, None, None, True]
        assert clocks_of(decode(encode(whole), spec)) == [True, None, None, True]
        assert (whole.counters == np.sum([r.counters for r in releases], axis=0)).all()


def test_a_label_is_the_same_whatever_is_known_of_its_clock():
    """So a window of which both versions came is still one window, and merges once."""
    windows = [WindowId("d", "s", 1, 0, 9, clock) for clock in CLOCKS]
    assert len(set(windows)) == 1
    assert len({window.key for window in windows}) == 1


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("clock", CLOCKS)
def test_inspect_shows_what_is_known_of_the_clock(tmp_path, capsys, as_version_1, clock, old):
    data = encode(released(SPECS["hierarchy"], clock=clock))
    (tmp_path / "one").write_bytes(as_version_1(data) if old else data)
    assert main(["inspect", str(tmp_path / "one")]) == 0
    said = {None: "", True: ", clock synchronised", False: ", clock not synchronised"}
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].endswith(f"1970-01-01T00:02:00+00:00{said[None if old else clock]}")
    assert f"wire format  {1 if old else 2}" in lines


@pytest.mark.parametrize("clock", [3, -1, 255, 2**40, True, None, "1", b"1", 1.0, [1], []])
def test_what_is_no_clock_is_refused(clock):
    assert reason_of(forged(2, lambda window: [*window[:5], clock])) == "malformed"


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("fields", [0, 3, 4, 5, 6, 7])
def test_a_window_has_the_fields_of_its_version_and_no_others(version, fields):
    data = forged(version, lambda window: [*window, 0, 0][:fields])
    if fields == version + 4:
        assert peek(data).version == version
    else:
        assert reason_of(data) == "malformed"


@pytest.mark.parametrize("version", [0, 3, 4, 128, 255])
def test_no_other_version_is_known(version):
    assert reason_of(forged(version, lambda window: window)) == "version"


def test_every_truncation_and_every_flipped_byte_of_version_1_is_refused(spec, as_version_1):
    old = as_version_1(encode(released(spec)))
    for length in range(len(old)):
        with pytest.raises(WireError):
            decode(old[:length], spec)
    for place in range(len(old)):
        for flip in (1, 3, 0x80, 0xFF):
            damaged = bytearray(old)
            damaged[place] ^= flip
            with pytest.raises(WireError):
                decode(bytes(damaged), spec)
    with pytest.raises(WireError):
        decode(old + b"\0", spec)
