"""libsodium as it is used here, against the vectors of RFC 7748, 7693 and 8439."""

import hashlib
import sys

import numpy as np
import pytest

from pansketch.blinding import BlindingUnavailable, sodium
from tests.pansketch.blinding import oracle


def owned(data):
    return np.frombuffer(bytes(data), np.uint8).copy()


def shared(private, public):
    out = np.zeros(32, np.uint8)
    assert sodium.shared_secret(out, owned(private), bytes(public))
    return out.tobytes()


def public_of(private):
    out = np.zeros(32, np.uint8)
    sodium.public_key(out, owned(private))
    return out.tobytes()


def hashed(data, key=b"", size=64, personal=bytes(16)):
    out = np.zeros(size, np.uint8)
    sodium.keyed_hash(out, owned(key), data, personal)
    return out.tobytes()


def streamed(key, nonce, length):
    out = np.full(length + 16, 7, np.uint8)
    sodium.key_stream(out, owned(key), nonce)
    assert not out[length:].any()
    return out[:length].tobytes()


@pytest.mark.parametrize(
    ("scalar", "point", "product"),
    [
        (
            "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
            "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
            "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
        ),
        (
            "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
            "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
            "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957",
        ),
    ],
)
def test_rfc_7748_products(scalar, point, product):
    scalar, point = bytes.fromhex(scalar), bytes.fromhex(point)
    assert shared(scalar, point) == oracle.x25519(scalar, point) == bytes.fromhex(product)


def test_rfc_7748_repeated_a_thousand_times():
    scalar = point = bytes([9]) + bytes(31)
    for step in range(1000):
        scalar, point = shared(scalar, point), scalar
        if step == 0:
            first = "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079"
            assert scalar.hex() == first
    assert scalar.hex() == "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51"


def test_rfc_7748_two_parties():
    alice = bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
    bob = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
    assert public_of(alice).hex() == (
        "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    )
    assert public_of(bob).hex() == (
        "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
    )
    both = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
    assert shared(alice, public_of(bob)).hex() == shared(bob, public_of(alice)).hex() == both


LOW_ORDER = [
    bytes(32),
    bytes([1]) + bytes(31),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
    bytes.fromhex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
    bytes.fromhex("edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
    bytes.fromhex("eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
]


@pytest.mark.parametrize("point", LOW_ORDER, ids=bytes.hex)
def test_a_point_of_low_order_is_refused(point):
    private = np.random.default_rng().integers(0, 256, 32, np.uint8)
    assert not sodium.shared_secret(np.zeros(32, np.uint8), private, point)
    assert oracle.x25519(private.tobytes(), point) == bytes(32), "the control: it has no secret"


def test_rfc_7693_abc():
    assert hashed(b"abc").hex() == (
        "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d1"
        "7d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923"
    )


def test_rfc_7693_self_test():
    """Appendix E: with and without a key, digests and inputs of many lengths, hashed together."""

    def sequence(length, seed):
        a, b = 0xDEAD4BAD * seed & 0xFFFFFFFF, 1
        out = []
        for _ in range(length):
            a, b = b, (a + b) & 0xFFFFFFFF
            out.append(b >> 24)
        return bytes(out)

    together = b""
    for size in (20, 32, 48, 64):
        for length in (0, 3, 128, 129, 255, 1024):
            data = sequence(length, length)
            together += hashed(data, b"", size)
            together += hashed(data, sequence(size, size), size)
    assert hashed(together, b"", 32).hex() == (
        "c23a7800d98123bd10f506c61e29da5603d763b8bbad2e737f5e765a7bccd475"
    )


@pytest.mark.parametrize("length", [0, 1, 64, 128, 129, 500])
def test_a_key_and_a_personalisation_are_those_of_the_standard_library(length):
    rng = np.random.default_rng(length)
    data, key = rng.bytes(length), rng.bytes(32)
    expected = hashlib.blake2b(data, digest_size=32, key=key, person=b"pansketch mask 1")
    assert hashed(data, key, 32, b"pansketch mask 1") == expected.digest()


def test_rfc_8439_key_stream():
    """Section 2.4.2: its text and cipher text differ by the stream from block 1 on."""
    text = (
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the "
        b"future, sunscreen would be it."
    )
    cipher = bytes.fromhex(
        "6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0b"
        "f91b65c5524733ab8f593dabcd62b3571639d624e65152ab8f530c359f0861d8"
        "07ca0dbf500d6a6156a38e088a22b65e52bc514d16ccf806818ce91ab7793736"
        "5af90bbf74a35be6b40b8eedf2785e42874d"
    )
    key, nonce = bytes(range(32)), bytes.fromhex("000000000000004a00000000")
    stream = bytes(a ^ b for a, b in zip(text, cipher, strict=True))
    assert streamed(key, nonce, len(stream)) == oracle.chacha20(key, nonce, len(stream)) == stream


def test_erasing_leaves_zeros():
    buffer = np.ones(100, np.uint8)
    sodium.erase(buffer)
    assert not buffer.any()


def test_without_pynacl_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "nacl._sodium", None)
    sodium._sodium.cache_clear()
    with pytest.raises(BlindingUnavailable, match=r"pip install 'pansketch\[blinded\]'"):
        sodium.erase(np.ones(1, np.uint8))
    monkeypatch.undo()
    sodium._sodium.cache_clear()
    sodium.erase(np.ones(1, np.uint8))
