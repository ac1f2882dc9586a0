"""Faults of a program's host: a small disk that can be filled, and the wall clock.

A disk is a tmpfs in a mount namespace of this process, which ends with the run. If the system does
not allow one, a limit on file sizes (RLIMIT_FSIZE) of the process replaces it. libfaketime sets the
wall clock in the process. The monotonic clock is untouched, as on a host whose time is set.
"""

import ctypes
import os
import resource
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000
_PRIVATE, _RECURSIVE = 1 << 18, 1 << 14
FILLER = "filler"
CHUNK = bytes(4096)
SPARE_BYTES = 150  # The bytes that a process may still append to its smallest file under a limit.


class Disk(Protocol):
    """A disk that can be full for a while."""

    def fill(self) -> None: ...
    def free(self) -> None: ...


def own_mounts() -> bool:
    """Gives this process mounts of its own: as root, or as root of a user namespace. Call it before
    there are threads. False where the system refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    try:
        if libc.unshare(_NEW_MOUNTS):
            if libc.unshare(_NEW_MOUNTS | _NEW_USER):
                return False
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"0 {user} 1")
            Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    except OSError:
        return False
    private = not libc.mount(b"none", b"/", None, _PRIVATE | _RECURSIVE, None)
    return private and _may_mount(libc)


def _may_mount(libc: ctypes.CDLL) -> bool:
    with tempfile.TemporaryDirectory() as place:
        name = os.fsencode(place)
        mounted = not libc.mount(b"tmpfs", name, b"tmpfs", 0, None)
        return mounted and not libc.umount2(name, 0)


class Tmpfs:
    """A file system in memory at `place`. Raises OSError when it cannot be mounted."""

    def __init__(self, place: Path, size_bytes: int) -> None:
        self._place = place
        self._libc = ctypes.CDLL(None, use_errno=True)
        place.mkdir(parents=True, exist_ok=True)
        options = f"size={size_bytes},mode=700".encode()
        if self._libc.mount(b"tmpfs", os.fsencode(place), b"tmpfs", 0, options):
            raise OSError(ctypes.get_errno(), "no tmpfs can be mounted")

    def fill(self) -> None:
        with suppress(OSError), (self._place / FILLER).open("ab", buffering=0) as file:
            while file.write(CHUNK):
                pass

    def free(self) -> None:
        (self._place / FILLER).unlink(missing_ok=True)

    def keep(self) -> None:
        """Unmounts it; what was on it then lies at its place for good."""
        self.free()
        copy = self._place.with_name(f"{self._place.name}.copy")
        shutil.copytree(self._place, copy)
        if self._libc.umount2(os.fsencode(self._place), 0):
            raise OSError(ctypes.get_errno(), f"{self._place} cannot be unmounted")
        self._place.rmdir()
        copy.rename(self._place)


class Quota:
    """A limit on the size of the files of a process: nothing grows beyond `max_bytes()`."""

    def __init__(self, pid: Callable[[], int | None], max_bytes: Callable[[], int]) -> None:
        self._pid, self._max_bytes = pid, max_bytes

    def fill(self) -> None:
        self._limit(self._max_bytes() + SPARE_BYTES)

    def free(self) -> None:
        self._limit(resource.RLIM_INFINITY)

    def _limit(self, max_bytes: int) -> None:
        pid = self._pid()
        with suppress(OSError, ValueError):
            if pid is not None:
                hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (min_limit(max_bytes, hard), hard))


def min_limit(soft: int, hard: int) -> int:
    """A soft limit that a hard one allows."""
    if hard == resource.RLIM_INFINITY:
        return soft
    return hard if soft == resource.RLIM_INFINITY else min(soft, hard)


def size(path: Path) -> int:
    """Bytes of a file; 0 before it exists."""
    return os.stat(path).st_size if path.exists() else 0


PLACES = (
    "/usr/lib/*/faketime",
    "/usr/lib/faketime",
    "/usr/lib64/faketime",
    "/usr/local/lib/faketime",
)
LIBRARY = "libfaketimeMT.so.1"


def library() -> Path | None:
    """The path of libfaketime on this host; None without it."""
    found = [path for place in PLACES for path in Path("/").glob(f"{place[1:]}/{LIBRARY}")]
    return found[0] if found else None


class WallClock:
    """The clock of the programs that start with its `environment`."""

    def __init__(self, library: Path, file: Path) -> None:
        self._library, self._file = library, file
        self.set(0)

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def set(self, ahead_seconds: float) -> None:
        """So far ahead of the host's clock from now on, or behind it."""
        unfinished = self._file.with_suffix(".unfinished")
        unfinished.write_text(f"{ahead_seconds:+.0f}\n")
        unfinished.replace(self._file)
