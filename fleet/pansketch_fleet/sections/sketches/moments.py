"""Sketches of type `moments`: sums of features, for means, covariances and counts.

No size comes from a profile. Omitted sizes fit the smallest profile, so that all devices of a fleet
release sums that can be added.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast, get_args

from pansketch import Domain, MomentsSpec, Privacy
from pansketch.sketches import Features
from pansketch_fleet.settings.profiles import Profile
from pansketch_fleet.settings.section import join, nearest, section
from pansketch_fleet.settings.sketch_schema import MomentsSection
from pansketch_fleet.units import number_text
from pansketch_fleet.yaml.document import Document

Size = int | float

COUNT_SHARE = 0.02
# The sizes of each kind of features, with their defaults.
SIZES: Mapping[str, Mapping[str, Size]] = {
    "rff": {"m": 200, "sigma": 1.0, "count_share": COUNT_SHARE},
    "race": {"rows": 80, "width": 80, "sigma": 1.0, "count_share": COUNT_SHARE},
    "hist": {"bins": 100, "count_share": COUNT_SHARE},
}
SMALLER = {"rff": "m", "race": "rows or width", "hist": "bins"}


@dataclass(frozen=True)
class MomentsSettings:
    """See `pansketch_fleet.settings.device_spec.SketchSettings`.

    `sizes`: those of the kind of features.
    """

    domain: Domain
    privacy: Privacy
    hash_key: int
    features: Features
    sizes: tuple[tuple[str, Size], ...]
    stated: frozenset[str]

    @property
    def smaller(self) -> str:
        return SMALLER[self.features]

    @property
    def fix(self) -> str:
        return "correct it or leave it out"

    def spec(self, profile: Profile) -> MomentsSpec:
        return MomentsSpec(
            self.domain,
            self.privacy,
            features=self.features,
            hash_key=self.hash_key,
            **cast(dict[str, Any], dict(self.sizes)),
        )

    def shown(self, profile: Profile) -> Iterator[tuple[str, str, str]]:
        yield "features", self.features, "default"
        for name, size in self.sizes:
            yield name, number_text(size), "default"


def read_moments(
    document: Document, where: str, raw: Any, domain: Domain, privacy: Privacy, hash_key: int
) -> MomentsSettings:
    """Read the section. Raises ConfigError at the key at fault; `spec` checks the sizes."""
    given = section(document, where, raw, MomentsSection)
    features = _features(document, join(where, "features"), given.features)
    known = SIZES[features]
    for name in raw:
        if name != "features" and name not in known:
            problem = f"does not go with features {features}, which have {', '.join(known)}"
            raise document.error(join(where, name), f"{problem}; remove it")
    stated = {name: size for name in known if (size := getattr(given, name)) is not None}
    sizes = tuple((name, stated.get(name, size)) for name, size in known.items())
    return MomentsSettings(domain, privacy, hash_key, features, sizes, frozenset(stated))


def _features(document: Document, where: str, given: str | None) -> Features:
    known = get_args(Features)
    if given is not None and given not in known:
        raise document.error(where, f"{given[:40]!r} is not supported; {nearest(given, known)}")
    return cast(Features, known[0] if given is None else given)
