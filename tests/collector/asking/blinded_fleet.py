"""A blinded fleet for the collector's tests: a configuration, devices' releases, and keepers."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from pansketch import Privacy, WindowId
from pansketch.blinding import AlreadyAnswered, AnswersInMemory, PrivateKey, answer_once, keeper_id
from pansketch.blinding import start as masked_start
from pansketch.blinding.answering import refused
from pansketch.wire import encode_answer, encode_blinded
from pansketch_collector.asking.asker import Asker
from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.storage import writer
from pansketch_collector.validation.validation import Rules
from pansketch_fleet.backoff import Backoff
from pansketch_fleet.config.loader import load_collector
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.keeper_messages import Ask, Reply
from pansketch_fleet.protocol.messages import Status
from pansketch_fleet.settings.device_spec import schedule_offset
from tests.collector.small_fleet import incoming, rows
from tests.pansketch.blinding.fleet import QuietKeys
from tests.seeded_noise import noise_of_test

FLEET, HOUR = "meadow", 3_600
BEGIN = 450_000 * HOUR  # in 2021; a multiple of every level here
CONFIG = """
fleet: {fleet}
mqtt: {{url: "{url}", username: pansketch.collector}}
keepers:
  tower: {{key: {tower}}}
  well: {{key: {well}}}
streams:
  air:
    source: {{type: stdin}}
    window: 1h
    expect: {{max_readings: {max_readings}}}
    privacy:
      epsilon: 1.0
      aggregation: blinded
      lateness: {lateness}
      answers: {answers}
    attributes:
      temp: {{low: -40, high: 60, unit: degC}}
      humid: {{low: 0, high: 100}}
    {sketch}
collector: {{database: var/collector.sqlite{http}}}
"""


class TestKeeper:
    """A keeper in this process: what `answer_once` makes of its key, with its noise or none."""

    __test__ = False

    def __init__(self, name, key=None, quiet=True):
        self.name = name
        self.key = key or PrivateKey.draw(noise_of_test())
        self.rng = QuietKeys() if quiet else noise_of_test()
        self.ledger = AnswersInMemory()
        self.asked, self.broken = [], False

    @property
    def id(self):
        return keeper_id(self.key.public)

    def reply(self, payload):
        """The bytes of its reply to an ask."""
        ask = Ask.decode(payload)
        assert ask.key == self.id
        question = ask.question
        self.asked.append((ask.kind, question))
        if ask.kind == "prepare":
            spent = {each.key: self.ledger._levels(each.key) for each in question.windows}
            return Reply("prepared", question.digest, ask.key, refused(question, spent)).encode()
        try:
            found = answer_once(question, ask.spec, self.key, self.rng, self.ledger)
        except AlreadyAnswered as error:
            return Reply(
                "refused", question.digest, ask.key, error.windows, "answered before"
            ).encode()
        if self.broken:
            found = type(found)(found.keeper, found.question, found.counters ^ 0x5A5A5A5A)
        return Reply("answered", question.digest, ask.key, (), "", encode_answer(found)).encode()

    def listed(self):
        """Every list of windows that it was asked to answer, once."""
        return {question.digest: question for kind, question in self.asked if kind == "answer"}


@dataclass
class Outlet:
    """Delivers questions to keepers in this process, whose replies wait until the collector reads
    them."""

    keepers: dict[str, TestKeeper]
    connected: bool = True
    offline: set[str] = field(default_factory=set)
    waiting: list[tuple[str, bytes]] = field(default_factory=list)
    most: int = 1 << 28

    def room(self, topic):
        return self.most

    def ask(self, keeper, payload):
        if keeper not in self.offline:
            assert len(payload) <= self.most
            self.waiting.append((keeper, self.keepers[keeper].reply(payload)))


class BlindedFleet:
    """A configuration on disk, the means to make releases, and two keepers."""

    def __init__(
        self,
        folder: Path,
        answers="[{every: 1h, share: 1}]",
        lateness="10m",
        url="mqtt://127.0.0.1:1",
        max_readings=1000,
        quiet=True,
        sketch="sketches: [{type: cells}]",
        readings=20,
        port=None,
    ):
        self.folder, self.port = folder, port
        self.count = readings
        self.keepers = {name: TestKeeper(name, quiet=quiet) for name in ("tower", "well")}
        self.path = folder / "config.yaml"
        self.settings = {
            "fleet": FLEET,
            "url": url,
            "answers": answers,
            "lateness": lateness,
            "max_readings": max_readings,
            "sketch": sketch,
            "http": f", http: '127.0.0.1:{port}'" if port else "",
        }
        self.write()
        self.outlet = Outlet(self.keepers)
        self.readings = {}

    def write(self, **changed):
        self.settings |= changed
        keys = {name: each.key.public.hex() for name, each in self.keepers.items()}
        self.path.write_text(CONFIG.format(**self.settings, **keys))

    @property
    def config(self):
        return load_collector(self.path, {})

    @property
    def database(self):
        return self.config.collector.database

    @property
    def spec(self):
        config = self.config
        return next(iter(config.specs(config.streams[0]).values()))

    def rows(self, device, hour, count):
        seed = np.random.default_rng([hour, *device.encode()])
        return np.column_stack([seed.normal(20, 5, count), seed.uniform(10, 90, count)])

    def release(self, device, hour, count=None, sequence=None, incarnation=b"12345678", keys=None):
        """A message of a device: topic and payload of one window."""
        begin = BEGIN + hour * HOUR + schedule_offset(device, HOUR)
        number = hour + 1 if sequence is None else sequence
        window = WindowId(device, "air", number, begin, begin + HOUR, None, incarnation)
        rng = QuietKeys()
        public = keys or tuple(each.key.public for each in self.keepers.values())
        sketch = masked_start(self.spec, rng, FLEET, window, public)
        self.readings[device, hour] = rows = self.rows(device, hour, count or self.count)
        sketch.update_many(rows)
        return topics.release(FLEET, device, "air"), encode_blinded(sketch.release(rng))

    def counted(self, *windows):
        """The counters of these windows without masks and noise: (device, hour) each."""
        quiet = replace(self.spec, privacy=Privacy(epsilon=1.0))
        silence = QuietKeys()
        sketch = quiet.start(silence)
        for window in windows:
            sketch.update_many(self.readings[window])
        return sketch.release(silence).counters


class Collector:
    """One life of a collector's process: opens the database, ingests and asks."""

    def __init__(self, fleet):
        self.fleet = fleet
        self._opened = writer.opened(fleet.database)
        self.store = self._opened.__enter__()
        self.config = fleet.config
        self.rules = Rules.of(self.config, self.store.serve_settings(self.config, BEGIN))
        self.asker = Asker(
            self.config,
            self.store.connection,
            self.rules,
            fleet.outlet,
            Backoff(1.0, 1.0, 0.0),
        )
        self.uptime = 0.0

    def take(self, *messages, at=BEGIN):
        batch = [incoming(*each) for each in messages]
        return commit_batch(self.store, batch, self.rules, at)

    def receive(self, keeper, payload, now):
        (outcome,) = self.take((topics.keeper_answer(FLEET, keeper), payload))
        self.asker.receive(outcome, now)

    def presence(self, keeper, state, session="s", now=BEGIN):
        payload = Status(state, session, {}).encode()
        (outcome,) = self.take((topics.keeper_status(FLEET, keeper), payload))
        self.asker.receive(outcome, now)

    def turns(self, hours, count=12):
        """Runs `count` turns at `hours` after the beginning, and delivers all replies between
        them."""
        now = BEGIN + int(hours * HOUR)
        for _ in range(count):
            self.uptime += 2.0
            self.asker.step(self.uptime, now)
            waiting, self.fleet.outlet.waiting = self.fleet.outlet.waiting, []
            for keeper, payload in waiting:
                self.receive(keeper, payload, now)

    def close(self):
        self._opened.__exit__(None, None, None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def sums(fleet):
    """Of each answered question: level, start of its period, and the sum."""
    found = rows(
        fleet.database,
        "SELECT level, period_start, windows, noise, counters FROM questions"
        " WHERE state = 'answered' ORDER BY level, period_start, id",
    )
    return [
        (level, (start - BEGIN) // HOUR, windows, noise, np.frombuffer(counters, "<i8"))
        for level, start, windows, noise, counters in found
    ]


def states(fleet):
    return rows(fleet.database, "SELECT state, problem FROM questions ORDER BY id")


def lost(fleet):
    return rows(
        fleet.database,
        "SELECT device, sequence, level, problem FROM window_levels"
        " WHERE problem != '' ORDER BY device, sequence, level",
    )
