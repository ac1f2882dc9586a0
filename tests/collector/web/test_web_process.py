"""The process that answers: how it begins, how it ends, and that the taking in goes on."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
# As in test_installation.py: a module that is not there.
WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {package!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
from collector.__main__ import main
sys.exit(main(["serve", "--config", {config!r}]))
"""


def is_gone(pid):
    """A process that has ended, waited for by its parent or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_taken_port_is_one_line(make_site, serve, until):
    site = make_site()
    with socket.create_server(("127.0.0.1", site.port)), serve(site, answers=False) as server:
        assert server.process.wait(30) == 1
        assert server.said.count("\n") == 1
        assert f"cannot listen on 127.0.0.1 port {site.port}" in server.said


@pytest.mark.parametrize("package", ["fastapi", "pyarrow"])
def test_a_missing_extra_is_one_line(make_site, package):
    site = make_site()
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(package=package, config=str(site.path))],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"collector.http needs {package}: pip install" in done.stderr


def test_it_ends_with_a_collector_that_was_killed_and_another_one_takes_the_address(
    make_site, serve, until
):
    site = make_site()
    site.fill()
    with serve(site) as server:
        pid = server.web_pid
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        assert b"NOTIFY_SOCKET=" not in environment
        assert server.end(signal.SIGKILL) == -signal.SIGKILL
        with serve(site, answers=False) as second, second.client() as client:
            until(lambda: is_gone(pid))
            until(lambda: "answers" in second.said)
            assert client.get("/v1/streams").status_code == 200
            assert second.end() == 0


def test_it_is_started_anew_when_it_ends_by_itself(make_site, serve, until):
    site = make_site()
    site.fill()
    with serve(site) as server, server.client() as client:
        first = server.web_pid
        subprocess.run(["kill", "-KILL", str(first)], check=True)
        until(lambda: "starting it anew" in server.said)
        assert client.get("/v1/streams").status_code == 200
        assert server.web_pid != first
        assert server.end() == 0


def test_it_ends_while_a_file_is_on_its_way(make_site, serve, until):
    site = make_site()
    site.fill()
    with serve(site) as server, server.client() as client:
        pid = server.web_pid
        with client.stream("GET", "/v1/streams/air/sample?rows=100000000") as response:
            next(response.iter_raw())
            assert server.end() == 0
        assert is_gone(pid)
