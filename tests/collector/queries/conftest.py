"""Commands of the collector on a week of two doors."""

import pytest

from pansketch_collector.__main__ import main
from tests.collector.key_site import Site, keys


@pytest.fixture
def make_site(tmp_path):
    return lambda **settings: Site(tmp_path, **settings)


@pytest.fixture
def ask(tmp_path, capsys):
    """Runs a command of the collector: exit code, stdout, stderr."""

    def run(*words):
        code = main([*words, "--config", str(tmp_path / "config.yaml")])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def week(site):
    """Two doors that share badges, on three days: 150, 30 and 1000 different ones together."""
    plan = [
        ("one", 10, keys((100,))),
        ("two", 10, keys((50, 150))),
        ("one", 11, keys((30,))),
        ("one", 12, keys((1000,))),
        ("two", 12, keys((0,))),
    ]
    devices = [device for device, _, _ in plan]
    site.store(*(site.release(*each) for each in plan), devices=devices)
    return site
