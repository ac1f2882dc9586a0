"""Answers of several releases of distinct counters: sums over disjoint keys, and unions."""

from collections.abc import Iterable
from math import sqrt
from typing import Literal

from pansketch.estimate import Estimate
from pansketch.sketches.distinct.spec import DistinctSpec
from pansketch.sketches.release_model import MergeError, Release, merge
from pansketch.sketches.slot_occupancy import together


def distinct_keys(
    releases: Iterable[Release], keys: Literal["disjoint", "shared"] = "disjoint"
) -> Estimate:
    """Estimate the number of distinct keys in several releases.

    Args:
        releases: of distinct counters.
        keys: "disjoint": no key is in two releases, so their estimates add up, also of different
            specs and windows. "shared": the releases are bitmaps of one window; their union counts.

    Returns:
        The estimated number and its standard error.

    Raises:
        ValueError: no releases, releases that count readings, or counts without a union.
        MergeError: a ValueError; bitmaps of several windows or specs have no union.
        NoEstimate: a ValueError; the noise outweighs the estimate.
    """
    given = list(releases)
    if not given:
        raise ValueError("no release was given")
    specs = [_spec(release) for release in given]
    if keys == "shared":
        return _union(given, specs)
    if keys != "disjoint":
        raise ValueError("keys must be disjoint or shared")
    groups: dict[bytes, list[Release]] = {}
    for release in given:
        groups.setdefault(release.spec.fingerprint, []).append(release)
    estimates = [part for group in groups.values() for part in _parts(group)]
    error = sqrt(sum(each.standard_error**2 for each in estimates))
    return Estimate(sum(each.value for each in estimates), error)


def frozen(release: Release) -> bool:
    """Return whether a device in a release stopped counting keys before its window ended.

    A device stops when an intrusion is announced to it. The window may then have had more keys than
    the release counts.

    Args:
        release: of distinct counters, merged or not.

    Returns:
        True if the release has more draws than its windows and its guarantee account for.

    Raises:
        ValueError: the release counts readings.
    """
    guarantee = _spec(release).guarantee
    return release.draws > release.count * guarantee.draws


def _spec(release: Release) -> DistinctSpec:
    if not isinstance(release.spec, DistinctSpec):
        raise ValueError(
            f"a release of family {release.spec.family} counts readings, not distinct keys"
        )
    return release.spec


def _union(releases: list[Release], specs: list[DistinctSpec]) -> Estimate:
    if any(spec.release == "count" for spec in specs):
        raise ValueError(
            "counts do not tell which keys they share: a union takes release='bitmap', or ask for "
            "the sum over disjoint keys"
        )
    if len({spec.fingerprint for spec in specs}) > 1:
        raise MergeError(
            "keys fall into other slots in other windows and specs: only the bitmaps of one window "
            "and spec have a union"
        )
    return merge(releases).distinct()


def _parts(group: list[Release]) -> list[Estimate]:
    """Estimates whose errors are independent, of releases of one spec.

    Disjoint sets of one universe are sampled by the same slots: the more keys one of them has
    there, the fewer the others have. So they are estimated together.
    """
    spec = _spec(group[0])
    if spec.universe is None or len(group) == 1:
        return [release.distinct() for release in group]
    devices = [release.count for release in group]
    found = [
        spec.estimator.occupancy(release.counters, count)
        for release, count in zip(group, devices, strict=True)
    ]
    return [spec.estimator.keys(together(found), max(devices))]
