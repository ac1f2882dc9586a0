"""Which modules are mutated, and which tests and parts of the audit look at their mutants."""

from dataclasses import dataclass

RANDOMNESS = "tests/pansketch/randomness"
SKETCHES = "tests/pansketch/sketches"
BLINDING = "tests/pansketch/blinding"
WINDOWS = "tests/agent/windows"


@dataclass(frozen=True)
class Target:
    """A module, and who may notice that it is wrong.

    Args:
        module: its path.
        tests: arguments of pytest; a test slower than `runner.MAX_TEST_SECONDS` is left out.
        audit: the beginnings of the names of findings of `pansketch audit --quick`, which run once
            all tests have passed.
    """

    module: str
    tests: tuple[str, ...]
    audit: tuple[str, ...] = ()


SAMPLER = ("sampler, Laplace, scale 1/3", "sampler, Laplace, scale 157/10", "sampler, 12 chances")
LINEAR = ("hierarchy, sketched level, reading, silent", "density sketch, reading, announced")
# The most critical first.
TARGETS = (
    Target(
        "pansketch/randomness/exact_noise.py",
        (f"{RANDOMNESS}/test_exact_noise.py", f"{RANDOMNESS}/test_bernoulli.py"),
        SAMPLER,
    ),
    Target(
        "pansketch/randomness/geometric.py",
        (f"{RANDOMNESS}/test_geometric.py", f"{RANDOMNESS}/test_exact_noise.py"),
        SAMPLER,
    ),
    Target("pansketch/randomness/exp_bounds.py", (f"{RANDOMNESS}/test_geometric.py",), SAMPLER),
    Target(
        "pansketch/randomness/random_words.py",
        (f"{RANDOMNESS}/test_exact_noise.py", f"{RANDOMNESS}/test_geometric.py"),
    ),
    Target(
        "pansketch/sketches/linear_counters.py",
        (f"{SKETCHES}/test_hierarchy.py", f"{SKETCHES}/test_golden_hierarchy.py",
         f"{SKETCHES}/test_cells.py", f"{SKETCHES}/test_counter_bounds.py",
         f"{BLINDING}/test_blinded_sketch.py"),
        LINEAR,
    ),
    Target("agent/pansketch_agent/windows/rate_limiter.py", (f"{WINDOWS}/test_rate_limiter.py",)),
    Target(
        "pansketch/blinding/masks.py",
        (f"{BLINDING}/test_masks.py", f"{BLINDING}/test_blinded_sketch.py",
         f"{BLINDING}/test_sodium.py", f"{BLINDING}/test_answering.py",
         "tests/pansketch/wire/test_blinded_codec.py"),
        ("blinded, one snapshot",),
    ),
    Target(
        "pansketch/sketches/path_counting.py",
        (f"{SKETCHES}/test_hierarchy.py", f"{SKETCHES}/test_views.py"),
        LINEAR,
    ),
    Target(
        "pansketch/sketches/hierarchy.py",
        (f"{SKETCHES}/test_hierarchy.py", f"{SKETCHES}/test_golden_hierarchy.py"),
        LINEAR,
    ),
    Target(
        "pansketch/sketches/distinct/sketch.py",
        (f"{SKETCHES}/distinct/test_sketch.py", f"{SKETCHES}/distinct/test_leftovers.py"),
        ("distinct, counted, key, silent",),
    ),
    Target(
        "pansketch/sketches/count_sketch.py",
        (f"{SKETCHES}/test_cells.py", f"{SKETCHES}/test_count_sketch.py"),
    ),
    Target(
        "agent/pansketch_agent/windows/release_writer.py", (f"{WINDOWS}/test_release_writer.py",)
    ),
    Target(
        "agent/pansketch_agent/windows/window.py",
        tuple(f"{WINDOWS}/test_{name}.py" for name in
              ("window", "epochs", "clock_changes", "keys", "release_writer")),
    ),
    Target(
        "agent/pansketch_agent/status/health.py",
        ("tests/agent/status/test_health.py", "tests/agent/status/test_status.py"),
    ),
    Target(
        "keeper/pansketch_keeper/answering.py",
        ("tests/keeper/test_answering.py", "tests/keeper/test_ledger.py"),
    ),
    Target("pansketch/blinding/answering.py", (f"{BLINDING}/test_answering.py",)),
)  # fmt: skip
