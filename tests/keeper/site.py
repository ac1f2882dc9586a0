"""Keepers on disk, releases under their keys, and the collector as the broker sees it."""

import queue
import sys
import threading
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from pansketch import os_entropy
from pansketch.blinding import keeper_id, question_about
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.keeper_messages import Ask, Reply
from pansketch_fleet.protocol.messages import Status
from pansketch_keeper import state
from pansketch_keeper.answering import Answerer
from testbed.program import Program
from tests import waiting
from tests.pansketch.blinding.fleet import FLEET, SMALL, label, masked
from tests.pansketch.sketches.families import uniform


@dataclass(frozen=True)
class Place:
    """A keeper's configuration and state. `key`: what the tests of the library call a keeper."""

    folder: object
    name: str
    public: bytes

    @property
    def state(self):
        return self.folder / "state"

    @property
    def config(self):
        return self.folder / "keeper.yaml"

    @property
    def key(self):
        return SimpleNamespace(public=self.public)

    @property
    def id(self):
        return keeper_id(self.public)

    def write(self, port):
        text = f"fleet: {FLEET}\nname: {self.name}\nstate: state\n"
        self.config.write_text(f"{text}mqtt: {{url: 'mqtt://127.0.0.1:{port}'}}\n")

    def runs(self, port):
        """The program; a context manager ends it."""
        self.write(port)
        command = [sys.executable, "-m", "pansketch_keeper", "run", "--config", str(self.config)]
        return Program(command, self.folder / "log")


def place(folder, name="tower"):
    folder = folder / name
    folder.mkdir()
    return Place(folder, name, state.create(folder / "state", os_entropy()))


def released(sites, sequences, device="dev-1", spec=SMALL):
    """Releases of some windows of a device under the keys of these keepers."""
    rng = os_entropy()
    return [masked(spec, sites, uniform(9, n), label(device, n), rng=rng) for n in sequences]


def ask_of(place, releases, level="window", share=Fraction(1), kind="answer", spec=SMALL):
    return Ask(kind, question_about(FLEET, releases, level, share), spec, place.id)


def answerer(held):
    return Answerer(FLEET, held.keys, held.ledger)


class Collector:
    """The collector of a keeper: it asks, and receives replies and statuses."""

    def __init__(self, port):
        self.replies = queue.Queue()
        self.statuses = []
        subscribed = threading.Event()
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.on_message = self._on_message
        self._client.on_subscribe = lambda *_: subscribed.set()
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        status = topics.fleet_filter(FLEET)[0]
        self._client.subscribe([(name, 1) for name in (*topics.keeper_filter(FLEET), status)])
        assert subscribed.wait(waiting.SECONDS)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._client.disconnect()
        self._client.loop_stop()

    def _on_message(self, _client, _userdata, message):
        topic = topics.parse(message.topic)
        if topic.kind == "answer":
            self.replies.put((topic.device, Reply.decode(message.payload), message.payload))
        elif topic.kind == "keeper-status":
            self.statuses.append((topic.device, Status.decode(message.payload).state))

    def publish(self, name, payload):
        sent = self._client.publish(topics.keeper_ask(FLEET, name), payload, 1)
        sent.wait_for_publish(waiting.SECONDS)

    def ask(self, name, ask):
        """The reply to it; there must be no other before."""
        self.publish(name, ask.encode())
        keeper, reply, _ = self.replies.get(timeout=waiting.SECONDS)
        assert (keeper, reply.question) == (name, ask.question.digest)
        return reply
