"""A full disk: a small filesystem of its own, below the agent's state or the database.

If this host allows no mount, the kernel rejects every further byte of the program instead.
"""

import json
import resource
import sqlite3
import subprocess
from contextlib import closing, suppress

import pytest

pytestmark = pytest.mark.needs("mosquitto")

DISK_BYTES = 2 * 1024 * 1024  # room for an empty database, its log and some releases


class Disk:
    """A file system of its own at `folder`, or (not `real`) the fallback. `fill` leaves a program
    no room there, `free` does."""

    def __init__(self, folder, real):
        folder.mkdir()
        self.folder, self.real = folder, real and mounted(folder)
        self._ballast = folder / "ballast"

    def fill(self, program):
        if not self.real:
            self._limit(program, 0)
            return
        with self._ballast.open("wb", buffering=0) as ballast, suppress(OSError):
            while True:
                ballast.write(bytes(4096))

    def free(self, program):
        self._ballast.unlink(missing_ok=True)
        if not self.real and not program.ended():
            self._limit(program, resource.RLIM_INFINITY)

    def _limit(self, program, most):
        limits = (most, resource.RLIM_INFINITY)
        resource.prlimit(program.process.pid, resource.RLIMIT_FSIZE, limits)

    def close(self):
        if self.real:
            subprocess.run(("umount", "-l", str(self.folder)), check=True)


def mounted(folder):
    command = ("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700", "none", str(folder))
    return subprocess.run(command, capture_output=True).returncode == 0


@pytest.fixture(params=["a small disk", "a limit"])
def disk(site, request):
    """Below `var` of the site. The fallback runs everywhere, the small disk where it may be."""
    made = Disk(site.folder / "var", real=request.param == "a small disk")
    yield made
    site.close()
    made.close()


def elsewhere(path):
    """The agent's state on another disk."""
    path.write_text(path.read_text().replace("state: var/", "state: other/"))
    return path


def test_a_collector_waits_for_room_and_tells_nobody_before(site, disk):
    site.start_plain_broker()
    collector = site.collector(site.configure(site.plain()))
    collector.wait_until_connected()
    disk.fill(collector)
    agent = site.agent(elsewhere(site.configure(site.plain())))
    collector.wait_for_output("cannot write the database")
    agent.wait_for_output("waiting for the collector")
    assert site.stored() == 0
    assert not agent.ended()
    disk.free(collector)
    assert agent.wait() == 0, agent.output
    assert site.stored() == 2
    assert collector.stop() == 0
    assert collector.output.count("cannot write the database") == 1


def debits(site):
    lines = (site.folder / "var/dev-1/ledger").read_text(errors="replace").splitlines()
    return [int(line.split()[1]) for line in lines if line.startswith("debit")]


def sequences(path):
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
        return [row[0] for row in database.execute("SELECT sequence FROM releases")]


def test_an_agent_releases_nothing_that_is_not_written_down_and_goes_on_with_room(site, disk):
    """If the ledger cannot be written, the agent exits and the system restarts it.

    If only a release cannot, the agent drops it with one log line. Every arriving release was
    debited once.
    """
    site.start_plain_broker()
    path = site.configure(site.plain(), source="{type: stdin}")
    text = path.read_text().replace("window: 1h", "window: 1s").replace("base: var/", "base: ")
    # Large enough for a page of its own.
    path.write_text(text.replace("depth: 4, k: 4, width: 8, rows: 1", "depth: 10, width: 256"))
    site.collector(path).wait_until_connected()
    agent = site.agent(path)
    agent.wait_for_output("release 2 is in the outbox")
    disk.fill(agent)
    site.until(
        lambda: agent.ended() or "is dropped: the outbox cannot be written" in agent.output,
        lambda: agent.output,
    )
    check = site.agent(path, "check", "--json")
    check.wait()
    (found,) = [each for each in json.loads(check.output) if each["subject"] == "disk"]
    assert (found["state"] == "wrong") == disk.real, found
    disk.free(agent)
    if agent.ended():
        assert agent.process.returncode == 1, agent.output
        assert "nothing is published" in agent.output
        agent = site.agent(path)
    last = debits(site)[-1]
    database = site.folder / "collector.sqlite"
    site.until(lambda: max(sequences(database), default=0) > last, lambda: agent.output)
    assert agent.stop() == 0, agent.output
    assert "Traceback" not in agent.output
    known, arrived = debits(site), sequences(database)
    assert known == sorted(set(known))
    assert set(arrived) <= set(known)
    assert len(arrived) == len(set(arrived))
