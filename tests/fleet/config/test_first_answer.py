"""The line about the first answer, for `validate` and the collector's start."""

import re

from pansketch_fleet.config.sketch_summary import first_answer_text, first_answer_windows
from pansketch_fleet.units import about_text

ALL = r"usable after about (\d+) windows? \((.+)\) of one device"


def test_it_states_windows_and_time_of_one_device_and_of_those_expected(load_text, valid):
    (stream, *_) = load_text(valid).streams
    alone, together = (first_answer_windows(stream, devices) for devices in (1, 10))
    assert alone > together
    found = re.fullmatch(
        rf"{ALL}, or (\d+) windows? \((.+)\) of the 10 expected devices", first_answer_text(stream)
    )
    assert found
    assert (int(found[1]), int(found[3])) == (alone, together)
    assert found[2] == about_text(alone * stream.window_seconds)
    assert found[4] == about_text(together * stream.window_seconds)


def test_more_epsilon_and_more_readings_need_less(load_text, valid):
    (base, *_) = load_text(valid).streams
    epsilon = re.search(r"epsilon: [0-9.]+", valid)
    assert epsilon
    (louder, *_) = load_text(valid.replace(epsilon[0], "epsilon: 0.01")).streams
    assert first_answer_windows(louder) > first_answer_windows(base)
