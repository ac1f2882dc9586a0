"""A stream's `privacy:` section: the protected unit, its epsilon, and the daily cap.

A stream of readings protects a reading or a span of them. A stream of keys protects all events of
one key in a window. Their sketches support no other unit.
"""

from fractions import Fraction
from typing import Any, get_args

from pansketch import Guarantee, Privacy, Span
from pansketch.privacy import MAX_EPSILON, MICRO, Aggregation, Intrusion
from pansketch_fleet.sections.time_slots import (
    MAX_OPEN_SECONDS,
    OPEN_SECONDS,
    arrival_kind,
    refusal,
)
from pansketch_fleet.settings.privacy_schema import (
    MAX_DAILY_CAP,
    PrivacySection,
    SpanSection,
)
from pansketch_fleet.settings.section import join, nearest, section
from pansketch_fleet.settings.sources import (
    Source,
)
from pansketch_fleet.units import number_text, seconds
from pansketch_fleet.yaml.document import Document

UNITS = ("reading", "{span: 10m, max_readings: 60}")
KEY = "key"
INTRUSIONS = get_args(Intrusion)
AGGREGATIONS = get_args(Aggregation)
FOR_BLINDED = ("keepers", "epoch", "local_epsilon", "answers", "lateness")
MAX_SPAN_SECONDS = 3660 * 86400
# With one reading, no epsilon is left for a reading that steps into its slot.
MIN_READINGS = 2


def read_privacy(
    document: Document, where: str, raw: dict[str, Any], keyed: bool
) -> tuple[Privacy, int | None]:
    """Return the privacy parameters, and the daily cap in micro-epsilon. Raises ConfigError at the
    key.

    `keyed`: the stream has a key, and its unit is the key, stated or not.
    """
    given = section(document, where, raw, PrivacySection)
    read_unit = _unit_of_keys if keyed else _unit_of_readings
    unit = read_unit(document, join(where, "unit"), given.unit)
    if given.intrusion not in INTRUSIONS:
        problem = (
            f"{given.intrusion[:40]!r} is not supported; {nearest(given.intrusion, INTRUSIONS)}"
        )
        raise document.error(join(where, "intrusion"), problem)
    _check_aggregation(document, where, given, keyed)
    try:
        privacy = Privacy(
            given.epsilon,
            unit,  # type: ignore[arg-type]
            given.intrusion,  # type: ignore[arg-type]
            given.aggregation,  # type: ignore[arg-type]
            given.local_epsilon,
        )
        micro = privacy.epsilon_micro
        if not keyed:
            micro = Guarantee.of_linear_counters(privacy).epsilon_micro
    except ValueError as error:
        raise document.error(join(where, "epsilon"), f"{error}; 1.0 is a usual choice") from None
    return privacy, _daily_cap(document, join(where, "daily_cap"), given.daily_cap, micro)


def _check_aggregation(document: Document, where: str, given: PrivacySection, keyed: bool) -> None:
    place = join(where, "aggregation")
    if given.aggregation not in AGGREGATIONS:
        fix = nearest(given.aggregation, AGGREGATIONS)
        raise document.error(place, f"{given.aggregation[:40]!r} is not supported; {fix}")
    if given.aggregation == "local":
        for name in FOR_BLINDED:
            if getattr(given, name) is not None:
                problem = "goes with aggregation: blinded only; remove it"
                raise document.error(join(where, name), problem)
        return
    if keyed:
        problem = "adds up counters of readings, and the bits of distinct keys are no sums"
        raise document.error(place, f"{problem}; write local, or leave it out")
    if given.intrusion != "silent":
        problem = "is less than masks give, which cover unnoticed snapshots"
        raise document.error(join(where, "intrusion"), f"{problem}; write silent, or leave it out")
    local, at_local = given.local_epsilon, join(where, "local_epsilon")
    if local is not None and not given.epsilon < local <= MAX_EPSILON:
        problem = f"{local:g} must be larger than epsilon and at most {MAX_EPSILON}"
        raise document.error(at_local, f"{problem}; write 8, or leave it out")


def _unit_of_readings(
    document: Document, where: str, given: str | dict[str, Any] | None
) -> Span | str:
    if given is None:
        return UNITS[0]
    if not isinstance(given, str):
        return _span(document, where, section(document, where, given, SpanSection))
    if given == KEY:
        problem = "the sketch of this stream counts readings, not keys"
        raise document.error(where, f"'key' is refused: {problem}; write reading, or {UNITS[1]}")
    if given not in UNITS[:1]:
        raise document.error(where, f"{given[:40]!r} is not supported; {nearest(given, UNITS)}")
    return given


def _unit_of_keys(document: Document, where: str, given: str | dict[str, Any] | None) -> str:
    if given not in (None, KEY):
        shown = repr(given[:40]) if isinstance(given, str) else "a span"
        problem = "this stream protects all that bears one key in a window"
        raise document.error(where, f"{shown} is refused: {problem}; write key, or leave it out")
    return KEY


def _span(document: Document, where: str, given: SpanSection) -> Span:
    if given.max_readings < MIN_READINGS:
        problem = f"{given.max_readings} is impossible; write 2 or more, or unit: reading"
        raise document.error(join(where, "max_readings"), problem)
    place = join(where, "span")
    try:
        length = seconds(given.span)
    except ValueError as error:
        raise document.error(place, str(error)) from None
    if not 1 <= length <= MAX_SPAN_SECONDS:
        raise document.error(place, f"{given.span} is impossible; write 1s to 3660d, such as 10m")
    if length != int(length):
        problem = f"{given.span} is not whole; write whole seconds, such as 10m or 90s"
        raise document.error(place, problem)
    return Span(int(length), given.max_readings)


def read_open(
    document: Document,
    where: str,
    raw: dict[str, Any],
    privacy: Privacy,
    source: Source,
    *,
    events: bool,
) -> int | None:
    """Return the open seconds of a slot for sources of events; None for other sources and units.

    Raises ConfigError. `raw`: the section `privacy`, which is `privacy`; `where`: the path of its
    `unit`; `events`: whether the stream has a source of events on any device.
    """
    if not isinstance(privacy.unit, Span):
        return None
    given: str | None = raw["unit"].get("open")
    place = join(where, "open")
    if arrival_kind(source) != "event":
        if given is not None and not events:
            problem = "is for sources of events, and this source is none"
            raise document.error(place, f"{problem}; remove it")
        return None
    if given is None:
        reason = refusal(privacy.unit, OPEN_SECONDS)
        if reason is not None:
            raise document.error(where, reason)
        return OPEN_SECONDS
    return _open_seconds(document, place, given)


def _open_seconds(document: Document, place: str, given: str) -> int:
    try:
        length = seconds(given)
    except ValueError as error:
        raise document.error(place, str(error)) from None
    if length > MAX_OPEN_SECONDS:
        problem = "whether a slot has had its reading would be in memory for so long"
        raise document.error(
            place, f"{given} is impossible: {problem}; write {MAX_OPEN_SECONDS}s or less"
        )
    if length < 1 or length != int(length):
        raise document.error(place, f"{given} is impossible; write whole seconds, such as 10s")
    return int(length)


def _daily_cap(
    document: Document, where: str, given: float | None, window_micro: int
) -> int | None:
    if given is None:
        return None
    if not 0 < given <= MAX_DAILY_CAP:
        problem = f"{given:g} is impossible; write a positive epsilon, or leave it out for no cap"
        raise document.error(where, problem)
    cap_micro = int(Fraction(str(given)) * MICRO)
    if cap_micro < window_micro:
        least = number_text(window_micro / MICRO)
        problem = f"{given:g} is less than the epsilon of one window; write {least} or more"
        raise document.error(where, problem)
    return cap_micro
