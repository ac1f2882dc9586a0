"""The process that answers: how it begins, how it ends, and that the taking in goes on."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from collector.web.told import Told, line, listen
from demo.broker import free_port

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
MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")


@contextmanager
def mosquitto(folder, port, more=""):
    """A real broker on loopback, gone afterwards. `more`: lines of its configuration."""
    assert MOSQUITTO is not None, "these tests need mosquitto: apt install mosquitto"
    settings = folder / "mosquitto.conf"
    settings.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n{more}\n")
    with subprocess.Popen([MOSQUITTO, "-c", str(settings)], stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


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


def test_it_is_ready_while_the_collector_has_its_broker(make_site, serve, until, tmp_path):
    """Also one that was started anew, which knows nothing of what was told before."""
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
            subprocess.run(["kill", "-KILL", str(server.web_pid)], check=True)
            until(lambda: "starting it anew" in server.said)
            until(lambda: is_ready(True))
        assert server.end() == 0


def test_it_is_not_ready_where_the_broker_denies_the_subscription(
    make_site, serve, until, tmp_path
):
    port, access = free_port(), tmp_path / "access.json"
    plugin = next(Path("/usr/lib").glob("*/mosquitto_dynamic_security.so"))
    access.write_text(json.dumps({"defaultACLAccess": {"subscribe": False}}))
    denying = f"plugin {plugin}\nplugin_opt_config_file {access}"
    site = make_site(url=f"mqtt://127.0.0.1:{port}")
    site.fill()
    with mosquitto(tmp_path, port, denying), serve(site) as server:
        until(lambda: "broker denies reading" in server.said)
        with server.client() as client:
            assert client.get("/readyz").status_code == 503
        assert server.end() == 0


def test_what_is_told_is_heard_in_whatever_pieces_it_comes():
    told, (reads, writes) = Told(), os.pipe()
    with open(reads, "rb", 0) as source, open(writes, "wb", 0) as sink:
        sink.write(line(False) + b"something else\n\n" + line(True)[:-3])
        sink.write(line(True)[-3:] + line(False)[:-1])  # the last one is cut short
        sink.close()
        listen(source.fileno(), told)
    assert told.broker_connected
    told.hear(line(False).rstrip())
    assert not told.broker_connected
