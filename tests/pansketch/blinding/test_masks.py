"""Masks: the same on both sides, other ones in any other context, and nothing left of them."""

import pickle
from dataclasses import fields, replace

import numpy as np
import pytest

from pansketch import WindowId, os_entropy
from pansketch.blinding import MaskContext, PrivateKey, SodiumMasks, keeper_id
from pansketch.blinding.mask_context import encoded
from pansketch.blinding.masks import STREAM_BYTES, WindowMasks
from tests.pansketch.blinding import oracle
from tests.pansketch.blinding.fleet import FLEET, SMALL, QuietKeys, keepers, label, public

DEVICE, KEEPER = (PrivateKey(np.arange(n, n + 32, dtype=np.uint8)) for n in (1, 101))
CONTEXT = MaskContext(FLEET, label(), bytes(range(32)), 3, DEVICE.public, KEEPER.public)
OTHER_CONTEXTS = {
    "fleet": replace(CONTEXT, fleet="wood"),
    "spec": replace(CONTEXT, spec=bytes(32)),
    "epoch": replace(CONTEXT, epoch=4),
    "epoch key": replace(CONTEXT, epoch_key=KEEPER.public),
    "keeper": replace(CONTEXT, keeper=DEVICE.public),
    "device": replace(CONTEXT, window=replace(label(), device="dev-2")),
    "stream": replace(CONTEXT, window=replace(label(), stream="water")),
    "sequence": replace(CONTEXT, window=replace(label(), sequence=2)),
    "start": replace(CONTEXT, window=replace(label(), start=0)),
    "end": replace(CONTEXT, window=replace(label(), end=121)),
    "incarnation": replace(CONTEXT, window=replace(label(), incarnation=b"87654321")),
    "moved border": replace(CONTEXT, window=replace(label(), device="dev-1a", stream="ir")),
}


def mask(private=DEVICE, public=KEEPER.public, context=CONTEXT, count=100, kind=np.int32):
    counters = np.zeros(count, kind)
    SodiumMasks().add(private, public, context, counters)
    return counters


def of_oracle(context, count, kind):
    private = bytes(range(1, 33))
    seed = oracle.seed(oracle.x25519(private, KEEPER.public), context.encode())
    size, stream = count * np.dtype(kind).itemsize, b""
    for number, start in enumerate(range(0, size, STREAM_BYTES)):
        nonce = number.to_bytes(12, "little")
        stream += oracle.chacha20(seed, nonce, min(STREAM_BYTES, size - start))
    return np.frombuffer(stream, np.dtype(kind).newbyteorder("<")).astype(kind)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("count", [1, 15, 16, 17, 1000, STREAM_BYTES // 8 + 3])
def test_both_sides_have_the_mask_of_the_documents(kind, count):
    found = mask(count=count, kind=kind)
    assert (found == mask(KEEPER, DEVICE.public, count=count, kind=kind)).all()
    assert (found == of_oracle(CONTEXT, count, kind)).all()


def test_masks_are_added_modulo_the_range():
    counters = np.full(100, np.iinfo(np.int32).max, np.int32)
    SodiumMasks().add(DEVICE, KEEPER.public, CONTEXT, counters)
    expected = mask().astype(np.int64) + np.iinfo(np.int32).max
    assert (counters == expected.astype(np.int32)).all()
    assert (counters < 0).any()


@pytest.mark.parametrize("other", OTHER_CONTEXTS.values(), ids=OTHER_CONTEXTS)
def test_another_context_is_another_mask(other):
    """100 equal words of 32 bits by chance have a probability of 2**-3200."""
    assert other.encode() != CONTEXT.encode()
    assert (mask(context=other) != mask()).mean() > 0.9


def test_no_field_of_the_context_is_left_out():
    named = {each.name for each in fields(MaskContext)} - {"window"}
    labels = {each.name for each in fields(WindowId)} - {"clock_synchronised"}
    tried = {name.replace(" ", "_") for name in OTHER_CONTEXTS} - {"moved_border"}
    assert tried == named | labels
    unknown = replace(CONTEXT, window=replace(label(), clock_synchronised=True))
    assert unknown.encode() == CONTEXT.encode(), "what is known of a clock is no part of a label"


def test_fields_are_encoded_behind_their_lengths():
    assert encoded(("ab", b"c")) == b"\0\0\0\2ab\0\0\0\1c" != encoded(("a", b"bc"))
    assert encoded((-1,)) == b"\0\0\0\x08" + b"\xff" * 8
    assert encoded(("", "x")) != encoded(("x", ""))


def test_nothing_of_a_mask_stays_in_its_maker():
    by = SodiumMasks()
    counters = np.zeros(50, np.int32)
    by.add(DEVICE, KEEPER.public, CONTEXT, counters)
    assert counters.any()
    assert not any(held.any() for held in vars(by).values())


def test_what_fails_leaves_nothing_either(monkeypatch):
    by, counters = SodiumMasks(), np.zeros(50, np.int32)
    with pytest.raises(ValueError, match="low order"):
        by.add(DEVICE, bytes(32), CONTEXT, counters)
    assert not counters.any()

    def broken(*given):
        raise OSError("planted")

    monkeypatch.setattr("pansketch.blinding.masks.key_stream", broken)
    with pytest.raises(OSError, match="planted"):
        by.add(DEVICE, KEEPER.public, CONTEXT, counters)
    assert not any(held.any() for held in vars(by).values())


def test_the_key_of_an_epoch_is_erased(monkeypatch):
    drawn = []

    def kept(rng):
        drawn.append(draw(rng))
        return drawn[-1]

    draw = PrivateKey.draw
    monkeypatch.setattr(PrivateKey, "draw", kept)
    masks = WindowMasks(SMALL, FLEET, label(), public(keepers()), SodiumMasks())
    masks.begin_epoch(QuietKeys(), np.zeros(10, np.int32))
    epochs = drawn[2:]  # After those of the keepers.
    assert [key.public for key in epochs] == list(masks.epoch_keys)
    assert len(epochs) == 1
    assert not epochs[0]._buffer.any()


def test_every_epoch_has_a_key_of_its_own_for_all_keepers():
    found = keepers(3)
    masks = WindowMasks(SMALL, FLEET, label(), public(found), SodiumMasks())
    counters, sums = np.zeros((2, 40), np.int32)
    for _ in range(4):
        masks.begin_epoch(QuietKeys(), counters)
    assert len(set(masks.epoch_keys)) == 4
    for each in found:
        for epoch, key in enumerate(masks.epoch_keys):
            context = MaskContext(FLEET, label(), SMALL.digest, epoch, key, each.key.public)
            SodiumMasks().add(each.key, key, context, sums)
    assert (sums == counters).all()
    assert masks.keeper_ids == tuple(keeper_id(each.key.public) for each in found)


def test_a_private_key_shows_its_public_one_only():
    key = PrivateKey.draw(os_entropy())
    assert repr(key) == f"PrivateKey(of {key.public.hex()})"
    with pytest.raises(TypeError, match="never copied"):
        pickle.dumps(key)
    key.erase()
    assert not key._buffer.any()
    for wrong in (np.zeros(31, np.uint8), np.zeros(32, np.int8)):
        with pytest.raises(ValueError, match="uint8"):
            PrivateKey(wrong)
