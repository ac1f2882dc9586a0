"""Questions of a collector to a keeper, and the keeper's replies.

    length of the head, 4 bytes, big-endian | head | tail

The head is strict JSON, as the other messages are. The tail is a question or an answer in its wire
format; the tail of a reply may be empty. Names are ids, so sizes are bounded and logs are safe.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar

import msgspec

from pansketch.blinding import KeeperQuestion, WindowKey
from pansketch.sketches import LinearSpec
from pansketch.wire import decode_question, encode_question, form_of, spec_of
from pansketch_fleet.protocol.strict_json import LINE, decode, encode, expect
from pansketch_fleet.protocol.topics import ID_RULE, is_id

VERSION = 1
MAX_ASK_BYTES = MAX_REPLY_BYTES = 8 << 20
MAX_HEAD_BYTES = 1 << 20
MAX_COUNTER_BYTES = 4 << 20  # of one answer: a question about more is refused
MAX_MASK_BYTES = 32 << 30  # that one answer sums: a keeper's work ends within its watchdog's time
MAX_REFUSED = 4096  # windows in one reply; the collector removes them and asks again
MAX_SEQUENCE = 2**63 - 1
HEAD_BYTES = 4_096  # of an ask, beside the settings and the windows, at most
WINDOW_BYTES, EPOCH_BYTES = 96, 32  # of a window, beside its names; of each of its epochs
LENGTH_BYTES, KEY_ID_BYTES, DIGEST_BYTES = 4, 8, 32
INCARNATION_LENGTHS = (0, 16)  # hexadecimal digits

ReplyKind = Literal["prepared", "answered", "refused"]
Head = TypeVar("Head", bound=msgspec.Struct)


class _AskHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Literal[1]
    kind: Literal["prepare", "answer"]
    key: str
    spec: dict[str, Any]


class _ReplyHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Literal[1]
    kind: ReplyKind
    question: str
    key: str
    refused: tuple[tuple[str, str, str, int], ...]
    reason: str


@dataclass(frozen=True)
class Ask:
    """A question to one keeper. Raises ValueError when no keeper may answer it.

    `kind`: "prepare" requests the windows that the keeper would refuse, "answer" the answer. `key`:
    8 bytes, the id of the keeper's key of the question's masks.
    """

    kind: Literal["prepare", "answer"]
    question: KeeperQuestion
    spec: LinearSpec
    key: bytes

    def __post_init__(self) -> None:
        expect(len(self.key) == KEY_ID_BYTES, f"key must be {KEY_ID_BYTES} bytes")
        expect(is_id(self.question.fleet), f"fleet must be {ID_RULE}")
        expect(is_id(self.question.level), f"level must be {ID_RULE}")
        for device, stream, _, _ in (each.key for each in self.question.windows):
            expect(is_id(device) and is_id(stream), f"devices and streams must be {ID_RULE}")
        expect(self.spec.guarantee.answer_micro, "this spec is not blinded")
        expect(self.spec.digest == self.question.spec, "the question is about another spec")
        expect(self.spec.nbytes <= MAX_COUNTER_BYTES, f"more than {MAX_COUNTER_BYTES} bytes")
        masks = sum(len(each.epochs) for each in self.question.windows)
        expect(masks * self.spec.nbytes <= MAX_MASK_BYTES, f"over {MAX_MASK_BYTES} bytes of masks")

    def encode(self) -> bytes:
        """Encode the question. Raises ValueError beyond the size limit."""
        head = _AskHead(1, self.kind, self.key.hex(), form_of(self.spec))
        return _framed(head, encode_question(self.question), MAX_ASK_BYTES)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a question. Raises ValueError, one line."""
        head, tail = _opened(data, _AskHead, MAX_ASK_BYTES)
        question = decode_question(tail)
        return cls(head.kind, question, _spec(head.spec), _octets(head.key, KEY_ID_BYTES))


@dataclass(frozen=True)
class Reply:
    """A keeper's reply to an `Ask`. Raises ValueError when a field is invalid.

    `question`: its digest, 32 bytes, or zeros if the keeper could not read it. `key`: the id in the
    question. `refused`: windows that it refuses, at most MAX_REFUSED; "prepared" with none: it
    would answer all. `reason`: one line, for "refused". `answer`: in its wire format, for
    "answered".
    """

    kind: ReplyKind
    question: bytes
    key: bytes
    refused: tuple[WindowKey, ...] = ()
    reason: str = ""
    answer: bytes = b""

    def __post_init__(self) -> None:
        expect(len(self.question) == DIGEST_BYTES, f"question must be {DIGEST_BYTES} bytes")
        expect(len(self.key) == KEY_ID_BYTES, f"key must be {KEY_ID_BYTES} bytes")
        expect(len(self.refused) <= MAX_REFUSED, f"refused must list {MAX_REFUSED} at most")
        for device, stream, incarnation, sequence in self.refused:
            expect(is_id(device) and is_id(stream), f"devices and streams must be {ID_RULE}")
            expect(2 * len(incarnation) in INCARNATION_LENGTHS, "incarnation must be 8 bytes")
            expect(abs(sequence) <= MAX_SEQUENCE, "sequence must be a 63-bit whole number")
        expect(LINE.fullmatch(self.reason), "reason must be one line of at most 300 characters")
        expect(bool(self.answer) == (self.kind == "answered"), "answer must be that of an answer")
        expect(not (self.refused and self.kind == "answered"), "refused must be empty here")

    def encode(self) -> bytes:
        """Encode the reply. Raises ValueError beyond the size limit."""
        listed = tuple((d, s, incarnation.hex(), n) for d, s, incarnation, n in self.refused)
        names = self.question.hex(), self.key.hex()
        head = _ReplyHead(1, self.kind, *names, listed, self.reason)
        return _framed(head, self.answer, MAX_REPLY_BYTES)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a reply. Raises ValueError, one line."""
        head, tail = _opened(data, _ReplyHead, MAX_REPLY_BYTES)
        listed = tuple((d, s, _octets(i, len(i) // 2), n) for d, s, i, n in head.refused)
        names = _octets(head.question, DIGEST_BYTES), _octets(head.key, KEY_ID_BYTES)
        return cls(head.kind, *names, listed, head.reason, tail)


def ask_load(spec: LinearSpec, names: int, epochs: int, room_bytes: int = MAX_ASK_BYTES) -> float:
    """Return the part of what one `Ask` may list that a window takes.

    `names`: the bytes of the names of a device and its stream; `epochs`: of the window;
    `room_bytes`: of the message.
    """
    head = HEAD_BYTES + len(msgspec.json.encode(form_of(spec)))
    room = max(1, min(room_bytes, MAX_ASK_BYTES) - head)
    listed = (WINDOW_BYTES + names + EPOCH_BYTES * epochs) / room
    return max(listed, spec.nbytes * epochs / MAX_MASK_BYTES)


def _framed(head: msgspec.Struct, tail: bytes, limit_bytes: int) -> bytes:
    written = encode(head, MAX_HEAD_BYTES)
    data = len(written).to_bytes(LENGTH_BYTES, "big") + written + tail
    expect(len(data) <= limit_bytes, f"message is larger than {limit_bytes} bytes")
    return data


def _opened(data: bytes, kind: type[Head], limit_bytes: int) -> tuple[Head, bytes]:
    expect(len(data) <= limit_bytes, f"message is larger than {limit_bytes} bytes")
    length = int.from_bytes(data[:LENGTH_BYTES], "big")
    start = LENGTH_BYTES + length
    expect(len(data) >= start, "message is cut off")
    return decode(data[LENGTH_BYTES:start], kind, MAX_HEAD_BYTES), data[start:]


def _spec(form: Mapping[str, Any]) -> LinearSpec:
    spec = spec_of(form)
    expect(isinstance(spec, LinearSpec), "this spec is not blinded")
    linear: LinearSpec = spec
    return linear


def _octets(text: str, count: int) -> bytes:
    """Parse `count` bytes in lower-case hexadecimal digits. Raises ValueError."""
    found = bytes.fromhex(text)
    expect(found.hex() == text and len(found) == count, f"not {count} bytes in hexadecimal digits")
    return found
