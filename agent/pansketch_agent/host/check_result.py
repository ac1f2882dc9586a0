"""Results of checks: one line each, as a table or as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

State = Literal["ok", "refused", "note", "wrong"]


@dataclass(frozen=True)
class CheckResult:
    """`refused`: the system does not allow it, and the agent runs without it. `note`: information.

    `wrong`: the agent cannot work; `text` has the fix. The text never contains a value of a
    reading.
    """

    subject: str
    state: State
    text: str


def all_well(findings: Sequence[CheckResult]) -> bool:
    """Return whether no result is wrong."""
    return all(finding.state != "wrong" for finding in findings)


def as_rows(findings: Sequence[CheckResult]) -> list[tuple[str, str, str]]:
    return [(finding.subject, finding.state, finding.text) for finding in findings]


def as_json(findings: Sequence[CheckResult]) -> str:
    return json.dumps([asdict(finding) for finding in findings], ensure_ascii=False)
