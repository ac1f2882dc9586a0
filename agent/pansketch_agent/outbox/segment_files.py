"""The files of the segments: created, appended to and synced, truncated, renamed and removed."""

import errno
import os
import re
from contextlib import suppress
from pathlib import Path

from pansketch_agent.host.durable_files import UNFINISHED, names_in, replace_file, sync_folder
from pansketch_agent.outbox.records import SIGNATURE

MAX_BAD = 4  # Segments kept as `.bad`, the newest.
_NAME = re.compile(r"(\d{8,12})\.segment")


class SegmentFiles:
    """The files `NUMBER.segment` of a folder. Not safe for several threads.

    `sizes`: bytes of each segment in use. `initial_numbers`: the files found in the folder, oldest
    first. Raises OSError when the folder cannot be created or read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.sizes: dict[int, int] = {}
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _remove_unfinished(folder)
        with suppress(OSError):  # A damaged folder of dead letters must not stop the queue.
            _remove_unfinished(folder / "refused")
        self.initial_numbers = numbers_in(folder)
        self._last = max(self.initial_numbers, default=0)

    def path(self, number: int) -> Path:
        return self._folder / f"{number:08d}.segment"

    def new(self) -> int:
        """Return the number of a segment whose file begins with its first record."""
        self._last += 1
        self.sizes[self._last] = 0
        return self._last

    def create(self, content: bytes) -> int:
        """Create a segment with this content, on disk before it returns, and return its number.

        Raises OSError.
        """
        replace_file(self.path(self._last + 1), content)
        self._last += 1
        self.sizes[self._last] = len(content)
        return self._last

    def append(self, number: int, record: bytes, *, durable: bool) -> int:
        """Append a record, and return its position. Raises OSError, at the old size."""
        how = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        handle = os.open(self.path(number), how, 0o600)
        try:
            before = os.fstat(handle).st_size
            content = record if before else SIGNATURE + record
            try:
                if os.write(handle, content) != len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                if durable:
                    os.fdatasync(handle)
            except OSError:
                os.ftruncate(handle, before)
                raise
        finally:
            os.close(handle)
        self.sizes[number] = before + len(content)
        return before + len(content) - len(record)

    def sync(self) -> None:
        """Sync the names of the files. Raises OSError."""
        sync_folder(self._folder)

    def read(self, number: int, at: int, size: int) -> bytes:
        """Read `size` bytes from `at`, fewer at the end of the file. Raises OSError."""
        with self.path(number).open("rb") as file:
            return os.pread(file.fileno(), size, at)

    def replace(self, number: int, content: bytes) -> None:
        """Replace the content of a segment. Raises OSError; then the old content stays."""
        replace_file(self.path(number), content)
        self.sizes[number] = len(content)

    def truncate(self, number: int, end: int) -> None:
        os.truncate(self.path(number), end)

    def remove(self, number: int) -> None:
        """Remove the file if the disk allows; the next start reads a file that stays."""
        del self.sizes[number]
        with suppress(OSError):
            self.path(number).unlink(missing_ok=True)
            sync_folder(self._folder)

    def rename_to_bad(self, number: int) -> None:
        """Rename the file to `.bad`, and remove all but the newest of these. Raises OSError."""
        self.sizes.pop(number, None)
        path = self.path(number)
        with suppress(FileNotFoundError):
            path.replace(path.with_suffix(".segment.bad"))
        bad = [name for name in names_in(self._folder) if name.endswith(".segment.bad")]
        for old in bad[:-MAX_BAD]:
            (self._folder / old).unlink()
        sync_folder(self._folder)


def numbers_in(folder: Path) -> list[int]:
    """Return the numbers of a folder's segments, oldest first. Raises OSError."""
    matches = (_NAME.fullmatch(path.name) for path in folder.iterdir())
    return sorted(int(match[1]) for match in matches if match)


def _remove_unfinished(folder: Path) -> None:
    for name in names_in(folder):
        if name.endswith(UNFINISHED):
            (folder / name).unlink()
