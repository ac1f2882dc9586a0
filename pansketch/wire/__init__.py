"""Releases and specs as bytes."""

from pansketch.wire.codec import (
    CHECKSUM_BYTES,
    HEADER_BYTES,
    MAGIC,
    VERSION,
    Opened,
    counters_of_all,
    open_release,
)
from pansketch.wire.spec_form import differences, form_of, spec_of

__all__ = [
    "CHECKSUM_BYTES",
    "HEADER_BYTES",
    "MAGIC",
    "VERSION",
    "Opened",
    "counters_of_all",
    "differences",
    "form_of",
    "open_release",
    "spec_of",
]
