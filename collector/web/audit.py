"""`/v1/audit`: what the last audit found, and which code this collector is made of."""

from pathlib import Path
from typing import Any

from fleet.audit_record import LIMIT_BYTES, AuditRecord
from pansketch import __version__

AGAIN = "make it again with pansketch audit --record"


def audit_object(path: Path | None, sources: str) -> dict[str, Any]:
    """`audit`: the record, None where there is none, or none that can be used; `problem` then says
    why. `sources`: the digest of this collector's own."""
    found: AuditRecord | None = None
    problem: str | None = None
    if path is not None:
        try:
            found = _read(path)
        except OSError as error:
            problem = f"the file of collector.audit cannot be read ({error.strerror}): {AGAIN}"
        except ValueError as error:
            problem = f"the file of collector.audit is damaged ({error}): {AGAIN}"
    return {
        "audit": None if found is None else found.as_object(),
        "problem": problem,
        "version": __version__,
        "sources": sources,
    }


def _read(path: Path) -> AuditRecord | None:
    if path.exists() and not path.is_file():
        raise ValueError("it is no file")  # To open a pipe would be to wait for its writer.
    try:
        with path.open("rb") as file:
            return AuditRecord.decode(file.read(LIMIT_BYTES + 1))
    except FileNotFoundError:
        return None
