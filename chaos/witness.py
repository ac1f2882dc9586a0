"""What devices made, seen from outside: on their disks, and on the wire.

A device's own word is not asked for. Both places are needed: what is dropped was never sent, and
what is acknowledged at once may be off the disk before anybody looks.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent.records import RELEASE, payload_of, scan
from chaos.packets import PublishReader
from fleet import topics
from fleet.messages import digest
from pansketch import WireError, peek

LOOK_SECONDS = 0.03


@dataclass(frozen=True, order=True)
class Name:
    """One release of the fleet."""

    device: str
    stream: str
    sequence: int

    def __str__(self) -> str:
        return f"{self.device}/{self.stream} {self.sequence}"


class Witness:
    """Notes the bytes of every release that it sees. `outboxes`: the folder of each device."""

    def __init__(self, fleet: str, outboxes: Mapping[str, Path]) -> None:
        self._fleet, self._outboxes = fleet, outboxes
        self._mutex = threading.Lock()
        self._made: dict[Name, dict[str, bytes]] = defaultdict(dict)
        self._written: set[Name] = set()
        self._seen: dict[Path, tuple[int, int]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="witness", daemon=True)

    def __enter__(self) -> "Witness":
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

    def look(self, device: str) -> None:
        """Reads what is new in the device's segments."""
        folder = self._outboxes[device]
        with suppress(OSError):  # A folder that is not there yet.
            for path in sorted(folder.glob("*.segment*")):
                for name, payload in self._news(device, path):
                    self._note(name, payload)
                    with self._mutex:
                        self._written.add(name)

    def tap(self, device: str) -> Callable[[bytes], object]:
        """What hears a connection of this device."""
        reader = PublishReader()

        def hear(content: bytes) -> None:
            for topic, payload in reader.feed(content):
                self._heard(device, topic, payload)

        return hear

    def _heard(self, device: str, topic: str, payload: bytes) -> None:
        place = topics.parse(topic)
        if place is None or place.kind != "release" or place.device != device:
            return
        with suppress(WireError):
            (window,) = peek(payload).windows
            self._note(Name(device, str(place.stream), window.sequence), payload)

    def _note(self, name: Name, payload: bytes) -> None:
        with self._mutex:
            self._made[name][digest(payload)] = payload

    def _news(self, device: str, path: Path) -> Iterator[tuple[Name, bytes]]:
        try:
            status = path.stat()
            if self._seen.get(path) == (status.st_ino, status.st_mtime_ns):
                return
            content = path.read_bytes()
        except OSError:
            return
        self._seen[path] = status.st_ino, status.st_mtime_ns
        for record in scan(content).records:
            if record.kind == RELEASE:
                name = Name(device, record.key.stream, record.key.sequence)
                yield name, payload_of(content, record)

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            for device in self._outboxes:
                self.look(device)
