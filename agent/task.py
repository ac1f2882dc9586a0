"""What a running agent is told from outside: how long to run, and what may happen meanwhile."""

import threading
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Task:
    """How long to run. `once`: one window of each stream. `drain_seconds`: the longest wait for the
    collector after the last release, None for ever. `root`: the folder with proc/ and sys/.
    """

    once: bool = False
    drain_seconds: float | None = None
    root: Path = Path("/")


@dataclass(frozen=True)
class Signals:
    """What comes from outside while the agent runs: `stop` it, an announced intrusion, or a
    question about the outbox."""

    stop: threading.Event = field(default_factory=threading.Event)
    intruded: threading.Event = field(default_factory=threading.Event)
    asked: threading.Event = field(default_factory=threading.Event)
