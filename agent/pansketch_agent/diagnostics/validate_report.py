"""The output of `validate` and `print-config`: aligned text with numbers for people to check."""

from collections.abc import Iterator, Sequence
from functools import partial

from pansketch import Attribute, DistinctSpec, NoEstimate, Span
from pansketch_agent.host.check_result import CheckResult
from pansketch_agent.host.hardening import MemoryProtection
from pansketch_agent.status import disk_writes
from pansketch_agent.windows.window import schedule_for
from pansketch_fleet.config import sketch_summary
from pansketch_fleet.config.blinded_summary import blinded_facts, release_nbytes, release_text
from pansketch_fleet.config.loader import Profile, describe
from pansketch_fleet.config.privacy_cost import (
    DAY_SECONDS,
    all_costs,
    day_micro,
    epsilon_text,
    streams_sharing_source,
    weak_epsilon_warning,
)
from pansketch_fleet.config.programs import AgentConfig, Config
from pansketch_fleet.settings.settings import KeyStream, Stream
from pansketch_fleet.settings.sources import (
    ExecSource,
    HttpSource,
    MetricsSource,
    ModbusSource,
    MqttSource,
    ReplaySource,
    SensorSource,
    Source,
    SystemSource,
)
from pansketch_fleet.units import duration_text, rounded_size_text

ADOPTED = "adopted from the collector, at the start of a window, at most once a day"
UNSTATED = "errors allow for any usual one; state it, and those of shares may be narrower"
PLANNED_KEYS = (300, 3000, 100_000, 10_000_000)


def key_sizes(stream: KeyStream) -> Iterator[tuple[str, str]]:
    """Yield the slots of the sketch, and the planned error of one device."""
    spec = stream.spec
    known = "any text" if spec.universe is None else f"the numbers 0 to {spec.universe - 1}"
    yield "key", f"{stream.key} ({known})"
    if spec.levels:
        slots = f"{spec.tracked} slots, a bit each, on {len(spec.levels)} levels"
        yield "tracked", f"{slots} (any number of keys)"
        yield "planned error", _planned_level_errors(spec)
        return
    yield "tracked", f"{spec.tracked} of {spec.slots} slots, a bit each (level {spec.level})"
    yield "planned error", _planned_error(spec)


def _planned_error(spec: DistinctSpec) -> str:
    """Return the error at the expected number of keys; of a universe, at half of it."""
    keys = spec.expected_keys or (spec.universe or 0) // 2
    try:
        return f"± {spec.planned_error(keys):.2g} keys (standard error) for {keys} on one device"
    except NoEstimate as error:
        return f"none can be given for {keys} keys: {error}"


def _planned_level_errors(spec: DistinctSpec) -> str:
    """Return the errors at several numbers of keys, because the operator stated none."""
    return ", ".join(map(partial(_level_error, spec), PLANNED_KEYS)) + " (standard error)"


def _level_error(spec: DistinctSpec, keys: int) -> str:
    try:
        return f"± {spec.planned_error(keys) / keys:.2g} of {keys:,} keys"
    except NoEstimate:
        return f"no estimate of {keys:,} keys"


def key_guarantee(stream: Stream, streams: Sequence[Stream]) -> Iterator[tuple[str, str]]:
    """Yield the epsilon of a key: state and output, windows, devices and streams add up."""
    guarantee = stream.spec.guarantee
    each = epsilon_text(guarantee.epsilon_micro)
    yield "unit", "one key: all that bears it in a window on this device, added or removed"
    yield "epsilon", f"{each} per key per window per device: {_shares(stream)}"
    if guarantee.intrusion == "silent":
        yield "a silent snapshot", f"is covered: snapshot and release jointly cost {each}"
    else:
        yield "a silent snapshot", "is not covered when the device publishes again afterwards"
    yield from all_costs(stream, streams)
    yield "an announced intrusion", "freezes the sketch: no more keys until its window ends"


def key_finding(stream: KeyStream) -> CheckResult:
    """Return the epsilon of a key as one line of `check`."""
    guarantee = stream.spec.guarantee
    each = epsilon_text(guarantee.epsilon_micro)
    devices = stream.devices_per_key or 1
    whole = epsilon_text(day_micro(guarantee, stream.window_seconds, devices) or 0)
    where = "on one device" if devices == 1 else f"at {devices} devices"
    text = (
        f"epsilon {each} per key per window per device ({_shares(stream)}), {whole} for a key all "
        f"day long {where}"
    )
    return CheckResult(f"keys {stream.name}", "note", text)


def _shares(stream: Stream) -> str:
    guarantee = stream.spec.guarantee
    state, output = epsilon_text(guarantee.state_micro), epsilon_text(guarantee.release_micro)
    return f"state {state} + output {output}"


def settings_table(config: Config) -> str:
    """Return every effective setting, with its origin."""
    return aligned([(s.path, s.value_text, s.origin) for s in describe(config)])


def validation(config: AgentConfig, memory: MemoryProtection) -> str:
    """Return one table for each stream: its source, its costs and its guarantee on this device."""
    device = config.agent.device
    rules = config.agent.outbox
    outbox = disk_writes.outbox_text(config.streams, config.profile.outbox_bytes, rules)
    parts = [f"device {device}, profile {config.profile.name}, fleet {config.fleet}"]
    parts[0] += f"\n  outbox  {outbox}\n  memory  {memory}"
    if config.not_sent:
        parts[0] += f"\n  others  {', '.join(config.not_sent)}: streams of other devices"
    for stream in config.streams:
        rows = [(f"  {name}", text) for name, text in _facts(stream, device, config)]
        if warning := weak_epsilon_warning(stream, config.streams):
            rows.append(("  warning", warning))
        if not memory.protected:
            rows.append(("  not covered", "memory that was written to swap: see memory above"))
        parts.append(f"stream {stream.name}\n{aligned(rows)}")
    return "\n\n".join(parts)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of text as aligned columns; the last column is not padded."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _facts(stream: Stream, device: str, config: AgentConfig) -> Iterator[tuple[str, str]]:
    spec = stream.spec
    schedule = schedule_for(device, stream.window_seconds)
    daily = DAY_SECONDS / stream.window_seconds
    yield "source", _source_text(stream.source)
    yield from _subject(stream, config.profile)
    yield "first answer", sketch_summary.first_answer_text(stream)
    if len(parts := config.parts(stream)) > 1:
        yield "sketches", _split_text(parts)
    yield "window", f"{duration_text(stream.window_seconds)}, offset {schedule.offset} s here"
    yield "state", f"{spec.nbytes} bytes, from the first instant to the last"
    yield "release", release_text(stream, device)
    yield "network", f"about {rounded_size_text(daily * release_nbytes(stream, device))} a day"
    written = rounded_size_text(disk_writes.written_daily(stream, config.agent.outbox))
    yield (
        "disk",
        f"about {written} written a day, in whole blocks of {disk_writes.BLOCK_BYTES} bytes",
    )
    streams = config.streams
    keyed = isinstance(stream, KeyStream)
    yield from (key_guarantee if keyed else _guarantee)(stream, streams)
    yield "daily cap", _cap_text(stream, config)
    yield "intrusion", spec.guarantee.intrusion
    yield "delta", f"{spec.guarantee.delta:g}"
    yield "fingerprint", spec.fingerprint.hex()


def _subject(stream: Stream, profile: Profile) -> Iterator[tuple[str, str]]:
    if isinstance(stream, KeyStream):
        yield from key_sizes(stream)
        return
    yield "attributes", "; ".join(map(_attribute_text, stream.domain.attributes))
    numbers = [each for each in stream.domain.attributes if each.varies and not each.categories]
    unstated = [each.name for each in numbers if each.step is None]
    if unstated and stream.spec.family in {"views", "hierarchy"}:
        yield "no step", f"{', '.join(unstated)}: {UNSTATED}"
    if stream.scales is not None:
        yield "scales", ADOPTED
    sizes = ", ".join(f"{name} {text}" for name, text, _ in stream.plan.shown(profile))
    yield "sketch", sketch_summary.sizes_text(stream.spec) or f"{stream.spec.family}: {sizes}"
    if sketch_summary.is_planned(stream.plan):
        yield "planned", f"for {profile.name}, {sketch_summary.expected_text(stream)}"
        yield "predicted error", sketch_summary.errors_text(stream.plan.choices(profile)[0].errors)


def _guarantee(stream: Stream, streams: Sequence[Stream]) -> Iterator[tuple[str, str]]:
    guarantee = stream.spec.guarantee
    epsilon = epsilon_text(guarantee.epsilon_micro)
    span = guarantee.unit if isinstance(guarantee.unit, Span) else None
    yield "unit", f"one {guarantee.unit}, added or removed"
    per = "span, over all windows it touches" if span else "reading per stream"
    yield "epsilon", f"{epsilon} per {per}"
    if stream.blinded is not None:
        yield from blinded_facts(stream, stream.blinded)
    elif guarantee.intrusion == "silent":
        yield "a silent snapshot", f"adds nothing: snapshot and releases jointly cost {epsilon}"
    else:
        yield "a silent snapshot", "is not covered when the device publishes again afterwards"
    yield from all_costs(stream, streams)


def _split_text(parts: Sequence[Stream]) -> str:
    """Return the shares of epsilon of the sketches of one section, and their sum."""
    shares = [part.spec.guarantee.epsilon_micro for part in parts]
    each = " + ".join(
        f"{epsilon_text(micro)} ({part.spec.family}, stream {part.name})"
        for micro, part in zip(shares, parts, strict=True)
    )
    whole = epsilon_text(sum(shares))
    return f"{len(parts)} of one source, epsilon {each} = {whole} per {parts[0].plan.privacy.unit}"


def _cap_text(stream: Stream, config: AgentConfig) -> str:
    """Return the daily cap, which covers one section on one device but no other stream of its
    records.
    """
    parts = config.parts(stream)
    cap = stream.daily_cap_micro
    others = [each for each in streams_sharing_source(stream, config.streams) if each not in parts]
    names = " and ".join(each.name for each in others)
    if cap is None:
        return "none"
    windows = cap // sum(each.spec.guarantee.epsilon_micro for each in parts)
    of = "this stream" if len(parts) == 1 else "all its sketches"
    text = f"{epsilon_text(cap)}: at most {windows} windows a day of {of} on this device"
    caps = {each.section: each.daily_cap_micro for each in others}.values()
    if None in caps:
        text += f"; {names} of the same source: not counted in it, not capped"
    elif caps:
        together = cap + sum(each for each in caps if each is not None)
        text += f" ({epsilon_text(together)} together with {names} of the same source)"
    return f"{text}, then the stream stops"


def _source_text(source: Source) -> str:
    match source:
        case ReplaySource(path, speed):
            pace = "as fast as possible" if speed is None else f"at {speed:g} times its speed"
            return f"replay of {path}, {pace}"
        case SystemSource(interval_seconds):
            return f"this system, every {duration_text(interval_seconds)}"
        case ExecSource(command):
            return f"JSON lines that {command[0]} prints"  # Its arguments may contain a secret.
        case MqttSource(topic, broker):
            return f"messages of {topic} at {broker.host}:{broker.port}"
        case MetricsSource(address, metrics, interval_seconds):
            found = ", ".join(map(str, metrics.values()))
            return f"{found} at {address}, every {duration_text(interval_seconds)}"
        case ModbusSource(registers=registers, interval_seconds=interval_seconds):
            found = ", ".join(map(str, registers.values()))
            return f"{found} at {source.url}, every {duration_text(interval_seconds)}"
        case HttpSource(port):
            return f"JSON that programs of this host post to http://127.0.0.1:{port}/"
        case SensorSource(kind, sensors, interval_seconds):
            names_of_sensors = ", ".join(sensors.values())
            return f"{kind} {names_of_sensors}, every {duration_text(interval_seconds)}"
        case _:
            return "standard input, one JSON object a line"


def _attribute_text(attribute: Attribute) -> str:
    if attribute.categories is not None:
        missing = ", or missing" if attribute.can_miss else ""
        return f"{attribute.name} (one of {', '.join(attribute.categories)}{missing})"
    unit = f" {attribute.unit}" if attribute.unit else ""
    if attribute.constant is not None:
        return f"{attribute.name} (always {attribute.constant:g}{unit})"
    scale = ", cyclic" if attribute.cyclic else ""
    if attribute.scale != "linear":
        scale = f", {attribute.scale}"
    steps = "" if attribute.step is None else f" in steps of {attribute.step:g}"
    apart = ", ".join(each if isinstance(each, str) else f"{each:g}" for each in attribute.atoms)
    atoms = f", atoms {apart}" if apart else ""
    return f"{attribute.name} ({attribute.low:g} to {attribute.high:g}{unit}{steps}{scale}{atoms})"
