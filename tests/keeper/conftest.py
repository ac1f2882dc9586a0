"""Keepers on disk."""

import pytest

from testbed.mosquitto import mosquitto
from tests.keeper import site


@pytest.fixture
def sites(tmp_path):
    """Two keepers, as a window needs them."""
    return [site.place(tmp_path, name) for name in ("tower", "well")]


@pytest.fixture
def port(tmp_path):
    with mosquitto(tmp_path) as found:
        yield found
