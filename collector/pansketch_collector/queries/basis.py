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

MAX_NAMED = 20  # damaged releases, one by one
EXCLUDED = "excluded by the operator: see `pansketch-collector exclude --list`"
SETTINGS = "made with other settings than any that this collector served"


@dataclass(frozen=True)
class LeftOut:
    """So many releases, for one reason."""

    releases: int
    reason: str


@dataclass(frozen=True)
class EpochShare:
    """How many releases of one epoch are in an answer, and what each of them promised. `since`:
    when the epoch was first served, in unix seconds; None for settings that never were."""

    releases: int
    guarantee: Guarantee
    since: int | None = None


@dataclass(frozen=True)
class Answered:
    """What an answer rests on besides its releases. `questions`: how many were answered; `keepers`:
    the least number of them that one question asked; `levels`: the names of those that are read;
    `excluded`: windows of excluded devices that cannot be taken out."""

    questions: int
    keepers: int
    levels: tuple[str, ...]
    excluded: int = 0

    def __str__(self) -> str:
        """`4 answers of 2 keepers (level 1h), of whom one must be honest, ...`."""
        questions = f"{self.questions} answer{'s' * (self.questions != 1)}"
        levels = f"level{'s' * (len(self.levels) != 1)} {' and '.join(self.levels)}"
        said = (
            f"{questions} of {self.keepers} keepers ({levels}); assumed: one keeper is honest, and "
            "X25519, BLAKE2b and ChaCha20 hold"
        )
        if self.excluded:
            said += (
                f"; it holds {self.excluded} windows of excluded devices, which were answered "
                "before they were excluded: an answer cannot be taken apart"
            )
        return said


def answered_of(found: Sequence[Answered]) -> Answered | None:
    """Those of several parts of one basis together."""
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
    """What an answer rests on.

    `generator`: the name of what read the releases. `windows`: how many releases there are, each of
    one window, of so many `devices`. `span`: the first start and the last end of their windows, in
    unix seconds. `guarantee` is what each of them promised under the configuration's own settings,
    `parts` what those of each epoch did, the newest first. `left`: what is not in it. `groups`: how
    many groups of devices were asked apart, 0 where all devices were asked together. `shared`: what
    a record pays in all streams of its source, where there are several. `answered`: of a blinded
    stream, the keepers' answers.
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
        """How many releases are not in it."""
        return total(self.left)


def joined_span(found: Iterable[Basis]) -> tuple[int, int]:
    """The first start and the last end of several."""
    spans = [each.span for each in found]
    return min(start for start, _ in spans), max(end for _, end in spans)


def joined_parts(parts: Iterable[EpochShare]) -> Iterator[EpochShare]:
    """Those of one epoch together, the newest first."""

    def age(part: EpochShare) -> tuple[float, str]:
        return -inf if part.since is None else -part.since, str(part.guarantee)

    for _, same in groupby(sorted(parts, key=age), age):
        found = list(same)
        yield replace(found[0], releases=sum(part.releases for part in found))


def joined_left(left: Iterable[LeftOut]) -> list[LeftOut]:
    """Those of one reason together, in the order in which reasons come first."""
    found = Counter[str]()
    for each in left:
        found[each.reason] += each.releases
    return [LeftOut(releases, reason) for reason, releases in found.items()]


def set_aside(
    found: Sequence[Damage], reader: Reader, selection: Selection, held: int = 0
) -> list[LeftOut]:
    """Releases that the operator excludes, but for those that are `held` in keepers' answers; and
    damaged ones, each named: those just found, and those that were set aside before."""
    before = (Damage(*row) for row in reader.damaged(selection))
    names = [f"damaged: {each}" for each in (*found, *before)]
    listed = [LeftOut(1, name) for name in names[:MAX_NAMED]]
    if more := len(names) - len(listed):
        listed.append(LeftOut(more, "damaged: see `pansketch-collector verify`"))
    if (excluded := reader.excluded(selection) - held) > 0:
        listed.append(LeftOut(excluded, EXCLUDED))
    return listed


def nothing_usable(left: Sequence[LeftOut]) -> CommandError:
    """The failure to raise where nothing that was selected can be used: why not."""
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
    """`left_out`, how many, and why."""
    because = [{"releases": each.releases, "reason": each.reason} for each in left]
    return {"left_out": total(left), "left_out_because": because}
