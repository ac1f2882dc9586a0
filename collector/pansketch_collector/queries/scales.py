"""`scales`: an operator's next configuration, with fine cells where readings were.

Scales are learned from releases, so they cost no epsilon. Devices and collector take them from
their configurations, as everything public.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import floor, log10

from pansketch import Attribute
from pansketch.generators import Partition, learned_domain
from pansketch_collector.errors import CommandError, wrong
from pansketch_collector.queries.fleet_model import Model

DIGITS = 2  # of the narrowest part, that printed knots keep


@dataclass(frozen=True)
class Learned:
    """`attributes`: those with a new scale. `kept`: why each other one keeps its own, by name."""

    stream: str
    attributes: tuple[Attribute, ...]
    kept: Mapping[str, str]


def learned(model: Model) -> Learned:
    """Raises CommandError where no attribute gets a new scale, and for a model without cells."""
    if not isinstance(model.fitted, Partition):
        raise wrong(f"{model.generator} has no cells to learn a scale from: choose another one")
    found, kept = [], {}
    new = learned_domain(model.fitted)
    for before, after in zip(model.fitted.domain.attributes, new.attributes, strict=True):
        if after is before:
            kept[before.name] = _reason(before)
        else:
            found.append(_printable(after))
    if not found:
        why = "; ".join(f"{name}: {reason}" for name, reason in kept.items())
        raise CommandError(f"no scale to learn yet: {why}")
    return Learned(model.windows[0].stream, tuple(found), kept)


def as_yaml(found: Learned, source: str) -> str:
    """Keys to put below `attributes:` of the stream."""
    lines = [
        f"# Learned from {source}.",
        f"# Add these keys below streams.{found.stream}.attributes, on the collector and on every",
        "# device. Earlier windows are answered together with later ones.",
    ]
    for attribute in found.attributes:
        knots = ", ".join(f"{knot:.15g}" for knot in attribute.knots)
        lines += [f"{attribute.name}:", "  scale: learned", f"  knots: [{knots}]"]
    return "\n".join(lines) + "\n"


def _reason(attribute: Attribute) -> str:
    if attribute.categories is not None:
        return "it has categories"
    if not attribute.varies:
        return "it is a constant"
    if attribute.cyclic:
        return "it is cyclic"
    return "its releases do not tell 64 parts of it apart, or it has fewer values"


def _printable(attribute: Attribute) -> Attribute:
    """The same with knots of as few digits as keep them apart, and between the same values."""
    narrowest = min(after - before for before, after in pairwise(attribute.knots))
    if attribute.step is not None:
        narrowest = min(narrowest, attribute.step / 1024)
    places = DIGITS - floor(log10(narrowest))
    low, *inner, high = attribute.knots
    return replace(attribute, knots=(low, *(round(knot, places) for knot in inner), high))
