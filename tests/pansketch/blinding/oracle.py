"""X25519 and ChaCha20 from their documents, in plain integers: slow, and written for nothing but to
be compared with."""

import hashlib

P = 2**255 - 19
A24 = 121665


def x25519(scalar, point):
    """RFC 7748, section 5: bytes, bytes -> bytes."""
    k = int.from_bytes(scalar, "little") & ~7 & ((1 << 255) - 1) | 1 << 254
    x = int.from_bytes(point, "little") & (1 << 255) - 1
    near, far = (1, 0), (x, 1)
    for place in reversed(range(255)):
        bit = k >> place & 1
        if bit:
            near, far = far, near
        near, far = _step(x, near, far)
        if bit:
            near, far = far, near
    return (near[0] * pow(near[1], P - 2, P) % P).to_bytes(32, "little")


def _step(x, near, far):
    """Twice the one point, and the sum of both, whose difference has the coordinate x."""
    plus, minus = sum(near) % P, (near[0] - near[1]) % P
    square_plus, square_minus = plus * plus % P, minus * minus % P
    e = (square_plus - square_minus) % P
    across, along = (far[0] - far[1]) * plus % P, sum(far) * minus % P
    added = pow(across + along, 2, P), x * pow(across - along, 2, P) % P
    return (square_plus * square_minus % P, e * (square_plus + A24 * e) % P), added


def chacha20(key, nonce, length, counter=1):
    """RFC 8439, section 2.4: the key stream from a block's number on."""
    blocks = range(counter, counter + -(-length // 64))
    return b"".join(_block(key, nonce, each) for each in blocks)[:length]


def _block(key, nonce, counter):
    words = [
        int.from_bytes(part, "little")
        for whole in (b"expand 32-byte k", key, counter.to_bytes(4, "little"), nonce)
        for part in (whole[i : i + 4] for i in range(0, len(whole), 4))
    ]
    state = words.copy()
    for _ in range(10):
        for column in range(4):
            _quarter(state, column, column + 4, column + 8, column + 12)
        for column in range(4):
            _quarter(
                state,
                column,
                4 + (column + 1) % 4,
                8 + (column + 2) % 4,
                12 + (column + 3) % 4,
            )
    mixed = ((one + other) & 0xFFFFFFFF for one, other in zip(state, words, strict=True))
    return b"".join(word.to_bytes(4, "little") for word in mixed)


def _quarter(state, a, b, c, d):
    for one, other, into, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        state[one] = (state[one] + state[other]) & 0xFFFFFFFF
        turned = state[into] ^ state[one]
        state[into] = (turned << turn | turned >> 32 - turn) & 0xFFFFFFFF


def seed(shared, context, person=b"pansketch mask 1"):
    """The key of a mask: the standard library's BLAKE2b."""
    return hashlib.blake2b(context, digest_size=32, key=shared, person=person).digest()


def noise_seed(private, question):
    """The key of an answer's noise."""
    return seed(private, question, b"pansketch noise1")
