"""What the run itself did to releases, and how each device's books stood when its process ended."""

import threading
from dataclasses import dataclass, field
from pathlib import Path

from agent.book import line
from agent.records import Key
from chaos.witness import Name


@dataclass
class Marks:
    """`damaged`: releases that waited in a segment where the run damaged them.

    `lost_with_process`: debited last before a process ended with an error or was killed, and seen
    nowhere by then. An end in good order loses nothing.
    """

    damaged: set[Name] = field(default_factory=set)
    lost_with_process: set[Name] = field(default_factory=set)
    mutex: threading.Lock = field(default_factory=threading.Lock)

    def note_damage(self, device: str, cost: frozenset[Key]) -> None:
        with self.mutex:
            self.damaged |= {Name(device, key.stream, key.sequence) for key in cost}

    def note_end(self, names: set[Name]) -> None:
        with self.mutex:
            self.lost_with_process |= names


@dataclass(frozen=True)
class Debit:
    """One line of a ledger."""

    name: Name
    start: int
    end: int


def debits_in(state: Path, device: str) -> list[Debit]:
    """All sound debits of a device's ledger, in their order; read without the agent's own reader.

    None before there is a ledger.
    """
    path = state / "ledger"
    found = []
    for raw in path.read_bytes().splitlines(keepends=True) if path.exists() else []:
        words = raw.decode("ascii", "replace").split()
        if len(words) == 7 and words[0] == "debit" and raw == line(" ".join(words[:-1])):
            name = Name(device, words[2], int(words[1]))
            found.append(Debit(name, int(words[3]), int(words[4])))
    return found


def last_debits(state: Path, device: str) -> set[Name]:
    """The newest debit of each stream."""
    return set({d.name.stream: d.name for d in debits_in(state, device)}.values())
