"""The label of a window in the body of a release, of a blinded one and of a question.

[device, stream, sequence, start, end, clock, incarnation]
"""

from typing import Any

from pansketch.sketches.release_model import WindowId

CLOCKS = (None, True, False)  # a window's clock_synchronised, by its number on the wire
INCARNATION_BYTES = 8
MAX_TEXT = 256


def label_entry(w: WindowId) -> list[Any]:
    """A window's label as a list of values."""
    if len(w.incarnation) not in (0, INCARNATION_BYTES):
        raise ValueError(f"an incarnation has {INCARNATION_BYTES} bytes, or none")
    clock = CLOCKS.index(w.clock_synchronised)
    return [w.device, w.stream, w.sequence, w.start, w.end, clock, w.incarnation]


def label_of(entry: Any) -> WindowId:
    """The label of such a list. Raises ValueError or TypeError for any other value."""
    device, stream, sequence, start, end, clock, incarnation = entry
    for text in (device, stream):
        if not isinstance(text, str) or len(text) > MAX_TEXT:
            raise ValueError("device or stream")
    for number in (sequence, start, end, clock):
        if type(number) is not int or not -(1 << 62) < number < 1 << 63:
            raise ValueError("sequence, time or clock")
    if not 0 <= clock < len(CLOCKS):
        raise ValueError("clock")
    if type(incarnation) is not bytes or len(incarnation) not in (0, INCARNATION_BYTES):
        raise ValueError("incarnation")
    return WindowId(device, stream, sequence, start, end, CLOCKS[clock], incarnation)
