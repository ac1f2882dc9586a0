"""Releases and specs as bytes."""

from pansketch.wire.blinded_codec import (
    BlindedHeader,
    blinded_nbytes,
    decode_blinded,
    encode_blinded,
    read_any_header,
    read_blinded_header,
)
from pansketch.wire.codec import (
    CHECKSUM_BYTES,
    HEADER_BYTES,
    MAGIC,
    VERSION,
    Opened,
    counters_of_all,
    open_release,
)
from pansketch.wire.question_codec import (
    decode_answer,
    decode_question,
    encode_answer,
    encode_question,
)
from pansketch.wire.sealed_message import BLINDED
from pansketch.wire.spec_form import differences, form_of, spec_of

__all__ = [
    "BLINDED",
    "CHECKSUM_BYTES",
    "HEADER_BYTES",
    "MAGIC",
    "VERSION",
    "BlindedHeader",
    "Opened",
    "blinded_nbytes",
    "counters_of_all",
    "decode_answer",
    "decode_blinded",
    "decode_question",
    "differences",
    "encode_answer",
    "encode_blinded",
    "encode_question",
    "form_of",
    "open_release",
    "read_any_header",
    "read_blinded_header",
    "spec_of",
]
