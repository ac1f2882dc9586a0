"""A small fleet for the collector's tests: real configuration, real releases, a real process."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path

import psycopg
import pytest

from pansketch_collector.__main__ import main
from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.mqtt.connection import Incoming
from pansketch_collector.storage import writer as store
from pansketch_collector.validation.validation import Rules
from pansketch_collector.validation.verdicts import Outcome
from testbed.postgresql import Postgresql, postgresql
from testbed.program import Program
from tests import waiting
from tests.collector.key_site import Site
from tests.collector.serving import Peer, serving
from tests.collector.small_fleet import DAY, SmallFleet, incoming
from tests.packages import needs

DATABASES = count()


@pytest.fixture
def small_fleet(tmp_path: Path) -> SmallFleet:
    return SmallFleet(tmp_path)


@pytest.fixture(scope="session")
@needs("postgresql")
def database_server() -> Iterator[Postgresql]:
    with postgresql("fsync=off") as server:
        yield server


@pytest.fixture
def server_fleet(tmp_path: Path, database_server: Postgresql) -> Iterator[SmallFleet]:
    """A fleet whose collector has a database of its own on the server."""
    name = f"fleet_{next(DATABASES)}"
    with closing(psycopg.connect(database_server.url, autocommit=True)) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    folder = tmp_path / "server"  # Beside the configuration of a small fleet of the same test.
    folder.mkdir()
    yield SmallFleet(folder, server=database_server.url.replace("/postgres?", f"/{name}?"))
    with closing(psycopg.connect(database_server.url, autocommit=True)) as admin:
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(
    params=["sqlite", pytest.param("postgresql", marks=pytest.mark.needs("postgresql"))]
)
def any_fleet(request: pytest.FixtureRequest) -> SmallFleet:
    """A fleet for each kind of database."""
    return request.getfixturevalue("small_fleet" if request.param == "sqlite" else "server_fleet")


@pytest.fixture(scope="session")
def shared_rules(tmp_path_factory: pytest.TempPathFactory) -> Rules:
    """Rules that property tests may use for all their examples."""
    return SmallFleet(tmp_path_factory.mktemp("rules")).rules


@pytest.fixture
def make_small_fleet(tmp_path: Path) -> Callable[..., SmallFleet]:
    return lambda **settings: SmallFleet(tmp_path, **settings)


@pytest.fixture
def arrive() -> Callable[[str, bytes], Incoming]:
    return incoming


@pytest.fixture
def kept(small_fleet: SmallFleet) -> Iterator[store.Store]:
    """The database, open for writing."""
    with store.opened(small_fleet.database) as opened:
        yield opened


@pytest.fixture
def commit(small_fleet: SmallFleet, kept: store.Store) -> Callable[..., list[Outcome]]:
    """Validates and stores messages, (topic, payload) each, received at second `at`: outcomes."""
    rules = small_fleet.rules

    def run(*messages: tuple[str, bytes], at: int = 1_000_001_000) -> list[Outcome]:
        return commit_batch(kept, [incoming(*message) for message in messages], rules, at)

    return run


@pytest.fixture
def until() -> Callable[[Callable[[], object]], None]:
    return waiting.until


@pytest.fixture
def filled(small_fleet: SmallFleet) -> SmallFleet:
    """A fleet of two devices with five windows of `fine`, one missing, and some refusals."""
    readings = [[20.0, 0.0], [25.0, 1.0], [10.0, 2.0]] * 200
    messages = [
        incoming(
            small_fleet.topic(device, "fine"), small_fleet.release(device, n, "fine", readings)
        )
        for device, n in [("one", 1), ("one", 2), ("one", 4), ("two", 1), ("two", 2)]
    ]
    with store.opened(small_fleet.database) as opened:
        commit_batch(
            opened,
            [*messages, incoming("x", b"1"), incoming("x", b"2")],
            small_fleet.rules,
            1_000_001_000,
        )
        commit_batch(
            opened, messages[:1], small_fleet.rules, 1_000_001_000
        )  # its acknowledgement was lost
    return small_fleet


@pytest.fixture
def serve(small_fleet: SmallFleet) -> Callable[..., list[Outcome]]:
    """Stores releases under the present configuration: (device, stream, payload) each.

    `at`: when its settings are served; the releases come a month later.
    """

    def go(*messages: tuple[str, str, bytes], at: int = 1000) -> list[Outcome]:
        with store.opened(small_fleet.database) as opened:
            rules = Rules.of(small_fleet.config, opened.serve_settings(small_fleet.config, at))
            batch = [incoming(small_fleet.topic(d, s), payload) for d, s, payload in messages]
            return commit_batch(opened, batch, rules, 30 * DAY + at)

    return go


@pytest.fixture
def run(
    small_fleet: SmallFleet, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs a command with the small fleet's configuration: exit code, stdout, stderr."""

    def go(*words: str, config: Path | None = None) -> tuple[int, str, str]:
        code = main([*words, "--config", str(config or small_fleet.path)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return go


@pytest.fixture
def connect() -> type[Peer]:
    return Peer


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[Path], Program]]:
    """Starts `pansketch-collector serve` with a configuration; ends what is left at the end."""
    with ExitStack() as running:
        logs = (tmp_path / f"stderr-{number}" for number in count())
        yield lambda config: running.enter_context(serving(config, next(logs)))


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)
