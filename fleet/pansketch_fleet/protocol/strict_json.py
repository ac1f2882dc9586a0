"""JSON objects of a fixed form and a bounded size, the same for every reader or refused."""

import json
import re
from typing import TypeVar

import msgspec

from pansketch_fleet.errors import one_line

MAX_LINE = 300
LINE = re.compile(rf"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]{{0,{MAX_LINE}}}")

Message = TypeVar("Message", bound=msgspec.Struct)


def expect(holds: object, otherwise: str) -> None:
    """Raises ValueError with that sentence where something does not hold."""
    if not holds:
        raise ValueError(otherwise)


def encode(message: msgspec.Struct, limit_bytes: int) -> bytes:
    """Raises ValueError when it would be too large."""
    data = msgspec.json.encode(message)
    expect(len(data) <= limit_bytes, f"message is larger than {limit_bytes} bytes")
    return data


def decode(data: bytes, kind: type[Message], limit_bytes: int) -> Message:
    """Raises ValueError, one line, on anything that is none of that kind."""
    name = kind.__name__.strip("_").lower()
    expect(len(data) <= limit_bytes, f"{name} is larger than {limit_bytes} bytes")
    try:
        found = msgspec.json.decode(data, type=kind)
        # msgspec takes the last of several values of one key, and others the first.
        json.loads(data, object_pairs_hook=_unique)
        return found
    except RecursionError:
        raise ValueError(f"no {name}: nested too deeply") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise ValueError(f"no {name}: {one_line(' '.join(str(error).split())[:200])}") from None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    expect(len(found) == len(pairs), "a key is repeated")
    return found
