"""The HTTP process: its start and its end, and ingestion beside it."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pansketch_collector.http.supervisor import BrokerState
from testbed.embedded_broker import free_port
from testbed.mosquitto import mosquitto
from tests.waiting import SECONDS

REPOSITORY = Path(__file__).resolve().parents[4]
# As in repository/test_dependencies.py: a module that is not there.
WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {package!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
from pansketch_collector.__main__ import main
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
        assert server.program.wait() == 1
        assert server.program.output.count("\n") == 1
        assert f"cannot listen on 127.0.0.1 port {site.port}" in server.program.output


@pytest.mark.parametrize("package", ["fastapi", "uvicorn"])
def test_a_missing_extra_is_one_line(make_site, package):
    site = make_site()
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(package=package, config=str(site.path))],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=SECONDS,
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
        assert server.program.stop(signal.SIGKILL) == -signal.SIGKILL
        with serve(site, answers=False) as second, second.client() as client:
            until(lambda: is_gone(pid))
            until(lambda: "answers" in second.program.output)
            assert client.get("/v1/streams").status_code == 200
            assert second.program.stop() == 0


def test_it_is_restarted_after_an_unexpected_end(make_site, serve, until):
    site = make_site()
    site.fill()
    with serve(site) as server, server.client() as client:
        first = server.web_pid
        os.kill(first, signal.SIGKILL)
        until(lambda: "restarting it" in server.program.output)
        assert client.get("/v1/streams").status_code == 200
        assert server.web_pid != first
        assert server.program.stop() == 0


def test_it_ends_during_a_download(make_site, serve, until):
    site = make_site()
    site.fill()
    with serve(site) as server, server.client() as client:
        pid = server.web_pid
        with client.stream("GET", "/v1/streams/air/sample?rows=100000000") as response:
            next(response.iter_raw())
            assert server.program.stop() == 0
        assert is_gone(pid)


@pytest.mark.needs("mosquitto")
def test_it_is_ready_while_the_collector_has_its_broker(make_site, serve, until, tmp_path):
    """A process that was restarted after the state was set is ready too."""
    port = free_port()
    site = make_site(url=f"mqtt://127.0.0.1:{port}")
    site.fill()
    with serve(site) as server:

        def get(path):
            with server.client() as client:  # A connection of its own: some end with the process.
                return client.get(path)

        def is_ready(wanted):
            line = f"pansketch_broker_connected {wanted:d}"
            status = get("/readyz").status_code
            return status == (200 if wanted else 503) and line in get("/metrics").text

        refused = get("/readyz")
        assert refused.status_code == 503
        assert "no subscription at its broker" in refused.json()["detail"]
        assert int(refused.headers["retry-after"]) > 0
        with mosquitto(tmp_path, port):
            until(lambda: is_ready(True))
        until(lambda: is_ready(False))
        assert [get(path).status_code for path in ("/healthz", "/v1/streams")] == [200, 200]
        with mosquitto(tmp_path, port):
            until(lambda: is_ready(True))
            os.kill(server.web_pid, signal.SIGKILL)
            until(lambda: "restarting it" in server.program.output)
            until(lambda: is_ready(True))
        assert server.program.stop() == 0


@pytest.mark.needs("mosquitto")
def test_it_is_not_ready_without_an_authorized_subscription(make_site, serve, until, tmp_path):
    port, access = free_port(), tmp_path / "access.json"
    plugin = next(Path("/usr/lib").glob("*/mosquitto_dynamic_security.so"))
    access.write_text(json.dumps({"defaultACLAccess": {"subscribe": False}}))
    denying = f"plugin {plugin}\nplugin_opt_config_file {access}"
    site = make_site(url=f"mqtt://127.0.0.1:{port}")
    site.fill()
    with mosquitto(tmp_path, port, denying), serve(site) as server:
        until(lambda: "broker does not authorize reading" in server.program.output)
        with server.client() as client:
            assert client.get("/readyz").status_code == 503
        assert server.program.notified.value("READY") == "1"
        assert server.program.stop() == 0
        assert server.program.notified.times("X_CONNECTED") == 0


def test_the_other_process_reads_the_state_that_is_set():
    broker = BrokerState(os.memfd_create("broker-state"))
    read = (
        f"from {BrokerState.__module__} import *; print(BrokerState({broker.descriptor}).connected)"
    )
    found = []
    for wanted in (None, True, False, True):
        if wanted is not None:
            broker.set(wanted)
        done = subprocess.run(
            [sys.executable, "-c", read],
            pass_fds=[broker.descriptor],
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(done.stdout.strip())
    os.close(broker.descriptor)
    assert found == ["False", "True", "False", "True"]
