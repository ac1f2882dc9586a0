"""A complete, valid configuration to spoil, one line at a time."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pansketch_fleet.config.loader import Config, ConfigError
from tests.configurations import LOADERS

# Line numbers in the tests are those of this text.
VALID = """\
fleet: meadow
mqtt:
  url: mqtt://broker.example:1884
agent:
  device: post-7
  profile: pi-zero-2w
streams:
  air:
    source:
      type: replay
      path: air.csv
    window: 10m
    privacy:
      epsilon: 0.5
      unit: reading
      intrusion: silent
    attributes:
      temp: {low: -40, high: 60, unit: degC}
      pm25: {low: 0, high: 1000, scale: log}
      wind:
        categories: [N, NO, E, off]
    views: [[pm25, temp]]
collector:
  database: kept/releases.sqlite
"""

Loader = Callable[..., Config]
Refusal = Callable[..., ConfigError]


@pytest.fixture(scope="session")
def valid() -> str:
    """A configuration that loads, when `air.csv` is beside it."""
    return VALID


@pytest.fixture
def load_text(tmp_path: Path) -> Loader:
    """Loads a text as `config.yaml` of a folder that has an `air.csv`."""

    def load_it(
        text: str = VALID, program: str = "agent", environ: Mapping[str, str] | None = None
    ) -> Config:
        (tmp_path / "air.csv").write_text("time,temp\n")
        path = tmp_path / "config.yaml"
        path.write_text(text, encoding="utf-8")
        return LOADERS[program](path, environ or {})

    return load_it


@pytest.fixture
def refusal(load_text: Loader) -> Refusal:
    """The ConfigError of VALID with one piece of its text replaced."""

    def of(old: str, new: str, program: str = "agent", environ: object = None) -> ConfigError:
        assert VALID.count(old) == 1, f"{old!r} must stand once in the valid configuration"
        with pytest.raises(ConfigError) as caught:
            load_text(VALID.replace(old, new), program, environ)
        return caught.value

    return of


def assert_refused(error: ConfigError, line: int, where: str, says: str) -> None:
    """One line that names the file, this line and key, the problem and a fix."""
    assert (error.line, error.where) == (line, where)
    assert says in error.problem
    assert ";" in error.problem, "every refusal says what to do"
    place = f"{error.file}:{line}: {where}: " if where else f"{error.file}:{line}: "
    assert str(error) == place + error.problem
    assert "\n" not in str(error)


@pytest.fixture
def assert_refusal(refusal: Refusal) -> Callable[..., None]:
    """Replaces one piece of VALID and checks the line, key and text of the refusal."""

    def check(old: str, new: str, line: int, where: str, says: str) -> None:
        assert_refused(refusal(old, new), line, where, says)

    return check
