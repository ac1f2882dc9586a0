"""`python -m testbed.fleet_simulator`, as operators start it."""

import json
import re
import signal
import sqlite3
import sys
from contextlib import closing, suppress
from dataclasses import replace

import pytest

from pansketch_collector.commands.verification import verified
from pansketch_collector.errors import CommandError
from pansketch_collector.storage.reader import Selection, reading
from pansketch_fleet.child_process import run_child
from pansketch_fleet.config.loader import load_collector
from testbed.embedded_broker import free_port
from testbed.fleet_simulator.__main__ import main
from testbed.fleet_simulator.kills import Kills
from testbed.fleet_simulator.options import CONFIG
from testbed.fleet_simulator.outbox import FleetOutbox
from testbed.fleet_simulator.releases import Load
from testbed.fleet_simulator.report import Run
from testbed.fleet_simulator.server import Server
from testbed.mosquitto import mosquitto
from testbed.program import ROOT, Program
from tests import waiting

WORDS = [sys.executable, "-m", "testbed.fleet_simulator"]


def simulate(*words):
    return run_child([*WORDS, *map(str, words)], cwd=ROOT, text=True, timeout=waiting.SECONDS)


def stored(database):
    selection = Selection("temp")
    with suppress(CommandError), reading(database) as reader:
        return sum(reader.count(selection, each) for each in reader.fingerprints(selection))
    return 0  # There is none yet.


@pytest.mark.needs("mosquitto")
def test_a_fleet_is_stored_once_through_a_broker(tmp_path):
    load = ["--devices", 40, "--windows", 3, "--outages", 0.2, "--duplicates", 0.2, "--health", 1]
    done = simulate(*load, "--out", tmp_path / "run", "--json")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    found = json.loads(done.stdout)
    assert found["releases"] == found["acknowledged"]["stored"] == 120
    assert found["repeated"] == found["acknowledged"]["duplicate"] > 0
    assert found["offline"] > 0
    assert found["messages"] == 120 + 40 + found["repeated"] + 120 - found["offline"]
    assert (found["unacknowledged"], found["unknown_acknowledgements"]) == (0, 0)
    assert {"simulator", "broker", "collector"} == set(found["processes"])
    assert all(each["cpu_seconds"] >= 0 for each in found["processes"].values())
    assert found["database_bytes"] > 120 * 150
    assert stored(tmp_path / "run/collector.sqlite") == 120


def test_a_fleet_is_stored_straight_into_a_database(tmp_path, capsys):
    database = tmp_path / "collector.sqlite"
    words = [
        "--devices",
        "30",
        "--windows",
        "4",
        "--duplicates",
        "0.5",
        "--database",
        str(database),
    ]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["acknowledged"]["stored"] == 120
    assert found["repeated"] == found["acknowledged"]["duplicate"] > 0
    assert stored(database) == 120
    assert main([*words]) == 1, "the same windows, by ledgers of another run"
    assert "refused" in capsys.readouterr().out
    assert main([*words, "--prefix", "second"]) == 0
    assert stored(database) == 240


@pytest.mark.needs("mosquitto", "postgresql")
def test_kills_of_all_programs_lose_no_release_and_store_none_twice(tmp_path):
    words = ["--workers", 1, "--kills", 8, "--devices", 100, "--windows", 4, "--resend-after", 2]
    done = simulate(*words, "--in-flight", 50, "--out", tmp_path / "run", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    names = {"broker", "collector", "worker 1", "postgresql"}
    assert found["kills"] == dict.fromkeys(names, 2)
    assert (found["stored"], found["faults"], found["unacknowledged"]) == (400, 0, 0)
    assert found["acknowledged"]["stored"] <= 400
    assert found["resent"] > 0


@pytest.mark.parametrize("fault", ["lost", "kept in no sum"])
@pytest.mark.parametrize("before", [None, 5])
def test_a_database_without_a_release_is_no_good_run(tmp_path, fault, before):
    """The negative control of the tests above."""
    database = tmp_path / "collector.sqlite"
    assert main(["--devices", "5", "--windows", "4", "--database", str(database)]) == 0
    with closing(sqlite3.connect(database)) as connection, connection:
        if fault == "lost":
            connection.execute("DELETE FROM releases WHERE sequence = 3")
        else:
            connection.execute("DELETE FROM sums WHERE bucket = (SELECT min(bucket) FROM sums)")
    config = load_collector(CONFIG, {"VAR": str(tmp_path)})
    outbox = FleetOutbox(iter(()), 1, 1)
    outbox.counts.releases = 20 - (before or 0)
    assert outbox.due(1, 0) == []
    kills = Kills(Server(config, {"broker": None}, None), 0, 20, lambda: 20, 1)
    result = verified(config, database)
    told = Load(5, 4), ("temp",), 1, outbox, 0, {}, 0, ""
    run = Run(*told, None if before else kills, result, before)
    assert not run.good
    assert Run(*told, None, replace(result, releases=20, figures=()), before).good
    assert run.figures()["stored"] == 20 - 5 * (fault == "lost")


@pytest.mark.needs("mosquitto")
def test_a_broker_that_restarts_costs_a_resend_and_no_release(tmp_path):
    """Without a session at first: the first broker's messages get no acknowledgement."""
    port = free_port()
    words = [*WORDS, "--devices", "10", "--windows", "2", "--url", f"mqtt://127.0.0.1:{port}"]
    known = {"BROKER": f"127.0.0.1:{port}", "VAR": str(tmp_path)}
    serve = [sys.executable, "-m", "pansketch_collector", "serve", "--config", str(CONFIG)]
    log = tmp_path / "simulator.log"
    with mosquitto(tmp_path, port, "log_type all"):
        simulator = Program([*words, "--json", "--resend-after", "5"], log)
        broker_log = tmp_path / f"mosquitto-{port}.log"
        # A first connection that is cut before its subscription is granted is an error.
        waiting.until(lambda: "Received PUBLISH" in broker_log.read_text(), "a release")
    with (
        mosquitto(tmp_path, port),
        Program(serve, tmp_path / "log", environment=known) as collector,
    ):
        collector.wait_until_connected()
        assert simulator.wait(waiting.SECONDS) == 0, simulator.output
    simulator.close()
    found = json.loads(simulator.output)
    assert found["resent"] > 0
    assert found["unacknowledged"] == 0
    assert stored(tmp_path / "collector.sqlite") == 20


def test_arithmetic_is_that_of_the_configuration(capsys):
    assert main(["--devices", "36000", "--arithmetic", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (temp,) = found["streams"]
    assert (found["devices"], found["health_per_second"]) == (36_000, 600)
    assert (temp["releases_per_second"], temp["peak_per_second"]) == (10, 100)
    assert temp["releases_per_year"] == 36_000 * 8_760
    assert temp["bytes_per_day"] == pytest.approx(36_000 * 24 * temp["release_bytes"])
    assert main(["--devices", "36000", "--arithmetic"]) == 0
    assert "600.0/s" in capsys.readouterr().out


@pytest.fixture
def interruptible():
    """A shell that starts tests in the background ignores Ctrl-C, which programs inherit."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.needs("mosquitto")
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interruption_reports_what_was_done(tmp_path, number):
    out = tmp_path / "run"
    words = [*WORDS, "--devices", "50", "--windows", "200", "--rate", "40", "--out", str(out)]
    with Program(words, tmp_path / "log") as simulator:
        database = out / "collector.sqlite"
        simulator.until(lambda: stored(database), "a release")
        assert simulator.stop(number) == 1
    assert simulator.output.rstrip().endswith("interrupted")
    assert re.search(r"^releases +[1-9]", simulator.output, re.M)


@pytest.mark.needs("mosquitto")
def test_a_collector_that_is_silent_ends_the_run(tmp_path):
    with mosquitto(tmp_path) as port:
        url = f"mqtt://127.0.0.1:{port}"
        done = simulate("--devices", 3, "--windows", 1, "--url", url, "--give-up", 0.5)
    assert done.returncode == 1
    assert "no acknowledgement for 0.5 s" in done.stdout


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--devices", "0"], "0 is not from 1"),
        (["--devices", "many"], "invalid whole number"),
        (["--outages", "1.5"], "1.5 is not from 0 to 1"),
        (["--stream", "none"], "there is temp"),
        (["--prefix", "Big"], "is no id"),
        (["--url", "tcp://host"], "write mqtt://host:1883"),
        (["--url", "mqtt://127.0.0.1:1"], "refused"),
        (["--config", "none.yaml"], "none.yaml"),
        (["--pid", "999999999"], "No such file"),
        (["--url", "mqtt://host", "--database", "x"], "not allowed with"),
        (["--backlog", "--url", "mqtt://host"], "a broker and a collector of its own"),
        (["--backlog", "--database", "x"], "a broker and a collector of its own"),
        (["--backlog", "--kills", "1"], "--backlog goes without"),
        (["--backlog", "--rate", "1"], "--backlog goes without"),
        (["--backlog", "--windows", "1"], "--windows 2 or more"),
    ],
)
def test_wrong_input_is_refused_in_one_line(words, text, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # Without mosquitto, nothing is started either.
    try:
        code = main(words)
    except SystemExit as ended:
        code = ended.code
    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    assert text in said.err.splitlines()[-1]


@pytest.mark.needs("mosquitto")
def test_a_real_fleets_broker_is_not_loaded_by_mistake(tmp_path, capsys):
    """Its configuration names a broker and a database, so the simulator's own would be idle."""
    text = CONFIG.read_text()
    real = tmp_path / "real.yaml"
    real.write_text(text.replace("${BROKER:-localhost:1883}", "broker.example.org"))
    assert main(["--config", str(real), "--devices", "1"]) == 2
    assert "names a broker of its own" in capsys.readouterr().err
    real.write_text(text.replace("${VAR:-var}", "/var/lib/pansketch"))
    assert main(["--config", str(real), "--devices", "1"]) == 2
    assert "names a database of its own" in capsys.readouterr().err
