"""Scales with fine cells where readings were, and cells for values that many readings have.

They are for an operator's next configuration, or published. They are learned from releases, which
are private already, so they cost no epsilon.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import floor, log10

from pansketch import Attribute, Domain
from pansketch.domain import MAX_ATOMS, Atom
from pansketch.generators import Spike, found_atoms, learned_domain
from pansketch_collector.errors import CommandError, wrong
from pansketch_collector.queries.fleet_model import Model, build
from pansketch_collector.storage.config_epochs import RescaledStream
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables.records import Selection
from pansketch_fleet.config.loader import Config
from pansketch_fleet.config.published_scales import domain_name, rescaled, with_knots
from pansketch_fleet.protocol.scale_message import Scales
from pansketch_fleet.settings.settings import ReadingStream

Knots = dict[str, tuple[float, ...]]

DIGITS = 2  # of the narrowest part, that printed knots keep


@dataclass(frozen=True)
class Learned:
    """`attributes`: those with a new scale. `kept`: why each other one keeps its own, by name.
    `spikes`: values with mass of their own. `atoms`: those to declare, by attribute, with those
    that it has."""

    stream: str
    attributes: tuple[Attribute, ...]
    kept: Mapping[str, str]
    spikes: tuple[Spike, ...]
    atoms: Mapping[str, tuple[Atom, ...]]


def learned(model: Model, stream: str) -> Learned:
    """From the model of a stream. Raises CommandError where no attribute gets a new scale, and for
    a model without cells."""
    fitted = model.fitted
    if fitted.alone(0) is None:
        raise wrong(f"{model.generator} has no cells to learn a scale from: choose another one")
    found, kept = [], {}
    new = learned_domain(fitted)
    for before, after in zip(fitted.domain.attributes, new.attributes, strict=True):
        if after is before:
            kept[before.name] = _reason(before)
        else:
            found.append(_printable(after))
    spikes = found_atoms(fitted)
    if not found and not spikes:
        why = "; ".join(f"{name}: {reason}" for name, reason in kept.items())
        raise CommandError(f"no scale to learn yet: {why}")
    atoms = dict(_atoms(fitted.domain, spikes))
    return Learned(stream, tuple(found), kept, spikes, atoms)


def _atoms(domain: Domain, spikes: Sequence[Spike]) -> Iterator[tuple[str, tuple[Atom, ...]]]:
    for name in dict.fromkeys(spike.name for spike in spikes):
        attribute = domain.attributes[domain.index(name)]
        values = [s.value for s in spikes if s.name == name and s.value is not None]
        both = *(each for each in values if each not in attribute.atoms), *attribute.atoms
        if len(both) > len(attribute.atoms):
            yield name, replace(attribute, atoms=both[:MAX_ATOMS]).atoms


def proposal(
    config: Config, stream: ReadingStream, present: RescaledStream | None, now: int
) -> Knots:
    """The knots to publish: those in use, and new ones where they reduce the error.

    They are learned from the windows of the last `scales.every`, counted from the newest one.
    Raises CommandError without releases to learn from.
    """
    assert stream.scales is not None
    with reading(config.collector.database) as reader:
        held = reader.stored_span(stream.name)
        since = min(now if held is None else held[1], now) - max(
            stream.scales.every_seconds, stream.window_seconds
        )
        model = build(reader, config, Selection(stream.name, max(since, 0)))
    used = stream.domain if present is None else present.stream.domain
    fitted = model.fitted
    if fitted.alone(0) is None or fitted.domain.names != used.names:
        raise CommandError(f"{model.generator} has no cells of the configured attributes")
    new = learned_domain(fitted, configured=stream.domain, present=used)
    found: Knots = {}
    for before, after, own in zip(
        used.attributes, new.attributes, stream.domain.attributes, strict=True
    ):
        kept = before if after == before else _allowed(after, own, before)
        if kept.knots and kept != own:
            found[own.name] = kept.knots
    # Planned here for every class of devices, and remembered: ingestion does not wait for it.
    scales = Scales(1, stream.name, domain_name(stream), 0, found)
    config.specs(rescaled(stream, scales, config.profile))
    return found


def _allowed(learned: Attribute, configured: Attribute, present: Attribute) -> Attribute:
    """The learned scale as devices take it; the present one where they would refuse it."""
    try:
        return with_knots(configured, _printable(learned).knots)
    except ValueError:
        return present


def as_yaml(found: Learned, source: str) -> str:
    """Keys to put below `attributes:` of the stream."""
    lines = [
        f"# Learned from {source}.",
        f"# Add these keys below streams.{found.stream}.attributes, on the collector and on every",
        "# device. Earlier windows are answered together with later ones.",
    ]
    lines += [f"# {_describe_spike(spike)}" for spike in found.spikes]
    scales = {attribute.name: attribute for attribute in found.attributes}
    for name in dict.fromkeys([*scales, *found.atoms]):
        lines.append(f"{name}:")
        if name in scales:
            knots = ", ".join(f"{knot:.15g}" for knot in scales[name].knots)
            lines += ["  scale: learned", f"  knots: [{knots}]"]
        if name in found.atoms:
            texts = (e if isinstance(e, str) else f"{e:.15g}" for e in found.atoms[name])
            lines.append(f"  atoms: [{', '.join(texts)}]")
    return "\n".join(lines) + "\n"


def _describe_spike(spike: Spike) -> str:
    """A spike in words, with the operator's next step."""
    share, where = 100 * spike.share.value, f"{spike.low:g} to {spike.high:g}"
    if spike.value is None:
        return (
            f"{spike.name}: one value from {where} has {share:.2g} % of the readings; if you know "
            "it, add it to its atoms."
        )
    return (
        f"{spike.name}: {share:.2g} % of the readings are from {where}; {spike.value:g} is taken "
        "to be their value."
    )


def _reason(attribute: Attribute) -> str:
    if attribute.categories is not None:
        return "it has categories"
    if not attribute.varies:
        return "it is a constant"
    if attribute.cyclic:
        return "it is cyclic"
    return "its releases do not tell 16 parts of it apart, or it has fewer than 64 values"


def _printable(attribute: Attribute) -> Attribute:
    """The same with knots of as few digits as keep them apart, and between the same values."""
    narrowest = min(after - before for before, after in pairwise(attribute.knots))
    if attribute.step is not None:
        narrowest = min(narrowest, attribute.step / 1024)
    places = DIGITS - floor(log10(narrowest))
    low, *inner, high = attribute.knots
    return replace(attribute, knots=(low, *(round(knot, places) for knot in inner), high))
