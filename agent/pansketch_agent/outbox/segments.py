"""Segments: the records of the outbox, appended and synced, repaired and removed.

A segment records its own releases and their removal, so each can be deleted independently. A torn
end is cut off. A segment with damage before its end is renamed to `.bad`, and its valid releases
move to a new one. After a power cut a release may be sent twice: its note is not synced.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from pansketch_agent.outbox.records import (
    FORGOTTEN,
    KEPT,
    RELEASE,
    REQUEUED,
    SIGNATURE,
    Key,
    Record,
    RecordPosition,
    Scan,
    encode,
    kept_in,
    payload_of,
    possibly_requeued,
    queued_in,
    record_at,
    requeued_in,
    scan,
)
from pansketch_agent.outbox.segment_files import SegmentFiles

LOG = logging.getLogger(__name__)


class Segments:
    """The segments of a folder, for one thread and one process. Raises OSError for the folder.
    `segment_bytes`: a segment of this size or more receives no more releases.
    """

    def __init__(self, folder: Path, segment_bytes: int) -> None:
        self._segment_bytes = segment_bytes
        self.positions: dict[Key, RecordPosition] = {}
        self.kept: dict[Key, int] = {}  # The acknowledged ones, and when: unix seconds.
        self.requeued: dict[Key, bool] = {}  # Acknowledged, and queued again; is it on disk?
        self._live: dict[int, int] = {}  # By segment, the bytes of its releases.
        self._active = 0
        self._files = SegmentFiles(folder)
        for number in self._files.initial_numbers:
            self._load(number)

    @property
    def disk_bytes(self) -> int:
        """The size of all segments together."""
        return sum(self._files.sizes.values())

    def append(self, key: Key, payload: bytes) -> None:
        """Write a release to disk, unless a segment has it. Raises OSError; then none has it."""
        if key in self.positions:
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
            self._active = 0  # Nothing may follow a record that may be torn.
            self._discard_if_dead(number)
            raise
        self._index(key, number, at, len(record))

    def read(self, key: Key) -> bytes | None:
        """Return the bytes of a release; None if they are damaged, after repairing the segment."""
        position = self.positions[key]
        with suppress(OSError):
            content = self._files.read(position.segment, position.at, position.size)
            record = record_at(content, 0)
            if record is not None and record.key == key:
                return payload_of(content, record)
        self._repair(position.segment)
        return None

    def forget(self, key: Key) -> None:
        """Remove a release, and its segment if that is full and has no other queued release."""
        number = self.positions[key].segment
        if not self._remove(key):
            with suppress(OSError):  # It is only retransmitted after the next start.
                self._files.append(number, encode(FORGOTTEN, key), durable=False)

    def keep(self, key: Key, at: int) -> None:
        """Keep an acknowledged release while there is space. The note is not synced."""
        self.kept[key] = at
        self.requeued.pop(key, None)
        with suppress(OSError):  # It is only retransmitted after the next start.
            note = encode(KEPT, key, at.to_bytes(8, "big"))
            self._files.append(self.positions[key].segment, note, durable=False)

    def requeue(self, keys: Iterable[Key]) -> None:
        """Queue kept releases again, until the next start if `note_requeued` does not follow."""
        for key in keys:
            del self.kept[key]
            self.requeued[key] = False

    def note_requeued(self) -> None:
        """Write that releases are queued again, durably, segment by segment. Raises OSError."""
        unnoted = [key for key, noted in self.requeued.items() if not noted]
        for some in self._noted(REQUEUED, unnoted):
            self.requeued |= dict.fromkeys(some, True)

    def forget_kept(self, keys: Iterable[Key]) -> None:
        """Remove kept releases as `forget` does, durably. Raises OSError as `requeue`."""
        for some in self._noted(FORGOTTEN, keys):
            for key in some:
                self._remove(key)

    def _noted(self, kind: int, keys: Iterable[Key]) -> Iterator[list[Key]]:
        """Write a note for each key, and yield the keys of one segment after the other."""
        by_segment: dict[int, list[Key]] = {}
        for key in keys:
            by_segment.setdefault(self.positions[key].segment, []).append(key)
        for number, some in by_segment.items():
            notes = b"".join(encode(kind, key) for key in some)
            self._files.append(number, notes, durable=True)
            yield some

    def expire(self, before: int) -> None:
        """Remove releases acknowledged before `before`, in unix seconds, without a write."""
        for key in [key for key, at in self.kept.items() if at < before]:
            self._remove(key)

    def yield_kept(self) -> bool:
        """Remove the kept releases of the oldest segment with some; return False without one."""
        if not self.kept:
            return False
        oldest = min(self.positions[key].segment for key in self.kept)
        for key in self._keys_in(oldest):
            if key in self.kept:
                self._remove(key)
        return True

    def shrink(self, max_bytes: int) -> None:
        """Free the space of removed releases until disk use is within the limit. Raises OSError."""
        while self._files.sizes and self.disk_bytes > max_bytes:
            number = max(self._files.sizes, key=self._dead)
            if self._dead(number) <= len(SIGNATURE):
                return
            if self._live[number]:
                self._rewrite(number)
            else:
                self._discard_if_dead(number)

    def close(self) -> None:
        """Remove the segment for the next release, if nothing in it is queued."""
        for number in list(self._files.sizes):
            self._discard_if_dead(number)

    def _dead(self, number: int) -> int:
        return self._files.sizes[number] - self._live[number]

    def _is_full(self, number: int) -> bool:
        return self._files.sizes[number] >= self._segment_bytes

    def _index(self, key: Key, number: int, at: int, size: int) -> None:
        self.positions[key] = RecordPosition(number, at, size)
        self._live[number] += size

    def _remove(self, key: Key) -> bool:
        """Remove a release, and return whether its segment is removed, too."""
        position = self.positions.pop(key)
        self.kept.pop(key, None)
        self.requeued.pop(key, None)
        number = position.segment
        self._live[number] -= position.size
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
            self._files.rename_to_bad(number)
            return
        found = scan(content)
        self._live[number] = self._files.sizes[number] = 0
        requeued = possibly_requeued(found, content)
        if found.damaged or requeued:
            self._rescue(number, content, found, requeued)
            return
        if found.end < len(content):
            torn = len(content) - found.end
            LOG.warning("%s: a torn end is cut off (%d bytes); earlier ones stay", path, torn)
            self._files.truncate(number, found.end)
        self._files.sizes[number] = found.end
        kept = kept_in(found, content)
        self.kept |= {key: at for key, (_, at) in kept.items() if key not in self.positions}
        present = queued_in(found) | {key: record for key, (record, _) in kept.items()}
        again = (key for key in requeued_in(found) if key in present and key not in self.positions)
        self.requeued |= dict.fromkeys(again, True)
        for key, record in present.items():
            # Otherwise a copy whose original could not be removed in time.
            if key not in self.positions:
                self._index(key, number, record.at, record.size)
        if not self._live[number]:
            self._discard_if_dead(number)
        elif not self._is_full(number):
            self._active = number

    def _repair(self, number: int) -> None:
        """Move the valid records of a damaged segment; notes REQUEUED in memory still count."""
        keys = self._keys_in(number)
        requeued = {key for key in keys if self.requeued.pop(key, None) is not None}
        for key in keys:
            del self.positions[key]
            self.kept.pop(key, None)
        try:
            content = self._files.path(number).read_bytes()
        except OSError:
            content = b""
        self._rescue(number, content, scan(content), requeued)

    def _rescue(self, number: int, content: bytes, found: Scan, requeued: set[Key]) -> None:
        """Rename a damaged segment once its valid releases are copied; keep `requeued` queued."""
        path = self._files.path(number)
        if number == self._active:
            self._active = 0
        sound = {k: r for k, r in queued_in(found).items() if k not in self.positions}
        present = kept_in(found, content)
        fresh = {k: v for k, v in present.items() if k not in self.positions and k not in sound}
        sound |= {key: record for key, (record, _) in fresh.items()}
        kept = {key: at for key, (_, at) in fresh.items() if key not in requeued}
        parts = [content[record.at : record.at + record.size] for record in sound.values()]
        requeued = (requeued_in(found) | requeued) & (sound.keys() - kept.keys())
        notes = [encode(KEPT, key, at.to_bytes(8, "big")) for key, at in kept.items()]
        notes += [encode(REQUEUED, key) for key in sorted(requeued)]
        self.kept |= kept
        self.requeued |= dict.fromkeys(requeued, False)
        try:
            if sound:
                last = self._files.create(b"".join((SIGNATURE, *parts, *notes)))
                self._index_all(last, list(sound), parts)
                self.requeued |= dict.fromkeys(requeued, True)
            del self._live[number]
            self._files.rename_to_bad(number)
        except OSError as error:
            self._leave_damaged(number, sound, len(content))
            LOG.error("%s is damaged and cannot be renamed (%s)", path, error.strerror)
            return
        LOG.warning("%s is damaged; renamed to .bad, %d sound releases kept", path, len(sound))

    def _leave_damaged(self, number: int, sound: dict[Key, Record], size: int) -> None:
        """Use the valid releases of a damaged segment that cannot be renamed."""
        self._live[number], self._files.sizes[number] = 0, size
        for key, record in sound.items():
            if key not in self.positions:
                self._index(key, number, record.at, record.size)

    def _rewrite(self, number: int) -> None:
        """Rewrite a segment without the removed releases."""
        for key in self._keys_in(number):
            if key in self.kept:
                del self.positions[key], self.kept[key]
        content = self._files.path(number).read_bytes()
        kept, parts = self._keys_in(number), []
        for key in kept:
            record = record_at(content, self.positions[key].at)
            if record is None or record.key != key:
                self._repair(number)
                return
            note = encode(REQUEUED, key) if key in self.requeued else b""
            parts.append(content[record.at : record.at + record.size] + note)
        self._files.replace(number, b"".join((SIGNATURE, *parts)))
        self.requeued |= {key: True for key in kept if key in self.requeued}
        self._index_all(number, kept, parts)

    def _index_all(self, number: int, keys: list[Key], parts: list[bytes]) -> None:
        """Record the positions of the releases of a new or rewritten segment."""
        self._live[number], at = 0, len(SIGNATURE)
        for key, part in zip(keys, parts, strict=True):
            self._index(key, number, at, len(part))
            at += len(part)

    def _keys_in(self, number: int) -> list[Key]:
        return [key for key, position in self.positions.items() if position.segment == number]
