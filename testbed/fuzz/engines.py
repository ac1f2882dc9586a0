"""The engines that search for a violated property: atheris if installed, else Hypothesis.

Hypothesis draws seeds with a few edits, and pieces in any order.
"""

import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from pansketch_fleet.child_process import Child
from testbed.fuzz.harness.checks import Watch, watching
from testbed.fuzz.harness.target import ROOT, Broken
from testbed.fuzz.targets.registry import TARGETS, starts

MAX_EDITS = 5


@dataclass
class Tally:
    """Number of inputs by outcome, and the last input that violated a property."""

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
    for _ in range(draw(st.integers(0, MAX_EDITS))):
        at = draw(st.integers(0, len(data)))
        gone = draw(st.sampled_from((0, 0, 1, 1, 2, 9, 99)))
        data = data[:at] + draw(pieces) + data[at + gone :]
    return data[:MAX_BYTES]


def draw_into(
    watch: Callable[[bytes], str], strategy: st.SearchStrategy[bytes], many: int, start: int
) -> Tally:
    """Run `many` inputs, which `start` determines; stop at a violated property and minimise its
    input."""
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


OnCount = Callable[[int], object]  # receives the number of inputs so far
ROUND = 200
MAX_BYTES = 16_384
MAX_SECONDS = 20  # of one input
MAX_RESIDENT_MIB = 2048
MAX_WORD = 64
_COUNT = re.compile(r"^#(\d+)\s")
_RUNS = re.compile(r"^stat::number_of_executed_units: (\d+)")
_ARTIFACT = re.compile(r"Test unit written to (.*)$")
_HOW = re.compile(r"^(?:Broken: |==\d+== ERROR: libFuzzer: )(.*)$")


@dataclass(frozen=True)
class Found:
    """The result of one target: number of inputs, and the one that violated a property, if any."""

    target: str
    runs: int
    how: str = ""
    input: Path | None = None


def available() -> str:
    """The better engine of those that are installed."""
    return "hypothesis" if find_spec("atheris") is None else "atheris"


def hypothesis(name: str, out: Path, seconds: float, seed: int, on_count: OnCount) -> Found:
    """Draw inputs until the time is over or a property is violated."""
    target, until, runs = TARGETS[name], time.monotonic() + seconds, 0
    strategy = inputs(starts(name), target.tokens)
    with tempfile.TemporaryDirectory() as folder, watching():
        watch = Watch(target, Path(folder), count_steps=True)
        while time.monotonic() < until:
            tally = draw_into(watch, strategy, ROUND, seed)
            runs, seed = runs + tally.runs, seed + 1
            on_count(runs)
            if tally.broken_by is not None:
                return Found(name, runs, tally.how, keep(out / name, tally.broken_by))
    return Found(name, runs)


def atheris(name: str, out: Path, seconds: float, seed: int, on_count: OnCount) -> Found:
    """The same in its own process, which keeps its findings in the folder `corpus`."""
    corpus, found = out / name / "corpus", out / name
    with tempfile.TemporaryDirectory() as scratch:
        seeds, files, words = (Path(scratch) / part for part in ("seeds", "files", "dictionary"))
        for folder in (corpus, seeds, files):
            folder.mkdir(parents=True, exist_ok=True)
        for data in starts(name):
            keep(seeds, data, "seed")
        words.write_text("# words\n" + "".join(map(_quoted, TARGETS[name].tokens)))
        flags = [
            f"-max_total_time={max(1, round(seconds))}", f"-seed={seed}", f"-dict={words}",
            f"-max_len={MAX_BYTES}", f"-timeout={MAX_SECONDS}", "-print_final_stats=1",
            f"-rss_limit_mb={MAX_RESIDENT_MIB}", f"-artifact_prefix={found}/",
        ]  # fmt: skip
        command = [sys.executable, "-m", "testbed.fuzz.atheris_run", name, str(files), "--", *flags]
        with Child(
            [*command, str(corpus), str(seeds)], cwd=ROOT, stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL, text=True, errors="replace",
        ) as child:  # fmt: skip
            try:
                assert child.stderr is not None
                return _read_output(name, child.stderr, on_count, child.wait)
            finally:
                child.kill()


def _read_output(
    name: str, lines: Iterable[str], on_count: OnCount, wait: Callable[[], int]
) -> Found:
    """The output of libFuzzer, line by line, until its end."""
    runs, how, artifact, last = 0, "", None, ""
    for line in map(str.strip, lines):
        last = line or last
        if said := _COUNT.match(line) or _RUNS.match(line):
            runs = int(said[1])
            on_count(runs)
        elif said := _HOW.match(line):
            how = how or said[1]
        elif said := _ARTIFACT.search(line):
            artifact = Path(said[1])
    if wait() and artifact is None:
        raise RuntimeError(f"{name}: the engine has failed: {last}")
    return Found(name, runs, how if artifact else "", artifact)


def keep(folder: Path, data: bytes, what: str = "crash") -> Path:
    """Writes an input under a name of its content."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{what}-{blake2b(data, digest_size=10).hexdigest()}"
    path.write_bytes(data)
    return path


def _quoted(token: bytes) -> str:
    """A line of libFuzzer's dictionary, which takes no long ones."""
    if len(token) > MAX_WORD:
        return ""
    escaped = "".join(rf"\x{byte:02x}" for byte in token)
    return f'"{escaped}"\n'


ENGINES: dict[str, Callable[[str, Path, float, int, OnCount], Found]] = {
    "atheris": atheris,
    "hypothesis": hypothesis,
}
