"""A running agent with a blinded stream is seized: no secret of any epoch is in its memory.

Its private keys come from a file, directly into the buffers of the library. So the test knows them,
and computes derived secrets by code of its own. Negative controls: agents that keep one.
"""

import numpy as np
import pytest

from pansketch import WindowId
from pansketch.blinding import MaskContext, PrivateKey
from pansketch_agent.control.requests import announce_intrusion
from pansketch_agent.host.clock import system_clock
from pansketch_audit.seizure.process_memory import Scanner, process_memory
from tests.agent.privacy.test_key_seizure import may_read_others
from tests.pansketch.blinding import oracle
from tests.waiting import until

SEARCHED = ("anonymous", "[heap]", "[stack]")
EPOCHS = 5  # The window's start, perhaps one of the schedule, and the announced ones.
ANNOUNCED = 4
PIECE = 16  # A secret of which so many bytes in a row stay is found.
FED = """
import os, sys
from pansketch.blinding import masks
from pansketch.randomness.exact_noise import ExactNoise

kept, keys = [], os.open(sys.argv[1], os.O_RDONLY)

def fill(self, words):
    assert os.readv(keys, [words]) == words.nbytes

ExactNoise.fill_words = fill
{defect}
from pansketch_agent.__main__ import main

sys.exit(main(sys.argv[2:]))
"""
KEEPS_KEYS = """
agree = masks.PrivateKey.agree

def keeping(self, shared, public):
    kept.append(self._buffer.copy())
    return agree(self, shared, public)

masks.PrivateKey.agree = keeping
"""
KEEPS_SHARED = """
agree = masks.PrivateKey.agree

def keeping(self, shared, public):
    found = agree(self, shared, public)
    kept.append(shared.copy())
    return found

masks.PrivateKey.agree = keeping
"""
KEEPS_SEEDS = """
keyed_hash = masks.keyed_hash

def keeping(out, key, data, personal):
    keyed_hash(out, key, data, personal)
    kept.append(out.copy())

masks.keyed_hash = keeping
"""
KEEPS_MASKS = """
key_stream = masks.key_stream

def keeping(stream, key, nonce):
    key_stream(stream, key, nonce)
    kept.append(stream.copy())

masks.key_stream = keeping
"""


@pytest.fixture
def left_behind(device, blinded, keepers, tmp_path):
    """The names of all secrets that an agent with this defect holds after some epochs; None if its
    memory is closed to this user."""

    def run(defect):
        most = "{max_readings: 100000}"
        config = blinded(source="{type: stdin}", window="30d", expect=most)
        privates = [np.random.default_rng().bytes(32) for _ in range(EPOCHS)]
        (tmp_path / "keys").write_bytes(b"".join(privates) + bytes(range(32)) * 8)
        program = "-c", FED.format(defect=defect), str(tmp_path / "keys")
        agent = device.start("run", program=program)
        ledger = device.state / "ledger"
        until(lambda: ledger.exists() and device.ledger(), lambda: agent.output)
        for _ in range(ANNOUNCED):
            announce_intrusion(device.state, system_clock())
        scanner = Scanner(pieces(config, label_in(device), privates, keepers))
        try:
            regions = [r for r in process_memory(agent.process.pid) if r.name in SEARCHED]
        except PermissionError:
            assert not may_read_others()
            return None
        assert sum(len(region.content) for region in regions) > 1 << 20
        return {hit.form for region in regions for hit in scanner.search(region.content)}

    return run


def label_in(device):
    """The label of the window that is debited."""
    (header, *_) = (device.state / "ledger").read_text().splitlines()
    ((sequence, stream, start, end, _),) = device.ledger()
    incarnation = bytes.fromhex(header.split()[2])
    return WindowId("dev-1", stream, int(sequence), int(start), int(end), None, incarnation)


def pieces(config, label, privates, keepers):
    """Every secret in pieces, by name: uint8[n, PIECE]."""
    spec, found = config.streams[0].spec, {"key": b"", "shared": b"", "seed": b"", "mask": b""}
    for epoch, private in enumerate(privates):
        clamped = bytearray(private)
        clamped[0] &= 248
        clamped[31] = clamped[31] & 127 | 64
        found["key"] += private + bytes(clamped)
        public = PrivateKey(np.frombuffer(private, np.uint8).copy()).public
        for keeper in keepers:
            shared = oracle.x25519(private, keeper.public)
            context = MaskContext(config.fleet, label, spec.digest, epoch, public, keeper.public)
            seed = oracle.seed(shared, context.encode())
            found["shared"] += shared
            found["seed"] += seed
            stream = oracle.chacha20(seed, bytes(12), spec.nbytes)
            found["mask"] += stream[: len(stream) // PIECE * PIECE]
    return {
        name: np.frombuffer(secrets, np.uint8).reshape(-1, PIECE) for name, secrets in found.items()
    }


def test_a_seized_agent_holds_no_secret_of_an_epoch(left_behind):
    assert not left_behind("")


@pytest.mark.parametrize(
    ("defect", "name"),
    [(KEEPS_KEYS, "key"), (KEEPS_SHARED, "shared"), (KEEPS_SEEDS, "seed"), (KEEPS_MASKS, "mask")],
    ids=["key", "shared", "seed", "mask"],
)
def test_an_agent_that_keeps_one_is_caught(left_behind, defect, name):
    found = left_behind(defect)
    assert found is None or name in found
