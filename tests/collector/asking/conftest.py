"""A blinded fleet, and the collector's commands with its configuration."""

import pytest

from pansketch_collector.__main__ import main
from tests.collector.asking.blinded_fleet import BlindedFleet


@pytest.fixture
def make_fleet(tmp_path):
    return lambda **settings: BlindedFleet(tmp_path, **settings)


@pytest.fixture
def ask(capsys):
    """Runs a command with a fleet's configuration: exit code, stdout, stderr."""

    def go(fleet, *words):
        code = main([*words, "--config", str(fleet.path)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return go
