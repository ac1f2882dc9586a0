"""Masked counters, questions and answers as bytes: golden, canonical, and of one kind each."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import msgpack
import numpy as np
import pytest

from pansketch import WindowId, WireError
from pansketch.blinding import (
    KeeperAnswer,
    KeeperQuestion,
    MaskedWindow,
    PrivateKey,
    answer,
    keeper_id,
)
from pansketch.blinding.blinded_sketch import BlindedRelease
from pansketch.randomness.keyed_hash import digest
from pansketch.wire import (
    blinded_nbytes,
    decode_answer,
    decode_blinded,
    decode_question,
    encode_answer,
    encode_blinded,
    encode_question,
)
from tests.pansketch.blinding.fleet import FLEET, SMALL, SPECS, keepers, label, masked
from tests.pansketch.conftest import NoNoise
from tests.pansketch.sketches.families import uniform

VECTORS = json.loads(
    (Path(__file__).parents[2] / "vectors" / "blinded-v1.json").read_text(encoding="utf-8")
)
NUMBERS = {
    name: np.random.default_rng(len(name)).integers(-(1 << 31), 1 << 31, sum(spec.blocks))
    for name, spec in SPECS.items()
}


def release(name="views", window=None, epochs=3):
    spec = SPECS[name]
    keys = tuple(bytes([n]) * 32 for n in range(epochs))
    counters = NUMBERS[name].astype(spec.counter)
    return BlindedRelease(spec, window or label(), (b"keeper-1", b"keeper-2"), keys, counters)


def question(*windows):
    windows = windows or (MaskedWindow(label(), (b"e" * 32, b"f" * 32)),)
    return KeeperQuestion(FLEET, SMALL.digest, "1d", Fraction(1, 3), windows)


def reply(name="views"):
    counters = NUMBERS[name].astype(SPECS[name].counter)
    return KeeperAnswer(b"keeper-1", bytes(range(32)), counters)


MESSAGES = {
    "release": (encode_blinded(release()), lambda data: decode_blinded(data, SMALL)),
    "question": (encode_question(question()), decode_question),
    "answer": (encode_answer(reply()), lambda data: decode_answer(data, SMALL)),
}
messages = pytest.mark.parametrize(("data", "read"), MESSAGES.values(), ids=MESSAGES)


def resealed(data, change):
    """A message with other fields, and a checksum that holds."""
    body = msgpack.packb(change(msgpack.unpackb(data[13:])))
    return data[:5] + digest(body, 8) + body


def with_field(place, value):
    return lambda fields: [*fields[:place], value, *fields[place + 1 :]]


def reason_of(read, data):
    with pytest.raises(WireError) as caught:
        read(data)
    assert "\n" not in str(caught.value)
    return caught.value.reason


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("clock", [None, True, False])
def test_releases_and_answers_come_back(name, clock):
    spec, given = SPECS[name], release(name, replace(label(), clock_synchronised=clock))
    back = decode_blinded(encode_blinded(given), spec)
    assert (back.window, back.keepers, back.epochs) == (given.window, given.keepers, given.epochs)
    assert back.window.clock_synchronised is clock
    assert (back.counters == given.counters).all()
    assert back.counters.dtype == spec.counter
    again = decode_answer(encode_answer(reply(name)), spec)
    assert (again.keeper, again.question) == (reply().keeper, reply().question)
    assert (again.counters == reply(name).counters).all()


def test_questions_come_back():
    windows = [
        MaskedWindow(label(f"dev-{n}", 1 + n), tuple(bytes([n % 250, e]) * 16 for e in range(25)))
        for n in range(1000)
    ]
    given = question(*sorted(windows, key=lambda each: each.key))
    back = decode_question(encode_question(given))
    assert back == given
    assert back.digest == given.digest


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("epochs", [2, 25])
def test_the_size_of_a_release_is_known_to_the_byte(name, epochs):
    spec, window = SPECS[name], WindowId("a-longer-name", "s", 70_000, 10**9, 10**9 + 60)
    data = encode_blinded(release(name, window, epochs))
    assert len(data) == blinded_nbytes(spec, window, 2, epochs)
    more = blinded_nbytes(spec, window, 2, epochs + 1)
    assert 32 <= more - len(data) <= 33  # MessagePack's length grows once.
    assert len(data) <= spec.nbytes + 32 * epochs + 140


def test_any_counters_have_the_same_size():
    found = keepers()
    sizes = {
        len(encode_blinded(masked(SMALL, found, rows))) for rows in (uniform(0), uniform(5000))
    }
    assert len(sizes) == 1


@messages
def test_every_truncation_and_every_flipped_byte_is_refused(data, read):
    for length in range(len(data)):
        assert reason_of(read, data[:length])
    for place in range(len(data)):
        for flip in (1, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[place] ^= flip
            assert reason_of(read, bytes(damaged))
    assert reason_of(read, data + b"\0") == "checksum"


@messages
def test_another_kind_or_version_is_refused_by_name(data, read):
    kinds = {b"PANS": "magic", b"PANB": "magic", b"PANQ": "magic", b"PANA": "magic"}
    kinds[data[:4]] = "version"
    for magic, reason in kinds.items():
        assert reason_of(read, magic + bytes([2]) + data[5:]) == reason
    assert reason_of(read, data[:4] + b"\0" + data[5:]) == "version"


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (0, "cells", "fingerprint"),
        (1, bytes(8), "fingerprint"),
        (2, [], "malformed"),
        (2, ["d", "s", 1, 0, 9, 0, b"short"], "malformed"),
        (3, b"keeper-1", "malformed"),
        (3, b"keeper-1" * 17, "malformed"),
        (3, b"keeper-1keeper", "malformed"),
        (3, "keeper-1keeper-2", "malformed"),
        (4, bytes(32), "malformed"),
        (4, bytes(95), "malformed"),
        (4, 1, "malformed"),
        (5, bytes(3), "malformed"),
        (5, "text", "malformed"),
    ],
    ids=str,
)
def test_what_is_no_blinded_release_is_refused(place, value, reason):
    data, read = MESSAGES["release"]
    assert reason_of(read, resealed(data, with_field(place, value))) == reason


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, b"fleet"),
        (1, "text"),
        (1, bytes(31)),
        (2, ""),
        (2, 7),
        (3, [2, 6]),
        (3, [1, 0]),
        (3, [0, 1]),
        (3, [4, 3]),
        (3, [1.0, 2]),
        (3, [1]),
        (4, b""),
        (4, []),
        (4, "text"),
        (4, b"\x92"),
        (4, b"\xdd\x7f\xff\xff\xff"),
        (4, b"\x92\x90\xc4\x00"),
    ],
    ids=str,
)
def test_what_is_no_question_is_refused(place, value):
    data, read = MESSAGES["question"]
    assert reason_of(read, resealed(data, with_field(place, value))) == "malformed"


def test_a_question_lists_a_window_once():
    def twice(fields):
        return [*fields[:4], fields[4] * 2]

    data, read = MESSAGES["question"]
    assert reason_of(read, resealed(data, twice)) == "malformed"


@pytest.mark.parametrize(
    ("place", "value"), [(0, b"k"), (0, "keeper-1"), (1, bytes(31)), (2, b""), (2, [1])], ids=str
)
def test_what_is_no_answer_is_refused(place, value):
    data, read = MESSAGES["answer"]
    assert reason_of(read, resealed(data, with_field(place, value))) == "malformed"


@messages
def test_another_number_of_fields_is_refused(data, read):
    for change in (lambda fields: fields[:-1], lambda fields: [*fields, 0], lambda fields: 1):
        assert reason_of(read, resealed(data, change)) == "malformed"


@pytest.fixture(params=VECTORS, ids=[each["name"] for each in VECTORS])
def vector(request):
    return request.param


def test_golden_masks_and_bytes(vector):
    """The masks follow from the keys and the context alone, and the bytes from the integers."""
    spec = SPECS[vector["name"]]
    device, *held = (
        PrivateKey(np.frombuffer(bytes.fromhex(each), np.uint8).copy())
        for each in (vector["epoch_private"], *vector["keeper_privates"])
    )
    assert spec.digest.hex() == vector["digest"]
    assert device.public.hex() == vector["epoch_public"]
    assert [keeper_id(each.public).hex() for each in held] == vector["keeper_ids"]
    label_of = WindowId(*vector["window"][:5], None, bytes.fromhex(vector["window"][5]))
    asked = KeeperQuestion(
        FLEET,
        spec.digest,
        vector["level"],
        Fraction(vector["share"]),
        (MaskedWindow(label_of, (device.public, device.public)),),
    )
    assert asked.digest.hex() == vector["question_digest"]
    assert encode_question(asked).hex() == vector["question"]
    sums = [answered(asked, spec, each) for each in held]
    assert [each.counters.tolist() for each in sums] == vector["mask_sums"]
    assert [encode_answer(each).hex() for each in sums] == vector["answers"]
    total = sum(each.counters for each in sums)
    ids = tuple(keeper_id(each.public) for each in held)
    sent = BlindedRelease(spec, label_of, ids, (device.public,) * 2, total)
    assert encode_blinded(sent).hex() == vector["release"]
    assert decode_blinded(bytes.fromhex(vector["release"]), spec).window == label_of


def answered(asked, spec, private):

    return answer(asked, spec, private, NoNoise())
