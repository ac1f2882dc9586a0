"""The fleet of a run: its devices with their configurations, below one folder."""

import base64
import hashlib
import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pansketch_fleet
from pansketch import os_entropy
from pansketch_fleet.child_process import run_child
from pansketch_fleet.protocol import topics
from pansketch_keeper import state as keeper_state
from pansketch_keeper.ledger import LEDGER
from testbed.chaos.environment.config_texts import (
    COLUMNS,
    CONFIG,
    KEEPER_CONFIG,
    LATENESS_SECONDS,
    LEVEL_SECONDS,
    LIVE,
    MASKED_STREAM,
    OVER,
)

ROOT = Path(__file__).resolve().parents[3]
FLEET = "chaos"
STREAM, MASKED = "air", "masked"
KEEPERS = ("tower", "well")
WINDOW_SECONDS = 2
COLLECTOR, HOSTILE_CLIENT = "pansketch.collector", "hostile-client"
HOSTILE = "hostile"  # an enrolled device that lies
BACKUP_SECONDS = 60.0
SMALL = "small-outbox"
SMALL_OUTBOX_BYTES = 6 * 2**10
SMALL_OUTBOX, USUAL_OUTBOX = f"{SMALL_OUTBOX_BYTES}B", "1MiB"
EPSILON, OTHER_EPSILON = 1.0, 2.0


@dataclass(frozen=True)
class Device:
    """One device. `small_outbox`, `small_disk`: its limits; `secured`: over TLS.

    `write_behind`: it writes a release only when no ack comes in time. Then its releases may be
    visible on its link alone, so that must not be secured.
    """

    name: str
    policy: str = "reject_new"
    write_behind: bool = False
    small_outbox: bool = False
    small_disk: bool = False
    secured: bool = False


ROLES: Sequence[Device] = (
    Device("", policy="reject_new", small_outbox=True),
    Device("", policy="drop_oldest", small_outbox=True, write_behind=True),
    Device("", small_disk=True),
    Device("", secured=True),
    Device(""),
    Device("", policy="drop_oldest"),
    Device("", policy="reject_new", small_outbox=True),
    Device("", policy="drop_oldest", small_outbox=True),
    Device("", small_disk=True, write_behind=True),
    Device("", secured=True),
    Device("", write_behind=True),
    Device("", policy="drop_oldest"),
)


def devices(count: int) -> list[Device]:
    """So many devices: outboxes of both policies, disks and connections of each sort in turn."""
    numbers = range(count)
    return [replace(ROLES[n % len(ROLES)], name=f"dev-{n + 1:02d}") for n in numbers]


def write_behind_among(count: int) -> list[str]:
    """The names of those that write a release only when no ack comes in time."""
    return [device.name for device in devices(count) if device.write_behind]


class Site:
    """The folder of a run, and the files that its programs read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("log", "list", "var", "disk", "clock", "broker", "backup", "keeper"):
            (folder / name).mkdir(parents=True)
        states = {name: keeper_state_in(folder, name) for name in KEEPERS}
        self._keys = {
            name: keeper_state.create(state, os_entropy()).hex() for name, state in states.items()
        }
        for name in KEEPERS:
            shutil.copyfile(keeper_ledger_in(folder, name), first_ledger_in(folder, name))
        for stream, columns in COLUMNS.items():
            (folder / f"no-{stream}.csv").write_text(columns)
        self._write_profiles()

    @property
    def database(self) -> Path:
        return database_in(self.folder)

    @property
    def environment(self) -> dict[str, str]:
        """With the repository's own programs, and one more firmware profile."""
        return {"PYTHONPATH": f"{self.folder / 'profiles'}{os.pathsep}{ROOT}"}

    def password(self, user: str) -> str:
        return f"of-{user}"

    def passwords(self, users: Sequence[str], wrong: bool) -> str:
        """The broker's password file; `wrong`: with others for all but the hostile client."""
        words = {u: self.password(u) + "!" * (wrong and u != HOSTILE_CLIENT) for u in users}
        return "".join(f"{user}:{_hashed(word)}\n" for user, word in words.items())

    def certify(self) -> Path:
        """A CA, a certificate of the broker, and one that has expired (broker-expired)."""
        folder = self.folder / "broker"
        _certificates("ca", folder, 730)
        _certificates("broker", folder, 0, "127.0.0.1")
        for ending in ("crt", "key"):
            (folder / f"broker.{ending}").rename(folder / f"broker-expired.{ending}")
        _certificates("broker", folder, 730, "127.0.0.1")
        return folder / "ca.crt"

    def configure(
        self, device: Device, port: int, live: bool = True, state: str | None = None
    ) -> Path:
        """A device's configuration: at work, or with nothing more to come. `state`: the name of
        another state folder than its own."""
        profile = SMALL if device.small_outbox else "usual-outbox"
        name = state or (device.name if live else f"{device.name}-over")
        sources = LIVE if live else OVER
        return self._write(name, device, device.name, port, profile, sources, state=state)

    def configure_collector(self, port: int, epsilon: float, name: str) -> Path:
        """The collector's; with another epsilon it expects other releases than there are."""
        nobody = Device("nobody")
        return self._write(name, nobody, COLLECTOR, port, "pi-zero-w", LIVE, epsilon)

    def configure_keeper(self, name: str, port: int) -> Path:
        """A keeper's."""
        path, user = self.folder / f"{name}.yaml", keeper_user(name)
        path.write_text(
            KEEPER_CONFIG.format(
                fleet=FLEET,
                name=name,
                port=port,
                user=user,
                password=self.password(user),
                state=keeper_state_in(self.folder, name),
            )
        )
        return path

    def _write(
        self,
        name: str,
        device: Device,
        user: str,
        port: int,
        profile: str,
        sources: dict[str, str],
        epsilon: float = EPSILON,
        state: str | None = None,
    ) -> Path:
        path = self.folder / f"{name}.yaml"
        masked = MASKED_STREAM.format(
            masked=sources[MASKED],
            window=WINDOW_SECONDS,
            epsilon=epsilon,
            answers=", ".join(f"{{every: {every}s, share: 1/2}}" for every in LEVEL_SECONDS),
            lateness=LATENESS_SECONDS,
        )
        text = CONFIG.format(
            fleet=FLEET,
            scheme="mqtts" if device.secured else "mqtt",
            port=port,
            user=user,
            password=self.password(user),
            ca=", ca_file: broker/ca.crt" if device.secured else "",
            device=device.name,
            state=state or device.name,
            profile=profile,
            policy=device.policy,
            persist="when_unacknowledged" if device.write_behind else "always",
            epsilon=epsilon,
            window=WINDOW_SECONDS,
            keepers=", ".join(f"{name}: {{key: '{key}'}}" for name, key in self._keys.items()),
            masked_stream="" if device.small_outbox else masked,
            **sources,
        )
        path.write_text(text)
        return path

    def _write_profiles(self) -> None:
        """The profiles of the repository, and two whose outboxes a run can fill: in a package that
        stands before the installed one."""
        package = self.folder / "profiles" / "pansketch_fleet"
        folder = package / "firmware_profiles"
        package.mkdir(parents=True)
        for module in Path(pansketch_fleet.__path__[0]).iterdir():
            if module.name not in (folder.name, "__pycache__"):
                (package / module.name).symlink_to(module)
        original = ROOT / "firmware_profiles"
        shutil.copytree(original, folder, ignore=shutil.ignore_patterns("__pycache__"))
        text = (folder / "pi-zero-w.yaml").read_text()
        for name, size in ((SMALL, SMALL_OUTBOX), ("usual-outbox", USUAL_OUTBOX)):
            (folder / f"{name}.yaml").write_text(text.replace("outbox: 16MiB", f"outbox: {size}"))


def agent_command(config: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "pansketch_agent", "run", *options, "--config", str(config)]


def collector_command(config: Path, *command: str) -> list[str]:
    """`serve`, or another command of the collector with its arguments."""
    words = command or ("serve",)
    return [sys.executable, "-m", "pansketch_collector", *words, "--config", str(config)]


def keeper_command(config: Path) -> list[str]:
    return [sys.executable, "-m", "pansketch_keeper", "run", "--config", str(config)]


def outbox_command(config: str) -> list[str]:
    """The agent's listing of its outbox."""
    return [sys.executable, "-m", "pansketch_agent", "outbox", "list", "--config", config]


def database_in(folder: Path) -> Path:
    return folder / "disk" / "collector.sqlite"


def keeper_state_in(folder: Path, name: str) -> Path:
    """The folder of a keeper's keys and ledger."""
    return folder / "keeper" / name


def keeper_ledger_in(folder: Path, name: str) -> Path:
    return keeper_state_in(folder, name) / LEDGER


def first_ledger_in(folder: Path, name: str) -> Path:
    """A keeper's ledger before the run."""
    return folder / "backup" / f"{name}.sqlite"


def keeper_user(name: str) -> str:
    """A keeper's name at the broker."""
    return f"{topics.KEEPER}{name}"


def state_in(folder: Path, device: str) -> Path:
    """The folder of a device's ledger and outbox."""
    return folder / "var" / device


def readings(chance: float) -> bytes:
    """A reading as an agent ingests it; its values do not matter here."""
    return json.dumps({"temp": 50 * chance - 5, "pm25": 300 * chance}).encode() + b"\n"


def _hashed(password: str) -> str:
    """As a line of mosquitto's password file has it."""
    salt = os.urandom(12)
    hashed = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, 101)
    return "$7$101$" + "$".join(base64.b64encode(part).decode() for part in (salt, hashed))


def _certificates(command: str, folder: Path, days: int, *names: str) -> None:
    script = ROOT / "deploy" / "certificates.sh"
    done = run_child(
        ["sh", str(script), command, str(folder), *names],
        env={**os.environ, "DAYS": str(days)},
    )
    done.check_returncode()


def online(database: Path) -> set[str]:
    """The devices and keepers whose birth message the collector has committed: they and it are
    connected."""
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            rows = connection.execute(
                "SELECT device FROM devices WHERE state = 'online'"
                " UNION SELECT keeper FROM keepers WHERE state = 'online'"
            )
            return {str(name) for (name,) in rows}
    except sqlite3.Error:
        return set()  # It is not made yet.
