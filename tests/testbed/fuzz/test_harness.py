"""The harness finds each planted fault, and none in its correct twin."""

import logging
import threading
from collections import Counter
from contextlib import contextmanager, nullcontext

import pytest

from testbed.fuzz import __main__ as program
from testbed.fuzz import engines
from testbed.fuzz import engines as drawn
from testbed.fuzz.harness import checks as watch
from testbed.fuzz.harness import target

MANY = 150
LIBFUZZER = """\
#2\tINITED cov: 8 ft: 8 corp: 1/1b exec/s: 0 rss: 76Mb
#512\tNEW    cov: 11 ft: 12 corp: 2/4b lim: 4 exec/s: 0 rss: 77Mb
 === Uncaught Python exception: ===
Broken: a release is encoded differently from what was decoded
==21411== ERROR: libFuzzer: fuzz target exited
artifact_prefix='/x/'; Test unit written to /x/crash-1
stat::number_of_executed_units: 700
"""


def number(data):
    """A decoder of one number; ValueError for all else."""
    if len(data) != 2:
        raise ValueError("a number has two bytes")
    return data[0] << 8 | data[1]


def sound(data):
    target.require(number(data).to_bytes(2, "big") == data, "another encoding")


def takes_what_follows(data):
    """Bytes after the number are not looked at."""
    target.require(number(data[:2]).to_bytes(2, "big") == data, "another encoding")


def shows_the_value(data):
    if not data.isdigit():
        raise ValueError(f"{data.decode('ascii', 'replace')!r} is no number")


def shows_it_in_the_cause(data):
    try:
        float(data)
    except ValueError as error:
        raise ValueError("no number") from error


def logs_the_value(data):
    logging.getLogger("planted").warning("got %r", data.decode("ascii", "replace"))


def raises_another_error(data):
    {b"temp": 1}[data]


def says_two_lines(data):
    raise ValueError("one\ntwo")


def says_too_much(data):
    raise ValueError("x" * 5000)


def believes_a_claim(data):
    bytearray(data[0] << 20 if data else 0)


KEPT = {}


def keeps_what_it_is_given(data):
    """Too much for an input, and never twice: only what stays of it shows that."""
    if data not in KEPT:
        KEPT[data] = bytearray(4 << 20)


def takes_ever_longer(data):
    for _ in range(len(data) ** 3):
        pass


PLANTED = [
    (takes_what_follows, "another encoding"),
    (shows_the_value, "something of the input"),
    (shows_it_in_the_cause, "something of the input"),
    (logs_the_value, "something of the input"),
    (raises_another_error, "KeyError is none of its errors"),
    (says_two_lines, "not one printable line"),
    (says_too_much, "5000 characters"),
    (believes_a_claim, "bytes of memory"),
    (keeps_what_it_is_given, "bytes are kept"),
    (takes_ever_longer, "more than"),
]


def of(run):
    return target.Target(
        "planted",
        lambda _folder: run,
        (ValueError,),
        lambda: [b"\x01\x02", b"temp", b"t 271828.182"],
        secret=True,
    )


def search(run, folder):
    planted = of(run)
    with watch.watching():
        look = watch.Watch(planted, folder, count_steps=True)
        return drawn.draw_into(look, drawn.inputs(planted.seeds(), ()), MANY, 1)


@pytest.mark.parametrize(("run", "how"), PLANTED, ids=[run.__name__ for run, _ in PLANTED])
def test_a_planted_fault_is_found(run, how, tmp_path):
    tally = search(run, tmp_path)
    assert tally.broken_by is not None
    assert how in tally.how


@contextmanager
def another_thread():
    """It holds more than an input may take, again and again."""
    stop = threading.Event()

    def hold():
        while not stop.wait(0.0001):
            held = bytearray(4 << 20)
            sum(range(1000))
            del held

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def broken_beside_another_thread(folder):
    """The number of false alarms for a correct target with some work, of 20 runs."""
    made, broken = {}, 0

    def run(data):
        if data not in made:
            made[data] = bytearray(2 << 20)
        for _ in range(40):
            sum(range(1000))

    with watch.watching(), another_thread():
        look = watch.Watch(of(run), folder)
        for number in range(20):
            try:
                look(bytes([number % 4]))
            except target.Broken:
                broken += 1
    return broken


def test_other_threads_and_what_is_made_once_are_not_the_cost_of_an_input(tmp_path, monkeypatch):
    assert broken_beside_another_thread(tmp_path) == 0
    monkeypatch.setattr(watch, "_alone", nullcontext)
    assert broken_beside_another_thread(tmp_path) > 0


def test_its_sound_twin_is_not_accused(tmp_path):
    tally = search(sound, tmp_path)
    assert (tally.broken_by, tally.how) == (None, "")
    assert set(tally.outcomes) == {"taken", "ValueError"}


def test_what_may_be_shown_of_an_input_is_its_public_part():
    assert watch.shown(b"a 271828", b"", "got 271828")
    assert not watch.shown(b"a 271828", b"271828", "got 271828")
    assert not watch.shown(b"a 27", b"", "got 27")


def test_draws_are_the_same_for_the_same_start():
    def outcomes(start):
        seen = Counter()
        drawn.draw_into(lambda data: seen.update([data]) or "", STRATEGY, 50, start)
        return seen

    assert outcomes(1) == outcomes(1) != outcomes(2)


STRATEGY = drawn.inputs([b"temp", b"wind"], [b"token"])


def test_a_broken_promise_is_kept_with_the_command_that_shows_it_again(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(program.TARGETS, "topic", of(takes_what_follows))
    words = ["--target", "topic", "--engine", "hypothesis", "--out", str(tmp_path)]
    assert program.main([*words, "--minutes", "0.05"]) == 1
    *_, command = capsys.readouterr().out.splitlines()
    assert command.startswith(
        f"python -m testbed.fuzz --target topic --input {tmp_path}/topic/crash-"
    )
    assert program.main(command.split()[3:]) == 1
    assert "another encoding" in capsys.readouterr().err


def test_kept_promises_are_exit_code_0(tmp_path, capsys):
    words = ["--target", "quantities", "--engine", "hypothesis", "--out", str(tmp_path)]
    assert program.main([*words, "--minutes", "0.01"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("engine: hypothesis; 1 target")
    assert "0 targets with a finding" in said


def test_the_guided_engine_is_understood():
    counts = []
    found = engines._read_output("wire", LIBFUZZER.splitlines(), counts.append, lambda: 77)
    assert counts == [2, 512, 700]
    assert (found.runs, str(found.input)) == (700, "/x/crash-1")
    assert found.how == "a release is encoded differently from what was decoded"
    with pytest.raises(RuntimeError, match="wire: the engine has failed"):
        engines._read_output("wire", ["no such module"], counts.append, lambda: 1)
