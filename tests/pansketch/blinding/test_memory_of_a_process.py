"""No key of an epoch, no shared secret, no seed and no mask stays in the memory of a process.

Freed memory counts: the process uses none of it again (tests/pansketch/sketches/fed_process.py).
Every secret is searched for as bytes, and the private key also as it is used, with fixed bits.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pansketch.blinding import MaskContext, PrivateKey
from pansketch_audit.seizure.process_memory import process_memory
from tests.pansketch.blinding import oracle
from tests.pansketch.blinding.fed_process import DEFECTS, EPOCHS
from tests.pansketch.blinding.fleet import FLEET, SMALL, keepers, label, public

ROOT = Path(__file__).resolve().parents[3]
SEARCHED = ("anonymous", "[heap]", "[stack]")
PIECE = 16  # A secret of which so many bytes in a row stay is found.
FOUND_BY = {
    "a key": "key",
    "bytes of a key": "key",
    "a shared secret": "shared",
    "a seed": "seed",
    "a mask": "mask",
}


def secrets_of(private, found, epoch):
    """The secrets of an epoch, by name."""
    key = PrivateKey(np.frombuffer(private, np.uint8).copy())
    clamped = bytearray(private)
    clamped[0] &= 248
    clamped[31] = clamped[31] & 127 | 64
    yield "key", private
    yield "key", bytes(clamped)
    for keeper in public(found):
        shared = oracle.x25519(private, keeper)
        context = MaskContext(FLEET, label(), SMALL.digest, epoch, key.public, keeper).encode()
        seed = oracle.seed(shared, context)
        yield "shared", shared
        yield "seed", seed
        yield "mask", oracle.chacha20(seed, bytes(12), SMALL.nbytes)


@pytest.fixture(scope="module")
def fed():
    found, rng = keepers(), np.random.default_rng()
    privates = [rng.bytes(32) for _ in range(EPOCHS)]
    pieces = {}
    for epoch, private in enumerate(privates):
        for name, secret in secrets_of(private, found, epoch):
            for place in range(0, len(secret) - PIECE + 1, PIECE):
                pieces[secret[place : place + PIECE]] = name
    return found, privates, pieces


def left_behind(fed, defect):
    """The names of all secrets that a process holds after it was fed."""
    found, privates, pieces = fed
    keys = [each.hex() for each in public(found)]
    command = [sys.executable, "-m", "tests.pansketch.blinding.fed_process", defect, *keys]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            process.stdin.write(b"".join(privates))
            process.stdin.flush()
            assert process.stdout.readline() == b"fed\n"
            regions = [r for r in process_memory(process.pid) if r.name in SEARCHED]
        finally:
            process.kill()
    heads = np.unique(np.frombuffer(b"".join(piece[:8] for piece in pieces), np.uint64))
    return {
        pieces[held]
        for region in regions
        for held in found_in(region.content, heads)
        if held in pieces
    }


def found_in(region, heads):
    """Matches that begin with one of `heads` in uint8[n], at every multiple of four bytes."""
    for shift in (0, 4):
        words = region[shift : shift + (len(region) - shift) // 8 * 8].view(np.uint64)
        near = heads[np.searchsorted(heads, words) % len(heads)] == words
        for place in np.flatnonzero(near).tolist():
            begin = 8 * place + shift
            yield region[begin : begin + PIECE].tobytes()


def test_no_secret_of_an_epoch_stays(fed):
    assert left_behind(fed, "none") == set()


@pytest.mark.parametrize("defect", DEFECTS[1:])
def test_a_secret_that_stays_is_found(fed, defect):
    assert FOUND_BY[defect] in left_behind(fed, defect)
