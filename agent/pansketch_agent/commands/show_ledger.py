"""`pansketch-agent ledger`: what every stream has spent, read beside a running agent."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pansketch import Span
from pansketch.privacy import MICRO, Unit, readings_of
from pansketch_agent.host.clock import utc_text
from pansketch_agent.ledger.accounts import (
    DAY_SECONDS,
    Account,
    Accounts,
    day_of,
    read_book,
    unusable,
)
from pansketch_fleet.config.privacy_cost import sharing
from pansketch_fleet.config.programs import AgentConfig
from pansketch_fleet.settings.settings import Stream

HEADER = (
    ("stream", "releases", "first window", "last window ends"),
    ("a reading", "a span", "a key", "busiest day", "on", "today", "lifetime"),
)
NOTE = """\
Numbers are epsilon, of one stream on this device. A reading spends once in a stream; a span
once for all its readings; a key once in each window that it appears in, on each device. A day and
the lifetime are sums for a source that fills every window, and a key that is in every window.
Epsilon spent in other streams and on other devices adds up to it."""


@dataclass(frozen=True)
class Spending:
    """One stream's account; `unit` is what it protects. `devices_per_key`: how many devices may see
    a key. `together`: of all streams that take records of its source, None where it is alone."""

    stream: str
    account: Account
    unit: Unit
    today_micro: int
    devices_per_key: int | None = None
    together: "JointSpending | None" = None

    @property
    def reading_micro(self) -> int | None:
        """The most that a release has cost a reading, None when the unit is a key."""
        if self.unit == "key":
            return None
        return self.account.highest_micro // readings_of(self.unit)

    @property
    def span_micro(self) -> int | None:
        """The most that a span's readings have cost together, None when the unit is no span."""
        return self.account.highest_micro if isinstance(self.unit, Span) else None

    @property
    def key_micro(self) -> int | None:
        """The most that one window has cost a key, None when the unit is none."""
        return self.account.highest_micro if self.unit == "key" else None


@dataclass(frozen=True)
class JointSpending:
    """What `streams`, which take the same records, have spent on this device. `record_micro`: the
    most on one record; `today_micro`, `lifetime_micro`: on one that was in every window."""

    streams: tuple[str, ...]
    record_micro: int
    today_micro: int
    lifetime_micro: int


def spending(config: AgentConfig, now: float) -> tuple[Path, Accounts, list[Spending]]:
    """The ledger's path, its book, and every stream that is configured or was ever debited.

    Raises LedgerError for a ledger that is damaged or cannot be read.
    """
    path = config.agent.state / "ledger"
    try:
        book, sound_bytes = read_book(path)
        if sound_bytes < path.stat().st_size:
            book.note_torn()
    except FileNotFoundError:
        book = Accounts()
    except OSError as error:
        raise unusable(path, error) from None
    known = {stream.name: stream for stream in config.streams}
    today = day_of(int(now) + 1)
    found = []
    for name in sorted({*known, *book.accounts}):
        account, stream = book.accounts.get(name, Account()), known.get(name)
        if stream is None:
            found.append(Spending(name, account, "reading", account.on(today)))
            continue
        unit, devices = stream.plan.privacy.unit, stream.devices_per_key
        together = _together(stream, config, book, today)
        found.append(Spending(name, account, unit, account.on(today), devices, together))
    return path, book, found


def _together(
    stream: Stream, config: AgentConfig, book: Accounts, today: int
) -> JointSpending | None:
    others = sharing(stream, config.streams)
    if not others:
        return None
    paid = (stream, *others)
    accounts = [book.accounts.get(each.name, Account()) for each in paid]
    records = (
        account.highest_micro // readings_of(each.plan.privacy.unit)
        for each, account in zip(paid, accounts, strict=True)
    )
    return JointSpending(
        tuple(each.name for each in paid),
        sum(records),
        sum(account.on(today) for account in accounts),
        sum(account.lifetime_micro for account in accounts),
    )


def as_rows(found: list[Spending]) -> list[tuple[str, ...]]:
    return [(*HEADER[0], *HEADER[1]), *map(_row, found)]


def as_json(path: Path, book: Accounts, found: list[Spending]) -> str:
    """One object; every number is an integer, those of `_micro` in micro-epsilon."""
    streams = {spent.stream: _object(spent) for spent in found}
    incarnation = book.incarnation or None
    return json.dumps(
        {"ledger": str(path), "incarnation": incarnation, "torn": book.torn, "streams": streams}
    )


def as_notes(path: Path, book: Accounts, found: list[Spending]) -> str:
    """What the table's numbers mean, what adds up, and what is unusual about this ledger."""
    lines = [NOTE]
    for spent in found:
        lines += _at_devices(spent)
    for together in dict.fromkeys(_in_order(each.together) for each in found if each.together):
        lines.append(_in_all(together))
    note = "\n".join(lines)
    torn = f"\n{path}: torn {book.torn} times; each counts as a debited release"
    none = f"\n{path}: none yet, nothing was ever released"
    adopted = "".join(
        f"\n{name}: {account.adopted} windows were released before this ledger, as the collector "
        "reported; they are priced as configured at that time, and there may have been more"
        for name, account in sorted(book.accounts.items())
        if account.adopted
    )
    return note + adopted + (torn if book.torn else "") + (none if not book.accounts else "")


def _at_devices(spent: Spending) -> list[str]:
    devices, micro = spent.devices_per_key, spent.key_micro
    if devices is None or not micro:
        return []
    life = _epsilon(devices * spent.account.lifetime_micro)
    return [
        f"{spent.stream}: a key at {devices} devices (expect.devices_per_key) spends "
        f"{_epsilon(devices * micro)} in a window, {life} in the lifetime if all spent as much."
    ]


def _in_order(together: JointSpending | None) -> JointSpending:
    assert together is not None
    return replace(together, streams=tuple(sorted(together.streams)))


def _in_all(together: JointSpending) -> str:
    return (
        f"{' and '.join(together.streams)} have one source: a record that all absorb spends "
        f"{_epsilon(together.record_micro)}; together today {_epsilon(together.today_micro)}, "
        f"lifetime {_epsilon(together.lifetime_micro)}."
    )


def _row(spent: Spending) -> tuple[str, ...]:
    account = spent.account
    if account.young:
        return (spent.stream, "0", *["-"] * 9)
    return (
        spent.stream,
        str(account.releases),
        utc_text(account.first_start) if account.releases else "-",
        utc_text(account.until),
        _epsilon(spent.reading_micro),
        _epsilon(spent.span_micro),
        _epsilon(spent.key_micro),
        _epsilon(account.busiest_micro),
        _date(account.busiest_day),
        _epsilon(spent.today_micro),
        _epsilon(account.lifetime_micro),
    )


def _object(spent: Spending) -> dict[str, object]:
    account = spent.account
    return {
        "releases": account.releases,
        "adopted": account.adopted,
        "first_window": utc_text(account.first_start) if account.releases else None,
        "last_window_ends": None if account.young else utc_text(account.until),
        "reading_micro": spent.reading_micro,
        "span_micro": spent.span_micro,
        "key_micro": spent.key_micro,
        "busiest_day": None if account.young else _date(account.busiest_day),
        "busiest_day_micro": account.busiest_micro,
        "today_micro": spent.today_micro,
        "lifetime_micro": account.lifetime_micro,
        "devices_per_key": spent.devices_per_key,
        "together": None if spent.together is None else asdict(spent.together),
    }


def _epsilon(micro: int | None) -> str:
    return "-" if micro is None else f"{micro / MICRO:.12g}"


def _date(day: int) -> str:
    return utc_text(day * DAY_SECONDS)[:10]
