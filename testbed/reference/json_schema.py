"""JSON Schemas of config.yaml and keeper.yaml, for editors: from the structs that read them.

It sees the file before `${...}` is filled in and with an editor's own idea of YAML's scalars. So a
text may look like a number, and a number may be a reference. It refuses what it cannot misjudge:
unknown and missing keys, wrong types, unknown words, impossible numbers, durations and sizes.
"""

from typing import Any, get_args, get_origin

from pansketch_fleet.protocol.topics import ID_PATTERN
from pansketch_fleet.settings.schema import FileSection
from pansketch_fleet.settings.section import Described, KeyDoc, Section, described
from pansketch_fleet.settings.sketch_schema import SKETCHES, SketchTypeSection
from pansketch_fleet.units import BYTES, NUMBER_PATTERN, SECONDS
from pansketch_keeper.settings import KeeperFileSection

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
REFERENCE: Schema = {"type": "string", "pattern": r"\$\{"}
NULL: Schema = {"type": "null"}
FORMS = {
    "duration": ("string", rf"{NUMBER_PATTERN} ?({'|'.join(SECONDS)})"),
    "size": ("string", rf"{NUMBER_PATTERN} ?({'|'.join(BYTES)})"),
    "address": ("string", r"mqtts?://\S+"),
    "name": (["string", "number"], ID_PATTERN),
}


def schema() -> Schema:
    """The schema of config.yaml."""
    return _whole("config.yaml of pansketch", FileSection)


def keeper_schema() -> Schema:
    """The schema of keeper.yaml."""
    return _whole("keeper.yaml of pansketch-keeper", KeeperFileSection)


def _whole(title: str, kind: type[Section]) -> Schema:
    return {"$schema": DIALECT, "title": title, **section_schema(kind)}


def section_schema(kind: type[Section], **more: Schema) -> Schema:
    """One section. `more`: further properties, which it must have."""
    keys = described(kind)
    return {
        "description": summary(kind),
        "type": "object",
        "properties": {**more, **{field.name: key_schema(field) for field in keys}},
        "required": [*more, *(field.name for field in keys if field.required)],
        "additionalProperties": False,
    }


def key_schema(field: Described) -> Schema:
    """One key: any of its types, with its description and its example left to the page."""
    found = [_value(kind, field.key) for kind in field.kinds]
    if field.nullable:
        found.append(NULL)
    about: Schema = {"description": plain(field.key.meaning)}
    if field.default is not None:
        about["default"] = field.default
    return about | (found[0] if len(found) == 1 else {"anyOf": found})


def summary(kind: type[Section]) -> str:
    """The first paragraph of a section's docstring, without links."""
    return plain(" ".join((kind.__doc__ or "").partition("\n\n")[0].split()))


def plain(text: str) -> str:
    """Markdown's links and code marks taken off."""
    while "](" in text:
        before, _, rest = text.partition("](")
        start = before.rindex("[")
        text = before[:start] + before[start + 1 :] + rest.partition(")")[2]
    return text.replace("`", "")


def _value(kind: Any, key: KeyDoc) -> Schema:
    if kind is str:
        return _text(key)
    if kind is bool:
        return {"anyOf": [{"type": "boolean"}, REFERENCE]}
    if kind in (int, float):
        bounds = {"minimum": key.low, "maximum": key.high}
        stated = {name: bound for name, bound in bounds.items() if bound is not None}
        return {
            "anyOf": [{"type": "integer" if kind is int else "number", **stated}, REFERENCE],
        }
    inner = get_args(kind)[-1]
    if get_origin(kind) is list:
        return {"type": "array", "items": _inner(inner, key)}
    if key.holds and not key.named:
        return _held(key)
    return {"type": "object", "additionalProperties": _inner(inner, key)}


def _inner(kind: Any, key: KeyDoc) -> Schema:
    if key.holds:
        return _held(key)
    if get_origin(kind) in (list, dict):
        return _value(kind, KeyDoc(key.meaning))
    return _text(KeyDoc(key.meaning))


def _held(key: KeyDoc) -> Schema:
    if SketchTypeSection in key.inner:
        found = [
            section_schema(kind, type={"description": summary(kind), "const": name})
            for name, kind in SKETCHES.items()
        ]
        for field in described(SketchTypeSection)[1:]:  # Beside `type`, which has one value each.
            for each in found:
                each["properties"][field.name] = key_schema(field)
    else:
        found = [section_schema(kind) for kind in key.inner]
    return found[0] if len(found) == 1 else {"anyOf": found}


def _text(key: KeyDoc) -> Schema:
    if key.values:
        return {"anyOf": [{"enum": [*key.values, *_numbers(key.values)]}, REFERENCE]}
    if key.form in FORMS:
        types, pattern = FORMS[key.form]
        return {"anyOf": [{"type": types, "pattern": f"^({pattern})$"}, REFERENCE]}
    return {"type": ["string", "number", "boolean"]}


def _numbers(values: tuple[str, ...]) -> list[int]:
    """Words that YAML reads as numbers: an editor has 5 for `protocol: 5`."""
    return [int(value) for value in values if value.isdigit()]
