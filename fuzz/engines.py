"""The engines that look for a broken promise: atheris where it is installed, else Hypothesis."""

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path

from fuzz.drawn import draw_into, inputs
from fuzz.seeds import ROOT
from fuzz.targets import TARGETS, starts
from fuzz.watch import Watch, watching

Look = Callable[[int], object]  # is told how many inputs have run so far
ROUND = 200
MOST_BYTES = 16_384
SLOWEST_SECONDS = 20  # of one input
MOST_RESIDENT_MIB = 2048
MOST_WORD = 64
_COUNT = re.compile(r"^#(\d+)\s")
_RUNS = re.compile(r"^stat::number_of_executed_units: (\d+)")
_ARTIFACT = re.compile(r"Test unit written to (.*)$")
_HOW = re.compile(r"^(?:Broken: |==\d+== ERROR: libFuzzer: )(.*)$")


@dataclass(frozen=True)
class Found:
    """What came of one target: how many inputs ran, and the one that broke a promise, if any."""

    target: str
    runs: int
    how: str = ""
    input: Path | None = None


def available() -> str:
    """The better engine of those that are installed."""
    return "hypothesis" if find_spec("atheris") is None else "atheris"


def hypothesis(name: str, out: Path, seconds: float, seed: int, look: Look) -> Found:
    """Draws inputs until the time is over or a promise is broken."""
    target, until, runs = TARGETS[name], time.monotonic() + seconds, 0
    strategy = inputs(starts(name), target.tokens)
    with tempfile.TemporaryDirectory() as folder, watching():
        watch = Watch(target, Path(folder), count_steps=True)
        while time.monotonic() < until:
            tally = draw_into(watch, strategy, ROUND, seed)
            runs, seed = runs + tally.runs, seed + 1
            look(runs)
            if tally.broken_by is not None:
                return Found(name, runs, tally.how, keep(out / name, tally.broken_by))
    return Found(name, runs)


def atheris(name: str, out: Path, seconds: float, seed: int, look: Look) -> Found:
    """The same, in a process of its own. What it has learned stays in the folder `corpus`."""
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
            f"-max_len={MOST_BYTES}", f"-timeout={SLOWEST_SECONDS}", "-print_final_stats=1",
            f"-rss_limit_mb={MOST_RESIDENT_MIB}", f"-artifact_prefix={found}/",
        ]  # fmt: skip
        command = [sys.executable, "-m", "fuzz.guided", name, str(files), "--", *flags]
        with subprocess.Popen(
            [*command, str(corpus), str(seeds)], cwd=ROOT, stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL, text=True, errors="replace",
        ) as child:  # fmt: skip
            try:
                assert child.stderr is not None
                return _heard(name, child.stderr, look, child.wait)
            finally:
                child.kill()


def _heard(name: str, lines: Iterable[str], look: Look, wait: Callable[[], int]) -> Found:
    """What libFuzzer says, line by line, until it ends."""
    runs, how, artifact, last = 0, "", None, ""
    for line in map(str.strip, lines):
        last = line or last
        if said := _COUNT.match(line) or _RUNS.match(line):
            runs = int(said[1])
            look(runs)
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
    if len(token) > MOST_WORD:
        return ""
    escaped = "".join(rf"\x{byte:02x}" for byte in token)
    return f'"{escaped}"\n'


ENGINES: dict[str, Callable[[str, Path, float, int, Look], Found]] = {
    "atheris": atheris,
    "hypothesis": hypothesis,
}
