"""Sketches of type `cells`: a count-sketch of a fine histogram, for densities and heavy cells.

No size comes from a profile. Omitted sizes fit the smallest profile, so that all devices of a fleet
release tables that can be summed.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from pansketch import CellsSpec, Domain, Privacy
from pansketch_fleet.settings.profiles import Profile
from pansketch_fleet.settings.section import section
from pansketch_fleet.settings.sketch_schema import CellsSection
from pansketch_fleet.yaml.document import Document

DEFAULT_DEPTH = 12
DEFAULT_WIDTH = 2048
DEFAULT_ROWS = 3


@dataclass(frozen=True)
class CellsSizes:
    """Sizes of a density sketch; the names are CellsSpec's."""

    depth: int
    width: int
    rows: int


@dataclass(frozen=True)
class CellsSettings:
    """See `pansketch_fleet.settings.device_spec.SketchSettings`."""

    domain: Domain
    privacy: Privacy
    hash_key: int
    sizes: CellsSizes
    stated: frozenset[str]

    @property
    def smaller(self) -> str:
        return "width or rows"

    @property
    def fix(self) -> str:
        return "correct it or leave it out"

    def spec(self, profile: Profile) -> CellsSpec:
        return CellsSpec(self.domain, self.privacy, hash_key=self.hash_key, **asdict(self.sizes))

    def shown(self, profile: Profile) -> Iterator[tuple[str, str, str]]:
        for name, size in asdict(self.sizes).items():
            yield name, str(size), "default"


def read_cells(
    document: Document, where: str, raw: Any, domain: Domain, privacy: Privacy, hash_key: int
) -> CellsSettings:
    """Read the section. Raises ConfigError at the key at fault; `spec` checks the sizes.

    An omitted depth shrinks to the possible halvings of the attributes.
    """
    given = section(document, where, raw, CellsSection)
    halvings = sum(attribute.max_bits for attribute in domain.attributes)
    sizes = CellsSizes(
        min(DEFAULT_DEPTH, halvings) if given.depth is None else given.depth,
        DEFAULT_WIDTH if given.width is None else given.width,
        DEFAULT_ROWS if given.rows is None else given.rows,
    )
    stated = {name for name in asdict(sizes) if getattr(given, name) is not None}
    return CellsSettings(domain, privacy, hash_key, sizes, frozenset(stated))
