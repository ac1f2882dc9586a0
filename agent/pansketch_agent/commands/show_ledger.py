"""`pansketch-agent ledger`: the epsilon that each stream has spent, beside a running agent."""

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
    read_accounts,
    unusable,
)
from pansketch_fleet.config.privacy_cost import streams_sharing_source
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
    """The account of one stream.

    `unit`: the privacy unit. `devices_per_key`: how many devices may see a key. `together`: the
    sums of all streams that absorb records of its source, None if it is the only one.
    """

    stream: str
    account: Account
    unit: Unit
    today_micro: int
    devices_per_key: int | None = None
    together: "JointSpending | None" = None

    @property
    def reading_micro(self) -> int | None:
        """The largest loss of one reading in a release, None if the unit is a key."""
        if self.unit == "key":
            return None
        return self.account.highest_micro // readings_of(self.unit)

    @property
    def span_micro(self) -> int | None:
        """The largest loss of all readings of a span together, None if the unit is no span."""
        return self.account.highest_micro if isinstance(self.unit, Span) else None

    @property
    def key_micro(self) -> int | None:
        """The largest loss of a key in one window, None if the unit is no key."""
        return self.account.highest_micro if self.unit == "key" else None


@dataclass(frozen=True)
class JointSpending:
    """The epsilon that streams of the same records have spent on this device.

    `record_micro`: the maximum for one record. `today_micro`, `lifetime_micro`: for a record that
    was in every window.
    """

    streams: tuple[str, ...]
    record_micro: int
    today_micro: int
    lifetime_micro: int


def spending(config: AgentConfig, now: float) -> tuple[Path, Accounts, list[Spending]]:
    """Return the ledger's path, its accounts, and every stream that is configured or was ever
    debited.

    Raises LedgerError for a ledger that is damaged or cannot be read.
    """
    path = config.agent.state / "ledger"
    try:
        accounts, sound_bytes = read_accounts(path)
        if sound_bytes < path.stat().st_size:
            accounts.note_torn()
    except FileNotFoundError:
        accounts = Accounts()
    except OSError as error:
        raise unusable(path, error) from None
    known = {stream.name: stream for stream in config.streams}
    today = day_of(int(now) + 1)
    found = []
    for name in sorted({*known, *accounts.by_stream}):
        account, stream = accounts.by_stream.get(name, Account()), known.get(name)
        if stream is None:
            found.append(Spending(name, account, "reading", account.spent_on(today)))
            continue
        unit, devices = stream.plan.privacy.unit, stream.devices_per_key
        together = _together(stream, config, accounts, today)
        found.append(Spending(name, account, unit, account.spent_on(today), devices, together))
    return path, accounts, found


def _together(
    stream: Stream, config: AgentConfig, accounts: Accounts, today: int
) -> JointSpending | None:
    others = streams_sharing_source(stream, config.streams)
    if not others:
        return None
    charged = (stream, *others)
    shared = [accounts.by_stream.get(each.name, Account()) for each in charged]
    records = (
        account.highest_micro // readings_of(each.plan.privacy.unit)
        for each, account in zip(charged, shared, strict=True)
    )
    return JointSpending(
        tuple(each.name for each in charged),
        sum(records),
        sum(account.spent_on(today) for account in shared),
        sum(account.lifetime_micro for account in shared),
    )


def as_rows(found: list[Spending]) -> list[tuple[str, ...]]:
    return [(*HEADER[0], *HEADER[1]), *map(_row, found)]


def as_json(path: Path, accounts: Accounts, found: list[Spending]) -> str:
    """Return one object. Numbers are integers; names that end in `_micro` are micro-epsilon."""
    streams = {spent.stream: _object(spent) for spent in found}
    incarnation = accounts.incarnation or None
    return json.dumps(
        {"ledger": str(path), "incarnation": incarnation, "torn": accounts.torn, "streams": streams}
    )


def as_notes(path: Path, accounts: Accounts, found: list[Spending]) -> str:
    """Return notes below the table: units, sums over devices and streams, and anomalies of the
    ledger.
    """
    lines = [NOTE]
    for spent in found:
        lines += _at_devices(spent)
    for together in dict.fromkeys(_in_order(each.together) for each in found if each.together):
        lines.append(_in_all(together))
    note = "\n".join(lines)
    torn = f"\n{path}: torn {accounts.torn} times; each counts as a debited release"
    none = f"\n{path}: none yet, nothing was ever released"
    adopted = "".join(
        f"\n{name}: {account.adopted} windows were released before this ledger, as the collector "
        "reported; they are priced as configured at that time, and there may have been more"
        for name, account in sorted(accounts.by_stream.items())
        if account.adopted
    )
    return (
        note + adopted + (torn if accounts.torn else "") + (none if not accounts.by_stream else "")
    )


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
    if account.is_empty:
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
        "last_window_ends": None if account.is_empty else utc_text(account.until),
        "reading_micro": spent.reading_micro,
        "span_micro": spent.span_micro,
        "key_micro": spent.key_micro,
        "busiest_day": None if account.is_empty else _date(account.busiest_day),
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
