"""`collector.home_assistant` in the configuration: off unless it is wanted, and strict."""

import pytest

from pansketch_fleet.config.loader import describe
from pansketch_fleet.settings.settings import HomeAssistant

DATABASE = "  database: kept/releases.sqlite\n"
AT = 25  # the line after it


@pytest.fixture
def wanting(load_text, valid):
    """The collector's settings with `home_assistant: TEXT`."""

    def load(text, program="collector"):
        return load_text(f"{valid}  home_assistant: {text}\n", program)

    return load


def test_it_is_off_by_default(load_text, valid):
    config = load_text(valid, "collector")
    assert config.collector.home_assistant is None
    shown = {s.path: (s.value_text, s.origin) for s in describe(config)}
    assert shown["collector.home_assistant"] == ("false", "default")


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("false", None),
        ("true", HomeAssistant("homeassistant", remove=False)),
        ("{}", HomeAssistant()),
        ("{prefix: home/discovery_2}", HomeAssistant("home/discovery_2")),
        ("{prefix: no}", HomeAssistant("no")),
        ("{remove: true}", HomeAssistant(remove=True)),
    ],
)
@pytest.mark.parametrize("program", ["agent", "collector"])
def test_what_it_becomes(wanting, text, settings, program):
    assert wanting(text, program).collector.home_assistant == settings


def test_print_config_shows_what_is_in_force_and_where_it_stands(wanting):
    shown = {s.path: s.value_text for s in describe(wanting("{prefix: there, remove: true}"))}
    assert shown["collector.home_assistant"] == "true"
    assert shown["collector.home_assistant.prefix"] == "there"
    assert shown["collector.home_assistant.remove"] == "true"
    (setting,) = (s for s in describe(wanting("true")) if s.path == "collector.home_assistant")
    assert setting.origin.endswith(f"config.yaml:{AT}")


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        ("homeassistant", "", "write true or false or keys with values"),
        ("[homeassistant]", "", "write true or false or keys with values"),
        ("1", "", "write true or false or keys with values"),
        ("{prefx: x}", ".prefx", "did you mean prefix?"),
        ("{remove: 'yes'}", ".remove", "write true or false"),
        ("{prefix: ''}", ".prefix", "no discovery prefix"),
        ("{prefix: '#'}", ".prefix", "no discovery prefix"),
        ("{prefix: home/+}", ".prefix", "no discovery prefix"),
        ("{prefix: /home}", ".prefix", "no discovery prefix"),
        ("{prefix: home/}", ".prefix", "no discovery prefix"),
        ("{prefix: $SYS}", ".prefix", "no discovery prefix"),
        ('{prefix: "home\\n"}', ".prefix", "a line break"),
        ("{prefix: a b}", ".prefix", "no discovery prefix"),
    ],
)
def test_what_makes_no_sense_is_refused(assert_refusal, text, where, says):
    spoiled = f"{DATABASE}  home_assistant: {text}\n"
    assert_refusal(DATABASE, spoiled, AT, f"collector.home_assistant{where}", says)
