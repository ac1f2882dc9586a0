"""Neighbouring streams of keys: they differ by all appearances of one key.

A key may appear any number of times before the snapshot and after it, alone or in a batch with
others. The others' appearances may fall before, between and after its own.
"""

from collections.abc import Iterator
from itertools import cycle, islice, product
from typing import Any, Literal, NamedTuple

from pansketch_audit.mechanisms.subjects import Subject

Verb = Literal["update_many", "remove_many", "rerandomise"]
Place = Literal["first", "between", "last", "together"]

COUNTS = (0, 1, 2, 5, 100)
QUICK_COUNTS = (0, 1, 2, 100)
PLACES: tuple[Place, ...] = ("first", "between", "last", "together")
INSERTED: tuple[Verb, ...] = ("update_many",)
# If keys can be removed: appearances and removals in turn, beginning with either.
REMOVED: tuple[tuple[Verb, ...], ...] = (
    ("update_many", "remove_many"),
    ("remove_many", "update_many"),
)


class Action(NamedTuple):
    """One call of a sketch; `keys` are indices into the subject's universe."""

    verb: Verb
    keys: tuple[int, ...] = ()

    def on(self, sketch: Any, subject: Subject, rng: Any) -> None:
        if self.verb == "rerandomise":
            sketch.rerandomise(rng)
        else:
            getattr(sketch, self.verb)(subject.universe[list(self.keys)])


Script = tuple[Action, ...]
INTRUSION = Action("rerandomise")


class KeySequence(NamedTuple):
    """The calls of a sketch before the snapshot, and those after it."""

    before: Script
    after: Script


def single_actions(subject: Subject) -> Iterator[Action]:
    """Every call for one key of the universe."""
    verbs: tuple[Verb, ...] = ("update_many", "remove_many") if subject.removes else INSERTED
    yield from (Action(verb, (key,)) for verb in verbs for key in range(len(subject.universe)))


def key_neighbours(subject: Subject, quick: bool) -> Iterator[tuple[KeySequence, KeySequence]]:
    """Every pair without and with one key of the universe, `COUNTS` times before and after.

    The other keys appear not at all, one of them (unless `quick`), or all of them in one batch, on
    both sides of the snapshot.
    """
    keys = range(len(subject.universe))
    patterns = (INSERTED, *(REMOVED if subject.removes else ()))
    for unit, pattern in product(keys, patterns):
        for others, place in _company(tuple(key for key in keys if key != unit), quick):
            common = (Action("update_many", others),) if others else ()
            without = KeySequence(common, common)
            for counts in product(QUICK_COUNTS if quick else COUNTS, repeat=2):
                if any(counts):
                    before, after = (_woven(unit, pattern, n, others, place) for n in counts)
                    yield without, KeySequence(before, after)


def _company(others: tuple[int, ...], quick: bool) -> Iterator[tuple[tuple[int, ...], Place]]:
    """Which other keys appear, and where among the unit's appearances."""
    yield (), "first"
    single = [(key,) for key in others if len(others) > 1 and not quick]
    yield from product([*single, others], PLACES)


def _woven(
    unit: int, pattern: tuple[Verb, ...], count: int, others: tuple[int, ...], place: Place
) -> Script:
    """`count` calls for the unit, and one for the others in their place among them."""
    own = tuple(Action(verb, (unit,)) for verb in islice(cycle(pattern), count))
    if not others:
        return own
    common = (Action("update_many", others),)
    if place == "together" and own and own[0].verb == "update_many":
        # Twice in one batch, with the others in its midst.
        return (Action("update_many", (unit, *others, unit)), *own[1:])
    split = {"first": 0, "last": count}.get(place, count // 2)
    return own[:split] + common + own[split:]
