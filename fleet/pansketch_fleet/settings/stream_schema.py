"""The keys of one entry of `streams:`."""

from typing import Annotated, Any

from pansketch_fleet.settings.attribute_schema import AttributeSection
from pansketch_fleet.settings.privacy_schema import PrivacySection
from pansketch_fleet.settings.section import KeyDoc, Section
from pansketch_fleet.settings.sketch_schema import SKETCHES, SketchSection, SketchTypeSection
from pansketch_fleet.settings.source_schema import SOURCES

MAX_EXPECTED = 10**12
OPTIONAL = "none"


def _expected(meaning: str, example: int, default: str) -> KeyDoc:
    return KeyDoc(meaning, str(example), low=1, high=MAX_EXPECTED, default=default)


class ExpectSection(Section, frozen=True):
    """The readings that a query will read together. They are public guesses for the planner.

    [Expected readings](../explanation/views.md#expected-readings) states how to choose them.
    """

    readings: Annotated[
        int | None,
        _expected(
            "The readings of one device in one window.",
            720,
            "the polls in a window; one a minute for other sources",
        ),
    ] = None
    max_readings: Annotated[
        int | None,
        _expected(
            "The maximum number of readings of one device in one window. The collector refuses "
            "releases with more.",
            720,
            "derived from the source, see the link above",
        ),
    ] = None
    devices: Annotated[
        int | None,
        _expected(
            "The devices of the fleet that send the stream.",
            12,
            "their number, rounded up to a power of two, if `devices` names each; else 10",
        ),
    ] = None
    windows: Annotated[
        int | None,
        _expected(
            "The windows that a query reads. Without it, the plan also serves the first window and "
            "the first day.",
            49,
            "those of 30 days, at least 1",
        ),
    ] = None
    ask: Annotated[
        list[str] | None,
        KeyDoc(
            "Attributes whose means are asked of few windows, as by the hour. A fifth of epsilon "
            "is reserved for these means, in equal parts.",
            "[temp, humidity]",
            allowed="numbers of a sketch of type `views`",
            default="no part is reserved",
            reader="agent and collector",
        ),
    ] = None


class KeyExpectSection(Section, frozen=True):
    """The expectations of a stream with a `key`."""

    devices_per_key: Annotated[
        int | None,
        _expected(
            "The devices that may see one key. Stated sums of epsilon are for so many; the "
            "programs do not enforce it.",
            12,
            "sums are for one device",
        ),
    ] = None


class ScalesSection(Section, frozen=True):
    """Learned scales that the collector publishes and devices adopt.

    [Learn scales](../how-to/learn-scales.md) states when the collector publishes one.
    """

    every: Annotated[
        str,
        KeyDoc(
            "The least time from one published scale to the next.",
            "30d",
            form="duration",
            allowed="whole seconds, `1d` to `3660d`",
            reader="collector",
        ),
    ] = "7d"
    publish: Annotated[
        str,
        KeyDoc(
            "What the collector publishes: scales that it learns, or the configured ones again.",
            "configured",
            values=("learned", "configured"),
            reader="collector",
        ),
    ] = "learned"


class StreamSection(Section, frozen=True):
    """One stream: readings with `attributes`, or events with a `key`.

    [Stream settings](streams.md) explains units, attributes and the choice of a sketch.
    """

    source: Annotated[
        dict[str, Any],
        KeyDoc(
            "The source of the readings ([sources](sources.md)).",
            "{type: stdin}",
            holds=SOURCES,
        ),
    ]
    window: Annotated[
        str,
        KeyDoc(
            "The length of a window. Each window has one release.",
            "30d",
            form="duration",
            allowed="whole seconds, `1s` to `3660d`",
        ),
    ]
    privacy: Annotated[
        dict[str, Any],
        KeyDoc("The privacy guarantee.", "{epsilon: 1.0}", holds=PrivacySection),
    ]
    attributes: Annotated[
        dict[str, Any] | None,
        KeyDoc(
            "The attributes of a reading by name, up to 64 characters each.",
            "{temp: {low: -30, high: 50}}",
            allowed="up to 16 attributes; exactly one of `attributes` and `key`",
            default="`key` instead",
            holds=AttributeSection,
            named="ATTRIBUTE",
        ),
    ] = None
    key: Annotated[
        str | None,
        KeyDoc(
            "The name of the key whose distinct values are counted.",
            "badge_id",
            allowed="1 to 64 characters; exactly one of `attributes` and `key`",
            default="`attributes` instead",
        ),
    ] = None
    sketches: Annotated[
        list[dict[str, Any]] | None,
        KeyDoc(
            "The sketches of the stream, which [share its epsilon](streams.md#several-sketches).",
            "[{type: views}]",
            allowed="one entry for each type; required with a `key`, which has one",
            default="`hierarchy` for one or two attributes that vary, else `views`",
            holds=(SketchTypeSection, *SKETCHES.values()),
        ),
    ] = None
    sketch: Annotated[
        dict[str, Any] | None,
        KeyDoc(
            "Sizes of a hierarchy, short for `sketches` with one entry of type `hierarchy`.",
            "{depth: 12}",
            allowed="not with `sketches`",
            default=OPTIONAL,
            holds=SketchSection,
        ),
    ] = None
    views: Annotated[
        str | list[list[str]] | None,
        KeyDoc(
            "The views: sets of attributes that the sketch joins.",
            "[[temp], [temp, pm25]]",
            values=("auto",),
            allowed="`auto`, or lists of attributes; not with a `key`",
            default="`auto`",
        ),
    ] = None
    expect: Annotated[
        dict[str, Any] | None,
        KeyDoc(
            "The readings that a query will read together, or the devices that see one key.",
            "{readings: 720}",
            default="all defaults",
            holds=(ExpectSection, KeyExpectSection),
        ),
    ] = None
    scales: Annotated[
        dict[str, Any] | None,
        KeyDoc(
            "Devices adopt the scales that the collector publishes.",
            "{every: 30d}",
            allowed="not with a `key`; for sketches of type `hierarchy` and `views`",
            default="none are published, and none are adopted",
            holds=ScalesSection,
        ),
    ] = None
    retention: Annotated[
        str | None,
        KeyDoc(
            "How long the collector keeps a release.",
            "400d",
            form="duration",
            allowed="`36600d` at most, and no shorter than the window",
            default="for ever",
            reader="collector",
        ),
    ] = None
    devices: Annotated[
        list[str] | None,
        KeyDoc(
            "The devices that send the stream: names, patterns with `*` and `?`, and names of "
            "`groups`. The collector refuses it of other devices.",
            '["pump-*"]',
            allowed="at least one",
            default="all devices",
            reader="agent and collector",
        ),
    ] = None
