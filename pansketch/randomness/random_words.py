"""Uniform 64-bit words: the only form in which randomness enters."""

import os
import stat
import weakref
from typing import Protocol

import numpy as np
import numpy.typing as npt

WORD_BITS = 64
LAST_WORD = (1 << WORD_BITS) - 1
# Linux numbers its devices: 1:9 is the kernel's generator under any name, 1:5 gives zeros.
URANDOM, URANDOM_NUMBER = "/dev/urandom", os.makedev(1, 9)


class Words(Protocol):
    """A source of independent, uniform 64-bit words."""

    def fill(self, words: npt.NDArray[np.uint64]) -> None: ...


class OsWords:
    """Words from the kernel, read straight into the caller's buffer: no copy stays behind.

    Not by getrandom: from glibc 2.41 on that function keeps a generator of its own in the memory of
    the process. An intruder who reads that memory can predict later draws.

    Args:
        device: path of the kernel's generator.

    Raises:
        OSError: `device` is another file, which a container or a chroot may hold under that name.
    """

    def __init__(self, device: str = URANDOM) -> None:
        if hasattr(os, "getrandom"):
            os.getrandom(1)  # Waits, early after boot, until the kernel's generator is seeded.
        self._device = os.open(device, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        weakref.finalize(self, os.close, self._device)
        found = os.fstat(self._device)
        if not stat.S_ISCHR(found.st_mode) or found.st_rdev != URANDOM_NUMBER:
            raise OSError(
                f"{device} is not the kernel's random device (1:9), so no noise can be drawn; "
                "mount a devtmpfs there, or make it with mknod -m 666 /dev/urandom c 1 9"
            )

    def fill(self, words: npt.NDArray[np.uint64]) -> None:
        """Overwrite an array with random words.

        Args:
            words: uint64[n], contiguous.

        Raises:
            OSError: the kernel gives no randomness; there is no fallback generator.
        """
        left = words.data.cast("B")
        while len(left):
            count = os.readv(self._device, [left])
            if not count:
                raise OSError("the operating system's random device gave no bytes")
            left = left[count:]


def extended(uniform: int, words: Words, word_bits: int = WORD_BITS) -> int:
    """The first bits of a uniform real, and one more word of them."""
    more = np.empty(1, np.uint64)
    words.fill(more)
    longer = (uniform << word_bits) | int(more[0])
    more.fill(0)
    return longer
