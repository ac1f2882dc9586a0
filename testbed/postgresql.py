"""A PostgreSQL of our own: from Debian's package, in a temporary folder, on a unix socket there.

PostgreSQL refuses to run as root. Root's server belongs to another user; the folder does, too. The
kernel kills the server with the process that started it, and its own processes end with it.
"""

import os
import pwd
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pansketch_fleet.child_process import run_child
from testbed.notify_socket import ProgramTimeout
from testbed.program import MAX_SECONDS, POLL_SECONDS, Program

USERS = "postgres", "nobody"  # of root's server: the first that there is
SUPERUSER = "pansketch"
SERVERS = "/usr/lib/postgresql"  # where Debian has a folder for each version


class Postgresql:
    """A server that can be killed and started again, with the same data.

    Attributes:
        url: of its database, for the collector and for psycopg.
        processes: of the server, each from a start to the end.
    """

    def __init__(self, folder: Path, settings: Sequence[str]) -> None:
        """`settings`: as on its command line, "fsync=off" for example. Raises OSError."""
        self._folder, self._tools = folder, _tools()
        self._settings = settings
        self._as_user: dict[str, Any] = {}
        if os.geteuid() == 0:
            user = _user()
            os.chown(folder, user.pw_uid, user.pw_gid)
            self._as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self.url = f"postgresql://{SUPERUSER}@/postgres?host={folder}"
        self.process: Program | None = None
        words = ["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        self._run("initdb", "-D", str(folder / "data"), "-U", SUPERUSER, *words)

    def start(self) -> None:
        """Start it and wait until it accepts connections. Raises ProgramTimeout, ProgramEnded."""
        program = self._tools / "postgres"
        options = [f"unix_socket_directories={self._folder}", "listen_addresses=", *self._settings]
        words = [str(program), "-D", str(self._folder / "data")]
        words += [word for option in options for word in ("-c", option)]
        deadline = time.monotonic() + MAX_SECONDS
        while True:
            self.process = Program(
                words, self._folder / "log", folder=self._folder, **self._as_user
            )
            while not self.process.ended():
                if self._is_ready():
                    return
                if time.monotonic() > deadline:
                    raise ProgramTimeout(f"PostgreSQL does not start: {self.process.output}")
                time.sleep(POLL_SECONDS)
            # The processes of a server that was killed take a moment to notice it.
            self.process.close()
            if time.monotonic() > deadline:
                raise ProgramTimeout(f"PostgreSQL does not start: {self.process.output}")

    @property
    def pid(self) -> int:
        """Of the server's first process, whose children serve the connections."""
        assert self.process is not None  # It was started.
        return self.process.process.pid

    def ended(self) -> bool:
        """True if it does not run."""
        return self.process is None or self.process.ended()

    def kill(self) -> None:
        """Ends it as a power cut of this process would: by SIGKILL."""
        if self.process is not None:
            self.process.close()

    def _is_ready(self) -> bool:
        words = [str(self._tools / "pg_isready"), "-q", "-h", str(self._folder)]
        return run_child(words, timeout=MAX_SECONDS).returncode == 0

    def _run(self, tool: str, *words: str) -> None:
        done = run_child(
            [str(self._tools / tool), *words], cwd=self._folder, text=True, **self._as_user
        )
        if done.returncode:
            raise OSError(f"{tool} failed: {done.stderr.strip()}")


@contextmanager
def postgresql(*settings: str) -> Iterator[Postgresql]:
    """Runs a server, and removes all that it had.

    Args:
        settings: as on its command line, "fsync=off" for example.

    Yields:
        The server, which accepts connections.

    Raises:
        OSError: there is no PostgreSQL on this machine.
        ProgramTimeout: it did not start.
    """
    # Not in a folder of the caller's, which the server's user may not enter.
    with tempfile.TemporaryDirectory(prefix="pansketch-pg-") as name:
        server = Postgresql(Path(name), settings)
        try:
            server.start()
            yield server
        finally:
            server.kill()


def installed() -> bool:
    """True if this machine has the programs of a server."""
    try:
        return _tools().is_dir()
    except OSError:
        return False


def _tools() -> Path:
    """The folder of the newest version's programs. Raises OSError."""
    found = [folder for folder in Path(SERVERS).glob("*/bin") if (folder / "initdb").exists()]
    if found:
        return max(found, key=lambda folder: [int(n) for n in folder.parent.name.split(".")])
    program = shutil.which("initdb")
    if program is None:
        raise FileNotFoundError("there is no PostgreSQL on this machine")
    return Path(program).parent


def _user() -> pwd.struct_passwd:
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    return next(names[name] for name in USERS if name in names)
