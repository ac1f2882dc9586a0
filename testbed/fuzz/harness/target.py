"""A target: a function of bytes, its properties, and its first inputs."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Run = Callable[[bytes], None]


class Broken(AssertionError):
    """A violated property, in a single-line text."""


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
    """One parser of bytes.

    `open`: creates the function in its own folder. The function returns, raises one of `errors`, or
    raises Broken for a property that it checks. `seeds`: inputs to start from. `memory`: the most
    bytes that one input may add to the target's own. `steps`: the most lines of Python.

    `secret`: the input holds readings or keys. Messages may hold only its `public` part. `tokens`:
    useful fragments of inputs.
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


def require(holds: object, otherwise: str) -> None:
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
    """Inputs of one target that once violated a property, or nearly did."""
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
