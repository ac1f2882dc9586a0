"""Coupled agents: the product's are alike, and every kind of leak is seen."""

import os
import threading
from collections import Counter, deque
from contextlib import contextmanager
from functools import cache

import numpy as np
import pytest

from pansketch.sketches import linear_counters
from pansketch_audit import report
from pansketch_audit.coupling.agent_cases import agent_cases, cases_of
from pansketch_audit.coupling.coupled_agents import coupled_agent
from pansketch_audit.coupling.reachable import memory_of_objects, memory_of_program
from pansketch_audit.planted_bugs.readings import bugs
from pansketch_fleet.config.loader import load_agent

DRAWS = [bug for bug in bugs() if bug.part == "draws"]
AGENTS = [bug for bug in bugs() if bug.part == "agent"]
# One of each kind; `pansketch audit` plants them all.
PLANTED = (
    *("views-share-noise", "counter-4097-bare", "slots-beyond-32768", "nan-drops-batch"),
    *("noise-in-module", "health-counts", "empty-windows-skipped", "limiter-slots-short"),
    *("log-line", "file-time", "late-tick", "status-tells", "cached-reading", "generator-advanced"),
    *("log-debug", "written-count", "datagram", "count-in-environment", "count-in-numpy"),
    *("file-elsewhere", "file-beside-state", "file-moved-out"),
    *("masks-lack-the-last", "masks-without-epoch", "count-beside-masks", "cache-of-first-key"),
    *("lengths-of-lines", "lines-counted"),
)


def test_agents_of_every_unit_are_alike(tmp_path):
    units = set()
    for case in agent_cases(3, 5, tmp_path):
        found, holds = coupled_agent(case)
        assert holds, found
        units.add(type(case.config.streams[0].plan.privacy.unit).__name__)
    assert units == {"str", "Span"}


@contextmanager
def files_of_another_thread():
    """A thread opens and closes files, as other parts of a process do."""
    over, changes = threading.Event(), 0

    def churn():
        nonlocal changes
        opened = []
        while not over.wait(0.001):
            changes += 1
            if len(opened) < 9 and changes % 3:
                opened.append(os.open(os.devnull, os.O_RDONLY))
            else:
                os.close(opened.pop(0))
        for handle in opened:
            os.close(handle)

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        yield lambda: changes
    finally:
        over.set()
        thread.join()


def test_other_threads_of_the_process_change_nothing(tmp_path):
    """Descriptors of files are in the agent's memory, and the kernel gives the lowest free one."""
    with files_of_another_thread() as changes:
        for case in agent_cases(3, 2, tmp_path):
            found, holds = coupled_agent(case)
            assert holds, found
        assert changes() > 100


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_caught(name):
    assert not report.plant(name).holds


def test_the_corpus_has_the_twenty_of_the_trial_and_as_many_more():
    names = [bug.name for bug in bugs()]
    assert len(set(names)) == len(names)
    assert len(DRAWS) + len(AGENTS) >= 40


def test_a_configuration_is_audited_stream_by_stream(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(
        "fleet: f\nmqtt: {url: 'mqtt://127.0.0.1:1'}\nagent: {device: d}\nstreams:\n  s:\n"
        "    source: {type: stdin}\n    window: 1h\n    privacy: {epsilon: 1}\n"
        "    attributes: {x: {low: 0, high: 1}}\n"
        "    sketches: [{type: hierarchy, depth: 4, k: 2, width: 4, rows: 1}]\n"
    )
    findings = report.audit_config(load_agent(path, {}))
    assert [finding.part for finding in findings] == ["draws", "agent", "agent", "agent"]
    assert all(finding.holds for finding in findings)
    assert "equality reached" in findings[0].measured
    (case, *_) = cases_of(load_agent(path, {}), 1, tmp_path)
    assert case.stream == "s"


class Holder:
    """Something with these attributes."""

    def __init__(self, **held):
        vars(self).update(held)


def remembering():
    @cache
    def twice(value):
        return 2 * value

    return twice


def test_memory_reaches_what_hides_in_functions_caches_and_generators():
    generator = np.random.default_rng(1)
    cache = remembering()
    held = Holder(cache=cache, generator=generator, closure=lambda: generator)
    before = memory_of_objects([held])
    assert memory_of_objects([held]) == before
    cache(21.5)
    after = memory_of_objects([held])
    assert after != before
    generator.random()
    assert memory_of_objects([held]) != after


def test_memory_reaches_the_locals_of_a_suspended_generator():
    def waiting(value):
        kept = value
        yield
        yield kept

    one, other = waiting(21.5), waiting(21.75)
    next(one), next(other)
    assert memory_of_objects([one]) != memory_of_objects([other])
    same = waiting(21.5)
    next(same)
    assert memory_of_objects([one]) == memory_of_objects([same])


class Held:
    """An instance of a class of another module."""

    count = 0


@pytest.mark.parametrize("held", [Counter(), Held(), deque()], ids=lambda held: type(held).__name__)
def test_an_instance_in_a_module_is_examined(held, monkeypatch):
    monkeypatch.setattr(linear_counters, "HELD", held, raising=False)
    before = memory_of_program()
    match held:
        case Counter():
            held["readings"] += 1
        case deque():
            held.append(1)
        case _:
            held.count += 1
    after = memory_of_program()
    ours = [name for name in after if name.startswith("pansketch")]
    differing = {name for name in ours if after[name] != before.get(name)}
    assert differing == {"pansketch.sketches.linear_counters.HELD"}
