"""docs/reference/cli.md: every command of the four programs, from their argparse parsers."""

import argparse
from collections.abc import Iterator

from pansketch_agent.commands import command_line as agent
from pansketch_cli.__main__ import parser as library
from pansketch_collector.commands import command_line as collector
from pansketch_keeper import command_line as keeper

HEAD = """\
<!-- Made from the parsers of the programs by `python -m testbed.reference`: edit it there. -->
# Commands

For everyone who runs pansketch from a shell. This page lists every command with its arguments.
`COMMAND --help` prints the same.

* **Exit codes** of all programs: 0 done, 1 failed at run time, 2 wrong input. An error is a single
  line that names the cause and the fix.
* **Configuration.** Relative paths in the [configuration](configuration.md) start at its folder.
"""
PROGRAMS = {
    "pansketch-agent": (agent.parser, "the device"),
    "pansketch-collector": (collector.parser, "the server"),
    "pansketch-keeper": (keeper.parser, "a keeper of a blinded fleet"),
    "pansketch": (library, "inspection, plans, audit"),
}
# Pages that explain a command.
SEE = {
    "pansketch-agent ledger": "../how-to/recover-a-ledger.md",
    "pansketch-agent outbox": "device-state.md",
    "pansketch-agent rerandomise": "../how-to/harden-a-device.md",
    "pansketch-agent sources": "sources.md",
    "pansketch-collector acl": "../how-to/secure-the-broker.md",
    "pansketch-collector backup": "../how-to/manage-the-database.md",
    "pansketch-collector devices": "../how-to/monitor.md",
    "pansketch-collector disputed": "../how-to/manage-the-database.md#disputed-windows",
    "pansketch-collector exclude": "../how-to/contain-a-hostile-device.md",
    "pansketch-collector forget": "../how-to/contain-a-hostile-device.md",
    "pansketch-collector query": "../how-to/query.md",
    "pansketch-collector retention": "../how-to/manage-the-database.md#retention",
    "pansketch-collector sample": "../how-to/query.md",
    "pansketch-collector serve": "http-api.md",
    "pansketch-collector settings": "../how-to/manage-the-database.md#configuration-epochs",
    "pansketch-keeper run": "../how-to/run-a-keeper.md",
    "pansketch audit": "../explanation/privacy.md#pansketch-audit",
    "pansketch plan": "../explanation/views.md",
}


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_programs()])


def subcommands(
    parser: argparse.ArgumentParser,
) -> dict[str, tuple[str, argparse.ArgumentParser]]:
    """The help and the parser of each subcommand, by its name."""
    (action,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
    return {name: (helps[name], found) for name, found in action.choices.items()}


def _programs() -> Iterator[str]:
    for program, (make, role) in PROGRAMS.items():
        found = subcommands(make())
        rows = [
            f"| [`{program} {name}`](#{program}-{name}) | {what} |\n"
            for name, (what, _) in found.items()
        ]
        table = "| command | does |\n|---|---|\n" + "".join(rows)
        yield f"## `{program}`: {role}\n\n{make().description}\n\n{table}"
        for name, (_, parser) in found.items():
            yield _command(f"{program} {name}", parser)


def _command(name: str, parser: argparse.ArgumentParser) -> str:
    actions = [a for a in parser._actions if a.help != argparse.SUPPRESS and a.dest != "help"]
    described = " ".join((parser.description or "").split())
    see = f" [More]({SEE[name]})." if name in SEE else ""
    in_order = sorted(actions, key=lambda action: not action.option_strings)
    usage = " ".join([name, *map(_usage, in_order)])
    parts = [f"### `{name}`", f"{described}{see}", f"```text\n{usage}\n```"]
    if actions:
        rows = "".join(map(_row, actions))
        parts.append(f"| argument | meaning |\n|---|---|\n{rows}".rstrip())
    if more := _epilog(parser):
        parts.append(f"```text\n{more}\n```")
    return "\n\n".join(parts) + "\n"


def _usage(action: argparse.Action) -> str:
    value = _value(action)
    text = " ".join([*action.option_strings[-1:], *([value] if value else [])])
    if action.nargs in ("*", "+"):
        text += " ..."
    optional = not action.required or action.nargs in ("?", "*")
    return f"[{text}]" if optional else text


def _value(action: argparse.Action) -> str:
    """The placeholder for the value of an argument; empty for a flag."""
    if action.nargs == 0:
        return ""
    if action.choices is not None:
        return "|".join(map(str, action.choices))
    return str(action.metavar or action.dest.upper())


def _row(action: argparse.Action) -> str:
    value = _value(action).replace("|", "\\|")
    name = " ".join([*action.option_strings[-1:], *([value] if value else [])])
    needed = " Required." if action.required and action.option_strings else ""
    text = " ".join((action.help or "").split()).replace("|", "\\|")
    if ":" not in text.partition(" ")[0]:  # "retry: ..." names a value
        text = f"{text[:1].upper()}{text[1:]}"
    return f"| `{name}` | {text}.{needed} |\n"


def _epilog(parser: argparse.ArgumentParser) -> str:
    """The epilog below the options, without the exit codes."""
    return (parser.epilog or "").replace(collector.EPILOG, "").strip()
