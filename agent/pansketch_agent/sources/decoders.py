"""How what a source reads is written down: as a row of numbers, or as the integer of a key.

A value that is none becomes NaN, and a key that is none NO_KEY. Neither is logged or counted,
because both would tell something about the data.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
import numpy as np

from pansketch import Domain, key_words
from pansketch_agent.sources.memory_scrub import overwrite_freed_floats, overwrite_freed_texts
from pansketch_agent.sources.readings import (
    NO_KEY,
    FloatArray,
    KeyArray,
    Rows,
    json_parser,
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
MAX_WRITTEN_BYTES = 6 * MAX_KEY_BYTES + 2  # of a JSON string that escapes every character
QUOTE = ord('"')
NULL = b"null"
_VALUES = msgspec.json.Decoder(dict[str, Any])
_ANYTHING = msgspec.json.Decoder(Any)
_LISTED = msgspec.json.Decoder(list[msgspec.Raw])
_AS_WRITTEN = msgspec.json.Decoder(dict[str, msgspec.Raw] | list[msgspec.Raw])


class RecordForm(Protocol):
    """What one stream takes from a source."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, or keys of an object, that the source must have."""
        ...

    def empty(self, count: int) -> Rows:
        """A buffer of `count` rows."""
        ...

    def take_cells(self, cells: Sequence[str], rows: Rows, place: int) -> None:
        """Writes a row from its texts, in the order of `names`."""
        ...

    def take_line(self, line: memoryview, rows: Rows, place: int) -> bool:
        """Writes a row from a JSON object; False, and nothing is written, when it is none.

        With a path that is the whole message, any JSON will do, and any short text.
        """
        ...

    def overwrite_freed(self) -> None:
        """Overwrites what Python keeps of the texts and numbers that were taken and let go."""
        ...


def form_of(stream: Stream) -> RecordForm:
    """The form of a configured stream."""
    source = stream.source
    paths = source.paths if isinstance(source, ExecSource | MqttSource | HttpSource) else {}
    if isinstance(stream, ReadingStream):
        return ReadingForm(stream.domain, paths)
    return KeyForm(stream.key, stream.spec.universe, paths.get(stream.key))


def listed(text: memoryview) -> list[memoryview]:
    """The members of a JSON list, as views of the text; anything else stands for itself."""
    members = _decoded(_LISTED, text)
    return [text] if members is None else [memoryview(each) for each in members]


class ReadingForm:
    """Rows float64[n, d] in the domain's units.

    `paths`: where in JSON an attribute is; one that is not there is a member of its own name.
    """

    def __init__(self, domain: Domain, paths: Mapping[str, JsonPath] | None = None) -> None:
        self.names = domain.names
        steps = [(paths or {}).get(name, (name,)) for name in domain.names]
        self._whole = not all(steps)
        self._decoder: msgspec.json.Decoder[Any] = _ANYTHING if self._whole else _VALUES
        self._cells = [text_parser(attribute) for attribute in domain.attributes]
        parsers = [json_parser(attribute) for attribute in domain.attributes]
        self._values = list(zip(steps, parsers, strict=True))

    def empty(self, count: int) -> FloatArray:
        return np.zeros((count, len(self.names)))

    def take_cells(self, cells: Sequence[str], rows: Rows, place: int) -> None:
        rows[place] = [parse(cell) for parse, cell in zip(self._cells, cells, strict=True)]

    def take_line(self, line: memoryview, rows: Rows, place: int) -> bool:
        document = _decoded(self._decoder, line)
        if document is None and self._whole:
            document = _bare(line)
        if document is not None:
            rows[place] = [parse(_within(document, steps)) for steps, parse in self._values]
        return document is not None

    def overwrite_freed(self) -> None:
        overwrite_freed_floats()
        overwrite_freed_texts()


class KeyForm:
    """Rows uint64[n]: numbers 0 to universe - 1, or the words of texts where `universe` is None.

    A number of JSON is the text that it is written as. White space around a text does not count;
    an empty text, and one beyond MAX_KEY_BYTES, is no key. `path`: see ReadingForm.
    """

    def __init__(self, name: str, universe: int | None, path: JsonPath | None = None) -> None:
        self.names = (name,)
        self._path = (name,) if path is None else path
        self._universe = universe

    def empty(self, count: int) -> KeyArray:
        return np.zeros(count, np.uint64)

    def take_cells(self, cells: Sequence[str], rows: Rows, place: int) -> None:
        self._take(cells[0].encode(), rows, place)

    def take_line(self, line: memoryview, rows: Rows, place: int) -> bool:
        written = _written(line, self._path)
        if written is not None:
            self._take(_text(written), rows, place)
        return written is not None

    def overwrite_freed(self) -> None:
        overwrite_freed_floats()
        overwrite_freed_texts()

    def _take(self, text: bytes, rows: Rows, place: int) -> None:
        rows[place] = NO_KEY
        text = text.strip()
        if len(text) > MAX_KEY_BYTES:
            return
        if self._universe is not None:
            if text.isdigit() and len(text) <= MAX_DIGITS and int(text) < self._universe:
                rows[place] = int(text)
        elif text:
            word = key_words((text,))
            rows[place] = word[0]
            word.fill(0)


def _within(value: Any, steps: JsonPath) -> Any:
    """What is at the end of a path, by names and by places in lists; None when nothing is."""
    for step in steps:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and _is_place(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _written(line: memoryview, steps: JsonPath) -> Buffer | None:
    """The same, as it is written; NULL when nothing is there, None when the line is no object."""
    value: Buffer = line
    for depth, step in enumerate(steps):
        inner = _decoded(_AS_WRITTEN, value)
        if inner is None or (isinstance(inner, list) and not _is_place(step)):
            return NULL if depth else None
        found = _within(inner, (step,))
        value = NULL if found is None else found
    return value


def _is_place(step: str) -> bool:
    return step.isascii() and step.isdigit() and len(step) <= MAX_DIGITS


def _text(value: Buffer) -> bytes:
    """A JSON string's UTF-8, or the digits of a whole number; nothing of anything else."""
    written = memoryview(value)
    if not 0 < len(written) <= MAX_WRITTEN_BYTES:
        return b""
    if written[0] != QUOTE:
        return bytes(written) if bytes(written).isdigit() else b""
    try:
        return msgspec.json.decode(written, type=str).encode()
    except (msgspec.MsgspecError, ValueError):
        return b""


def _bare(line: memoryview) -> str | None:
    """A message that is no JSON, such as ON or nan, without white space around it."""
    if len(line) > MAX_KEY_BYTES:
        return None
    return bytes(line).decode(errors="replace").strip() or None


def _decoded(decoder: "msgspec.json.Decoder[Any]", line: Buffer) -> Any:
    """What the JSON says; None when it is none."""
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
