"""Segments: the records of the outbox, appended and synced, repaired and removed.

A segment knows its own releases and which of them are forgotten, so each can go without the others.
A torn end is cut off; a segment with damage before its end is set aside as `.bad`, and its sound
releases go on in a new one. After a power cut a release may be sent again: its note is not synced.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from pansketch_agent.outbox.records import (
    AGAIN,
    FORGOTTEN,
    KEPT,
    RELEASE,
    SIGNATURE,
    Key,
    Record,
    RecordPosition,
    Scan,
    again_in,
    encode,
    kept_in,
    may_wait_again,
    payload_of,
    record_at,
    scan,
    waiting_in,
)
from pansketch_agent.outbox.segment_files import SegmentFiles

LOG = logging.getLogger(__name__)


class Segments:
    """The segments of a folder. Not safe for several threads; one process at a time.

    `segment_bytes`: a segment of this size or more takes no more releases. Raises OSError when the
    folder cannot be made or read.
    """

    def __init__(self, folder: Path, segment_bytes: int) -> None:
        self._segment_bytes = segment_bytes
        self.places: dict[Key, RecordPosition] = {}
        self.kept: dict[Key, int] = {}  # Of them the acknowledged ones, and when: unix seconds.
        self.again: set[Key] = set()  # Acknowledged once, and waiting again.
        self._live: dict[int, int] = {}  # Of each segment the bytes of the releases in it.
        self._active = 0
        self._files = SegmentFiles(folder)
        for number in self._files.at_start:
            self._load(number)

    @property
    def disk_bytes(self) -> int:
        """The size of all segments together."""
        return sum(self._files.sizes.values())

    def append(self, key: Key, payload: bytes) -> None:
        """On disk before it returns; nothing new when it is there already. Raises OSError when the
        disk refuses; then it is not there."""
        if key in self.places:
            return
        if not self._active or self._is_full(self._active):
            self._active = self._files.new()
            self._live[self._active] = 0
        number, record = self._active, encode(RELEASE, key, payload)
        fresh = not self._files.sizes[number]
        try:
            at = self._files.append(number, record, durable=True)
            if fresh:
                self._files.sync()
        except OSError:
            self._active = 0  # Nothing is written behind what may be torn.
            self._discard_if_dead(number)
            raise
        self._place(key, number, at, len(record))

    def read(self, key: Key) -> bytes | None:
        """The bytes as they were put; None when they are damaged: the segment is repaired then."""
        place = self.places[key]
        with suppress(OSError):
            content = self._files.read(place.segment, place.at, place.size)
            record = record_at(content, 0)
            if record is not None and record.key == key:
                return payload_of(content, record)
        self._repair(place.segment)
        return None

    def forget(self, key: Key) -> None:
        """Removes the segment when nothing in it waits any more, and it is full."""
        number = self.places[key].segment
        if not self._remove(key):
            with suppress(OSError):  # It is only sent again after the next start.
                self._files.append(number, encode(FORGOTTEN, key), durable=False)

    def keep(self, key: Key, at: int) -> None:
        """It is acknowledged, and stays while there is room. The note is not synced either."""
        self.kept[key] = at
        self.again.discard(key)
        with suppress(OSError):  # It is only sent again after the next start.
            note = encode(KEPT, key, at.to_bytes(8, "big"))
            self._files.append(self.places[key].segment, note, durable=False)

    def wait_again(self, keys: Iterable[Key]) -> None:
        """Acknowledged releases that are kept wait once more, which is on disk before it returns.
        Raises OSError; those of the segments before are done then."""
        for some in self._noted(AGAIN, keys):
            for key in some:
                del self.kept[key]
                self.again.add(key)

    def forget_kept(self, keys: Iterable[Key]) -> None:
        """As `forget`, and on disk before it returns. Raises OSError, as `wait_again` does."""
        for some in self._noted(FORGOTTEN, keys):
            for key in some:
                self._remove(key)

    def _noted(self, kind: int, keys: Iterable[Key]) -> Iterator[list[Key]]:
        """The keys of one segment after the other, once a note of each is on disk."""
        by_segment: dict[int, list[Key]] = {}
        for key in keys:
            by_segment.setdefault(self.places[key].segment, []).append(key)
        for number, some in by_segment.items():
            notes = b"".join(encode(kind, key) for key in some)
            self._files.append(number, notes, durable=True)
            yield some

    def expire(self, before: int) -> None:
        """Lets go of what was acknowledged before; `before` in unix seconds. Nothing is written."""
        for key in [key for key, at in self.kept.items() if at < before]:
            self._remove(key)

    def yield_kept(self) -> bool:
        """Lets go of all that is kept in the oldest segment that has some, so that no segment is
        written again for it; whether there was one."""
        if not self.kept:
            return False
        oldest = min(self.places[key].segment for key in self.kept)
        for key in self._keys_in(oldest):
            if key in self.kept:
                self._remove(key)
        return True

    def shrink(self, max_bytes: int) -> None:
        """Gives back what forgotten releases take until the disk use is within the limit, or
        nothing is left to give. Raises OSError."""
        while self._files.sizes and self.disk_bytes > max_bytes:
            number = max(self._files.sizes, key=self._dead)
            if self._dead(number) <= len(SIGNATURE):
                return
            if self._live[number]:
                self._rewrite(number)
            else:
                self._discard_if_dead(number)

    def close(self) -> None:
        """Removes the segment that was kept for the next release, when nothing waits in it."""
        for number in list(self._files.sizes):
            self._discard_if_dead(number)

    def _dead(self, number: int) -> int:
        return self._files.sizes[number] - self._live[number]

    def _is_full(self, number: int) -> bool:
        return self._files.sizes[number] >= self._segment_bytes

    def _place(self, key: Key, number: int, at: int, size: int) -> None:
        self.places[key] = RecordPosition(number, at, size)
        self._live[number] += size

    def _remove(self, key: Key) -> bool:
        """Whether its segment is removed with it."""
        place = self.places.pop(key)
        self.kept.pop(key, None)
        self.again.discard(key)
        number = place.segment
        self._live[number] -= place.size
        removed = not self._live[number] and (number != self._active or self._is_full(number))
        if removed:
            self._discard_if_dead(number)
        return removed

    def _discard_if_dead(self, number: int) -> None:
        if self._live[number]:
            return
        del self._live[number]
        if number == self._active:
            self._active = 0
        self._files.remove(number)

    def _load(self, number: int) -> None:
        path = self._files.path(number)
        try:
            content = path.read_bytes()
        except OSError as error:
            LOG.error("%s cannot be read (%s); renamed to .bad", path, error.strerror)
            self._files.set_aside(number)
            return
        found = scan(content)
        self._live[number] = self._files.sizes[number] = 0
        known = may_wait_again(found, content)
        if found.damaged or known:
            self._rescue(number, content, found, known)
            return
        if found.end < len(content):
            torn = len(content) - found.end
            LOG.warning("%s: a torn end is cut off (%d bytes); earlier ones stay", path, torn)
            self._files.truncate(number, found.end)
        self._files.sizes[number] = found.end
        kept = kept_in(found, content)
        self.kept |= {key: at for key, (_, at) in kept.items() if key not in self.places}
        lying = waiting_in(found) | {key: record for key, (record, _) in kept.items()}
        self.again |= {key for key in again_in(found) if key in lying and key not in self.places}
        for key, record in lying.items():
            if key not in self.places:  # A copy whose original could not be removed in time.
                self._place(key, number, record.at, record.size)
        if not self._live[number]:
            self._discard_if_dead(number)
        elif not self._is_full(number):
            self._active = number

    def _repair(self, number: int) -> None:
        """A record in it has turned out to be damaged: what is sound goes on. A note that waits
        again counts, also where the damage has taken it from the disk."""
        keys = self._keys_in(number)
        known = self.again & set(keys)
        for key in keys:
            del self.places[key]
            self.kept.pop(key, None)
            self.again.discard(key)
        try:
            content = self._files.path(number).read_bytes()
        except OSError:
            content = b""
        self._rescue(number, content, scan(content), known)

    def _rescue(self, number: int, content: bytes, found: Scan, known: set[Key]) -> None:
        """Sets a damaged segment aside once its sound releases are in another one. Those of `known`
        wait again, whatever their notes say: to send the same bytes twice is no loss."""
        path = self._files.path(number)
        if number == self._active:
            self._active = 0
        sound = {k: r for k, r in waiting_in(found).items() if k not in self.places}
        lying = kept_in(found, content)
        fresh = {k: v for k, v in lying.items() if k not in self.places and k not in sound}
        sound |= {key: record for key, (record, _) in fresh.items()}
        kept = {key: at for key, (_, at) in fresh.items() if key not in known}
        parts = [content[record.at : record.at + record.size] for record in sound.values()]
        again = {key for key in again_in(found) | known if key in sound and key not in kept}
        notes = [encode(KEPT, key, at.to_bytes(8, "big")) for key, at in kept.items()]
        notes += [encode(AGAIN, key) for key in sorted(again)]
        self.kept |= kept
        self.again |= again
        try:
            if sound:
                last = self._files.create(b"".join((SIGNATURE, *parts, *notes)))
                self._settle(last, list(sound), parts)
            del self._live[number]
            self._files.set_aside(number)
        except OSError as error:
            self._stay(number, sound, len(content))
            LOG.error("%s is damaged and cannot be renamed (%s)", path, error.strerror)
            return
        LOG.warning("%s is damaged; renamed to .bad, %d sound releases kept", path, len(sound))

    def _stay(self, number: int, sound: dict[Key, Record], size: int) -> None:
        """The sound releases of a damaged segment that has to be left where it is."""
        self._live[number], self._files.sizes[number] = 0, size
        for key, record in sound.items():
            if key not in self.places:
                self._place(key, number, record.at, record.size)

    def _rewrite(self, number: int) -> None:
        """The same segment without what is forgotten."""
        for key in self._keys_in(number):
            if key in self.kept:
                del self.places[key], self.kept[key]
        content = self._files.path(number).read_bytes()
        kept, parts = self._keys_in(number), []
        for key in kept:
            record = record_at(content, self.places[key].at)
            if record is None or record.key != key:
                self._repair(number)
                return
            note = encode(AGAIN, key) if key in self.again else b""
            parts.append(content[record.at : record.at + record.size] + note)
        self._files.replace(number, b"".join((SIGNATURE, *parts)))
        self._settle(number, kept, parts)

    def _settle(self, number: int, keys: list[Key], parts: list[bytes]) -> None:
        """Notes where the releases of a segment that was written as a whole lie."""
        self._live[number], at = 0, len(SIGNATURE)
        for key, part in zip(keys, parts, strict=True):
            self._place(key, number, at, len(part))
            at += len(part)

    def _keys_in(self, number: int) -> list[Key]:
        return [key for key, place in self.places.items() if place.segment == number]
