"""What leaves the outbox without an acknowledgement: refused releases are kept, dropped ones
counted."""

import re
from contextlib import suppress
from pathlib import Path

from agent.files import replace_file, sync_folder

MOST_ASIDE = 64  # Files kept in `refused`, the newest.
_COUNT = re.compile(rb"[0-9]{1,15}\n?")  # Far more than there can be, and no more than JSON holds.


def keep_refused(folder: Path, name: str, payload: bytes) -> None:
    """Keeps the bytes in `refused` for people to look at. Raises OSError."""
    refused = folder / "refused"
    refused.mkdir(exist_ok=True, mode=0o700)
    replace_file(refused / name, payload)
    for old in sorted(refused.iterdir())[:-MOST_ASIDE]:
        old.unlink()
    sync_folder(refused)


def set_aside_in(folder: Path) -> int:
    """How many files of an outbox lie there for somebody to look at, and to remove then: refused
    releases, damaged segments, and damaged releases of the first versions."""
    patterns = ("refused/*", "*.segment.bad", "damaged/*")
    return sum(len(list(folder.glob(pattern))) for pattern in patterns)


def dropped_in(folder: Path) -> int:
    """How many releases an outbox has ever dropped, as far as its disk knows: a damaged file knows
    nothing."""
    try:
        content = (folder / "dropped").read_bytes()
    except OSError:
        return 0
    return int(content) if _COUNT.fullmatch(content) else 0


def note_dropped(folder: Path, count: int) -> bool:
    """So many were dropped; whether the disk says so now. A full one cannot."""
    with suppress(OSError):
        replace_file(folder / "dropped", b"%d\n" % count)
        return True
    return False
