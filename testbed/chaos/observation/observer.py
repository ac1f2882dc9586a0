"""The releases of devices, observed from outside: on their disks, and on the wire.

A device's own reports are not used. Both observations are needed. A dropped release was never sent.
An acknowledged one may be deleted from the disk before the next poll.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pansketch import WireError
from pansketch.wire import peek_any
from pansketch_agent.commands.list_outbox import releases_in
from pansketch_agent.outbox.records import RELEASE, payload_of, scan
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import digest
from testbed.mqtt_packets import PublishReader

POLL_SECONDS = 0.03


@dataclass(frozen=True, order=True)
class Name:
    """One release of the fleet: the window that it is of, which begins at `start` unix seconds.

    Sequence numbers are no name: a device whose state was lost or restored counts from an earlier
    number again.
    """

    device: str
    stream: str
    start: int

    def __str__(self) -> str:
        return f"{self.device}/{self.stream} window {self.start}"


def named(device: str, stream: str, payload: bytes) -> Name | None:
    """The name of a release, from its own header; None when it has none of one window."""
    try:
        (window,) = peek_any(payload).windows
    except (WireError, ValueError):
        return None
    return Name(device, stream, window.start)


class Observer:
    """Notes the bytes of every release that it sees. `outboxes`: the folder of each device."""

    def __init__(self, fleet: str, outboxes: Mapping[str, Path]) -> None:
        self._fleet, self._outboxes = fleet, outboxes
        self._mutex = threading.Lock()
        self._made: dict[Name, dict[str, bytes]] = defaultdict(dict)
        self._written: set[Name] = set()
        self._refused: set[Name] = set()
        self._beside: dict[Path, str] = {}
        self._seen: dict[Path, tuple[int, int]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="observer", daemon=True)

    def __enter__(self) -> "Observer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def made(self) -> dict[Name, dict[str, bytes]]:
        """The payloads of each release, by digest: one, unless a device has made it twice."""
        with self._mutex:
            return {name: dict(payloads) for name, payloads in self._made.items()}

    def saw(self, name: Name) -> bool:
        with self._mutex:
            return name in self._made

    def saw_on_disk(self, name: Name) -> bool:
        with self._mutex:
            return name in self._written

    def refused(self) -> set[Name]:
        """The releases that a device has ever kept as a dead letter."""
        with self._mutex:
            return set(self._refused)

    @contextmanager
    def beside(self, device: str, outbox: Path) -> Iterator[None]:
        """A second agent of the device's name works in this outbox; what it makes is noted too, but
        is not on the device's disk."""
        with self._mutex:
            self._beside[outbox] = device
        try:
            yield
        finally:
            with self._mutex:
                del self._beside[outbox]
            self._scan_folder(device, outbox)

    def on_disk(self, device: str) -> set[Name]:
        """The releases that are in the segments of a device now."""
        found: set[Name] = set()
        with suppress(OSError):
            for path in self._outboxes[device].glob("*.segment*"):
                found |= {name for name, _ in _releases(device, path.read_bytes())}
        return found

    def scan(self, device: str) -> None:
        """Reads what is new in the device's segments and among its dead letters."""
        folder = self._outboxes[device]
        names = self._scan_folder(device, folder)
        refused = set()
        with suppress(OSError):
            for path in (folder / "refused").glob("*.release"):
                refused.add(named(device, path.name.split(".")[1], self._news(path)))
        with self._mutex:
            self._written |= names
            self._refused |= {name for name in refused if name is not None}

    def _scan_folder(self, device: str, folder: Path) -> set[Name]:
        """Notes what is new in the segments of an outbox, and returns its names."""
        found = set()
        with suppress(OSError):  # A folder that is not there yet.
            for path in sorted(folder.glob("*.segment*")):
                for name, payload in _releases(device, self._news(path)):
                    self._note(name, payload)
                    found.add(name)
        return found

    def tap(self, device: str) -> Callable[[bytes], object]:
        """The tap of a connection of this device."""
        reader = PublishReader()

        def tap(content: bytes) -> None:
            for topic, payload in reader.feed(content):
                self._note_sent(device, topic, payload)

        return tap

    def _note_sent(self, device: str, topic: str, payload: bytes) -> None:
        place = topics.parse(topic)
        if place is None or place.kind != "release" or place.device != device:
            return
        name = named(device, str(place.stream), payload)
        if name is not None:
            self._note(name, payload)

    def _note(self, name: Name, payload: bytes) -> None:
        with self._mutex:
            self._made[name][digest(payload)] = payload

    def _news(self, path: Path) -> bytes:
        """The content of a file that has changed since the last look; b"" otherwise."""
        try:
            status = path.stat()
            if self._seen.get(path) == (status.st_ino, status.st_mtime_ns):
                return b""
            content = path.read_bytes()
        except OSError:
            return b""
        self._seen[path] = status.st_ino, status.st_mtime_ns
        return content

    def _watch(self) -> None:
        while not self._stop.wait(POLL_SECONDS):
            for device in self._outboxes:
                self.scan(device)
            with self._mutex:
                others = list(self._beside.items())
            for folder, device in others:
                self._scan_folder(device, folder)


def _releases(device: str, content: bytes) -> Iterator[tuple[Name, bytes]]:
    """The sound releases of a segment, forgotten ones too."""
    for record in scan(content).records:
        if record.kind == RELEASE:
            payload = payload_of(content, record)
            name = named(device, record.key.stream, payload)
            if name is not None:
                yield name, payload


def waiting_of(device: str, state: Path) -> set[Name]:
    """The releases that wait in the outbox of a state folder."""
    found = (named(device, key.stream, data) for key, data in releases_in(state / "outbox"))
    return {name for name in found if name is not None}
