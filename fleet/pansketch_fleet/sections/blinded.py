"""`keepers:`, and the settings of a blinded stream for its masks and its answers.

Everything here is public: a keeper's private key is in no configuration. libsodium checks whether a
public key hides anything, at the agent's start and by `validate`.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from pansketch.privacy import MAX_KEEPERS, MIN_KEEPERS
from pansketch_fleet.protocol.topics import ID_RULE, is_id
from pansketch_fleet.settings.privacy_schema import (
    MAX_INNER_EPOCHS,
    MAX_LEVELS,
    AnswersSection,
    KeeperSection,
    PrivacySection,
)
from pansketch_fleet.settings.section import join, nearest, section
from pansketch_fleet.settings.settings import AnswerLevel, BlindedSettings, KeeperKeys
from pansketch_fleet.units import duration_text, seconds
from pansketch_fleet.yaml.document import Document

KEY = re.compile(r"[0-9a-fA-F]{64}")
# Denominators are at most 10**6: keepers answer no others.
SHARE = re.compile(r"[0-9]{1,6}/[0-9]{1,6}|[0-9]{0,6}(?:\.[0-9]{1,6})?")
EPOCHS_IN_A_WINDOW = 24
MIN_EPOCH_SECONDS = 60
MAX_EVERY_SECONDS = 3660 * 86400
MAX_LATENESS_SECONDS = 366 * 86400
USUAL_LATENESS_SECONDS = 86400


def read_keepers(document: Document, raw: dict[str, Any] | None) -> dict[str, KeeperKeys]:
    """Return the keepers by name, in the order of the file. Raises ConfigError."""
    found: dict[str, KeeperKeys] = {}
    seen: dict[bytes, str] = {}
    for name, each in (raw or {}).items():
        where = f"keepers.{name}"
        if not is_id(name):
            raise document.error(where, f"a keeper's name must be {ID_RULE}; rename it")
        given = section(document, where, each, KeeperSection)
        places = [join(where, "key")]
        places += [f"{where}.previous[{n}]" for n in range(len(given.previous or ()))]
        keys = []
        for place, text in zip(places, (given.key, *(given.previous or ())), strict=True):
            keys.append(_key(document, place, text))
            if keys[-1] in seen:
                problem = f"is the key of {seen[keys[-1]]} too, and one key is one keeper"
                raise document.error(place, f"{problem}; correct one of them")
            seen[keys[-1]] = place
        found[name] = KeeperKeys(keys[0], tuple(keys[1:]))
    return found


def _key(document: Document, where: str, text: str) -> bytes:
    if KEY.fullmatch(text) is None:
        problem = "is no public key; write the 64 hexadecimal digits that pansketch-keeper prints"
        raise document.error(where, problem)
    return bytes.fromhex(text)


def read_blinded(
    document: Document,
    where: str,
    raw: dict[str, Any],
    window_seconds: int,
    keepers: Mapping[str, KeeperKeys],
) -> BlindedSettings | None:
    """Read the masks and answers of the section `privacy` of a stream; None with local noise.

    Raises ConfigError. `where`: the path of the section.
    """
    given = section(document, where, raw, PrivacySection)
    if given.aggregation != "blinded":
        return None
    names = _names(document, where, given.keepers, keepers)
    return BlindedSettings(
        names,
        tuple(keepers[name].key for name in names),
        _epoch(document, join(where, "epoch"), given.epoch, window_seconds),
        _levels(document, join(where, "answers"), given.answers, window_seconds),
        _lateness(document, join(where, "lateness"), given.lateness, window_seconds),
    )


def _names(
    document: Document, where: str, given: list[str] | None, keepers: Mapping[str, KeeperKeys]
) -> tuple[str, ...]:
    place = join(where, "aggregation" if given is None else "keepers")
    names = tuple(keepers) if given is None else tuple(given)
    for number, name in enumerate(names):
        if name not in keepers:
            fix = nearest(name, tuple(keepers)) if keepers else "add it to keepers of the file"
            raise document.error(f"{place}[{number}]", f"{name[:40]!r} is no keeper; {fix}")
        if name in names[:number]:
            raise document.error(f"{place}[{number}]", f"repeats {name}; name each keeper once")
    if not MIN_KEEPERS <= len(names) <= MAX_KEEPERS:
        needs = f"needs {MIN_KEEPERS} to {MAX_KEEPERS} keepers, and there are {len(names)}"
        fix = "add keepers to the file" if given is None else "name others"
        raise document.error(place, f"{needs}; {fix}")
    return names


def _epoch(document: Document, where: str, text: str | None, window_seconds: int) -> int:
    if text is None:
        usual = max(MIN_EPOCH_SECONDS, -(-window_seconds // EPOCHS_IN_A_WINDOW))
        return min(usual, window_seconds)
    length = _whole_seconds(document, where, text, "10m")
    if not MIN_EPOCH_SECONDS <= length <= window_seconds:
        problem = f"{text} is impossible; write 1m to the window, {duration_text(window_seconds)}"
        if window_seconds < MIN_EPOCH_SECONDS:
            problem = f"{text} is impossible in so short a window; leave it out"
        raise document.error(where, problem)
    if -(-window_seconds // length) > MAX_INNER_EPOCHS:
        least = duration_text(-(-window_seconds // MAX_INNER_EPOCHS))
        problem = f"{text} makes more than {MAX_INNER_EPOCHS} epochs of a window"
        raise document.error(where, f"{problem}; write {least} or more")
    return length


def _levels(
    document: Document, where: str, raw: list[dict[str, Any]] | None, window_seconds: int
) -> tuple[AnswerLevel, ...]:
    if raw is None:
        return (AnswerLevel(window_seconds, Fraction(1)),)
    if not 1 <= len(raw) <= MAX_LEVELS:
        problem = f"has {len(raw)} levels; write 1 to {MAX_LEVELS}, or leave it out"
        raise document.error(where, problem)
    found: list[AnswerLevel] = []
    for number, each in enumerate(raw):
        place = f"{where}[{number}]"
        given = section(document, place, each, AnswersSection)
        every = _every(document, join(place, "every"), given.every, window_seconds)
        if every in [level.every_seconds for level in found]:
            problem = f"{given.every} is a level before it too; name each period once"
            raise document.error(join(place, "every"), problem)
        found.append(AnswerLevel(every, _share(document, join(place, "share"), given.share)))
    total = sum((level.share for level in found), Fraction(0))
    if total > 1:
        problem = f"the shares add up to {float(total):.9g}; correct them to 1 or less"
        raise document.error(where, problem)
    return tuple(found)


def _every(document: Document, where: str, text: str, window_seconds: int) -> int:
    every = _whole_seconds(document, where, text, "1d")
    if not 1 <= every <= MAX_EVERY_SECONDS or every % window_seconds:
        window = duration_text(window_seconds)
        problem = f"{text} is no multiple of the window, {window}, up to 3660d"
        raise document.error(where, f"{problem}; write one, such as {window}")
    return every


def _share(document: Document, where: str, text: str) -> Fraction:
    try:
        share = Fraction(text) if text and SHARE.fullmatch(text) else Fraction(0)
    except ZeroDivisionError:
        share = Fraction(0)
    if not 0 < share <= 1:
        problem = f"{text[:40]!r} is no share; write one above 0 and at most 1, such as 1/2"
        raise document.error(where, problem)
    return share


def _lateness(document: Document, where: str, text: str | None, window_seconds: int) -> int:
    if text is None:
        return min(window_seconds, USUAL_LATENESS_SECONDS)
    length = _whole_seconds(document, where, text, "10m")
    if length > MAX_LATENESS_SECONDS:
        raise document.error(where, f"{text} is longer than a year; write 10m, or less than 366d")
    return length


def _whole_seconds(document: Document, where: str, text: str, usual: str) -> int:
    try:
        length = seconds(text)
    except ValueError as error:
        raise document.error(where, str(error)) from None
    if length != int(length):
        problem = f"{text} is not whole; write whole seconds, such as {usual}"
        raise document.error(where, problem)
    return int(length)
