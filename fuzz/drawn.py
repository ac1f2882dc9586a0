"""Inputs drawn by Hypothesis: seeds with a few edits, and pieces in any order."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from fuzz.target import Broken

MOST_EDITS = 5
MOST_BYTES = 16_384


@dataclass
class Tally:
    """How many inputs ended in which outcome; the last that broke a promise, and how."""

    outcomes: Counter[str] = field(default_factory=Counter)
    broken_by: bytes | None = None
    how: str = ""

    @property
    def runs(self) -> int:
        return self.outcomes.total()


def inputs(seeds: Sequence[bytes], tokens: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Mostly seeds with edits; `tokens`: what is worth putting somewhere."""
    pieces = st.binary(max_size=4) | _slices(seeds)
    if tokens:
        pieces |= st.sampled_from(tokens)
    return _edited(seeds, pieces) | st.lists(pieces, max_size=8).map(b"".join)


@st.composite
def _slices(draw: st.DrawFn, seeds: Sequence[bytes]) -> bytes:
    whole = draw(st.sampled_from(seeds))
    at = draw(st.integers(0, len(whole)))
    return whole[at : at + draw(st.integers(0, 40))]


@st.composite
def _edited(draw: st.DrawFn, seeds: Sequence[bytes], pieces: st.SearchStrategy[bytes]) -> bytes:
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(0, MOST_EDITS))):
        at = draw(st.integers(0, len(data)))
        gone = draw(st.sampled_from((0, 0, 1, 1, 2, 9, 99)))
        data = data[:at] + draw(pieces) + data[at + gone :]
    return data[:MOST_BYTES]


def draw_into(
    watch: Callable[[bytes], str], strategy: st.SearchStrategy[bytes], many: int, start: int
) -> Tally:
    """Runs `many` inputs, the same for the same `start`; stops at a broken promise, made small."""
    tally = Tally()

    @seed(start)
    @settings(
        max_examples=many,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(strategy)
    def each(data: bytes) -> None:
        try:
            tally.outcomes[watch(data)] += 1
        except Broken as broken:
            tally.broken_by, tally.how = data, str(broken)
            raise

    try:
        each()
    except Broken as broken:
        tally.how = str(broken)
    return tally
