"""Specs as plain values, and back: a collector stores the form of each spec that it ever served.

A form is an object of JSON that holds every public field of a spec. Rebuilding a spec gives the
same fingerprint, or an error if this version derives other counters from those fields.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any

from pansketch.domain.attribute import Attribute
from pansketch.domain.domain import Domain
from pansketch.privacy import Privacy, Span
from pansketch.sketches.cells import CellsSpec
from pansketch.sketches.distinct.spec import DistinctSpec
from pansketch.sketches.hierarchy import HierarchySpec
from pansketch.sketches.moments.sketch import MomentsSpec
from pansketch.sketches.release_model import Spec
from pansketch.sketches.views import View, ViewsSpec

FAMILIES: Mapping[str, type[Any]] = {
    "hierarchy": HierarchySpec,
    "cells": CellsSpec,
    "moments": MomentsSpec,
    "views": ViewsSpec,
    "distinct": DistinctSpec,
}


def form_of(spec: Spec) -> dict[str, Any]:
    """A spec as values of JSON.

    Args:
        spec: of any family.

    Returns:
        Family, fingerprint in hexadecimal digits, and every public field.
    """
    return {"family": spec.family, "fingerprint": spec.fingerprint.hex(), **_plain(spec)}


def spec_of(form: Mapping[str, Any]) -> Any:
    """The spec that has this form.

    Args:
        form: as `form_of` returns it.

    Returns:
        A spec with the form's fingerprint.

    Raises:
        ValueError: the form is none, or this version derives another fingerprint from it; one line.
    """
    given = dict(form)
    family, fingerprint = given.pop("family", None), given.pop("fingerprint", None)
    try:
        if family not in FAMILIES:
            raise ValueError(f"no family {family!r}")
        if "domain" in given:
            columns = [Attribute(**_texts(each)) for each in given["domain"]["attributes"]]
            given["domain"] = Domain(columns)
        given["privacy"] = _privacy(given["privacy"])
        if "views" in given:
            given["views"] = tuple(
                View(tuple(v["names"]), tuple(v["bits"]), v["micro"]) for v in given["views"]
            )
        if given.get("output_share") is not None:
            given["output_share"] = Fraction(given["output_share"])
        spec = FAMILIES[family](**given)
    except (TypeError, LookupError, AttributeError, ArithmeticError, ValueError) as error:
        raise ValueError(f"no form of a spec: {' '.join(str(error).split())[:200]}") from None
    if spec.fingerprint.hex() != fingerprint:
        raise ValueError(f"this version makes other counters of the settings {fingerprint}")
    return spec


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """List the differences between two forms.

    Args:
        old: as `form_of` returns it.
        new: like `old`.

    Returns:
        One text for each field that differs, by dotted names: "privacy.epsilon 1 and 2". A part
        that one of them lacks, such as an attribute, has one text for all its fields.
    """
    left, right = dict(_leaves(old)), dict(_leaves(new))
    names = [name for name in {**left, **right} if name not in ("fingerprint", "hash_key")]
    found = []
    for name in names:
        if left.get(name) == right.get(name):
            continue
        if name in left and (part := _lacking(name, right)):
            found.append(f"{part} present and none")
        elif name in right and (part := _lacking(name, left)):
            found.append(f"{part} none and present")
        else:
            found.append(f"{name} {_shown(left.get(name))} and {_shown(right.get(name))}")
    return list(dict.fromkeys(found))


def _lacking(name: str, other: Mapping[str, Any]) -> str:
    """Return the part around a field of which another form has no field; empty if it has some."""
    steps = name.split(".")
    for count in range(1, len(steps)):
        part = ".".join(steps[:count])
        if not any(each == part or each.startswith(f"{part}.") for each in other):
            return part
    return ""


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value) if f.init}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Fraction) else value


def _texts(attribute: Mapping[str, Any]) -> dict[str, Any]:
    categories = attribute.get("categories")
    atoms = tuple(attribute.get("atoms", ()))
    texts = {"categories": None if categories is None else tuple(categories)}
    return {**attribute, **texts, "atoms": atoms}


def _privacy(given: Mapping[str, Any]) -> Privacy:
    unit = given["unit"]
    return Privacy(**{**given, "unit": Span(**unit) if isinstance(unit, Mapping) else unit})


def _leaves(value: Any, name: str = "") -> "list[tuple[str, Any]]":
    if isinstance(value, Mapping):
        found = value.items()
    elif isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
        found = {str(each.get("name", place)): each for place, each in enumerate(value)}.items()
    else:
        return [(name, value)]
    parts = [(key if not name else f"{name}.{key}", each) for key, each in found]
    return [leaf for key, each in parts for leaf in _leaves(each, key)]


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
