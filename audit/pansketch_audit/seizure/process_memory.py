"""Looking for many things at once in the memory of a process.

Every form begins with a word of eight bytes. All words of a region, at all eight alignments, go
through one bit table; what passes is compared in full. So the cost hardly depends on how many
readings and forms are looked for.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pansketch.randomness import digest

WORD = np.dtype("<u8")
BLOCK_BYTES = 1 << 20
TABLE_BITS = 24
MIX = np.uint64(0x9E3779B97F4A7C15)
# Pages of the kernel's own; /proc does not show them, and no program writes there.
KERNEL_PAGES = ("[vvar]", "[vvar_vclock]", "[vsyscall]")
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) r\S+ \S+ \S+ \S+\s*(.*)")

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Hit:
    """The reading `reading` (a row's number) stands at `offset` of a region, in a form."""

    form: str
    reading: int
    offset: int


class Scanner:
    """Finds the rows of `forms`: a name -> uint8[n, length], one row a reading.

    No form is shorter than eight bytes. The same bytes of two readings are reported for both.
    """

    def __init__(self, forms: Mapping[str, Bytes]) -> None:
        self.names = tuple(forms)
        self._wide: dict[bytes, tuple[str, int]] = {}
        words, codes = [], []
        for number, (name, rows) in enumerate(forms.items()):
            first = np.ascontiguousarray(rows[:, :8]).view(WORD)[:, 0]
            if rows.shape[1] == 8:
                words.append(first)
                codes.append(np.arange(len(rows)) * len(forms) + number)
            else:
                self._wide |= {row.tobytes(): (name, at) for at, row in enumerate(rows)}
        self.needles = sum(map(len, words)) + len(self._wide)
        self._lengths = sorted({len(row) for row in self._wide})
        self._longest = max([8, *self._lengths])
        heads = {row[:8] for row in self._wide}
        self._heads = np.sort(np.frombuffer(b"".join(heads), WORD))
        joined = np.concatenate([*words, np.zeros(0, WORD)])
        order = np.argsort(joined, kind="stable")
        self._words, self._codes = joined[order], np.concatenate([*codes, np.zeros(0, int)])[order]
        self._clean: set[bytes] = set()
        self._table = np.zeros(1 << TABLE_BITS, np.bool_)
        self._table[_indices(self._words)] = True
        self._table[_indices(self._heads)] = True

    def search(self, region: Bytes) -> list[Hit]:
        """Every place in uint8[n] where a form of a reading begins."""
        hits: set[Hit] = set()
        for start in range(0, len(region), BLOCK_BYTES):
            block = region[start : start + BLOCK_BYTES + self._longest - 1]
            if not block.any() or (name := digest(block.tobytes(), 16)) in self._clean:
                continue
            found = list(self._block(block, start))
            hits.update(found)
            if not found:  # Most of a process is the same at the next look: its libraries.
                self._clean.add(name)
        return sorted(hits, key=lambda hit: hit.offset)

    def _block(self, block: Bytes, start: int) -> Iterator[Hit]:
        for shift in range(min(8, max(0, len(block) - 7))):
            words = block[shift : shift + (len(block) - shift) // 8 * 8].view(WORD)
            (candidates,) = np.nonzero(self._table[_indices(words)])
            found = words[candidates]
            offsets = candidates * 8 + shift
            yield from self._narrow_hits(found, offsets + start)
            for offset in offsets[self._begins_wide(found)].tolist():
                yield from self._wide_hits(block[offset : offset + self._longest], start + offset)

    def _narrow_hits(
        self, found: npt.NDArray[np.uint64], offsets: npt.NDArray[np.int64]
    ) -> Iterator[Hit]:
        begin = np.searchsorted(self._words, found, "left")
        end = np.searchsorted(self._words, found, "right")
        for at in np.flatnonzero(end > begin):
            for code in self._codes[begin[at] : end[at]].tolist():
                reading, form = divmod(code, len(self.names))
                yield Hit(self.names[form], reading, int(offsets[at]))

    def _begins_wide(self, found: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        if not len(self._heads):
            return np.zeros(len(found), np.bool_)
        nearest = self._heads[np.searchsorted(self._heads[:-1], found)]
        return np.equal(nearest, found)

    def _wide_hits(self, stretch: Bytes, offset: int) -> Iterator[Hit]:
        for length in self._lengths:
            known = self._wide.get(stretch[:length].tobytes())
            if known is not None:
                yield Hit(*known, offset)


def _indices(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.intp]:
    mixed = words * MIX
    mixed >>= np.uint64(64 - TABLE_BITS)
    return mixed.astype(np.intp)


@dataclass(frozen=True)
class Region:
    """A stretch of a process's memory. `content` is None when it could not be read."""

    name: str
    content: Bytes | None


def process_memory(pid: int) -> Iterator[Region]:
    """Every readable mapping of a process. Raises OSError when its memory is closed to us."""
    handle = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    try:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            match = _MAPPING.match(line)
            if match is None or match[3] in KERNEL_PAGES:
                continue
            start, end = int(match[1], 16), int(match[2], 16)
            yield Region(match[3] or "anonymous", _read(handle, start, end - start))
    finally:
        os.close(handle)


def _read(handle: int, start: int, size: int) -> Bytes | None:
    content = np.empty(size, np.uint8)
    done = 0
    while done < size:
        try:
            got = os.preadv(handle, [content[done:].data], start + done)
        except OSError:
            return None
        if not got:
            return None
        done += got
    return content
