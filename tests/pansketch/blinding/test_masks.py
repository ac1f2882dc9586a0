"""Masks: the same on both sides, other ones in any other context, and nothing left of them."""

import pickle
import sys
from dataclasses import fields, replace

import numpy as np
import pytest

from pansketch import WindowId, os_entropy
from pansketch.blinding import MaskContext, PrivateKey, SodiumMasks, keeper_id, masks
from pansketch.blinding.mask_context import encoded
from pansketch.blinding.masks import WindowMasks
from pansketch.privacy import MAX_KEEPERS
from tests.pansketch.blinding import oracle
from tests.pansketch.blinding.fleet import FLEET, SMALL, QuietKeys, keepers, label, public
from tests.pansketch.blinding.test_sodium import LOW_ORDER

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


def seed_of_oracle():
    private = bytes(range(1, 33))
    return oracle.seed(oracle.x25519(private, KEEPER.public), CONTEXT.encode())


def words_of(stream, kind):
    return np.frombuffer(stream, np.dtype(kind).newbyteorder("<")).astype(kind)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("count", [1, 15, 16, 17, 200])
def test_both_sides_have_the_mask_of_the_documents(kind, count):
    found = mask(count=count, kind=kind)
    assert (found == mask(KEEPER, DEVICE.public, count=count, kind=kind)).all()
    stream = oracle.chacha20(seed_of_oracle(), bytes(12), found.nbytes)
    assert (found == words_of(stream, kind)).all()


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_each_64_kib_of_a_mask_has_a_nonce_of_its_own(kind):
    """As docs/reference/wire-format.md has it: keepers of another version must agree."""
    size, part, seed = np.dtype(kind).itemsize, 65_536, seed_of_oracle()
    found = mask(count=(2 * part + 64) // size, kind=kind)
    for begin in (0, part // 2, part - 64, part, part + 64, 2 * part - 64, 2 * part):
        number, into = divmod(begin, part)
        nonce = number.to_bytes(12, "little")
        stream = oracle.chacha20(seed, nonce, 64, counter=1 + into // 64)
        assert (found[begin // size :][: 64 // size] == words_of(stream, kind)).all()


def test_a_machine_of_the_other_byte_order_has_the_same_masks(monkeypatch):
    """The bytes of a stream are little-endian words, which it turns before their use."""
    usual = mask()
    other = {"little": "big", "big": "little"}[sys.byteorder]
    monkeypatch.setattr(masks.sys, "byteorder", other)
    assert (mask() == usual.byteswap()).all()


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


class Calls:
    """The calls of libsodium by `masks`: (name, the bytes that it had, the buffer it wrote)."""

    NAMES = ("public_key", "shared_secret", "keyed_hash", "key_stream")

    def __init__(self, monkeypatch):
        self.made = []
        for name in self.NAMES:
            monkeypatch.setattr(masks, name, self._watched(name, getattr(masks, name)))

    def _watched(self, name, real):
        def call(written, *given):
            self.made.append((name, [bytes(each) for each in given], written))
            return real(written, *given)

        return call

    @property
    def names(self):
        return {name for name, _, _ in self.made}


def test_the_end_of_an_epoch_repeats_every_call_with_public_numbers(monkeypatch):
    """libsodium leaves what it computed on the stack. The same calls overwrite it, as long ones."""
    calls, by, rng = Calls(monkeypatch), SodiumMasks(), os_entropy()
    key = by.new_key(rng)
    by.add(key, KEEPER.public, CONTEXT, np.zeros(3000, np.int32))
    secret = {given for _, arguments, _ in calls.made for given in arguments}
    epoch, calls.made = calls.made, []
    by.finish()
    assert calls.names == {name for name, _, _ in epoch} == set(Calls.NAMES)
    assert not secret & {given for _, arguments, _ in calls.made for given in arguments[:1]}
    longest = max(len(written) for name, _, written in epoch if name == "key_stream")
    assert max(len(w) for name, _, w in calls.made if name == "key_stream") >= longest


class Watched(SodiumMasks):
    """Masks of production that remember their calls."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def add(self, *given):
        self.calls.append("add")
        super().add(*given)

    def finish(self):
        self.calls.append("finish")
        super().finish()


def test_every_epoch_ends_with_that_also_one_that_fails():
    by, counters = Watched(), np.zeros(10, np.int32)
    found = WindowMasks(SMALL, FLEET, label(), public(keepers(3)), by)
    found.begin_epoch(QuietKeys(), counters)
    assert by.calls == ["add"] * 3 + ["finish"]
    counters.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        found.begin_epoch(QuietKeys(), counters)
    assert by.calls[-2:] == ["add", "finish"]
    assert len(found.epoch_keys) == 2, "a mask that may be in part used is never used again"


def test_no_two_epochs_windows_or_keepers_have_the_same_mask_words():
    """1,600 words of 64 bits: two equal ones have a probability below 1e-13."""
    words, found = [], public(keepers())
    for sequence in (1, 2):
        window = WindowMasks(SMALL, FLEET, label(sequence=sequence), found, SodiumMasks())
        for _ in range(4):
            words.append(np.zeros(100, np.int64))
            window.begin_epoch(QuietKeys(), words[-1])
    shared = PrivateKey.draw(os_entropy())
    for epoch in range(4):
        for keeper in found:
            context = replace(CONTEXT, epoch=epoch, epoch_key=shared.public, keeper=keeper)
            words.append(mask(shared, keeper, context, 100, np.int64))
    assert len(set(np.concatenate(words).tolist())) == 100 * len(words)


@pytest.mark.parametrize("point", LOW_ORDER, ids=bytes.hex)
def test_a_key_that_hides_nothing_is_no_keepers(point):
    by = SodiumMasks()
    with pytest.raises(ValueError, match="low order"):
        by.check(point)
    with pytest.raises(ValueError, match="low order"):
        WindowMasks(SMALL, FLEET, label(), (KEEPER.public, point), by)
    by.check(KEEPER.public)


def test_as_many_keepers_as_are_allowed_hide_a_window():
    found = public(keepers(MAX_KEEPERS + 1))
    counters = np.zeros(40, np.int32)
    WindowMasks(SMALL, FLEET, label(), found[1:], SodiumMasks()).begin_epoch(QuietKeys(), counters)
    assert counters.any()
    for wrong in (found, found[:1], (found[0], bytearray(found[1])), (found[0], "k" * 32)):
        with pytest.raises(ValueError, match="public key"):
            WindowMasks(SMALL, FLEET, label(), wrong, SodiumMasks())


def test_nothing_of_an_answers_noise_stays(monkeypatch):
    """Neither the key of its words nor the words, also when the answer fails."""
    calls, words = Calls(monkeypatch), np.zeros(20, np.uint64)

    def failing():
        with KEEPER.noise(bytes(32)) as rng:
            rng.fill_words(words)
            raise OSError("planted")

    with pytest.raises(OSError, match="planted"):
        failing()
    assert words.any()
    written = [buffer for _, _, buffer in calls.made]
    assert calls.names == {"keyed_hash", "key_stream"}
    assert not any(buffer.any() for buffer in written)


def test_the_words_of_an_answers_noise_never_repeat():
    words = np.zeros((40, 16), np.uint64)
    with KEEPER.noise(bytes(32)) as rng:
        for each in words:
            rng.fill_words(each)
    assert len(set(words.ravel().tolist())) == words.size
