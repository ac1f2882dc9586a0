"""JSON objects of a fixed form and a bounded size: all parsers read them alike, or refuse them."""

import json
import re
from typing import TypeVar

import msgspec

from pansketch_fleet.errors import one_line

MAX_LINE = 300
_OF_A_LINE = r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"
LINE = re.compile(rf"{_OF_A_LINE}{{0,{MAX_LINE}}}")
LONG_LINE = re.compile(rf"{_OF_A_LINE}{{0,{2 * MAX_LINE}}}")

Message = TypeVar("Message", bound=msgspec.Struct)


def expect(holds: object, otherwise: str) -> None:
    """Raise ValueError with that sentence if something does not hold."""
    if not holds:
        raise ValueError(otherwise)


def encode(message: msgspec.Struct, limit_bytes: int) -> bytes:
    """Encode a message. Raises ValueError beyond the size limit."""
    data = msgspec.json.encode(message)
    expect(len(data) <= limit_bytes, f"message is larger than {limit_bytes} bytes")
    return data


def decode(data: bytes, kind: type[Message], limit_bytes: int) -> Message:
    """Parse a message of that kind. Raises ValueError, one line."""
    name = kind.__name__.strip("_").lower()
    expect(len(data) <= limit_bytes, f"{name} is larger than {limit_bytes} bytes")
    try:
        found = msgspec.json.decode(data, type=kind)
        # Of a repeated key msgspec uses the last value, and other parsers the first.
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
