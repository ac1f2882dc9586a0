"""The wall clock of a device, set by libfaketime in the device's own process.

The clock that only grows is left alone, as it is when somebody sets the time of a host.
"""

from collections.abc import Mapping
from pathlib import Path

PLACES = (
    "/usr/lib/*/faketime",
    "/usr/lib/faketime",
    "/usr/lib64/faketime",
    "/usr/local/lib/faketime",
)
LIBRARY = "libfaketimeMT.so.1"


def library() -> Path | None:
    """Where libfaketime is on this host, None where it is not."""
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
