"""A process that masks counters with keys that its parent writes, and uses no freed memory again.

`python -m tests.pansketch.blinding.fed_process DEFECT KEEPERS`, KEEPERS public keys in hexadecimal
digits. Its parent searches it for keys, shared secrets, seeds and masks.
"""

import os
import sys

import numpy as np

from pansketch.blinding import PrivateKey, SodiumMasks, masks, start
from tests.pansketch.blinding.fleet import FLEET, SMALL, QuietKeys, label
from tests.pansketch.sketches.fed_process import keep_what_is_freed

EPOCHS = 12
DEFECTS = ("none", "a key", "a shared secret", "a seed", "a mask", "bytes of a key")


class GivenKeys(QuietKeys):
    """Keys that are read from standard input straight into the caller's buffer."""

    def fill_words(self, words):
        view = words.view(np.uint8).data
        while len(view):
            view = view[os.readv(0, [view]) :]


def _break(defect):
    if defect == "a key":
        PrivateKey.erase = lambda self: None
    if defect == "bytes of a key":
        kept, made = [], PrivateKey.__init__

        def copying(self, buffer):
            kept.append(bytes(buffer))
            made(self, buffer)

        PrivateKey.__init__ = copying
    spared = {"a shared secret": "_shared", "a seed": "_seed", "a mask": "_stream"}.get(defect)
    if spared:
        add = SodiumMasks.add

        def sparing(self, *given):
            # A buffer of its own for each mask, which nothing erases.
            setattr(self, spared, np.zeros_like(getattr(self, spared)))
            add(self, *given)
            left.append(getattr(self, spared))

        left, erase = [], masks.erase
        SodiumMasks.add = sparing
        SodiumMasks.finish = lambda self: None
        held = {"_shared": 0, "_seed": 1, "_stream": 2}[spared]
        calls = iter(range(10**9))
        masks.erase = lambda buffer: None if next(calls) % 3 == held else erase(buffer)
        PrivateKey.erase = lambda self: erase(self._buffer)


def _feed(keepers):
    rng = GivenKeys()
    sketch = start(SMALL, rng, FLEET, label(), keepers)
    for _ in range(EPOCHS - 2):
        sketch.begin_epoch(rng)
    return sketch, sketch.release(rng)


if __name__ == "__main__":
    _break(sys.argv[1])
    _kept = keep_what_is_freed()
    _made = _feed(tuple(map(bytes.fromhex, sys.argv[2:])))
    os.write(1, b"fed\n")
    os.read(0, 1)
