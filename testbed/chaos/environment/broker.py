"""The broker of a run: a real mosquitto, with what can be done to it."""

import signal
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from pansketch_collector.reports.broker_acl import as_text
from pansketch_fleet.config.loader import load_collector
from testbed.chaos.environment.configuration import (
    COLLECTOR,
    EPSILON,
    FLEET,
    HOSTILE,
    HOSTILE_CLIENT,
    KEEPERS,
    Site,
    keeper_user,
)
from testbed.chaos.environment.supervisor import Service
from testbed.embedded_broker import free_port
from testbed.mqtt_packets import CONNACK_BYTES, AnswerReader, connect
from testbed.program import END_SECONDS

POLL_SECONDS = 0.05
PROBE, PROBE_SECONDS = "readiness", 2.0

CONFIG = """\
user root
persistence true
persistence_location {folder}/
autosave_interval 3
max_inflight_messages {inflight}
max_queued_messages {queued}
message_size_limit {max_bytes}
max_keepalive 300
set_tcp_nodelay true
log_dest stderr
log_type error
log_type warning
log_type information
connection_messages false
allow_anonymous false
password_file {folder}/passwords
acl_file {folder}/acl
listener {port} 127.0.0.1
listener {tls_port} 127.0.0.1
cafile {folder}/ca.crt
certfile {folder}/{certificate}.crt
keyfile {folder}/{certificate}.key
tls_version tlsv1.2
"""
HOSTILE_CLIENT_ACL = f"\nuser {HOSTILE_CLIENT}\ntopic write pansketch/v1/{FLEET}/#\n"


@dataclass(frozen=True)
class Limits:
    """The broker's limits on queued messages and on the length of a message."""

    inflight: int = 256
    queued: int = 20_000
    max_bytes: int = 4 * 2**20
    certificate: str = "broker"


TINY = Limits(inflight=1, queued=2)
SMALL = Limits(max_bytes=64)


class Broker:
    """One mosquitto on two fixed ports, `port` and, for TLS, `tls_port`."""

    def __init__(self, site: Site, program: str, users: Sequence[str]) -> None:
        self._site, self._folder = site, site.folder / "broker"
        self._users = [*users, COLLECTOR, HOSTILE, HOSTILE_CLIENT, *map(keeper_user, KEEPERS)]
        self.port, self.tls_port = free_port(), free_port()
        self._config = self._folder / "mosquitto.conf"
        self.program = Service("broker", [program, "-c", str(self._config)], site.folder, {})
        rules = site.configure_collector(self.port, EPSILON, "rules")
        self._put("acl", as_text(load_collector(rules, site.environment), []) + HOSTILE_CLIENT_ACL)
        self._put_passwords(wrong=False)
        self._configure(Limits())

    def start(self) -> None:
        """It listens, and bears signals, when this returns, unless it has ended."""
        self.program.start()
        until = time.monotonic() + END_SECONDS
        while not self._accepts() and self.program.running and time.monotonic() < until:
            time.sleep(POLL_SECONDS)

    def empty(self) -> None:
        """Takes away what it has saved; it must not run."""
        (self._folder / "mosquitto.db").unlink(missing_ok=True)

    def limit(self, limits: Limits) -> None:
        """Restarts it with these."""
        self.program.end(signal.SIGTERM)
        self._configure(limits)
        self.start()

    def expire(self, expired: bool) -> None:
        """Restarts it with the expired certificate, or with the good one."""
        name = "broker-expired" if expired else "broker"
        self.limit(replace(Limits(), certificate=name))

    def change_passwords(self, wrong: bool) -> None:
        """Applies to every new connection."""
        self._put_passwords(wrong)
        self.program.signal(signal.SIGHUP)

    def _configure(self, limits: Limits) -> None:
        text = CONFIG.format(
            folder=self._folder,
            port=self.port,
            tls_port=self.tls_port,
            inflight=limits.inflight,
            queued=limits.queued,
            max_bytes=limits.max_bytes,
            certificate=limits.certificate,
        )
        self._put("mosquitto.conf", text)

    def _put_passwords(self, wrong: bool) -> None:
        self._put("passwords", self._site.passwords(self._users, wrong))

    def _put(self, name: str, text: str) -> None:
        path = self._folder / name
        path.write_text(text)
        path.chmod(0o600)

    def _accepts(self) -> bool:
        """True if its main loop accepts a connection; it begins after the signal handlers are
        set."""
        hello, reader = (
            connect(PROBE, HOSTILE_CLIENT, self._site.password(HOSTILE_CLIENT)),
            AnswerReader(),
        )
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", self.port), PROBE_SECONDS) as peer,
        ):
            peer.settimeout(PROBE_SECONDS)
            peer.sendall(hello)
            while content := peer.recv(CONNACK_BYTES):
                if reader.feed(content):
                    return True
        return False
