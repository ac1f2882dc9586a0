"""For any file, `load` returns a Config or raises a ConfigError of one line."""

import contextlib

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pansketch_fleet.config.loader import Config, ConfigError, load_agent
from tests.configurations import LOADERS

CAREFUL = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
SYNTAX = [*"[]{}:,#&*!|>'\"%@`-?\n\t $\\", "\n  ", "!!", "!!int ", "---\n", "...\n", "<<: "]
REFERENCES = ["${", "${X}", "${X:-", "${file:x}", "$$", "%YAML 9.9\n", '"\\ud800"', "\\U11ffffff"]
VALUES = ["null", "~", ".inf", ".nan", "0x", "1e999", "9" * 5000, "-1", "0", "''", "no", "[[]]"]
CHARACTERS = ["\x85", "\ufeff", "\u2028", "\xa0", "\r", "\r\n", "\x00", "\xe9", "\U0001f321"]
FRAGMENTS = st.sampled_from(SYNTAX + REFERENCES + VALUES + CHARACTERS)


def outcome(folder, data: bytes, program: str) -> Config | None:
    path = folder / "config.yaml"
    path.write_bytes(data)
    config, refusal = None, None
    try:
        config = LOADERS[program](path, {})
    except ConfigError as error:
        refusal = error
    if refusal is not None:
        assert str(refusal).isprintable()
        assert str(refusal).startswith(str(path))
        assert refusal.line <= data.count(b"\n") + 1, "a line that is in the file"
    return config


@CAREFUL
@given(data=st.binary(max_size=400), program=st.sampled_from(["agent", "collector"]))
def test_any_bytes(tmp_path, data, program):
    outcome(tmp_path, data, program)


@CAREFUL
@given(text=st.text(max_size=400) | st.lists(FRAGMENTS, max_size=40).map("".join))
def test_any_text(tmp_path, text):
    outcome(tmp_path, text.encode("utf-8", "surrogatepass"), "agent")


@CAREFUL
@given(data=st.data())
def test_a_good_file_with_a_wound(tmp_path, data, valid):
    """Most of these get past the YAML parser and into the checks behind it."""
    (tmp_path / "air.csv").touch()
    start = data.draw(st.integers(0, len(valid)))
    end = min(len(valid), start + data.draw(st.sampled_from([0, 1, 1, 2, 5, 20])))
    new = data.draw(FRAGMENTS | st.text(max_size=6) | st.floats().map(str) | st.integers().map(str))
    wounded = valid[:start] + new + valid[end:]
    outcome(tmp_path, wounded.encode("utf-8", "surrogatepass"), "agent")


@settings(CAREFUL, max_examples=100)
@given(value=st.text(max_size=80))
def test_any_environment(tmp_path, value, valid):
    """A variable's text is a value and never syntax."""
    (tmp_path / "air.csv").touch()
    path = tmp_path / "config.yaml"
    path.write_text(valid.replace("unit: degC", "unit: '${UNIT}'"))
    with contextlib.suppress(ConfigError):
        config = load_agent(path, {"UNIT": value})
        assert config.streams[0].spec.domain.attributes[1].unit == value


def test_the_unspoiled_file_loads(tmp_path, valid):
    """Else the three above would never reach what they are meant to try."""
    (tmp_path / "air.csv").touch()
    assert outcome(tmp_path, valid.encode(), "agent") is not None
