"""What `expect: {ask: [...]}` brings a stream whose means are asked by the hour, and what it costs.

One hour of ten devices, by the default plan and by one that reserves epsilon for the means of two
attributes. The hours' readings are drawn from streams of other shapes; each hour has other noise.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from benchmarks.datasets.small_streams import STREAMS, Stream
from benchmarks.error_bars.short_streams import exact, noisy
from benchmarks.harness.result import Row, at_least, at_most
from benchmarks.streams import events, sensors
from benchmarks.streams.kinds import PROFILE
from pansketch import Privacy, ViewsSpec
from pansketch.generators import TooFewReadings, pairwise
from pansketch.planning import Expected, plan_views
from pansketch_fleet.sections.memory_budget import VIEWS_PART
from pansketch_fleet.settings.profiles import load_profile
from testbed.metrics import distances

DEVICES = 10
MONTH = 720  # hours
READINGS = (600, 6000)  # of all devices in an hour
HOURS, FEWER = 30, 12
WITHIN = 2.0  # standard errors
COVERED = 0.9  # of answers at least
RECORDS = 50_000
MONTHS = 5  # of other noise each
WORSE = 1.15  # times the distance of a month's records
SHAPES = (
    STREAMS[0],
    sensors.NINE_SENSORS,
    sensors.FIVE_GASES,
    sensors.HOURLY_RAIN,
    events.FLIGHT_DELAYS,
    events.TEN_FEATURES,
)


class _Hours(NamedTuple):
    """Of the means of many hours: the median error over the deviation of the readings, the part
    that was within WITHIN standard errors, and the part that was refused."""

    error: float
    covered: float
    refused: float


def run(quick: bool) -> list[Row]:
    """Rows for each stream and number of readings, and one for the records of a month."""
    rows = []
    for stream in SHAPES[:2] if quick else SHAPES:
        asked = _asked(stream)
        for readings in READINGS:
            plans = [_plan(stream, readings, names) for names in ((), asked)]
            hours = FEWER if quick else HOURS
            plain, reserved = (_hours(stream, asked, each, readings, hours) for each in plans)
            title = f"{stream.name}, {readings:,} readings an hour"
            note = f"without ask {plain.error:.3f}" if plain.refused < 1 else "without ask none"
            name = f"{title}: median error of means"
            rows.append(Row(name, reserved.error, "deviations of a reading", note=note))
            note = f"without ask {plain.covered:.2f}"
            name = f"{title}: within {WITHIN:g} s.e."
            rows.append(at_least(name, reserved.covered, "of answers", COVERED, note))
            note = f"without ask {plain.refused:.2f}"
            name = f"{title}: refused"
            rows.append(at_most(name, reserved.refused, "of means", plain.refused, note))
        rows.append(_month(stream, asked))
    return rows


def _asked(stream: Stream) -> tuple[str, ...]:
    return stream.domain.numbers[:2]


def _plan(stream: Stream, readings: int, means: tuple[str, ...]) -> ViewsSpec:
    """The default plan of a stream with windows of an hour."""
    expected = Expected(readings // DEVICES, DEVICES, MONTH, (1, 24), means=means)
    memory = load_profile(PROFILE).sketch_memory_bytes // VIEWS_PART
    return plan_views(stream.domain, Privacy(1.0), memory, expected).spec


def _hours(
    stream: Stream, asked: tuple[str, ...], spec: ViewsSpec, readings: int, hours: int
) -> _Hours:
    rng = np.random.default_rng(1)
    errors: list[float] = []
    covered = refused = 0
    for _ in range(hours):
        rows = stream.truth[rng.choice(len(stream.truth), readings)]
        model = pairwise(noisy(exact(spec, rows), DEVICES, rng))
        for name in asked:
            own = rows[:, stream.domain.index(name)]
            own = own[np.isfinite(own)]
            try:
                answer = model.mean(name)
            except TooFewReadings:
                refused += 1
                continue
            away = answer.value - own.mean()
            errors.append(float(away / own.std()))
            covered += bool(abs(away) <= WITHIN * answer.standard_error)
    answers = max(1, len(errors))
    middle = float(np.median(np.abs(errors))) if errors else float("nan")
    return _Hours(middle, covered / answers, refused / (hours * len(asked)))


def _month(stream: Stream, asked: tuple[str, ...]) -> Row:
    """How much further a month's records are from the readings, in the mean of MONTHS."""
    found = []
    for means in ((), asked):
        spec = _plan(stream, READINGS[0], means)
        # As many readings as a month has, each of them as often as it takes.
        release = exact(spec, stream.truth)
        times = MONTH * READINGS[0] / len(stream.truth)
        grown = replace(release, counters=np.rint(release.counters * times).astype(np.int64))
        months = [
            distances(
                stream.domain,
                stream.truth,
                pairwise(noisy(grown, DEVICES * MONTH, rng)).sample(RECORDS, rng),
            ).pairs.mean()
            for rng in map(np.random.default_rng, range(MONTHS))
        ]
        found.append(float(np.mean(months)))
    note = f"{found[0]:.3f} to {found[1]:.3f}"
    name = f"{stream.name}, a month: total variation of pairs"
    return at_most(name, found[1] / found[0], "x without", WORSE, note)
