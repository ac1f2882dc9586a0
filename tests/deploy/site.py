"""A fleet as deploy/ installs it, in a folder for /etc and /var/lib."""

import os
import pwd
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from pansketch_collector.reports.broker_acl import as_text
from pansketch_fleet.config.loader import load_collector
from testbed.embedded_broker import free_port
from testbed.mosquitto import listens
from testbed.program import ROOT, Program
from tests.waiting import SECONDS, until

DEPLOY = ROOT / "deploy"
FLEET = "greenhouse"
COLLECTOR = "pansketch.collector"
HOST = "127.0.0.1"
VERSIONS = {"5": MQTTProtocolVersion.MQTTv5, "3.1.1": MQTTProtocolVersion.MQTTv311}
HOME = "home.assistant"
PASSWORDS = {
    "dev-1": "first one",
    "dev-2": "second one",
    COLLECTOR: "all of them",
    HOME: "only how they are",
}
CONFIG = """\
fleet: greenhouse
mqtt: {mqtt}
agent: {{device: {device}, state: var/{device}, profile: pi-zero-2w}}
streams:
  air:
    source: {source}
    window: 1h
    privacy: {{epsilon: 1.0, unit: reading}}
    attributes:
      temp: {{low: -40, high: 60}}
    sketch: {{depth: 4, k: 4, width: 8, rows: 1, fanout: 2}}
collector: {{database: var/collector.sqlite}}
"""
ROWS = "time,temp\n2024-01-01T00:30:00Z,11.5\n2024-01-01T01:30:00Z,12.5\n"
LATER_ROWS = "2024-01-01T02:30:00Z,13.5\n2024-01-01T03:30:00Z,14.5\n"


@dataclass
class Site:
    """A folder with a fleet in it, as /etc and /var/lib would have one."""

    folder: Path
    ca: Path
    ports: dict[str, int] = field(
        default_factory=lambda: {name: free_port() for name in ("8883", "8884", "1883")}
    )
    fleet = FLEET
    until = staticmethod(until)
    programs: list[Program] = field(default_factory=list)
    clients: list[tuple[str, Client]] = field(default_factory=list)

    def start(self, name: str, *command: str, environment: dict[str, str] | None = None) -> Program:
        started = Program(
            command,
            self.folder / f"log-{len(self.programs):02d}-{name}",
            folder=self.folder,
            environment=environment,
            stdin=subprocess.PIPE,
        )
        self.programs.append(started)
        return started

    def install_broker(self, optional: bool = False, broker: str = "broker") -> None:
        """The shipped files, with this folder for /etc, free ports, and optional settings on."""
        for name in ("ca.crt", "ca.crl", f"{broker}.crt", f"{broker}.key"):
            shutil.copy(self.ca / name, self.folder / name.replace(broker, "broker"))
        self.install_acl()
        (self.folder / "passwords").write_text("")
        os.chmod(self.folder / "passwords", 0o600)
        for user, password in PASSWORDS.items():
            subprocess.run(
                ["mosquitto_passwd", "-b", "passwords", user, password],
                cwd=self.folder,
                check=True,
                timeout=SECONDS,
                capture_output=True,
            )
        lines = (DEPLOY / "mosquitto/mosquitto.conf").read_text().splitlines()
        if optional:
            lines = [re.sub(r"^#(?=\S)", "", line) for line in lines]
        # Started by root it would become another user, who may not read this folder.
        text = "\n".join([*lines, f"user {pwd.getpwuid(os.geteuid()).pw_name}", ""])
        text = text.replace("/etc/mosquitto/pansketch", str(self.folder))
        text = text.replace("/var/lib/mosquitto/", f"{self.folder}/kept/")
        (self.folder / "kept").mkdir()
        for shipped, port in self.ports.items():
            text = text.replace(f"listener {shipped}", f"listener {port}")
        (self.folder / "mosquitto.conf").write_text(text)
        self._allow_stated_size()

    def install_acl(self, home_assistant: bool = False, devices: Sequence[str] = ()) -> None:
        """As `pansketch-collector acl` writes it, and with the size that it states."""
        path = self.configure(self.plain())
        text = path.read_text().replace(
            "{database:", f"{{home_assistant: {str(home_assistant).lower()}, database:"
        )
        path.write_text(text)
        rules = as_text(load_collector(path, {}), devices)
        (self.folder / "acl").write_text(rules)
        if (self.folder / "mosquitto.conf").exists():
            self._allow_stated_size()

    def _allow_stated_size(self) -> None:
        rules, conf = self.folder / "acl", self.folder / "mosquitto.conf"
        (size,) = re.findall(r"^# (max_packet_size \d+)$", rules.read_text(), re.M)
        conf.write_text(re.sub(r"^max_packet_size .*", size, conf.read_text(), flags=re.M))

    def start_broker(self) -> Program:
        conf = self.folder / "mosquitto.conf"
        broker = self.start("broker", "mosquitto", "-c", str(conf))
        here = re.findall(r"^listener (\d+)", conf.read_text(), re.M)
        listeners = [name for name, port in self.ports.items() if str(port) in here]
        broker.until(lambda: all(map(self.listens, listeners)), "its listeners")
        return broker

    def start_plain_broker(self, settings: str = "") -> Program:
        """A broker without TLS and identities, with these settings."""
        conf = self.folder / "plain.conf"
        user = pwd.getpwuid(os.geteuid()).pw_name
        (self.folder / "plain").mkdir(exist_ok=True)
        kept = f"persistence true\npersistence_location {self.folder}/plain/\n"
        port = self.ports["1883"]
        conf.write_text(
            f"user {user}\nlistener {port} {HOST}\nallow_anonymous true\n{kept}{settings}\n"
        )
        broker = self.start("broker", "mosquitto", "-c", str(conf))
        broker.until(lambda: self.listens("1883"), "its listener")
        return broker

    def plain(self, port: int | None = None, **more: str) -> dict[str, str]:
        """The keys of `mqtt:` for that broker, or for one on another port."""
        return {"url": f"mqtt://{HOST}:{port or self.ports['1883']}", **more}

    def listens(self, listener: str) -> bool:
        return listens(self.ports[listener])

    def certified(self, name: str, **more: str) -> dict[str, str]:
        """The keys of `mqtt:` for a client with a certificate."""
        known = {
            "url": f"mqtts://{HOST}:{self.ports['8883']}",
            "ca_file": f"{self.ca}/ca.crt",
            "cert_file": f"{self.ca}/{name}.crt",
            "key_file": f"{self.ca}/{name}.key",
        }
        return {key: text for key, text in (known | more).items() if text}

    def with_password(self, name: str, **more: str) -> dict[str, str]:
        """The keys of `mqtt:` for a client with a password, which is in a file."""
        file = self.folder / f"password-{name}"
        file.write_text(PASSWORDS.get(name, "?") + "\n")
        known = {
            "url": f"mqtts://{HOST}:{self.ports['8884']}",
            "ca_file": f"{self.ca}/ca.crt",
            "username": name,
            "password": f"${{file:{file}}}",
        }
        return {key: text for key, text in (known | more).items() if text}

    def configure(
        self, mqtt: dict[str, str], device: str = "dev-1", source: str = "", more: str = ""
    ) -> Path:
        """`more`: further lines of the configuration's streams."""
        (self.folder / "rows.csv").write_text(ROWS)
        path = self.folder / f"{device}-{len(list(self.folder.glob('*.yaml')))}.yaml"
        keys = ", ".join(f'{key}: "{text}"' for key, text in mqtt.items())
        source = source or "{type: replay, path: rows.csv}"
        text = CONFIG.format(mqtt=f"{{{keys}}}", device=device, source=source)
        path.write_text(text.replace("collector:", f"{more}collector:"))
        return path

    def configure_later(self, mqtt: dict[str, str]) -> Path:
        """For a device that has released the rows and has two more windows now. The broker keeps
        the collector's mark of it, so that it sends without the collector; a new one would wait."""
        path = self.configure(mqtt)
        (self.folder / "rows.csv").write_text(ROWS + LATER_ROWS)
        return path

    def agent(self, config: Path, *words: str, **environment: str) -> Program:
        command = (
            sys.executable,
            "-m",
            "pansketch_agent",
            *(words or ("run",)),
            "--config",
            str(config),
        )
        return self.start("agent", *command, environment=environment)

    def collector(self, config: Path, **environment: str) -> Program:
        self._leave("collector")
        command = (sys.executable, "-m", "pansketch_collector", "serve", "--config", str(config))
        return self.start("collector", *command, environment=environment)

    def stored(self) -> int:
        """The number of releases that the collector has on its disk."""
        path = self.folder / "var/collector.sqlite"
        if not path.exists():
            return 0
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
            try:
                return int(database.execute("SELECT count(*) FROM releases").fetchone()[0])
            except sqlite3.OperationalError:
                return 0

    def client(
        self,
        name: str,
        client_id: str = "",
        version: str = "3.1.1",
        proof: str = "certificate",
        takes_over: bool = False,
    ) -> Client:
        """A connected client with a certificate or a password, which sends any MQTT packet.

        An older client of that name disconnects first. The shipped broker knows one session a name,
        and paho would reconnect the older client. `takes_over`: the broker has to end its session.
        """
        if not takes_over:
            self._leave(name)
        client = Client(
            CallbackAPIVersion.VERSION2, client_id=client_id, protocol=VERSIONS[version]
        )
        mutual = proof == "certificate"
        files = ("ca.crt", f"{name}.crt", f"{name}.key") if mutual else ("ca.crt",)
        client.tls_set(*(str(self.ca / file) for file in files))
        if not mutual:
            client.username_pw_set(name, PASSWORDS[name])
        client.connect(HOST, self.ports["8883" if mutual else "8884"], 30)
        self.clients.append((name, client))
        client.loop_start()
        until(client.is_connected, lambda: f"the connection of {name}")
        return client

    def _leave(self, *names: str) -> None:
        """The clients of these names, or all, end; what they wait to publish is out before."""
        for name, client in self.clients:
            if name in names or not names:
                client.disconnect()
                client.loop_stop()
        self.clients = [known for known in self.clients if names and known[0] not in names]

    def close(self) -> None:
        self._leave()
        for program in self.programs:
            program.close()
