"""Random configurations of an agent, and histories that a sceptic would choose for them.

A history puts the unit where code makes distinctions. It may come right after a window's end and
before the clock's tick, or in a window without any other reading. It may also come at the ends of a
limiter's slots, and in batches.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pansketch import Span
from pansketch_audit.coupling.agent_runs import BEGIN, UP, Step
from pansketch_audit.coupling.coupled_agents import AgentCase
from pansketch_audit.coupling.hostile import hostile_readings, ordinary_readings
from pansketch_audit.coupling.sketch_runs import SIZES
from pansketch_fleet.config.loader import load_agent
from pansketch_fleet.config.programs import AgentConfig
from pansketch_fleet.sections.time_slots import MICROSECONDS, TimeSlots, slots_of
from pansketch_fleet.settings.device_spec import schedule_offset
from pansketch_fleet.settings.settings import (
    KeyStream,
    ReadingStream,
    Stream,
)
from pansketch_fleet.settings.sources import (
    StdinSource,
)

WINDOW_SECONDS = 10
WINDOWS = 4
BLINDED = 3  # Of the kinds in turn: this one's counters are masked. An epoch has a minute or more.
BLINDED_WINDOW_SECONDS = 180
KEEPERS = f"{{one: {{key: '{'02' * 32}'}}, two: {{key: '{'03' * 32}'}}}}"  # of no unit
CASES_A_STREAM = 3
ALONE = 4  # In every fourth history nothing but the unit comes: a cache that it fills first shows.
ATTRIBUTES = (
    "temp: {low: -40, high: 60}",
    "flow: {low: 0, high: 1000, scale: log}",
    "angle: {low: 0, high: 360, cyclic: true}",
    "wind: {categories: [N, E, S, W, calm]}",
)
# Only views take atoms.
ATOMS = "level: {low: 0, high: 100, atoms: [0, missing]}"
VIEWS = "{type: views, memory: 500B}"
SKETCHES = (
    "{type: hierarchy, depth: 10, k: 4, width: 8, rows: 2}",
    "{type: cells, depth: 10, width: 64, rows: 2}",
    "{type: moments, features: rff, m: 8}",
    "{type: moments, features: race, rows: 4, width: 8}",
    "{type: moments, features: hist, bins: 4}",
    VIEWS,
)
KEYS = (
    "{type: distinct, universe: 50}",
    "{type: distinct, expected_keys: 40}",
    "{type: distinct, expected_keys: 40, release: bitmap}",
)


def agent_cases(seed: int, count: int, folder: Path, first: int = 0) -> Iterator[AgentCase]:
    """Configurations in turn with a unit of their first stream. State is kept in `folder`. The
    units come in turn as well: reading, span, key, reading, span."""
    for number in range(first, first + count):
        rng = np.random.default_rng((seed, number))
        config = random_config(rng, number, folder)
        stream = config.streams[0]
        steps = history(config, stream, rng)
        if number % ALONE == ALONE - 1:
            steps = tuple(_without_others(steps))
        if number % 2:
            steps = as_lines(steps)
        yield AgentCase(config, steps, stream.name, int(rng.integers(1 << 30)))


def cases_of(config: AgentConfig, seed: int, folder: Path) -> Iterator[AgentCase]:
    """Each source of a configuration alone, read as if it were live."""
    agent = replace(config.agent, state=folder / "state")
    for stream in config.streams:
        if stream.part_of:
            continue
        live = tuple(replace(part, source=StdinSource()) for part in config.parts(stream))
        alone = replace(config, agent=agent, streams=live)
        for number in range(CASES_A_STREAM):
            rng = np.random.default_rng((seed, number))
            steps = history(alone, live[0], rng)
            if number % 2:
                steps = as_lines(steps)
            yield AgentCase(alone, steps, stream.name, int(rng.integers(1 << 30)))


def random_config(rng: np.random.Generator, number: int, folder: Path) -> AgentConfig:
    """One to three streams from standard input, or a blinded one. Units and families come in
    turn."""
    kinds = ("reading", "span", "key", "reading", "span")
    kind, blinded = kinds[number % len(kinds)], number % len(kinds) == BLINDED
    streams = [_stream(rng, "s0", kind, number, blinded)]
    for name in ("s1", "s2")[: int(rng.integers(0, 3)) * (not blinded)]:
        streams.append(_stream(rng, name, kinds[int(rng.integers(len(kinds)))], number + 1))
    persist = rng.choice(["always", "when_unacknowledged"])
    text = (
        "fleet: audit\nmqtt: {url: 'mqtt://127.0.0.1:1'}\n"
        f"agent: {{device: d{number}, state: state, outbox: {{persist: {persist}}}}}\n"
        f"keepers: {KEEPERS if blinded else '{}'}\nstreams:\n{''.join(streams)}"
    )
    path = folder / "config.yaml"
    path.write_text(text)
    return load_agent(path, {})


def _stream(
    rng: np.random.Generator, name: str, kind: str, number: int, blinded: bool = False
) -> str:
    epsilon, intrusion = rng.choice([0.5, 1, 4]), rng.choice(["silent", "silent", "announced"])
    if blinded:
        intrusion = "silent"
    privacy = f"epsilon: {epsilon}, intrusion: {intrusion}"
    window = WINDOW_SECONDS
    if blinded:
        window = BLINDED_WINDOW_SECONDS
        privacy += ", aggregation: blinded, epoch: 60s"
        privacy += ", local_epsilon: 8" if rng.random() < 0.5 else ""
    source = f"{{type: exec, command: [cat, {name}]}}"
    head = f"  {name}:\n    source: {source}\n    window: {window}s\n"
    if kind == "key":
        return (
            f"{head}    key: badge\n    privacy: {{{privacy}, unit: key}}\n"
            f"    sketches: [{KEYS[number % len(KEYS)]}]\n"
        )
    if kind == "span":
        most = int(rng.integers(3, 7))
        privacy += f", unit: {{span: {int(rng.integers(20, 40))}s, max_readings: {most}}}"
    attributes = rng.permutation(len(ATTRIBUTES))[: int(rng.integers(2, 4))]
    sketches = [SKETCHES[number % len(SKETCHES)]]
    texts = [ATTRIBUTES[each] for each in sorted(attributes)]
    if sketches[0] == VIEWS:
        texts.append(ATOMS)
    elif rng.random() < 0.3 and not blinded:
        sketches.append("{type: views}")
    named = "".join(f"      {text}\n" for text in texts)
    return (
        f"{head}    privacy: {{{privacy}}}\n    attributes:\n{named}"
        f"    sketches: [{', '.join(sketches)}]\n"
    )


def history(config: AgentConfig, stream: Stream, rng: np.random.Generator) -> tuple[Step, ...]:
    """The steps, in order: ticks, other readings, the unit, one snapshot of memory, and sometimes
    an announced intrusion."""
    slots = slots_of(stream)
    window = stream.window_seconds
    seconds = float(WINDOWS * window)
    if slots is not None and isinstance(stream.plan.privacy.unit, Span):
        seconds += 2 * stream.plan.privacy.unit.seconds
    pace = window * float(rng.choice([0.02, 0.1, 0.1]))
    steps = [Step(round(0.05 + pace * n, 6), "tick") for n in range(int(seconds / pace))]
    others = [*_others(config, stream, seconds, rng)]
    units, until = _unit(config, stream, slots, rng)
    if slots is not None:  # The unit is all that the stream reads in the stretch.
        begin = units[0].at
        others = [e for e in others if e.stream != stream.name or not begin <= e.at <= until]
    steps += [*others, *units]
    steps.append(Step(max(seconds, until + 2 * window) + 0.5, "tick"))
    if stream.plan.privacy.intrusion == "silent":
        at = _snapshot_time(config, units, rng, seconds)
        steps.append(Step(at, "tick"))
        steps.append(Step(at + 1e-6, "snapshot"))
    elif rng.random() < 0.5:
        at = round(float(rng.uniform(1, seconds)), 3)
        steps += [Step(at, "snapshot"), Step(at + 1e-6, "announce")] if slots is None else []
    return tuple(sorted(steps, key=lambda step: step.at))


def as_lines(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The same history, whose rows come through the agent's own source."""
    return tuple(replace(step, what="lines") if step.what == "rows" else step for step in steps)


def _without_others(steps: tuple[Step, ...]) -> Iterator[Step]:
    for step in steps:
        if step.rows is None:
            yield step
        elif step.units:
            rows = step.rows[list(step.units)]
            yield replace(step, rows=rows, units=tuple(range(len(rows))))


def _others(
    config: AgentConfig, stream: Stream, seconds: float, rng: np.random.Generator
) -> Iterator[Step]:
    """Readings that both runs have, of all streams. Some windows have none."""
    for each in config.streams:
        if each.part_of:
            continue
        for _ in range(int(rng.integers(0, 8))):
            count = int(rng.choice(SIZES[:-1]))
            at = round(float(rng.uniform(0.3, seconds)), 3)
            yield Step(at, "rows", each.name, _rows(each, count, rng))


def _rows(stream: Stream, count: int, rng: np.random.Generator) -> Any:
    if isinstance(stream, KeyStream):
        # Not the unit's key, which is 7.
        return rng.integers(8, stream.spec.universe or 1000, count).astype(np.uint64)
    assert isinstance(stream, ReadingStream)
    rows = ordinary_readings(stream.domain, count, rng)
    if rng.random() < 0.3:
        rows[rng.integers(count)] = np.nan
    return rows


def _unit(
    config: AgentConfig, stream: Stream, slots: TimeSlots | None, rng: np.random.Generator
) -> tuple[list[Step], float]:
    """The steps with the unit's readings, and when the last one is."""
    window = stream.window_seconds
    first = _window_end(config.agent.device, window)
    if isinstance(stream, KeyStream):
        at = first + float(rng.choice([0.012, 0.3 * window]))
        steps = []
        for place in range(int(rng.integers(1, 4))):
            rows = _rows(stream, int(rng.choice(SIZES[:-1])), rng)
            which = int(rng.integers(len(rows)))
            rows[which] = 7
            steps.append(
                Step(round(at + 0.2 * window * place, 3), "rows", stream.name, rows, (which,))
            )
        return steps, at + 0.4 * window
    assert isinstance(stream, ReadingStream)
    hostile = hostile_readings(stream.domain)
    if slots is None:
        rows = _rows(stream, int(rng.choice(SIZES)), rng)
        which = int(rng.integers(len(rows)))
        rows[which] = hostile[rng.integers(len(hostile))] if rng.random() < 0.5 else rows[which]
        at = first + window * int(rng.integers(0, 2)) + float(rng.choice([0.012, 0.42 * window]))
        return [Step(round(at, 3), "rows", stream.name, rows, (which,))], at
    return _span(stream, slots, rng)


def _span(
    stream: ReadingStream, slots: TimeSlots, rng: np.random.Generator
) -> tuple[list[Step], float]:
    """Many readings of one span, from the end of a slot's open part to the beginning of another's.
    Readings right after it enter the slots of the first ones."""
    unit = stream.plan.privacy.unit
    assert isinstance(unit, Span)
    length, opened = slots.length / MICROSECONDS, slots.opened / MICROSECONDS
    begin = (slots.number(UP) + 3) * length + opened - 0.004 - UP
    end = begin + unit.seconds
    # Moments in the span right after each slot begins, where a reading takes the slot.
    moments = {begin, *np.arange(begin, end, max(0.5, length / 8)).tolist()}
    starts = [n * length - UP for n in range(slots.number(UP + begin), slots.number(UP + end) + 1)]
    moments |= {start + 0.001 for start in starts if begin <= start + 0.001 <= end}
    steps = []
    for moment in sorted(moments):
        rows = ordinary_readings(stream.domain, int(rng.integers(1, 4)), rng)
        steps.append(Step(moment, "rows", stream.name, rows, tuple(range(len(rows)))))
    later = ordinary_readings(stream.domain, 2, rng)
    steps.append(Step(end + 0.002, "rows", stream.name, later))
    return steps, end


def _window_end(device: str, window: int) -> float:
    """The end of the second window, in seconds since the begin."""
    offset = schedule_offset(device, window)
    return offset + (int((BEGIN - offset) // window) + 2) * window - BEGIN


def _snapshot_time(
    config: AgentConfig, units: list[Step], rng: np.random.Generator, seconds: float
) -> float:
    """A moment at which no slot is open: whether one has had its reading is in memory until then.
    Near the unit, or anywhere."""
    slots = [found for each in config.streams if (found := slots_of(each)) is not None]
    near, window = units[int(rng.integers(len(units)))].at, config.streams[0].window_seconds
    for _ in range(1000):
        wide = rng.random() < 0.3
        at = (
            float(rng.uniform(0.2, seconds))
            if wide
            else near + float(rng.uniform(1e-4, 0.9)) * window
        )
        at = round(at, 4)
        if all(not each.is_open(UP + at) for each in slots):
            return at
    return near + seconds
