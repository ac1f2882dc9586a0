"""Checks of a release's label against its topic and the schedule of its stream."""

from collections.abc import Sequence

from pansketch import Spec, WindowId
from pansketch_collector.validation.accepted_specs import StreamSpecs
from pansketch_collector.validation.verdicts import LATEST_SECOND, ImplausibleError
from pansketch_fleet.settings.device_spec import schedule_offset
from pansketch_fleet.settings.settings import is_sent_by

MAX_SEQUENCE = 2**63 - 1


class MismatchError(Exception):
    """A well-formed release that does not match its topic or the configuration."""

    def __init__(self, reason: str, text: str, sequence: int = 0) -> None:
        super().__init__(text)
        self.reason = reason
        self.sequence = sequence


def topics_window(windows: Sequence[WindowId], device: str, stream: str) -> WindowId:
    """The one window in a release, which must match the topic. Raises MismatchError."""
    if len(windows) != 1:
        raise MismatchError("identity", "a device's release holds exactly one window")
    window = windows[0]
    if not 0 <= window.sequence <= MAX_SEQUENCE:
        raise MismatchError("identity", "the sequence number is out of bounds")
    if (window.device, window.stream) != (device, stream):
        text = "the device and stream inside are not those of the topic"
        raise MismatchError("identity", text, window.sequence)
    if not 0 <= window.start < window.end <= LATEST_SECOND:
        raise MismatchError("identity", "the window does not end after its start", window.sequence)
    return window


def spec_of_window(
    window: WindowId, fingerprint: bytes, size: int, streams: dict[str, StreamSpecs]
) -> tuple[Spec, StreamSpecs]:
    """The spec of a release of `size` bytes. Raises MismatchError."""
    stream = window.stream
    if stream not in streams:
        text = f"the configuration has no stream {stream}"
        raise MismatchError("stream", text, window.sequence)
    specs = streams[stream]
    if not is_sent_by(specs.senders, window.device):
        text = f"the configuration gives {stream} to other devices; see its devices"
        raise MismatchError("device", text, window.sequence)
    spec = specs.at(window.start).get(fingerprint)
    if spec is None:
        text = (
            f"made with other settings than the configuration's stream {stream}; "
            "use the same on device and collector"
        )
        raise MismatchError("fingerprint", text, window.sequence)
    if size > specs.max_bytes:
        text = f"longer than the {specs.max_bytes} bytes that a release of {stream} can have"
        raise MismatchError("size", text, window.sequence)
    try:
        _check_schedule(window, specs.lengths_at(window.start, fingerprint))
    except ImplausibleError as error:
        raise MismatchError(error.reason, str(error), window.sequence) from None
    return spec, specs


def _check_schedule(window: WindowId, lengths: Sequence[int]) -> None:
    """Checks length, start and sequence number against the device's schedule. Raises
    ImplausibleError.

    `lengths`: window lengths of the stream, in seconds.
    """
    window_seconds = window.end - window.start
    if window.sequence < 1:
        raise ImplausibleError("bounds", "sequence numbers begin at 1")
    if window_seconds not in lengths:
        text = (
            f"the window is {window_seconds} s long, and the configuration's windows of "
            f"{window.stream} are {lengths[0]} s: set the same window on both sides"
        )
        raise ImplausibleError("window", text)
    offset = schedule_offset(window.device, window_seconds)
    if window.start % window_seconds != offset:
        text = (
            f"windows of {window.device} begin {offset} s after multiples of {window_seconds} s, "
            f"and this one {window.start % window_seconds} s"
        )
        raise ImplausibleError("window", text)
