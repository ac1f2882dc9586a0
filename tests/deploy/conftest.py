"""What is shipped in deploy/, at work on this machine: certificates, mosquitto, both programs."""

import os
import pwd
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

REPOSITORY = Path(__file__).resolve().parents[2]
DEPLOY = REPOSITORY / "deploy"
MOSQUITTO = shutil.which("mosquitto", path=f"{os.environ['PATH']}:/usr/sbin") or "mosquitto"
FLEET = "greenhouse"
COLLECTOR = "pansketch.collector"
DEADLINE_SECONDS = 20.0
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


def until(happened: Callable[[], object], what: Callable[[], str]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not happened():
        assert time.monotonic() < deadline, f"still waiting for: {what()}"
        time.sleep(0.01)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def certificates(*words: object, days: int = 2) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [DEPLOY / "certificates.sh", *map(str, words)],
        env={**os.environ, "DAYS": str(days)},
        capture_output=True,
        text=True,
        timeout=30,
    )


@dataclass
class Program:
    """One process, with all it says in a file."""

    process: subprocess.Popen[bytes]
    log: Path
    copier: subprocess.Popen[bytes]

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def ended(self) -> bool:
        """Whether it has, and all it said is in the log."""
        return self.process.poll() is not None and self.copier.poll() is not None

    def says(self, text: str) -> None:
        until(lambda: text in self.said or self.ended(), lambda: f"{text!r} in {self.said!r}")
        assert text in self.said, self.said

    def ends(self) -> int:
        until(self.ended, lambda: f"the end of {self.log.name}: {self.said!r}")
        return self.process.returncode

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.ends()


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
    clients: list[Client] = field(default_factory=list)

    def start(self, name: str, *command: str, environment: dict[str, str] | None = None) -> Program:
        log = self.folder / f"said-{len(self.programs):02d}-{name}"
        with log.open("wb") as file:
            # What the program may not write any more, `cat` still may.
            copier = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=file)
        assert copier.stdin is not None
        with copier.stdin as pipe:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(REPOSITORY), **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=pipe,
                stderr=subprocess.STDOUT,
            )
        self.programs.append(Program(process, log, copier))
        return self.programs[-1]

    def install_broker(self, optional: bool = False, broker: str = "broker") -> None:
        """The shipped files, with this folder for /etc, free ports, and optional settings on."""
        for name in ("ca.crt", "ca.crl", f"{broker}.crt", f"{broker}.key"):
            shutil.copy(self.ca / name, self.folder / name.replace(broker, "broker"))
        acl = (DEPLOY / "mosquitto/acl").read_text()
        (self.folder / "acl").write_text(acl.replace("FLEET", FLEET))
        (self.folder / "passwords").write_text("")
        os.chmod(self.folder / "passwords", 0o600)
        for user, password in PASSWORDS.items():
            subprocess.run(
                ["mosquitto_passwd", "-b", "passwords", user, password],
                cwd=self.folder,
                check=True,
                timeout=10,
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

    def start_broker(self) -> Program:
        conf = self.folder / "mosquitto.conf"
        broker = self.start("broker", MOSQUITTO, "-c", str(conf))
        here = re.findall(r"^listener (\d+)", conf.read_text(), re.M)
        listeners = [name for name, port in self.ports.items() if str(port) in here]
        until(
            lambda: all(map(self._listens, listeners)) or broker.ended(),
            lambda: f"the broker: {broker.said}",
        )
        assert not broker.ended(), broker.said
        return broker

    def start_plain_broker(self, settings: str = "") -> Program:
        """One without TLS and identities, as anybody may have it, with these settings."""
        conf = self.folder / "plain.conf"
        user = pwd.getpwuid(os.geteuid()).pw_name
        (self.folder / "plain").mkdir(exist_ok=True)
        kept = f"persistence true\npersistence_location {self.folder}/plain/\n"
        port = self.ports["1883"]
        conf.write_text(
            f"user {user}\nlistener {port} {HOST}\nallow_anonymous true\n{kept}{settings}\n"
        )
        broker = self.start("broker", MOSQUITTO, "-c", str(conf))
        until(lambda: self._listens("1883") or broker.ended(), lambda: f"broker: {broker.said}")
        assert not broker.ended(), broker.said
        return broker

    def plain(self, port: int | None = None, **more: str) -> dict[str, str]:
        """The keys of `mqtt:` for that broker, or for one on another port."""
        return {"url": f"mqtt://{HOST}:{port or self.ports['1883']}", **more}

    def _listens(self, listener: str) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((HOST, self.ports[listener])) == 0

    def certified(self, name: str, **more: str) -> dict[str, str]:
        """The keys of `mqtt:` for somebody with a certificate."""
        known = {
            "url": f"mqtts://{HOST}:{self.ports['8883']}",
            "ca_file": f"{self.ca}/ca.crt",
            "cert_file": f"{self.ca}/{name}.crt",
            "key_file": f"{self.ca}/{name}.key",
        }
        return {key: text for key, text in (known | more).items() if text}

    def with_password(self, name: str, **more: str) -> dict[str, str]:
        """The keys of `mqtt:` for somebody with a password, which stands in a file."""
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

    def agent(self, config: Path, *words: str, **environment: str) -> Program:
        command = (sys.executable, "-m", "agent", *(words or ("run",)), "--config", str(config))
        return self.start("agent", *command, environment=environment)

    def collector(self, config: Path, **environment: str) -> Program:
        command = (sys.executable, "-m", "collector", "serve", "--config", str(config))
        return self.start("collector", *command, environment=environment)

    def stored(self) -> int:
        """How many releases the collector has on its disk."""
        path = self.folder / "var/collector.sqlite"
        if not path.exists():
            return 0
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
            try:
                return int(database.execute("SELECT count(*) FROM releases").fetchone()[0])
            except sqlite3.OperationalError:
                return 0

    def client(
        self, name: str, client_id: str = "", version: str = "3.1.1", proof: str = "certificate"
    ) -> Client:
        """Somebody with a certificate or a password who speaks any MQTT; connected."""
        client = Client(
            CallbackAPIVersion.VERSION2, client_id=client_id, protocol=VERSIONS[version]
        )
        mutual = proof == "certificate"
        files = ("ca.crt", f"{name}.crt", f"{name}.key") if mutual else ("ca.crt",)
        client.tls_set(*(str(self.ca / file) for file in files))
        if not mutual:
            client.username_pw_set(name, PASSWORDS[name])
        client.connect(HOST, self.ports["8883" if mutual else "8884"], 30)
        self.clients.append(client)
        client.loop_start()
        until(client.is_connected, lambda: f"the connection of {name}")
        return client

    def close(self) -> None:
        for client in self.clients:
            client.disconnect()
            client.loop_stop()
        for program in self.programs:
            if not program.ended():
                program.process.kill()
            program.process.wait()
            program.copier.wait()
            assert program.process.stdin is not None
            program.process.stdin.close()


TOMORROW = """\
[ca]
default_ca = later
[later]
database = {folder}/later.txt
new_certs_dir = {folder}
rand_serial = yes
default_md = sha256
policy = any
copy_extensions = copy
[any]
commonName = supplied
"""


def certify_from_tomorrow(folder: Path) -> None:
    """The broker's certificate again, with another first day: `broker-tomorrow`."""
    (folder / "later.txt").write_text("")
    (folder / "later.cnf").write_text(TOMORROW.format(folder=folder))
    shutil.copy(folder / "broker.key", folder / "broker-tomorrow.key")
    first, last = (datetime.now(UTC) + timedelta(days=days) for days in (1, 2))
    request = "openssl x509 -x509toreq -in broker.crt -signkey broker.key -copy_extensions copy"
    sign = (
        "openssl ca -batch -notext -config later.cnf -cert ca.crt -keyfile ca.key -in later.csr "
        f"-startdate {first:%Y%m%d%H%M%SZ} -enddate {last:%Y%m%d%H%M%SZ} -out broker-tomorrow.crt"
    )
    for command in (f"{request} -out later.csr", sign):
        subprocess.run(command.split(), cwd=folder, check=True, capture_output=True, timeout=30)


@pytest.fixture(scope="session")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CA with everybody's certificate: good ones, and each kind of bad one."""
    folder = tmp_path_factory.mktemp("pki") / "fleet"

    def make(*words: object, days: int = 2) -> None:
        done = certificates(words[0], folder, *words[1:], days=days)
        assert done.returncode == 0, done.stderr

    def keep_broker_as(name: str) -> None:
        for ending in ("crt", "key"):
            (folder / f"broker.{ending}").rename(folder / f"{name}.{ending}")

    make("ca")
    make("broker", HOST, days=-1)
    keep_broker_as("broker-expired")
    make("broker", "elsewhere.example", "192.0.2.7")
    keep_broker_as("broker-elsewhere")
    make("broker", HOST, "localhost", "::1")
    certify_from_tomorrow(folder)
    make("collector")
    make("device", "dev-1", "dev-2", "dev-revoked")
    make("device", "dev-expired", days=-1)
    make("revoke", "dev-revoked")
    return folder


@pytest.fixture(scope="session")
def run_certificates() -> Callable[..., subprocess.CompletedProcess[str]]:
    """The script itself, with `days` for DAYS."""
    return certificates


@pytest.fixture(scope="session")
def foreign_ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Somebody else's CA, with a device of the same name."""
    folder = tmp_path_factory.mktemp("pki") / "foreign"
    assert certificates("ca", folder).returncode == 0
    assert certificates("device", folder, "dev-1").returncode == 0
    return folder


@pytest.fixture
def site(tmp_path: Path, ca: Path) -> Iterator[Site]:
    made = Site(tmp_path, ca)
    yield made
    made.close()
