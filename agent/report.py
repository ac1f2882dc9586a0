"""What `validate` and `print-config` print: aligned text, numbers that a person can check."""

from collections.abc import Iterator, Sequence

from agent import keyed, wear
from agent.limiter import MICROSECONDS, slots_for
from agent.window import schedule_for
from fleet.config import Profile, describe
from fleet.costs import DAY_SECONDS, costs, epsilon_text
from fleet.quantities import duration_text
from fleet.settings import (
    Config,
    ExecSource,
    MqttSource,
    ReplaySource,
    SensorSource,
    Source,
    Stream,
    SystemSource,
)
from pansketch import Attribute, Span


def settings_table(config: Config) -> str:
    """Every setting in force, with where it came from."""
    return aligned([(s.path, s.value_text, s.origin) for s in describe(config)])


def validation(config: Config) -> str:
    """One table a stream: what it reads, what it costs, what it promises."""
    assert config.agent is not None
    device = config.agent.device
    rules = config.agent.outbox
    outbox = wear.outbox_text(config.streams, config.profile.outbox_bytes, rules)
    parts = [f"device {device}, profile {config.profile.name}, fleet {config.fleet}"]
    parts[0] += f"\n  outbox  {outbox}"
    for stream in config.streams:
        rows = [(f"  {name}", text) for name, text in _facts(stream, device, config)]
        parts.append(f"stream {stream.name}\n{aligned(rows)}")
    return "\n\n".join(parts)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text in columns, the last one ragged."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _facts(stream: Stream, device: str, config: Config) -> Iterator[tuple[str, str]]:
    assert config.agent is not None
    spec = stream.spec
    schedule = schedule_for(device, stream.window_seconds)
    daily = DAY_SECONDS / stream.window_seconds
    yield "source", _source_text(stream.source)
    yield from _subject(stream, config.profile)
    yield "window", f"{duration_text(stream.window_seconds)}, begins {schedule.offset} s late"
    yield "state", f"{spec.nbytes} bytes, from the first instant to the last"
    expected, most = spec.release_nbytes, spec.max_release_nbytes
    yield "release", f"about {expected} bytes, never more than {most}"
    yield "network", f"about {_roughly(daily * expected)} a day"
    written = _roughly(wear.written_daily(stream, config.agent.outbox))
    yield "disk", f"about {written} written a day, in whole blocks of {wear.BLOCK_BYTES} bytes"
    yield from _promises(stream) if stream.key is None else keyed.promises(stream)
    yield "daily cap", _cap_text(stream)
    yield "intrusion", spec.guarantee.intrusion
    yield "delta", f"{spec.guarantee.delta:g}"
    yield "fingerprint", spec.fingerprint.hex()


def _subject(stream: Stream, profile: Profile) -> Iterator[tuple[str, str]]:
    if stream.domain is None:
        yield from keyed.sizes(stream)
        return
    from fleet import outlook  # Not needed by an agent at work, and not loaded there.

    yield "attributes", "; ".join(map(_attribute_text, stream.domain.attributes))
    sizes = ", ".join(f"{name} {text}" for name, text, _ in stream.plan.shown(profile))
    yield "sketch", outlook.sizes_text(stream.spec) or f"{stream.spec.family}: {sizes}"
    if outlook.is_planned(stream.plan):
        yield "planned", f"for {profile.name}, {outlook.expected_text(stream)}"
        yield "predicted error", outlook.errors_text(stream.plan.choices(profile)[0].errors)


def _promises(stream: Stream) -> Iterator[tuple[str, str]]:
    guarantee = stream.spec.guarantee
    epsilon = epsilon_text(guarantee.epsilon_micro)
    span = guarantee.unit if isinstance(guarantee.unit, Span) else None
    yield "unit", f"one {guarantee.unit}, added or removed"
    per = "span, over all windows it touches" if span else "reading per window"
    yield "epsilon", f"{epsilon} per {per}"
    if guarantee.intrusion == "silent":
        yield "a silent snapshot", f"adds nothing: snapshot and releases jointly cost {epsilon}"
    else:
        yield "a silent snapshot", "is not covered when the device publishes again afterwards"
    yield from costs(guarantee, stream.window_seconds)
    if span:
        yield "a slot", _slots_text(span)


def _roughly(bytes_count: float) -> str:
    for unit, size in (("MiB", 2**20), ("KiB", 2**10)):
        if bytes_count >= size:
            return f"{bytes_count / size:.1f} {unit}"
    return f"{bytes_count:.0f} bytes"


def _slots_text(span: Span) -> str:
    slots = slots_for(span)
    length = f"{slots.length / MICROSECONDS:.6g} s"
    where = "its first half" if slots.opened < slots.length else "it"
    return f"{length}: of the readings in {where} the first is taken"


def _cap_text(stream: Stream) -> str:
    cap = stream.daily_cap_micro
    if cap is None:
        return "none"
    windows = cap // stream.spec.guarantee.epsilon_micro
    return f"{epsilon_text(cap)}: at most {windows} windows a day, then the stream stops"


def _source_text(source: Source) -> str:
    match source:
        case ReplaySource(path, speed):
            pace = "as fast as possible" if speed is None else f"at {speed:g} times its speed"
            return f"replay of {path}, {pace}"
        case SystemSource(interval_seconds):
            return f"this system, every {duration_text(interval_seconds)}"
        case ExecSource(command):
            return f"JSON lines that {command[0]} prints"  # What follows may hold a secret.
        case MqttSource(topic, broker):
            return f"messages of {topic} at {broker.host}:{broker.port}"
        case SensorSource(kind, sensors, interval_seconds):
            places = ", ".join(sensors.values())
            return f"{kind} {places}, every {duration_text(interval_seconds)}"
        case _:
            return "standard input, one JSON object a line"


def _attribute_text(attribute: Attribute) -> str:
    if attribute.categories is not None:
        return f"{attribute.name} (one of {', '.join(attribute.categories)})"
    unit = f" {attribute.unit}" if attribute.unit else ""
    if attribute.constant is not None:
        return f"{attribute.name} (always {attribute.constant:g}{unit})"
    scale = ", log" if attribute.scale == "log" else ", cyclic" if attribute.cyclic else ""
    steps = "" if attribute.step is None else f" in steps of {attribute.step:g}"
    return f"{attribute.name} ({attribute.low:g} to {attribute.high:g}{unit}{steps}{scale})"
