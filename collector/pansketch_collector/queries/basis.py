"""The basis of an answer: the releases in it, their guarantees, and the releases left out."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import inf

from pansketch import Guarantee
from pansketch_collector.errors import CommandError
from pansketch_collector.storage.reader import Reader
from pansketch_collector.storage.tables.corruption import Damage
from pansketch_collector.storage.tables.records import Selection
from pansketch_fleet.config.privacy_cost import SharedCost

MAX_NAMED = 20  # damaged releases that are listed one by one
EXCLUDED = "excluded by the operator: see `pansketch-collector exclude --list`"
SETTINGS = "made with other settings than any that this collector served"


@dataclass(frozen=True)
class LeftOut:
    """Omitted releases, with one reason."""

    releases: int
    reason: str


@dataclass(frozen=True)
class EpochShare:
    """The releases of one epoch in an answer, and the guarantee of each.

    `since`: when the epoch was first served, in unix seconds; None if never.
    """

    releases: int
    guarantee: Guarantee
    since: int | None = None


@dataclass(frozen=True)
class Answered:
    """The keepers' answers in an answer.

    `questions`: their number. `keepers`: the minimum number of keepers of a question. `levels`: the
    names of the used levels. `excluded`: windows of excluded devices that cannot be subtracted.
    """

    questions: int
    keepers: int
    levels: tuple[str, ...]
    excluded: int = 0

    def __str__(self) -> str:
        """`4 answers of 2 keepers (level 1h), of whom one must be honest, ...`."""
        questions = f"{self.questions} answer{'s' * (self.questions != 1)}"
        levels = f"level{'s' * (len(self.levels) != 1)} {' and '.join(self.levels)}"
        text = (
            f"{questions} of {self.keepers} keepers ({levels}); assumed: one keeper is honest, and "
            "X25519, BLAKE2b and ChaCha20 hold"
        )
        if self.excluded:
            text += (
                f"; it holds {self.excluded} windows of excluded devices, which were answered "
                "before they were excluded: an answer cannot be taken apart"
            )
        return text


def answered_of(found: Sequence[Answered]) -> Answered | None:
    """The keepers' answers of several parts of one basis together."""
    if not found:
        return None
    levels = dict.fromkeys(name for each in found for name in each.levels)
    return Answered(
        sum(each.questions for each in found),
        min(each.keepers for each in found),
        tuple(levels),
        sum(each.excluded for each in found),
    )


@dataclass(frozen=True, kw_only=True)
class Basis:
    """The basis of an answer.

    `generator`: the name of the generator. `windows`: the number of releases, each of one window,
    from `devices` devices. `span`: the first start and the last end of their windows, in unix
    seconds. `guarantee`: of each under the configuration's own settings; `parts`: the same by
    epoch, the newest first. `left`: omitted releases. `groups`: the number of groups of devices for
    a median, 0 without one. `shared`: the epsilon that a record spends in all streams of its
    source, if it has several. `answered`: of a blinded stream, the keepers' answers.
    """

    generator: str
    windows: int
    devices: int
    span: tuple[int, int]
    guarantee: Guarantee
    left: tuple[LeftOut, ...] = ()
    parts: tuple[EpochShare, ...] = ()
    groups: int = 0
    shared: SharedCost | None = None
    answered: Answered | None = None

    @property
    def left_out(self) -> int:
        """The number of omitted releases."""
        return total(self.left)


def joined_span(found: Iterable[Basis]) -> tuple[int, int]:
    """The first start and the last end of several bases."""
    spans = [each.span for each in found]
    return min(start for start, _ in spans), max(end for _, end in spans)


def joined_parts(parts: Iterable[EpochShare]) -> Iterator[EpochShare]:
    """The shares of one epoch together, the newest first."""

    def age(part: EpochShare) -> tuple[float, str]:
        return -inf if part.since is None else -part.since, str(part.guarantee)

    for _, same in groupby(sorted(parts, key=age), age):
        found = list(same)
        yield replace(found[0], releases=sum(part.releases for part in found))


def joined_left(left: Iterable[LeftOut]) -> list[LeftOut]:
    """The omissions of one reason together, in the order of the first occurrence."""
    found = Counter[str]()
    for each in left:
        found[each.reason] += each.releases
    return [LeftOut(releases, reason) for reason, releases in found.items()]


def omitted_releases(
    found: Sequence[Damage], reader: Reader, selection: Selection, held: int = 0
) -> list[LeftOut]:
    """Excluded and damaged releases as omissions.

    `found`: newly detected damage; releases that were moved before are added. `held`: excluded
    releases that are part of keepers' answers, and so not omitted.
    """
    before = (Damage(*row) for row in reader.damaged(selection))
    names = [f"damaged: {each}" for each in (*found, *before)]
    listed = [LeftOut(1, name) for name in names[:MAX_NAMED]]
    if more := len(names) - len(listed):
        listed.append(LeftOut(more, "damaged: see `pansketch-collector verify`"))
    if (excluded := reader.excluded(selection) - held) > 0:
        listed.append(LeftOut(excluded, EXCLUDED))
    return listed


def nothing_usable(left: Sequence[LeftOut]) -> CommandError:
    """The error for a selection without a usable release, with the reasons."""
    reasons = "; ".join(f"{each.releases}: {each.reason}" for each in left[:3])
    return CommandError(f"none of the selected releases can be used ({reasons})")


def total(left: Iterable[LeftOut]) -> int:
    return sum(each.releases for each in left)


def omission_lines(left: Iterable[LeftOut]) -> list[str]:
    """`note: left out: 2 releases, made with ...`, a line for each reason."""
    return [
        f"note: left out: {each.releases} release{'s' * (each.releases != 1)}, {each.reason}"
        for each in left
    ]


def omissions_object(left: Sequence[LeftOut]) -> Mapping[str, object]:
    """`left_out`: the number of omitted releases, and the reasons."""
    reasons = [{"releases": each.releases, "reason": each.reason} for each in left]
    return {"left_out": total(left), "left_out_because": reasons}
