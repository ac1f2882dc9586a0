"""The record of an audit: what was found, into a file that the collector shows."""

import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import NamedTemporaryFile

from fleet.audit_record import MOST_NAMED, AuditRecord, time_text
from fleet.errors import one_line
from fleet.strict_json import MOST_LINE
from pansketch import __version__
from pansketch.audit.code import sources_digest
from pansketch.audit.report import Finding

READABLE = 0o644


def record_of(findings: Sequence[Finding], quick: bool) -> AuditRecord:
    """What an audit that has ended now found."""
    claims = [finding for finding in findings if finding.part != "planted"]
    broken = [f"{each.part}: {each.subject}" for each in claims if not each.holds]
    return AuditRecord(
        at=time_text(datetime.now(UTC)),
        version=__version__,
        sources=sources_digest(),
        extent="quick" if quick else "full",
        claims=len(claims),
        held=len(claims) - len(broken),
        broken=tuple(one_line(text)[:MOST_LINE] for text in broken[:MOST_NAMED]),
        planted={
            each.subject.partition(":")[0]: each.holds
            for each in findings
            if each.part == "planted"
        },
        holds=all(each.holds for each in findings),
    )


def refusal(path: Path) -> str | None:
    """What keeps a record from being written there, before an audit of minutes has begun."""
    if path.is_dir() or not path.parent.is_dir():
        return f"cannot write {path}: name a file in a folder that is there"
    if not os.access(path.parent, os.W_OK):
        return f"cannot write {path}: the folder is not writable; name another, or use sudo"
    return None


def write(path: Path, record: AuditRecord) -> None:
    """Atomically: a reader sees the record before or this one. Raises OSError."""
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            file.write(record.encode())
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, READABLE)  # The collector may be another user.
            os.replace(file.name, path)
        except OSError:
            with suppress(OSError):
                os.unlink(file.name)
            raise
