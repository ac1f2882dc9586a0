#!/usr/bin/python3
"""systemctl, journalctl and scp of a machine that is a folder: a chroot has no systemd and no sshd.

`systemctl` runs the ExecStart of a unit as its user, and waits for READY=1. It follows the unit's
lines for the folder of the state, the credentials, the environment, the umask and locked memory. It
applies no sandbox and restarts nothing. `journalctl` prints the output of a unit. `scp` copies
files to the other machine's folder, which is mounted at /peer.
"""

import os
import pwd
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

UNITS = Path("/usr/lib/systemd/system")
SECONDS = 60  # Only a program that hangs needs so long.
SIGNALS = {"-HUP": signal.SIGHUP}


class Unit:
    """A unit file, and the process that was started from it."""

    def __init__(self, name: str) -> None:
        self.name = name.removesuffix(".service")
        path = UNITS / f"{self.name}.service"
        if not path.exists():
            sys.exit(f"Unit {self.name}.service could not be found.")
        self._settings: dict[str, list[str]] = {}
        for line in path.read_text().splitlines():
            key, found, value = line.partition("=")
            if found and not line.startswith("#"):
                self._settings.setdefault(key, []).append(value)
        self.log = Path("/var/log", f"journal-{self.name}")
        self._file = Path("/run", f"{self.name}.pid")

    def all(self, key: str) -> list[str]:
        return self._settings.get(key, [])

    def one(self, key: str, default: str = "") -> str:
        return (self.all(key) or [default])[-1]

    @property
    def process(self) -> int | None:
        """The number of the running process; None without one."""
        if not self._file.exists():
            return None
        stat = Path("/proc", self._file.read_text(), "stat")
        ended = not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"
        return None if ended else int(self._file.read_text())

    def start(self) -> None:
        if self.process is not None:
            return
        user = pwd.getpwnam(self.one("User", "root"))
        for command in self.all("ExecStartPre"):
            subprocess.run(shlex.split(command), check=True)
        environment = {**self._environment(), **self._folders(user)}
        ready = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        address = Path("/run", f"{self.name}.notify")
        address.unlink(missing_ok=True)
        ready.bind(str(address))
        address.chmod(0o666)
        ready.settimeout(0.2)
        if self.one("LimitMEMLOCK") == "infinity":
            unlimited = resource.RLIM_INFINITY
            with suppress(ValueError):  # A container may not raise it.
                resource.setrlimit(resource.RLIMIT_MEMLOCK, (unlimited, unlimited))
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                shlex.split(self.one("ExecStart")),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**environment, "NOTIFY_SOCKET": str(address)},
                user=user.pw_uid,
                group=user.pw_gid,
                extra_groups=os.getgrouplist(user.pw_name, user.pw_gid),
                umask=int(self.one("UMask", "0022"), 8),
                start_new_session=True,
            )
        self._file.write_text(str(process.pid))
        end = time.monotonic() + SECONDS
        while self.one("Type") == "notify" and time.monotonic() < end:
            try:
                if b"READY=1" in ready.recv(4096):
                    return
            except TimeoutError:
                if process.poll() is not None:
                    break
        if self.one("Type") == "notify":
            sys.exit(f"Job for {self.name}.service failed; see journalctl -u {self.name}")

    def _environment(self) -> dict[str, str]:
        host = os.uname().nodename.partition(".")[0]
        lines = [each.replace("%l", host) for each in self.all("Environment")]
        for name in self.all("EnvironmentFile"):
            path = Path(name.removeprefix("-"))
            lines += path.read_text().split() if path.exists() else []
        named = dict(line.split("=", 1) for line in lines)
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **named}

    def _folders(self, user: pwd.struct_passwd) -> dict[str, str]:
        """Makes the folders of state and credentials, and names the latter."""
        if name := self.one("StateDirectory"):
            state = Path("/var/lib", name)
            state.mkdir(exist_ok=True)
            state.chmod(int(self.one("StateDirectoryMode", "0755"), 8))
            shutil.chown(state, user.pw_uid, user.pw_gid)
        if not self.all("LoadCredential"):
            return {}
        credentials = Path("/run/credentials", f"{self.name}.service")
        shutil.rmtree(credentials, ignore_errors=True)
        credentials.mkdir(parents=True, mode=0o700)
        for line in self.all("SetCredential"):
            name, _, text = line.partition(":")
            (credentials / name).write_text(text)
        for line in self.all("LoadCredential"):
            name, _, source = line.partition(":")
            if Path(source).exists():
                (credentials / name).write_bytes(Path(source).read_bytes())
        for path in (*credentials.iterdir(), credentials):
            path.chmod(0o500 if path.is_dir() else 0o400)
            shutil.chown(path, user.pw_uid, user.pw_gid)
        return {"CREDENTIALS_DIRECTORY": str(credentials)}

    def stop(self) -> None:
        process = self.process
        if process is not None:
            os.kill(process, signal.SIGTERM)
        end = time.monotonic() + SECONDS
        while self.process is not None:
            if time.monotonic() > end:
                sys.exit(f"{self.name}.service does not stop")
            time.sleep(0.1)

    def reload(self) -> None:
        process = self.process
        if process is None:
            sys.exit(f"{self.name}.service is not active, cannot reload.")
        _, number, target = shlex.split(self.one("ExecReload"))
        if target != "$MAINPID":
            sys.exit(f"{self.name}.service: ExecReload is no signal")
        os.kill(process, SIGNALS[number])


def systemctl(words: list[str]) -> None:
    verb, *names = [word for word in words if not word.startswith("-")]
    for unit in map(Unit, names):
        if verb in ("stop", "restart") or (verb == "disable" and "--now" in words):
            unit.stop()
        if verb in ("start", "restart") or (verb == "enable" and "--now" in words):
            unit.start()
        if verb == "reload":
            unit.reload()


def journalctl(words: list[str]) -> None:
    unit, lines = Unit(words[words.index("-u") + 1]), None
    if "-n" in words:
        lines = -int(words[words.index("-n") + 1])
    print(*unit.log.read_text().splitlines()[lines:], sep="\n")


def scp(words: list[str]) -> None:
    *files, target = words
    account, _, folder = target.partition(":")
    home = Path("/peer/home", account.partition("@")[0], folder)
    home.mkdir(parents=True, exist_ok=True)
    for file in files:
        shutil.copy(file, home)


if __name__ == "__main__":
    {"systemctl": systemctl, "journalctl": journalctl, "scp": scp}[Path(sys.argv[0]).name](
        sys.argv[1:]
    )
