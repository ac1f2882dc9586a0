"""`pansketch audit`: tests the guarantee, prints the findings, and records them in a file for the
collector.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from pansketch import __version__
from pansketch.version import sources_digest
from pansketch_audit.findings import Finding
from pansketch_fleet.config.loader import load_agent
from pansketch_fleet.errors import ConfigError, one_line
from pansketch_fleet.protocol.audit_record import MAX_NAMED, AuditRecord, time_text
from pansketch_fleet.protocol.strict_json import MAX_LINE


def add_audit(commands: Any) -> None:
    """Add the command and its options to argparse's subcommands."""
    audit = commands.add_parser(
        "audit",
        help="test the privacy guarantee",
        description="Tests the privacy guarantee: exactly, by the draws of random specs, by pairs "
        "of agents, statistically, by seizing a running agent, and with planted bugs. The exit "
        "code is 1 if a claim fails or a planted bug is missed. Seizing a running agent needs "
        "root.",
    )
    audit.add_argument("--quick", action="store_true", help="one to two minutes on two idle cores")
    audit.add_argument("--json", action="store_true", help="print one JSON object")
    only = audit.add_mutually_exclusive_group()
    only.add_argument(
        "--plant", metavar="BUG", help="audit a product with this bug; all: with each, in turn"
    )
    only.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="audit the streams of this configuration: the draws of each sketch, and its agent",
    )
    only.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="write the result to this file, for the dashboard (collector.audit)",
    )
    audit.add_argument(
        "--agents",
        type=_count,
        metavar="N",
        help="pairs of agents with random configurations; 10 with --quick, else 100",
    )
    audit.set_defaults(run=_run)


def _count(text: str) -> int:
    """Parse a number of agents. Raises ArgumentTypeError."""
    if not (text.isdecimal() and 1 <= int(text) <= MAX_AGENTS):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {MAX_AGENTS:,}")
    return int(text)


def _run(options: argparse.Namespace) -> int:
    # Imported here, because a device does not need it.
    from pansketch_audit import findings as found
    from pansketch_audit import report
    from pansketch_cli import audit

    if options.record is not None and (problem := audit.refusal(options.record)):
        return _wrong(problem, 2)
    try:
        if options.plant == "all":
            findings = report.plant_all(_progress)
        elif options.plant:
            findings = [report.plant(options.plant)]
        elif options.config:
            findings = report.audit_config(load_agent(options.config, os.environ))
        else:
            findings = report.run_audit(options.quick, _progress, options.agents)
    except (ValueError, ConfigError) as error:
        return _wrong(str(error), 2)
    print(found.as_json(findings) if options.json else found.as_table(findings))
    if options.record is not None:
        try:
            audit.write(options.record, audit.record_of(findings, options.quick))
        except OSError as error:
            return _wrong(f"cannot write {options.record}: {error.strerror}", 1)
    return 0 if all(finding.holds for finding in findings) else 1


def _wrong(problem: str, code: int) -> int:
    print(f"pansketch: {problem}", file=sys.stderr)
    return code


def _progress(finding: object, done: int, tasks: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if done == tasks else ""
        print(f"\raudit: {done} of {tasks} findings", end=end, file=sys.stderr, flush=True)


MAX_AGENTS = 99_990  # A claim of a record is ten of them.
READABLE = 0o644


def record_of(findings: Sequence[Finding], quick: bool) -> AuditRecord:
    """Return the record of an audit that ends now."""
    claims = [finding for finding in findings if finding.part != "planted"]
    broken = [f"{each.part}: {each.subject}" for each in claims if not each.holds]
    return AuditRecord(
        at=time_text(datetime.now(UTC)),
        version=__version__,
        sources=sources_digest(),
        extent="quick" if quick else "full",
        claims=len(claims),
        held=len(claims) - len(broken),
        broken=tuple(one_line(text)[:MAX_LINE] for text in broken[:MAX_NAMED]),
        planted={
            each.subject.partition(":")[0]: each.holds
            for each in findings
            if each.part == "planted"
        },
        holds=all(each.holds for each in findings),
    )


def refusal(path: Path) -> str | None:
    """Return why a record cannot be written there, before an audit of minutes starts."""
    if path.is_dir() or not path.parent.is_dir():
        return f"cannot write {path}: name a file in an existing folder"
    if not os.access(path.parent, os.W_OK):
        return f"cannot write {path}: the folder is not writable; name another, or use sudo"
    return None


def write(path: Path, record: AuditRecord) -> None:
    """Write the record atomically: a reader sees the old record or this one. Raises OSError."""
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
