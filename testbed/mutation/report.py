"""The outcomes of the mutants as a page, with reasons for the unnoticed ones."""

import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.mutation.mutants import Name

REASONS = Path(__file__).parent / "unnoticed.toml"
KILLED = ("killed", "timeout")


@dataclass(frozen=True)
class Result:
    """The outcome of one mutant: `runner.Outcome`."""

    name: Name
    outcome: str


def reasons() -> dict[Name, tuple[bool, str]]:
    """Of each mutant that is known to survive: whether it is equivalent, and why it survives."""
    tables = tomllib.loads(REASONS.read_text()).get("mutant", [])
    return {
        Name(each["module"], each["where"], each["was"], each["becomes"]): (
            each["equivalent"],
            each["reason"],
        )
        for each in tables
    }


def as_page(tested: Sequence[Result]) -> str:
    """A table of scores, and every survivor. A score is the share of killed mutants among those
    that are not equivalent; one whose module cannot be loaded is not counted."""
    known = reasons()
    lines = ["# Mutants", "", "| module | mutants | killed | survived | equivalent | score |"]
    lines.append("|---|---|---|---|---|---|")
    modules = list(dict.fromkeys(each.name.module for each in tested))
    for module in modules:
        lines.append(_row(f"`{module}`", [t for t in tested if t.name.module == module], known))
    lines += [_row("all", tested, known), "", "## Survivors", ""]
    for each in tested:
        if each.outcome == "survived":
            equivalent, reason = known.get(each.name, (False, "not explained"))
            kind = "equivalent: " if equivalent else ""
            lines.append(f"* `{each.name}`: {kind}{reason}")
    return "\n".join(lines) + "\n"


def _row(name: str, tested: Sequence[Result], known: dict[Name, tuple[bool, str]]) -> str:
    counted = Counter(
        "equivalent" if t.outcome == "survived" and known.get(t.name, (False,))[0] else t.outcome
        for t in tested
    )
    killed = sum(counted[each] for each in KILLED)
    total = killed + counted["survived"]
    score = f"{100 * killed / total:.1f} %" if total else ""
    all_of_them = total + counted["equivalent"]
    return (
        f"| {name} | {all_of_them} | {killed} | {counted['survived']} "
        f"| {counted['equivalent']} | {score} |"
    )
