"""The run's own records of each device: every debit ever seen, its faults, and logged drops.

A fault can lose or roll back a ledger, so the run collects the debits as it sees them.
"""

import re
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pansketch_agent.ledger.accounts import line
from testbed.chaos.observation.observer import Name

_DROPPED = re.compile(
    r"release (?P<old>\d+) of (?P<old_stream>[a-z0-9-]+), the oldest, is dropped"
    r"|(?P<new_stream>[a-z0-9-]+): (?:window .*, )?release (?P<new>\d+) is dropped"
)
_RETRANSMITTED = re.compile(r"(?P<stream>[a-z0-9-]+): the collector's database may lack")
_REFUSED = re.compile(r"(\d{12})\.([a-z0-9-]+)\.release is (?:refused|larger)")


Mark = TypeVar("Mark", Name, str)


@dataclass(frozen=True)
class Debit:
    """One line of a ledger."""

    name: Name
    sequence: int
    end: int


@dataclass(frozen=True)
class Drop:
    """A device's log reports a dropped release. `at`: unix seconds of the host's clock.

    `full_bytes`: the size of its outbox then, as far as it is visible from outside.
    """

    name: Name
    at: float
    full_bytes: int


@dataclass(frozen=True)
class Span:
    """From when to when, in unix seconds, something was so for a device."""

    device: str
    since: float
    until: float

    def covers(self, device: str, at: float, slack_seconds: float) -> bool:
        early, late = self.since - slack_seconds, self.until + slack_seconds
        return device == self.device and early <= at <= late


@dataclass(frozen=True)
class TwinRange:
    """The windows of one stream that a second agent of a device's name may have released.

    They reach from the first that it can know of, which starts at `since`, to the end of its last
    debit.
    """

    device: str
    stream: str
    since: int
    until: int

    def covers(self, name: Name) -> bool:
        ours = (name.device, name.stream) == (self.device, self.stream)
        return ours and self.since <= name.start < self.until


@dataclass
class Marks:
    """The fates of releases by name; each fault records its own.

    `damaged`: queued in a segment that the run damaged. `erased`: queued in a state folder that the
    run deleted or replaced. `unkept`: stored once, in a database that the run replaced by an older
    copy, without a copy on the device. `rolled_back`: the same, with a copy on the device;
    `damaged` and `erased` name these copies too. `requeued`: those of `rolled_back` that the device
    had queued again before its disk was ever full; `filled`: devices whose disk ever was.

    `twins`: windows that a second agent of the same name has debited. `twin_ranges`: the windows in
    which it lived. `overtaken`: the older queued releases of those streams when it began.
    `lost_with_process`: debited last before a kill or an error of the process, and never seen.

    `reset`: devices whose state was deleted or replaced. `forgotten`: windows at levels, of
    questions that keepers were asked. They were in a database that the run replaced by an older
    copy.
    """

    damaged: set[Name] = field(default_factory=set)
    erased: set[Name] = field(default_factory=set)
    unkept: set[Name] = field(default_factory=set)
    rolled_back: set[Name] = field(default_factory=set)
    requeued: set[Name] = field(default_factory=set)
    filled: set[str] = field(default_factory=set)
    twins: set[Name] = field(default_factory=set)
    twin_ranges: list[TwinRange] = field(default_factory=list)
    overtaken: set[Name] = field(default_factory=set)
    lost_with_process: set[Name] = field(default_factory=set)
    drops: list[Drop] = field(default_factory=list)
    refused: set[Name] = field(default_factory=set)
    full_disks: list[Span] = field(default_factory=list)
    reset: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)
    mutex: threading.Lock = field(default_factory=threading.Lock)
    _debits: dict[str, dict[tuple[Name, int], Debit]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def note(self, marked: set[Mark], names: Iterable[Mark]) -> None:
        """`names` have become members of one of this object's sets."""
        with self.mutex:
            marked |= set(names)

    def note_retransmission(self, device: str, text: str) -> None:
        """A line of a device's log: its stream's kept releases may be queued again."""
        stream = _RETRANSMITTED.search(text)
        if stream is not None and device not in self.filled:
            of = device, stream["stream"]
            found = {name for name in self.rolled_back if (name.device, name.stream) == of}
            self.note(self.requeued, found)

    def note_debits(self, device: str, debits: Iterable[Debit]) -> None:
        """The same window under another sequence number is another debit."""
        with self.mutex:
            self._debits[device].update({(d.name, d.sequence): d for d in debits})

    def note_twin(
        self, device: str, debits: Iterable[Debit], since: int, waited: Iterable[Name]
    ) -> None:
        """A second agent of the device's name has made these debits, from `since` on. `waited`: the
        device's releases that were neither acknowledged nor dropped when it began."""
        ends: dict[str, int] = {}
        for debit in debits:
            ends[debit.name.stream] = max(debit.end, ends.get(debit.name.stream, 0))
            self.note(self.twins, [debit.name])
        self.twin_ranges += [
            TwinRange(device, stream, since, until) for stream, until in ends.items()
        ]
        self.note(self.overtaken, [n for n in waited if n.start < ends.get(n.stream, 0)])

    def debits(self, device: str) -> list[Debit]:
        """All that were ever seen in a ledger of the device, in the order of their first sight."""
        with self.mutex:
            return list(self._debits[device].values())

    def newest(self, device: str, stream: str, sequence: int) -> Name | None:
        """The window that was debited last under a sequence number. It may be an earlier one than
        before, where a ledger was rolled back."""
        found = (d for d in self.debits(device) if d.sequence == sequence)
        return next((d.name for d in reversed([*found]) if d.name.stream == stream), None)


def dropped_in(text: str) -> list[tuple[str, int]]:
    """Streams and sequence numbers of the releases that a line of an agent's log drops."""
    return [
        (match["old_stream"] or match["new_stream"], int(match["old"] or match["new"]))
        for match in _DROPPED.finditer(text)
    ]


def refused_in(text: str) -> list[tuple[str, int]]:
    """The same of releases that were dead-lettered."""
    return [(stream, int(sequence)) for sequence, stream in _REFUSED.findall(text)]


def debits_in(state: Path, device: str) -> list[Debit]:
    """All sound debits of a device's ledger, in their order; read without the agent's own reader.

    None before there is a ledger.
    """
    path = state / "ledger"
    found = []
    for raw in path.read_bytes().splitlines(keepends=True) if path.exists() else []:
        words = raw.decode("ascii", "replace").split()
        if len(words) == 7 and words[0] == "debit" and raw == line(" ".join(words[:-1])):
            start, end = int(words[3]), int(words[4])
            found.append(Debit(Name(device, words[2], start), int(words[1]), end))
    return found


def last_debits(debits: Iterable[Debit]) -> set[Name]:
    """The newest debit of each stream, of debits in a ledger's order."""
    newest: Mapping[str, Name] = {debit.name.stream: debit.name for debit in debits}
    return set(newest.values())
