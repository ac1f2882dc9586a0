"""The PostgreSQL of the tests: real, private, and never left behind."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from urllib.parse import urlsplit

import psycopg
import pytest

from testbed.postgresql import postgresql
from testbed.program import ROOT
from tests import waiting

STARTED = """
from testbed.postgresql import postgresql
import time
with postgresql("fsync=off") as server:
    print(server.process.process.pid, server.url, flush=True)
    time.sleep(1000)
"""


def runs(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.needs("postgresql")
def test_what_is_committed_outlives_a_kill():
    with postgresql() as server:
        with psycopg.connect(server.url) as connection:
            connection.execute("CREATE TABLE numbers (n integer PRIMARY KEY)")
            connection.execute("INSERT INTO numbers VALUES (1)")
        with closing(psycopg.connect(server.url)) as uncommitted:
            uncommitted.execute("INSERT INTO numbers VALUES (2)")
            server.kill()
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(server.url, connect_timeout=5)
        server.start()
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SELECT n FROM numbers").fetchall() == [(1,)]
            assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
            assert connection.execute("SHOW fsync").fetchone() == ("on",)


@pytest.mark.needs("postgresql")
def test_a_server_ends_with_the_process_that_started_it():
    """By SIGKILL, after which no program tidies up."""
    words = [sys.executable, "-c", STARTED]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as starter:
        pid, url = starter.stdout.readline().split()
        with closing(psycopg.connect(url)) as connection:
            (backend,) = connection.execute("SELECT pg_backend_pid()").fetchone()
            assert runs(int(pid))
            assert runs(backend)
            starter.send_signal(signal.SIGKILL)
            waiting.until(lambda: not runs(int(pid)) and not runs(backend), "its end")
    shutil.rmtree(urlsplit(url).query.removeprefix("host="))
