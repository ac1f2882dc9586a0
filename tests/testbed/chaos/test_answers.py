"""`python -m testbed.chaos` with keepers: each window has one answer for each level, and a second
one would be noticed. The full size of this run is in docs/how-to/test-under-faults.md."""

import base64
import json
import shutil
from dataclasses import replace
from fractions import Fraction

import pytest

from pansketch.wire import encode_question
from testbed.chaos.accounting import answers, evidence
from testbed.chaos.environment.configuration import KEEPERS
from tests.packages import needs
from tests.testbed.chaos.small_run import ended, in_database, left_behind, start

KILLS = "keeper-killed,keeper-killed-answering,keeper-restored,collector-killed-asking"
SMALL = ("--devices", "4", "--windows", "8", "--faults", "10", "--kinds", KILLS)


@pytest.fixture(scope="module")
@needs("mosquitto", "openssl", "libfaketime")
def run(tmp_path_factory):
    """A finished run, which no test changes."""
    folder = tmp_path_factory.mktemp("chaos") / "run"
    code, said = ended(start(folder, *SMALL))
    assert code == 0, said
    assert left_behind(folder) == []
    return folder


@pytest.fixture
def copied(run, tmp_path):
    """The finished run once more, to be tampered with."""
    shutil.copytree(run, tmp_path / "run")
    return tmp_path / "run"


def settled(folder, **changes):
    """The account of the answers, with another `Run` if told so."""
    found = evidence.gather(folder)
    found = replace(found, run=replace(found.run, **changes))
    return answers.account(folder, found, answers.gather(folder))


def failures(folder, **changes):
    """All that is wrong, but for the share of what was answered."""
    found = settled(folder, **changes).failures
    return [each for each in found if not each.startswith("only ")]


def test_each_window_has_one_answer_for_each_level(run):
    found = settled(run)
    assert found.failures == ()
    totals = found.totals()
    assert totals[answers.ANSWERED] > 20
    waiting = totals[answers.NOT_OVER] + totals[answers.LATE]
    assert totals[answers.ANSWERED] + waiting == len(found.classes)
    assert "is an old copy, which has forgotten" in "".join(
        (run / "log" / f"{name}.log").read_text() for name in KEEPERS
    )


def rows(folder):
    return [json.loads(text) for text in (folder / answers.HEARD).read_text().splitlines()]


def add(folder, *more):
    with (folder / answers.HEARD).open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in more)


def test_an_answer_with_other_noise_is_noticed(copied):
    answer = next(row for row in rows(copied) if "answer" in row)
    other = bytearray(base64.b64decode(answer["answer"]))
    other[-1] ^= 1
    add(copied, answer | {"answer": base64.b64encode(other).decode()})
    digest = answer["to"][:12]
    said = failures(copied)
    assert f"{answer['keeper']}: question {digest} answered 2 times, differently" in said


def test_a_window_in_two_questions_of_a_level_is_noticed(copied):
    """The second question lists all windows but one, and has an answer of its own."""
    found = answers.gather(copied)
    question = next(q for q in found.questions.values() if len(q.windows) > 1)
    fewer = replace(question, windows=question.windows[1:])
    text = base64.b64encode(encode_question(fewer)).decode()
    observed = {"keeper": KEEPERS[0], "to": fewer.digest.hex(), "answer": "AAAA"}
    add(copied, observed)
    assert any("answered, and never asked" in each for each in failures(copied))
    add(copied, {"question": text})
    names = answers.levels_of(fewer)
    assert {f"{KEEPERS[0]}: {name} answered 2 times" for name in names} <= set(failures(copied))


def test_levels_that_cost_more_than_epsilon_are_noticed(copied):
    found = answers.gather(copied)
    question = next(iter(found.questions.values()))
    other = replace(question, level="7s", share=Fraction(1, 100))
    add(
        copied,
        {"question": base64.b64encode(encode_question(other)).decode()},
        {"keeper": KEEPERS[1], "to": other.digest.hex(), "answer": "AAAA"},
    )
    assert any("answered beyond its epsilon" in each for each in failures(copied))


def test_a_wrong_sum_is_noticed(copied):
    in_database(copied, "UPDATE questions SET counters = zeroblob(length(counters)) WHERE id = 1")
    assert any("its sum is not that" in each for each in failures(copied))


def test_what_is_lost_is_noticed_and_a_fault_excuses_what_it_names(copied):
    in_database(
        copied,
        "UPDATE window_levels SET question = NULL, problem = 'gone' WHERE question ="
        " (SELECT id FROM questions WHERE state = 'answered' AND windows > 1 LIMIT 1)",
    )
    lost = failures(copied)
    assert len(lost) > 1
    names = [text.partition(": unanswered: gone")[0] for text in lost]
    assert failures(copied, forgotten=frozenset(names)) == []
    assert failures(copied, forgotten=frozenset(names[1:])) == lost[:1]
    assert failures(copied, reset=frozenset({"dev-03", "dev-04"})) == lost, "another reason"


def test_a_window_that_waits_is_excused_while_its_period_is_not_over(copied):
    in_database(
        copied,
        "UPDATE window_levels SET question = NULL WHERE question ="
        " (SELECT id FROM questions WHERE state = 'answered' ORDER BY id DESC LIMIT 1)",
    )
    lost = failures(copied, asked_until=1e12)
    assert lost
    assert all("no question lists it" in text for text in lost)
    assert failures(copied, asked_until=0.0) == []
