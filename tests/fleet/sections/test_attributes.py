"""Attributes as sensors give them: steps, circles and constants, good and bad."""

from pathlib import Path

import pytest

from pansketch import Attribute
from pansketch_agent.diagnostics.validate_report import validation
from pansketch_agent.host.hardening import MemoryProtection
from pansketch_fleet.config.loader import describe

TEMP = "temp: {low: -40, high: 60, unit: degC}"
PM25 = "pm25: {low: 0, high: 1000, scale: log}"
WIND = "wind:\n        categories: [N, NO, E, off]"
VIEW = "    views: [[pm25, temp]]\n"
AIR = "streams.air.attributes."
LEARNED = TEMP[:-1] + ", scale: learned, knots: [-40, 5, 9, 14, 60]}"


@pytest.fixture
def with_all(valid):
    """The valid configuration with a step, a circle and two constants."""
    text = valid.replace(TEMP, TEMP[:-1] + ", step: 0.1}").replace(VIEW, "")
    text = text.replace(WIND, "wd: {low: 0, high: 360, cyclic: true}\n      site: {constant: 3}")
    return text.replace(PM25, PM25 + "\n      model:\n        categories: [A]")


def test_attributes_are_what_the_file_states(load_text, with_all):
    assert load_text(with_all).streams[0].spec.domain.attributes == (
        Attribute("temp", -40, 60, "degC", step=0.1),
        Attribute("pm25", 0, 1000, scale="log"),
        Attribute("model", categories=("A",)),
        Attribute("wd", 0, 360, cyclic=True),
        Attribute("site", constant=3),
    )


def test_a_step_changes_no_fingerprint_and_a_circle_does(load_text, valid):
    def fingerprint(old="", new=""):
        return load_text(valid.replace(old, new)).streams[0].spec.fingerprint

    assert fingerprint("unit: degC", "unit: degC, step: 0.1") == fingerprint()
    assert fingerprint("unit: degC", "unit: degC, cyclic: false") == fingerprint()
    assert fingerprint("unit: degC", "unit: degC, cyclic: true") != fingerprint()


def test_print_config_shows_them(load_text, with_all):
    found = {each.path: each.value_text for each in describe(load_text(with_all))}
    expected = {
        "temp.step": "0.1",
        "temp.cyclic": "false",
        "pm25.step": "none",
        "wd.cyclic": "true",
        "site.constant": "3",
        "model.categories": "[A]",
    }
    assert {name: found[AIR + name] for name in expected} == expected
    assert AIR + "site.low" not in found


def test_validate_shows_them(load_text, with_all):
    text = validation(load_text(with_all), MemoryProtection("", Path("/")))
    assert "temp (-40 to 60 degC in steps of 0.1)" in text
    assert "wd (0 to 360, cyclic)" in text
    assert "site (always 3)" in text
    assert "pm25 (0 to 1000, log)" in text


def test_a_learned_scale_is_read_shown_and_in_the_fingerprint(load_text, valid):
    config = load_text(valid.replace(TEMP, LEARNED))
    knots = (-40, 5, 9, 14, 60)
    wanted = Attribute("temp", -40, 60, "degC", "learned", knots=knots)
    assert config.streams[0].spec.domain.attributes[1] == wanted
    assert config.streams[0].spec.fingerprint != load_text(valid).streams[0].spec.fingerprint
    found = {each.path: each.value_text for each in describe(config)}
    assert (found[AIR + "temp.scale"], found[AIR + "temp.knots"]) == ("learned", "5 numbers")
    assert "temp (-40 to 60 degC, learned)" in validation(config, MemoryProtection("", Path("/")))


CASES = [
    (TEMP, TEMP[:-1] + ", step: 0}", 18, "temp.step", "0 is impossible; write the sensor's"),
    (TEMP, TEMP[:-1] + ", step: -0.1}", 18, "temp.step", "-0.1 is impossible"),
    (TEMP, TEMP[:-1] + ", step: 101}", 18, "temp.step", "101 is larger than the range"),
    (TEMP, TEMP[:-1] + ", step: .nan}", 18, "temp.step", "write a finite number"),
    (TEMP, TEMP[:-1] + ", step: fine}", 18, "temp.step", "is text; write a number"),
    (TEMP, TEMP[:-1] + ", step: 1e-300}", 18, "temp", "finer than numbers of this size"),
    (TEMP, TEMP[:-1] + ", setp: 1}", 18, "temp.setp", "unknown key; did you mean step?"),
    (PM25, PM25[:-1] + ", cyclic: true}", 19, "pm25.cyclic", "does not go with a log scale"),
    (TEMP, TEMP[:-1] + ", cyclic: 1}", 18, "temp.cyclic", "is a whole number; write true or false"),
    (
        TEMP,
        LEARNED.replace(", knots: [-40, 5, 9, 14, 60]", ""),
        18,
        "temp.knots",
        "`pansketch-coll",
    ),
    (TEMP, TEMP[:-1] + ", knots: [-40, 0, 60]}", 18, "temp.knots", "goes with scale: learned only"),
    (TEMP, LEARNED.replace("5, 9", "9, 5"), 18, "temp", "knots must rise"),
    (TEMP, LEARNED.replace("5, 9, 14", "5, 9"), 18, "temp", "a power of two and one"),
    (TEMP, LEARNED.replace("14, 60", "14, 50"), 18, "temp", "the last one high"),
    (TEMP, LEARNED.replace("[-40, 5, 9, 14, 60]", "5"), 18, "temp.knots", "write a list"),
    (TEMP, LEARNED[:-1] + ", cyclic: true}", 18, "temp.cyclic", "does not go with a learned scale"),
    (WIND, WIND + "\n        knots: [0, 1, 2]", 22, "wind.knots", "does not go with categories"),
    (WIND, WIND + "\n        step: 1", 22, "wind.step", "does not go with categories"),
    (WIND, WIND + "\n        cyclic: true", 22, "wind.cyclic", "does not go with categories"),
    (WIND, WIND + "\n        constant: 1", 22, "wind.constant", "does not go with categories"),
    (TEMP, TEMP[:-1] + ", constant: 1}", 18, "temp.low", "does not go with constant"),
    (TEMP, "temp: {constant: 1, step: 1}", 18, "temp.step", "does not go with constant"),
    (TEMP, "temp: {constant: 1, scale: log}", 18, "temp.scale", "does not go with constant"),
    (TEMP, "temp: {constant: 1, cyclic: true}", 18, "temp.cyclic", "does not go with constant"),
    (TEMP, "temp: {constant: .inf}", 18, "temp.constant", "write a finite number"),
    (TEMP, "temp: {constant: warm}", 18, "temp.constant", "is text; write a number"),
    (TEMP, "temp: {unit: degC}", 18, "temp.low", "or categories, or a constant"),
]


@pytest.mark.parametrize(("old", "new", "line", "where", "says"), CASES)
def test_bad_attributes_are_refused_where_they_stand(assert_refusal, old, new, line, where, says):
    assert_refusal(old, new, line, AIR + where, says)


def test_a_stream_of_constants_alone_is_refused(refusal):
    everything = f"{TEMP}\n      {PM25}\n      {WIND}\n{VIEW}"
    error = refusal(everything, "site: {constant: 3}\n")
    assert error.where == "streams.air.attributes"
    assert "needs an attribute that varies" in error.problem
    assert "; add one with low and high" in error.problem
