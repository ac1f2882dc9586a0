"""Sketches of type `distinct`: the number of distinct keys of a window.

No size comes from a profile: a union needs bitmaps of one size on devices of all classes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

from pansketch import DistinctSpec, Privacy
from pansketch.sketches import Form, Variant
from pansketch_fleet.settings.profiles import Profile
from pansketch_fleet.settings.section import join, nearest, section
from pansketch_fleet.settings.sketch_schema import DistinctSection
from pansketch_fleet.units import size_bytes, size_text
from pansketch_fleet.yaml.document import Document

DEFAULT_MEMORY_BYTES = 4096
BOTH = "does not go with expected_keys; keep universe for keys numbered from 0, the other for texts"


@dataclass(frozen=True)
class DistinctSettings:
    """See `pansketch_fleet.settings.device_spec.SketchSettings`.

    At most one of `universe` and `expected_keys` is set.
    """

    privacy: Privacy
    hash_key: int
    universe: int | None
    expected_keys: int | None
    memory_bytes: int
    variant: Variant
    release: Form
    stated: frozenset[str]

    @property
    def smaller(self) -> str:
        return "memory"

    @property
    def fix(self) -> str:
        return "correct it"

    def spec(self, profile: Profile) -> DistinctSpec:
        try:
            return DistinctSpec(
                privacy=self.privacy,
                universe=self.universe,
                expected_keys=self.expected_keys,
                memory=self.memory_bytes,
                variant=self.variant,
                release=self.release,
                hash_key=self.hash_key,
            )
        except ValueError as error:
            at_fault = "variant " if str(error).startswith(self.variant) else ""
            raise ValueError(f"{at_fault}{error}") from None

    def shown(self, profile: Profile) -> Iterator[tuple[str, str, str]]:
        for name, number in (("universe", self.universe), ("expected_keys", self.expected_keys)):
            if number is not None:
                yield name, str(number), "default"
        yield "memory", size_text(self.memory_bytes), "default"
        yield "variant", self.variant, "default"
        yield "release", self.release, "default"
        spec = self.spec(profile)
        if spec.levels:
            yield "tracked", str(spec.tracked), "derived"
            yield "levels", str(len(spec.levels)), "derived"
            return
        for name, number in (
            ("tracked", spec.tracked),
            ("slots", spec.slots),
            ("level", spec.level),
        ):
            yield name, str(number), "derived"


def read_distinct(
    document: Document, where: str, raw: Any, privacy: Privacy, hash_key: int
) -> DistinctSettings:
    """Read the section. Raises ConfigError at the key at fault; `spec` checks the sizes."""
    given = section(document, where, raw, DistinctSection)
    if given.universe is not None and given.expected_keys is not None:
        raise document.error(join(where, "universe"), BOTH)
    variant = _one_of(document, join(where, "variant"), given.variant, get_args(Variant))
    form = _one_of(document, join(where, "release"), given.release, get_args(Form))
    if variant != "ppds" and given.universe is None:
        problem = f"{variant} samples an enumerated universe; write universe, or variant: ppds"
        raise document.error(join(where, "variant"), problem)
    return DistinctSettings(
        privacy,
        hash_key,
        given.universe,
        given.expected_keys,
        _memory(document, join(where, "memory"), given.memory),
        variant,
        form,
        frozenset(raw),
    )


def _one_of(document: Document, where: str, given: str | None, known: tuple[str, ...]) -> Any:
    if given is None:
        return known[0]
    if given not in known:
        raise document.error(where, f"{given[:40]!r} is not supported; {nearest(given, known)}")
    return given


def _memory(document: Document, where: str, text: str | None) -> int:
    try:
        size = DEFAULT_MEMORY_BYTES if text is None else size_bytes(text)
    except ValueError as error:
        raise document.error(where, str(error)) from None
    if size < 1:
        raise document.error(where, "is nothing; write a positive size, such as 4KiB")
    return size
