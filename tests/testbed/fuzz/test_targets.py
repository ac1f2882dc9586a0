"""Every target keeps its properties: for seeds, former findings, and drawn inputs.

Inputs are the same in every run; `make fuzz` draws others for a chosen time.
"""

import pytest

from testbed.fuzz import engines as drawn
from testbed.fuzz.harness import checks as watch
from testbed.fuzz.harness import target
from testbed.fuzz.targets import registry as targets

DRAWN = 20
# Targets with tens of milliseconds an input: PyYAML in Python, pipes, the programs' parsers.
FEWER = {"config": 6, "config-section": 6, "lines": 8, "gzip-packed": 8, "csv": 8, "words": 12}

NEVER_TAKEN = {"tls"}  # A certificate that is taken needs a key, and keys are not kept here.


@pytest.fixture(params=list(targets.TARGETS))
def name(request):
    return request.param


def test_a_target_keeps_its_promises(name, tmp_path):
    """The target accepts some of its seeds: it must not pass by rejecting every input."""
    target, known = targets.TARGETS[name], targets.starts(name)
    with watch.watching():
        run = watch.Watch(target, tmp_path, count_steps=True)
        reached = set(map(run, known))
        strategy = drawn.inputs(known, target.tokens)
        tally = drawn.draw_into(run, strategy, FEWER.get(name, DRAWN), 1)
    assert (tally.how, tally.broken_by) == ("", None)
    assert (watch.TAKEN in reached) == (name not in NEVER_TAKEN)


def test_kept_inputs_are_of_targets():
    assert {folder.name for folder in target.KEPT.iterdir()} <= set(targets.TARGETS)
    assert sum(file.stat().st_size for file in target.KEPT.rglob("*")) < 1 << 20
