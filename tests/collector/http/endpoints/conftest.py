"""A filled database and its executors, without a server."""

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from pansketch_collector.http.server.executors import Executors
from tests.collector.http.conftest import Site


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    found = make_site()
    found.fill()
    return found


@pytest.fixture
def executors(site: Site) -> Iterator[Executors]:
    with closing(Executors(site.config.collector.database)) as found:
        yield found
