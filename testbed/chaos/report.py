"""The output of a run: report.json, report.md, and the printed lines."""

import json
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from testbed.chaos.accounting.accounting import CLASSES, MERGED, NOWHERE, RISKED, Account
from testbed.chaos.accounting.answers import CLASSES as AT_LEVELS
from testbed.chaos.accounting.answers import AnswerAccount
from testbed.chaos.accounting.evidence import Evidence
from testbed.chaos.environment.configuration import write_behind_among
from testbed.chaos.faults.schedule import BY_NAME

MAX_FAILURES = 20
HELD = "every debit is reconciled; nothing was merged twice, or answered twice"
RESULTS = ("report.json", "report.md")

Rows = Sequence[tuple[str, ...]]


def rows_of_releases(evidence: Evidence, account: Account) -> Rows:
    """A row for each device, and their sum: debited releases by what became of them. Of the
    classes, those that have releases, and always the first and the last."""
    counted, totals = account.by_device(), account.totals()
    shown = [name for name in CLASSES if totals[name] or name in (MERGED, NOWHERE)]
    rows = [
        (device, str(sum(found.values())), *(str(found[name]) for name in shown))
        for device in evidence.run.devices
        if (found := counted.get(device)) is not None
    ]
    last = ("all", str(sum(totals.values())), *(str(totals[name]) for name in shown))
    return [("device", "debited", *shown), *rows, last]


def rows_of_faults(evidence: Evidence) -> Rows:
    """A row for each kind of fault, and their sum."""
    faults = evidence.run.faults
    rows = [
        (name, str(faults[name]), BY_NAME[name].description) for name in BY_NAME if name in faults
    ]
    left_out = [(name, "0", f"left out: {why}") for name, why in evidence.run.left_out.items()]
    return [
        ("fault", "times", ""),
        *rows,
        *left_out,
        ("all", str(sum(faults.values())), ""),
    ]


def lines(evidence: Evidence, account: Account, answered: AnswerAccount) -> list[str]:
    """The rest, a line each; failures last."""
    run = evidence.run
    by_itself = [end for end in run.ends if not end.ours and end.code]
    refused = sum(evidence.quarantined.values())
    unexpected = [
        f"seed {run.seed}; {run.windows} windows a device at least; "
        + ", ".join(f"{what} {seconds:.0f} s" for what, seconds in run.seconds.items()),
        *(f"{what}: {how}" for what, how in run.how.items()),
        f"processes ended: {len(run.ends)}, of these unexpectedly with an error, "
        f"and started again: {len(by_itself)}",
        f"releases seen on disk or wire: {len(evidence.made)}; stored: {len(evidence.stored)}; "
        f"came again and were only counted: {evidence.duplicates}",
        f"quarantined: {refused}; disputed: {len(evidence.disputed)}; "
        f"database: {evidence.integrity}",
        f"dropped, as the devices count: {sum(evidence.counted_dropped.values())}",
        _risk(evidence, account),
        f"merged of what no fault destroyed: {account.merged_share():.2%}",
        f"answers of keepers: {answered.questions}; masked windows at their levels: "
        + ", ".join(f"{name} {count}" for name, count in answered.totals().items() if count),
    ]
    failures = account.failures[:MAX_FAILURES]
    more = len(account.failures) - len(failures)
    return [
        *unexpected,
        *(f"FAILED: {failure}" for failure in failures),
        *([f"FAILED: and {more} more"] if more else []),
        *([] if failures else [HELD]),
    ]


def _risk(evidence: Evidence, account: Account) -> str:
    """The losses of the devices under `persist: when_unacknowledged`."""
    write_behind, counted = write_behind_among(len(evidence.run.devices)), account.by_device()
    debited = sum(sum(counted[device].values()) for device in write_behind if device in counted)
    seconds = {held.name: held.seconds for held in evidence.run.held}
    risked = [seconds[name] for name, where in account.classes.items() if where == RISKED]
    longest = f", after {max(risked):.1f} s there at most" if risked else ""
    return (
        f"persist: when_unacknowledged on {', '.join(write_behind) or 'none'}: of {debited} debits "
        f"{len(risked)} lost in memory by a kill{longest}: the option's stated risk"
    )


def table(title: str, rows: Rows) -> Table:
    """For the screen."""
    made = Table(title=title, title_justify="left")
    for number, header in enumerate(rows[0]):
        made.add_column(header, justify="right" if number and header else "left")
    for row in rows[1:]:
        made.add_row(*row)
    return made


def write(folder: Path, evidence: Evidence, account: Account, answered: AnswerAccount) -> None:
    """Leaves both reports in the folder."""
    run = evidence.run
    content = {
        "seed": run.seed,
        "devices": len(run.devices),
        "windows": run.windows,
        "seconds": run.seconds,
        "faults": run.faults,
        "left_out": run.left_out,
        "how": run.how,
        "releases": account.totals(),
        "merged_share": account.merged_share(),
        "by_device": account.by_device(),
        "stored": len(evidence.stored),
        "duplicates": evidence.duplicates,
        "quarantined": evidence.quarantined,
        "counted_dropped": evidence.counted_dropped,
        "disputed": len(evidence.disputed),
        "database": evidence.integrity,
        "ended_by_themselves": [
            f"{e.program}: {e.last_line}" for e in run.ends if not e.ours and e.code
        ],
        "answers": answered.questions,
        "masked_windows": answered.totals(),
        "failures": account.failures,
    }
    (folder / RESULTS[0]).write_text(json.dumps(content, indent=1) + "\n")
    (folder / RESULTS[1]).write_text(_markdown(evidence, account, answered))


def _markdown(evidence: Evidence, account: Account, answered: AnswerAccount) -> str:
    explained = [f"* `{name}`: {text}" for name, text in (*CLASSES.items(), *AT_LEVELS.items())]
    parts = [
        "# Faults and what became of every release",
        "\n".join(f"* {line}" for line in lines(evidence, account, answered)),
        _as_markdown(rows_of_releases(evidence, account)),
        "\n".join(explained),
        _as_markdown(rows_of_faults(evidence)),
    ]
    return "\n\n".join(parts) + "\n"


def _as_markdown(rows: Rows) -> str:
    header, *rest = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([header, "|---" * len(rows[0]) + "|", *rest])
