"""What a power cut or a worn card does to a segment of the outbox, done by the run itself."""

from dataclasses import dataclass
from pathlib import Path

from agent.backlog import releases_in
from agent.records import Key
from agent.segments import numbers_in


@dataclass(frozen=True)
class Damage:
    """`what` was done, and which releases that wait it has `cost`."""

    what: str
    cost: frozenset[Key]


def tear(folder: Path, draw: float) -> Damage:
    """Cuts off the last bytes of the newest segment: 1 to 400 of them."""
    return _damage(folder, draw, flip=False)


def flip(folder: Path, draw: float) -> Damage:
    """Changes one byte of the newest segment."""
    return _damage(folder, draw, flip=True)


def _damage(folder: Path, draw: float, flip: bool) -> Damage:
    numbers = numbers_in(folder) if folder.exists() else []
    if not numbers:
        return Damage("no segment", frozenset())
    before = {key for key, _ in releases_in(folder)}
    path = folder / f"{numbers[-1]:08d}.segment"
    content = bytearray(path.read_bytes())
    if flip:
        place = int(draw * len(content))
        content[place] ^= 1 << (place % 8)
        what = f"{path.name}: bit {place % 8} of byte {place} changed"
    else:
        cut = min(len(content), 1 + int(draw * 400))
        del content[len(content) - cut :]
        what = f"{path.name}: {cut} bytes cut off"
    path.write_bytes(content)
    after = {key for key, _ in releases_in(folder)}
    return Damage(what, frozenset(before - after))
