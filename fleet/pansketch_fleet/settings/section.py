"""A section of a configuration: the reference of its keys, and its parser to a struct.

The reference page and the JSON Schema are made from these keys (`python -m testbed.reference`).
"""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from pansketch_fleet.errors import ConfigError
from pansketch_fleet.yaml.document import Document

Form = Literal["duration", "size", "path", "name", "address"]
Reader = Literal["agent", "collector", "agent and collector"]


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of all sections: they are frozen and refuse unknown keys."""


@dataclass(frozen=True)
class KeyDoc:
    """The description of one key.

    `example` is its value as YAML. `values` are all allowed ones; `low` and `high` bound a number,
    inclusive; `allowed` states a rule that these cannot. `default` describes the value of an
    omitted key without a default in its field. `holds`: the section inside it, several if its
    `type` chooses one; `named`: it has a section under each name. `reader`: the program that uses
    the value, if not that of the section around it.
    """

    meaning: str
    example: str = ""
    form: Form | None = None
    values: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    allowed: str = ""
    default: str = ""
    unit: str = ""
    reader: Reader | None = None
    holds: type[Section] | tuple[type[Section], ...] = ()
    named: str = ""

    @property
    def inner(self) -> tuple[type[Section], ...]:
        """The sections that it may contain."""
        return self.holds if isinstance(self.holds, tuple) else (self.holds,)


@dataclass(frozen=True)
class Described:
    """A field of a section: its types without None, its key, and its default (None: no value).

    `nullable`: the file may have the key without a value.
    """

    name: str
    kinds: tuple[Any, ...]
    key: KeyDoc
    required: bool
    nullable: bool
    default: Any


@cache
def described(kind: type[Section]) -> tuple[Described, ...]:
    """Return every key of a section, in its order."""
    return tuple(_field(field) for field in msgspec.structs.fields(kind))


def _field(field: msgspec.structs.FieldInfo) -> Described:
    assert get_origin(field.type) is Annotated, f"{field.name} has no Key"
    plain, key = get_args(field.type)[:2]
    kinds = get_args(plain) if get_origin(plain) in (UnionType, Union) else (plain,)
    default = None if field.default is msgspec.NODEFAULT else field.default
    nullable = type(None) in kinds
    kinds = tuple(kind for kind in kinds if kind is not type(None))
    return Described(field.name, kinds, key, field.required, nullable, default)


@cache
def text_paths(kind: type[Section]) -> tuple[tuple[str, ...], ...]:
    """Return the paths of all text values ("*": any key), for `yaml.document.parse`.

    It reads them as written: NO stays a wind direction, and 007 a device.
    """
    return tuple(dict.fromkeys(_texts(kind, ())))


def _texts(kind: type[Section], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for field in described(kind):
        here = (*path, field.name)
        for each in field.kinds:
            yield from _texts_of(each, here)
        lists = any(get_origin(each) is list for each in field.kinds)
        inner = (*here, "*") if field.key.named or lists else here
        for held in field.key.inner:
            yield from _texts(held, inner)


def _texts_of(kind: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if kind is str:
        yield path
    elif get_origin(kind) in (list, dict):
        yield from _texts_of(get_args(kind)[-1], (*path, "*"))


SectionT = TypeVar("SectionT", bound=Section)

_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")
_TYPE = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")
_PLACE = re.compile(r" - at `\$\.?(.*)`\Z", re.DOTALL)
_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "keys with values",
    "array": "a list",
    "null": "nothing",
}


def section(document: Document, where: str, raw: Any, kind: type[SectionT]) -> SectionT:
    """Convert one section of a document to a struct. Raises ConfigError that names the key at
    fault.
    """
    try:
        return msgspec.convert(raw, type=kind)
    except msgspec.ValidationError as error:
        message = _named(raw, kind, str(error))
        raise _refusal(document, where, message, kind.__struct_fields__) from None


def _named(raw: Any, kind: type[Section], message: str) -> str:
    """Name the key at fault in a mapping with keys of any name: msgspec calls it `[...]`."""
    place = _PLACE.search(message)
    field, anywhere, _ = (place[1] if place else "").partition("[...]")
    if not anywhere or not isinstance(held := raw.get(field), dict):
        return message
    for name, value in held.items():
        try:
            msgspec.convert({**raw, field: {name: value}}, type=kind)
        except msgspec.ValidationError as error:
            return str(error).replace("[...]", f".{name}", 1)
    return message


def _refusal(document: Document, where: str, message: str, known: tuple[str, ...]) -> ConfigError:
    place = _PLACE.search(message)
    here = join(where, place[1] if place else "")
    if unknown := _UNKNOWN.search(message):
        return document.error(join(here, unknown[1]), f"unknown key; {nearest(unknown[1], known)}")
    if missing := _MISSING.search(message):
        return document.error(
            join(here, missing[1]), f"is missing; add {missing[1]}: to {here or 'the file'}"
        )
    if wrong := _TYPE.search(message):
        wanted, got = _words(wrong[1].removesuffix(" | null")), _words(wrong[2])
        return document.error(here, f"is {got}; write {wanted}")
    return document.error(here, "is out of range; write a smaller number")


def _words(kinds: str) -> str:
    return " or ".join(_WORDS.get(kind, kind) for kind in kinds.split(" | "))


def join(where: str, key: str) -> str:
    """Append a step to a dotted path; an empty step changes nothing."""
    return f"{where}.{key}" if where and key else where or key


def nearest(word: str, known: tuple[str, ...]) -> str:
    """Return the probable meaning of a mistyped word, or all choices."""
    close = difflib.get_close_matches(word, known, 1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else f"use one of {', '.join(known)}"
