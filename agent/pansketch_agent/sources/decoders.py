"""Decodes records of a source: to a row of numbers, or to the integer of a key.

An invalid value becomes NaN, and an invalid key NO_KEY. Neither is logged or counted, because both
would reveal something about the data.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
import numpy as np

from pansketch import Domain, hash_keys
from pansketch_agent.sources.readings import (
    NO_KEY,
    FloatArray,
    KeyArray,
    Rows,
    json_parser,
    overwrite_freed_floats,
    overwrite_freed_texts,
    text_parser,
)
from pansketch_fleet.settings.settings import ReadingStream, Stream
from pansketch_fleet.settings.sources import (
    ExecSource,
    HttpSource,
    JsonPath,
    MqttSource,
)

Buffer = bytes | memoryview | msgspec.Raw

MAX_DIGITS = 19
MAX_KEY_BYTES = 256  # A longer text would leave traces that cannot be overwritten.
MAX_RAW_BYTES = 6 * MAX_KEY_BYTES + 2  # of a JSON string that escapes every character
QUOTE = ord('"')
NULL = b"null"
_OBJECT = msgspec.json.Decoder(dict[str, Any])
_ANY_JSON = msgspec.json.Decoder(Any)
_RAW_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_RAW_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw] | list[msgspec.Raw])


class RecordDecoder(Protocol):
    """Decodes the records of a source for one stream."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, or keys of an object, that the source must have."""
        ...

    def empty(self, count: int) -> Rows:
        """Return a buffer of `count` rows."""
        ...

    def decode_cells(self, cells: Sequence[str], rows: Rows, row: int) -> None:
        """Write a row from its texts, in the order of `names`."""
        ...

    def decode_line(self, line: memoryview, rows: Rows, row: int) -> bool:
        """Write a row from a JSON object; return False, without a write, for anything else.

        If a path is the whole message, any JSON is valid, and any short text.
        """
        ...

    def overwrite_freed(self) -> None:
        """Overwrite freed texts and numbers of earlier records in Python's memory."""
        ...


def decoder_for(stream: Stream) -> RecordDecoder:
    """Return the decoder of a configured stream."""
    source = stream.source
    paths = source.paths if isinstance(source, ExecSource | MqttSource | HttpSource) else {}
    if isinstance(stream, ReadingStream):
        return ReadingDecoder(stream.domain, paths)
    return KeyDecoder(stream.key, stream.spec.universe, paths.get(stream.key))


def list_members(text: memoryview) -> list[memoryview]:
    """Return the members of a JSON list, as views; for anything else, the text itself."""
    members = _decoded(_RAW_LIST, text)
    return [text] if members is None else [memoryview(each) for each in members]


class ReadingDecoder:
    """Decodes rows float64[n, d] in the domain's units.

    `paths`: the location of an attribute in JSON; without one it is a member of its own name.
    """

    def __init__(self, domain: Domain, paths: Mapping[str, JsonPath] | None = None) -> None:
        self.names = domain.names
        steps = [(paths or {}).get(name, (name,)) for name in domain.names]
        self._whole = not all(steps)
        self._decoder: msgspec.json.Decoder[Any] = _ANY_JSON if self._whole else _OBJECT
        self._cells = [text_parser(attribute) for attribute in domain.attributes]
        parsers = [json_parser(attribute) for attribute in domain.attributes]
        self._values = list(zip(steps, parsers, strict=True))

    def empty(self, count: int) -> FloatArray:
        return np.zeros((count, len(self.names)))

    def decode_cells(self, cells: Sequence[str], rows: Rows, row: int) -> None:
        rows[row] = [parse(cell) for parse, cell in zip(self._cells, cells, strict=True)]

    def decode_line(self, line: memoryview, rows: Rows, row: int) -> bool:
        document = _decoded(self._decoder, line)
        if document is None and self._whole:
            document = _plain_text(line)
        if document is not None:
            rows[row] = [parse(_within(document, steps)) for steps, parse in self._values]
        return document is not None

    def overwrite_freed(self) -> None:
        overwrite_freed_floats()
        overwrite_freed_texts()


class KeyDecoder:
    """Decodes rows uint64[n]: numbers 0 to universe - 1, or hashes of texts if `universe` is None.

    A JSON number is the text of its digits. White space around a text does not count. An empty
    text, and one beyond MAX_KEY_BYTES, is no key. `path`: see ReadingDecoder.
    """

    def __init__(self, name: str, universe: int | None, path: JsonPath | None = None) -> None:
        self.names = (name,)
        self._path = (name,) if path is None else path
        self._universe = universe

    def empty(self, count: int) -> KeyArray:
        return np.zeros(count, np.uint64)

    def decode_cells(self, cells: Sequence[str], rows: Rows, row: int) -> None:
        self._write_key(cells[0].encode(), rows, row)

    def decode_line(self, line: memoryview, rows: Rows, row: int) -> bool:
        raw = _raw_value(line, self._path)
        if raw is not None:
            self._write_key(_text(raw), rows, row)
        return raw is not None

    def overwrite_freed(self) -> None:
        overwrite_freed_floats()
        overwrite_freed_texts()

    def _write_key(self, text: bytes, rows: Rows, row: int) -> None:
        rows[row] = NO_KEY
        text = text.strip()
        if len(text) > MAX_KEY_BYTES:
            return
        if self._universe is not None:
            if text.isdigit() and len(text) <= MAX_DIGITS and int(text) < self._universe:
                rows[row] = int(text)
        elif text:
            word = hash_keys((text,))
            rows[row] = word[0]
            word.fill(0)


def _within(value: Any, steps: JsonPath) -> Any:
    """Return the value at the end of a path, by names and by indices of lists, or None."""
    for step in steps:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and _is_index(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _raw_value(line: memoryview, steps: JsonPath) -> Buffer | None:
    """Return the same value as raw JSON; NULL if it is missing, None if the line is no object."""
    value: Buffer = line
    for depth, step in enumerate(steps):
        inner = _decoded(_RAW_MEMBERS, value)
        if inner is None or (isinstance(inner, list) and not _is_index(step)):
            return NULL if depth else None
        found = _within(inner, (step,))
        value = NULL if found is None else found
    return value


def _is_index(step: str) -> bool:
    return step.isascii() and step.isdigit() and len(step) <= MAX_DIGITS


def _text(value: Buffer) -> bytes:
    """Return a JSON string's UTF-8, or the digits of a whole number; b"" for anything else."""
    raw = memoryview(value)
    if not 0 < len(raw) <= MAX_RAW_BYTES:
        return b""
    if raw[0] != QUOTE:
        return bytes(raw) if bytes(raw).isdigit() else b""
    try:
        return msgspec.json.decode(raw, type=str).encode()
    except (msgspec.MsgspecError, ValueError):
        return b""


def _plain_text(line: memoryview) -> str | None:
    """Return a message that is no JSON, such as ON or nan, without white space around it."""
    if len(line) > MAX_KEY_BYTES:
        return None
    return bytes(line).decode(errors="replace").strip() or None


def _decoded(decoder: "msgspec.json.Decoder[Any]", line: Buffer) -> Any:
    """Return the decoded JSON, or None if it is invalid."""
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
