"""Where made-up inputs start: the golden vectors, the example configuration, and kept inputs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
VECTORS = ROOT / "tests" / "vectors"
KEPT = VECTORS / "fuzz"
EXAMPLE = ROOT / "config.yaml"


def golden() -> list[bytes]:
    """Every release of the golden vectors, in all versions of the format."""
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
