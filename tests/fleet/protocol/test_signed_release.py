"""Envelopes and credentials: their bytes are fixed, and only the key makes them."""

import os
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pansketch_fleet.protocol.signed_release import (
    CREDENTIALS_LIMIT_BYTES,
    ENVELOPE_BYTES,
    Credentials,
    envelope_of,
    holds,
    is_signed,
    key_id,
    new_credentials,
    read_credentials,
    release_in,
)

# RFC 8032, 7.1, test 1: a key pair of Ed25519.
SEED = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
PUBLIC = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
DEVICE = Credentials(1, "meadow", "attic", SEED, "secret")
RELEASE = b"PANS and what follows"
GOLDEN = (
    "50414e4501"  # PANE, version 1
    "06bb99423c2725a4"  # the id of the key
    "87774f0ca7559a84ba4ab9f3d979518af064073e2bf85da65ab5539b63870e8f"
    "036d3aaab704a8c0ae51ae97021387c4a4beeebfa2eb7c8041a4f9dde468ca01"
)


def sound(payload, fleet="meadow", device="attic", stream="air", public=None):
    found = envelope_of(payload)
    return found is not None and holds(found, public or DEVICE.public, fleet, device, stream)


def test_golden_bytes():
    """The public key is the document's; the envelope is what version 1 of this product makes."""
    assert DEVICE.public.hex() == PUBLIC
    assert DEVICE.seal("air", RELEASE).hex() == GOLDEN + RELEASE.hex()
    assert sound(DEVICE.seal("air", RELEASE))
    assert envelope_of(DEVICE.seal("air", RELEASE)).key == key_id(bytes.fromhex(PUBLIC))


def test_the_same_release_has_the_same_envelope():
    assert len({DEVICE.seal("air", RELEASE) for _ in range(10)}) == 1


@given(st.integers(0, ENVELOPE_BYTES + len(RELEASE) - 1), st.integers(0, 7))
def test_every_flipped_bit_is_noticed(place, bit):
    sealed = bytearray(DEVICE.seal("air", RELEASE))
    sealed[place] ^= 1 << bit
    named = 5 <= place < 13  # The id only names the key to try.
    assert sound(bytes(sealed)) == named
    if named:
        assert envelope_of(bytes(sealed)).key != key_id(DEVICE.public)


@pytest.mark.parametrize(
    "other",
    [{"fleet": "meado"}, {"device": "atti"}, {"stream": "ai"}, {"public": bytes(32)}],
)
def test_it_is_of_one_fleet_device_stream_and_key(other):
    assert not sound(DEVICE.seal("air", RELEASE), **other)


def test_names_do_not_run_into_each_other():
    """The same characters, divided otherwise between device and stream."""
    sealed = Credentials(1, "meadow", "at", SEED, "p").seal("ticair", RELEASE)
    assert sound(sealed, device="at", stream="ticair")
    assert not sound(sealed, device="attic", stream="air")


@pytest.mark.parametrize("length", range(ENVELOPE_BYTES))
def test_a_part_of_an_envelope_is_none(length):
    part = DEVICE.seal("air", b"")[:length]
    assert envelope_of(part) is None
    assert release_in(part) == part


def test_what_is_no_envelope_is_its_own_release():
    later = b"PANE\x02" + bytes(100)
    for payload in (b"", RELEASE, later):
        assert release_in(payload) == payload
    assert (is_signed(RELEASE), is_signed(later)) == (False, True)


def test_new_credentials_are_nobodys():
    some = [new_credentials("meadow", "attic") for _ in range(20)]
    assert len({each.key for each in some} | {each.password for each in some}) == 40
    with pytest.raises(ValueError, match="1 to 64"):
        new_credentials("meadow", "At tic")


@dataclass
class File:
    """A file of credentials, with this mode."""

    content: bytes
    mode: int = 0o600

    def write(self, path):
        path.write_bytes(self.content)
        os.chmod(path, self.mode)
        return path


def test_a_file_holds_what_was_written(tmp_path):
    assert read_credentials(File(DEVICE.encode()).write(tmp_path / "device.json")) == DEVICE
    for text in (repr(DEVICE), str(DEVICE)):
        assert SEED not in text
        assert "secret" not in text


BAD = {
    "open": (File(DEVICE.encode(), 0o604), "is open to other users; chmod 600 it"),
    "empty": (File(b""), "holds no credentials"),
    "torn": (File(DEVICE.encode()[:-9]), "holds no credentials"),
    "more": (File(DEVICE.encode()[:-2] + b',"x":1}'), "holds no credentials"),
    "twice": (File(DEVICE.encode()[:-2] + b',"version":1}'), "holds no credentials"),
    "later": (File(DEVICE.encode().replace(b":1,", b":2,")), "holds no credentials"),
    "short": (File(DEVICE.encode().replace(SEED.encode(), b"9d61")), "holds no credentials"),
    "long": (File(DEVICE.encode() + b" " * CREDENTIALS_LIMIT_BYTES), "holds no credentials"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_by_a_single_line_without_a_secret(tmp_path, name):
    file, text = BAD[name]
    with pytest.raises(ValueError, match=text) as found:
        read_credentials(file.write(tmp_path / "device.json"))
    assert "secret" not in str(found.value)
    assert "9d61" not in str(found.value)
    assert "\n" not in str(found.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match="cannot be read"):
        read_credentials(tmp_path / "none.json")
