"""The releases that a device held only in memory when its process ended, and their ages.

With `persist: when_unacknowledged` they are lost with the process. A device's own reports are not
used: the age of a release counts from the first sight of its debit in the ledger.
"""

import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path

from pansketch_agent.outbox.write_behind import BUFFER_SECONDS
from testbed.chaos.observation.ledger_marks import debits_in
from testbed.chaos.observation.observer import Name

POLL_SECONDS = 0.1
LATE_SECONDS = 5.0  # A busy host needs so long to come to writing what is due.
MAX_SECONDS = BUFFER_SECONDS + LATE_SECONDS


@dataclass(frozen=True)
class Held:
    """A release that was never seen on the disk of its device when its process ended.

    `seconds`: since it was debited, or since the disk was full, which keeps it in memory; `code`:
    the exit code of the process.
    """

    name: Name
    seconds: float
    code: int


class Ages:
    """Watches the ledgers of the devices in `states`, which are those under the option.

    `written`: whether a release was ever seen on the device's disk. `open_seconds`: how long a
    stream's window is open after its debit. `held`: each release of a
    process that has ended and that was not, once.
    """

    def __init__(
        self,
        states: Mapping[str, Path],
        written: Callable[[Name], bool],
        open_seconds: Callable[[str], float] = lambda stream: 0.0,
    ) -> None:
        self._states, self._written, self._open_seconds = states, written, open_seconds
        self._mutex = threading.Lock()
        self._since: dict[Name, float] = {}
        self._full: dict[str, float] = {}
        self._judged: set[Name] = set()
        self._sizes: dict[str, int] = {}
        self.held: list[Held] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ages", daemon=True)

    def __enter__(self) -> "Ages":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def disk_is_full(self, device: str) -> None:
        """From now on the device cannot write."""
        with self._mutex:
            self._full[device] = inf

    def disk_is_free(self, device: str) -> None:
        with self._mutex:
            self._full[device] = time.monotonic()

    def young(self, device: str) -> set[Name]:
        """Debits of the device that it may still hold in memory only."""
        now = time.monotonic()
        with self._mutex:
            ages = {name: now - at for name, at in self._since.items() if name.device == device}
        return {n for n, age in ages.items() if age <= MAX_SECONDS and not self._written(n)}

    def explain(self, device: str, code: int) -> bool:
        """True if the option alone explains the losses at this end of the device."""
        return device in self._states and code == -signal.SIGKILL

    def note_end(self, device: str, code: int) -> None:
        """The device's process has ended. Call it before there is another one."""
        if device not in self._states:
            return
        now = time.monotonic()
        self._poll(device, now)
        with self._mutex:
            ours = {name for name in self._since if name.device == device} - self._judged
            self._judged |= ours
            for name in sorted(ours):
                if not self._written(name):
                    since = max(self._since[name], min(now, self._full.get(device, 0.0)))
                    self.held.append(Held(name, round(now - since, 2), code))

    def _watch(self) -> None:
        while not self._stop.wait(POLL_SECONDS):
            for device in self._states:
                self._poll(device, time.monotonic())

    def _poll(self, device: str, now: float) -> None:
        """Notes the debits that are new."""
        try:
            size = (self._states[device] / "ledger").stat().st_size
        except FileNotFoundError:
            return
        if self._sizes.get(device) == size:
            return
        found = debits_in(self._states[device], device)
        with self._mutex:
            self._sizes[device] = size
            for debit in found:
                self._since.setdefault(debit.name, now + self._open_seconds(debit.name.stream))
