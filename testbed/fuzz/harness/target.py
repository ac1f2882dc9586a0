"""What a target is: a function of bytes, what is promised of it, and where its inputs start."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Run = Callable[[bytes], None]


class Broken(AssertionError):
    """A promise that some input breaks: one line."""


@dataclass(frozen=True)
class Bound:
    """At most `each` for every byte of the input, and `fixed` beside."""

    fixed: int
    each: int

    def at(self, size: int) -> int:
        return self.fixed + self.each * size


def nothing(_data: bytes) -> bytes:
    return b""


@dataclass(frozen=True)
class Target:
    """One reader of bytes.

    `open`: makes the function in a folder of its own; the function returns, raises one of `errors`,
    or raises Broken for a promise that it checks itself. `seeds`: inputs to start from. `memory`:
    the most bytes that one input may take beside what the target holds anyway. `steps`: the most
    lines of Python. `secret`: the input holds readings or keys, and nothing of it may be said
    but what stands in its `public` part. `tokens`: what is worth putting somewhere.
    """

    about: str
    open: Callable[[Path], Run]
    errors: tuple[type[Exception], ...]
    seeds: Callable[[], Sequence[bytes]]
    memory: Bound = Bound(1 << 20, 100)
    steps: Bound = Bound(20_000, 200)
    secret: bool = False
    public: Callable[[bytes], bytes] = nothing
    tokens: tuple[bytes, ...] = ()


def promise(holds: object, otherwise: str) -> None:
    """Raises Broken unless it holds."""
    if not holds:
        raise Broken(otherwise)


ROOT = Path(__file__).resolve().parents[3]
VECTORS = ROOT / "tests" / "vectors"
KEPT = VECTORS / "fuzz"
EXAMPLE = ROOT / "config.yaml"


def golden() -> list[bytes]:
    """Every release of the golden vectors."""
    files = sorted(VECTORS.glob("*.json"))
    return [found for file in files for found in _bytes_in(json.loads(file.read_text("utf-8")))]


def kept(target: str) -> list[Path]:
    """Inputs of one target that once broke a promise, or nearly did."""
    folder = KEPT / target
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _bytes_in(tree: Any) -> Iterator[bytes]:
    if isinstance(tree, list):
        for inner in tree:
            yield from _bytes_in(inner)
    elif isinstance(tree, dict):
        if isinstance(tree.get("bytes"), str):
            yield bytes.fromhex(tree["bytes"])
        for inner in tree.values():
            yield from _bytes_in(inner)
