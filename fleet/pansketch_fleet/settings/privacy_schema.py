"""The keys of a stream's `privacy:`, and those of `keepers:` for blinded streams."""

from typing import Annotated, Any, get_args

from pansketch.privacy import MAX_EPSILON, Aggregation, Intrusion
from pansketch_fleet.settings.section import KeyDoc, Section

MAX_DAILY_CAP = 1_000_000
MAX_LEVELS = 8
MAX_INNER_EPOCHS = 1024
EXAMPLE_KEY = "3f1c...e8"  # 64 hexadecimal digits


class KeeperSection(Section, frozen=True):
    """The public keys of one keeper: `pansketch-keeper export-public` prints them.

    [Blind a fleet](../how-to/blind-a-fleet.md) states who runs keepers.
    """

    key: Annotated[
        str,
        KeyDoc(
            "The public key that devices use.",
            EXAMPLE_KEY,
            allowed="64 hexadecimal digits; no key stands twice in the file",
        ),
    ]
    previous: Annotated[
        list[str] | None,
        KeyDoc(
            "Public keys before a rotation. The collector still asks about windows under them.",
            f"[{EXAMPLE_KEY}]",
            allowed="64 hexadecimal digits each",
            default="none",
            reader="collector",
        ),
    ] = None


class AnswersSection(Section, frozen=True):
    """One level of answers: its period, and its share of epsilon.

    Every reading is in one answer of each level. Noise grows with 1 / share.
    """

    every: Annotated[
        str,
        KeyDoc(
            "The period of one answer.",
            "30d",
            form="duration",
            allowed="a multiple of the window, up to `3660d`; different for each level",
        ),
    ]
    share: Annotated[
        str,
        KeyDoc(
            "The share of epsilon of this level.",
            "1/2",
            allowed="above 0 and at most 1, as `1/2` or `0.5`; all levels add up to at most 1",
        ),
    ]


class SpanSection(Section, frozen=True):
    """The privacy unit as a span: any time of this length, with at most so many readings.

    [Units and spans](streams.md#units-spans-and-daily-caps) explains the slots that enforce it.
    """

    span: Annotated[
        str,
        KeyDoc(
            "The length of the protected time.",
            "10m",
            form="duration",
            allowed="whole seconds, `1s` to `3660d`",
        ),
    ]
    max_readings: Annotated[
        int, KeyDoc("The maximum number of readings that the agent absorbs in a span.", "60", low=2)
    ]
    open: Annotated[
        str | None,
        KeyDoc(
            "How long each slot accepts a reading, for `stdin`, `exec`, `mqtt` and `http`.",
            "20s",
            form="duration",
            allowed="whole seconds, `1s` to `60s`; required if less than 1 % of the time is open",
            default="`10s`",
            reader="agent",
        ),
    ] = None


class PrivacySection(Section, frozen=True):
    """The privacy guarantee of the stream ([privacy](../explanation/privacy.md))."""

    epsilon: Annotated[
        float,
        KeyDoc(
            "The privacy loss of one release for one unit. Smaller is more private and noisier.",
            "1.0",
            low=0.000001,
            high=MAX_EPSILON,
        ),
    ]
    unit: Annotated[
        str | dict[str, Any] | None,
        KeyDoc(
            "The protected unit: one reading, a span of readings, or all events with one key.",
            "reading",
            values=("reading", "key"),
            allowed="a stream with a `key` has `key` only; other streams `reading` or a span",
            default="`reading`; with a `key`, `key`",
            holds=SpanSection,
        ),
    ] = None
    intrusion: Annotated[
        str,
        KeyDoc(
            "The intrusion that the guarantee covers: one that the device never notices, or one "
            "announced to the agent beforehand.",
            "announced",
            values=get_args(Intrusion),
        ),
    ] = "silent"
    aggregation: Annotated[
        str,
        KeyDoc(
            "Who adds the noise: with `local` each device. With `blinded` masks hide its counters, "
            "and [keepers](../how-to/blind-a-fleet.md) add noise to answers.",
            "blinded",
            values=get_args(Aggregation),
            allowed="`blinded` for readings in one sketch, without `scales`, and with `silent`",
        ),
    ] = "local"
    keepers: Annotated[
        list[str] | None,
        KeyDoc(
            "The keepers whose masks hide the counters.",
            "[tower, well]",
            allowed="2 to 16 names of `keepers`; only with `blinded`",
            default="all of `keepers`",
        ),
    ] = None
    epoch: Annotated[
        str | None,
        KeyDoc(
            "The time after which a device adds fresh masks. Two snapshots within one epoch show "
            "what arrived between them.",
            "1h",
            form="duration",
            allowed="whole seconds, from `1m` to the window, at most 1,024 in a window; only with "
            "`blinded`",
            default="window / 24, at least `1m`",
            reader="agent",
        ),
    ] = None
    local_epsilon: Annotated[
        float | None,
        KeyDoc(
            "The privacy loss if all keepers and the collector collude. The device adds noise for "
            "it under the masks.",
            "8",
            high=MAX_EPSILON,
            allowed="larger than `epsilon`; only with `blinded`",
            default="none: all keepers and the collector together read every counter",
        ),
    ] = None
    answers: Annotated[
        list[dict[str, Any]] | None,
        KeyDoc(
            "The levels of answers, which share epsilon.",
            "[{every: 1d, share: 1/2}, {every: 30d, share: 1/2}]",
            allowed="up to 8; only with `blinded`",
            default="one: every window, share 1",
            holds=AnswersSection,
        ),
    ] = None
    lateness: Annotated[
        str | None,
        KeyDoc(
            "How long the collector waits after the period of an answer, and after the last "
            "release of it that arrived. The wait ends after ten times this.",
            "10m",
            form="duration",
            allowed="whole seconds, `0s` to `366d`; only with `blinded`",
            default="the window, at most `1d`",
            reader="collector",
        ),
    ] = None
    daily_cap: Annotated[
        float | None,
        KeyDoc(
            "The maximum epsilon of all releases of one device whose windows end on one UTC day.",
            "24",
            high=MAX_DAILY_CAP,
            allowed="at least the epsilon of one release",
            default="no cap",
            reader="agent",
        ),
    ] = None
