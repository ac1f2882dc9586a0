"""Daily caps and the ledger command: what was spent, and what may not be."""

import json

import pytest

from pansketch_agent.__main__ import main
from pansketch_agent.commands.show_ledger import spending
from pansketch_agent.ledger.accounts import DAY_SECONDS, day_of
from pansketch_agent.ledger.ledger import DailyCapError, Ledger

UNIT = 1_000_000
ONE_DAY = "time,temp,wind\n" + "".join(
    f"2024-01-0{1 + hour // 24}T{hour % 24:02d}:30:00Z,1,N\n" for hour in range(40)
)


def test_a_day_may_cost_its_cap_and_not_more(tmp_path):
    with Ledger(tmp_path) as ledger:
        for number in range(3):
            ledger.debit({"air": UNIT}, 10 * number, 10 * number + 10, 3 * UNIT)
        before = (tmp_path / "ledger").read_bytes()
        with pytest.raises(DailyCapError, match=r"daily cap of epsilon 3, .*; raise privacy"):
            ledger.debit({"air": UNIT}, 30, 40, 3 * UNIT)
        assert (tmp_path / "ledger").read_bytes() == before
        ledger.debit({"water": UNIT}, 30, 40, 3 * UNIT)
        assert ledger.debit({"air": UNIT}, DAY_SECONDS - 5, DAY_SECONDS + 5, 3 * UNIT)["air"] == 4


def test_a_restart_does_not_forget_the_day(tmp_path):
    for number in range(2):
        with Ledger(tmp_path) as ledger:
            ledger.debit({"air": UNIT}, 10 * number, 10 * number + 10, 2 * UNIT)
    with Ledger(tmp_path) as ledger, pytest.raises(DailyCapError):
        ledger.debit({"air": UNIT}, 20, 30, 2 * UNIT)


def test_a_torn_line_counts_as_spent(tmp_path):
    with Ledger(tmp_path) as ledger:
        ledger.debit({"air": UNIT}, 0, 10)
        ledger.debit({"air": UNIT}, 10, 20)
    path = tmp_path / "ledger"
    path.write_bytes(path.read_bytes()[:-3])
    with Ledger(tmp_path) as ledger, pytest.raises(DailyCapError):
        ledger.debit({"air": UNIT}, 20, 30, 2 * UNIT)


@pytest.mark.parametrize(("end", "day"), [(1, 0), (DAY_SECONDS, 0), (DAY_SECONDS + 1, 1)])
def test_a_window_belongs_to_the_day_of_its_last_second(end, day):
    assert day_of(end) == day


def test_a_capped_stream_stops_with_reports_and_the_others_go_on(device, broker, peer, until):
    device.configure(broker.url, rows=ONE_DAY, privacy="{epsilon: 1, daily_cap: 5}")
    text = device.config.read_text()
    head, _, stream = text.partition("  air:\n")
    free = stream.replace(", daily_cap: 5", "")
    device.config.write_text(f"{head}  air:\n{stream}  water:\n{free}")
    with peer(broker.url) as collector:
        agent = device.start("run")
        assert agent.wait() == 1
        until(lambda: collector.statuses[-1].state == "stopped", "the farewell")
    said = [line for line in agent.output.splitlines() if "daily cap" in line]
    assert len(said) == 1
    assert "air: stopped at its daily cap of epsilon 5, nothing more is released" in said[0]
    assert [w.sequence for w in collector.windows() if w.stream == "air"] == [1, 2, 3, 4, 5]
    assert len([w for w in collector.windows() if w.stream == "water"]) == 40
    assert [debit[1] for debit in device.ledger()].count("air") == 5
    stopped_status = collector.statuses[-1].streams
    assert "stopped at its daily cap of epsilon 5" in stopped_status["air"].problem
    assert stopped_status["water"].problem == ""


def test_a_live_stream_that_stops_shows_while_the_agent_runs(device, broker, peer, until):
    device.configure(
        broker.url, source="{type: stdin}", window="1s", privacy="{epsilon: 1, daily_cap: 1}"
    )
    text = device.config.read_text()
    head, _, stream = text.partition("  air:\n")
    other = stream.replace("type: stdin", "type: system").replace(", daily_cap: 1", "")
    other = other.replace("temp:", "load1:").replace("wind: {cat", "load5: {cat")
    other = other.replace("{categories: [calm, N, NO]}", "{low: 0, high: 9}")
    device.config.write_text(f"{head}  air:\n{stream}  host:\n{other}")
    with peer(broker.url) as collector:
        agent = device.start("run")

        def stopped() -> bool:
            last = collector.statuses[-1:]
            return bool(last) and "daily cap" in last[0].streams["air"].problem

        until(stopped, "the problem in the status")
        assert collector.statuses[-1].state == "online"
        before = len(collector.releases)
        until(lambda: len(collector.releases) > before + 1, "the other stream")
        assert agent.stop() == 0
    assert [w.stream for w in collector.windows()].count("air") == 1


def spend(device) -> None:
    with Ledger(device.state) as ledger:
        for start in (0, 40_000, 80_000, 2 * DAY_SECONDS):
            ledger.debit({"air": 600_000}, start, start + 3600)
        ledger.debit({"old": 5}, 0, 10)


def test_the_ledger_command_shows_what_everything_has_cost(device, capsys):
    device.configure(privacy="{epsilon: 0.6, unit: {span: 10m, max_readings: 60}}")
    spend(device)
    assert main(["ledger", "--config", str(device.config)]) == 0
    header, air, old, *_ = capsys.readouterr().out.splitlines()
    assert header.split()[-5:] == ["busiest", "day", "on", "today", "lifetime"]
    assert air.split()[:4] == ["air", "4", "1970-01-01T00:00:00Z", "1970-01-03T01:00:00Z"]
    assert air.split()[4:] == ["0.01", "0.6", "-", "1.8", "1970-01-01", "0", "2.4"]
    assert old.split()[:2] == ["old", "1"]


def test_today_is_the_day_of_the_clock(device):
    config = device.configure()
    spend(device)
    found = [spending(config, now)[2][0].today_micro for now in (1, 172_801, 259_200)]
    assert found == [0, 600_000, 0]


def test_the_ledger_as_json_beside_a_running_agent(device, capsys):
    device.configure()
    spend(device)
    with Ledger(device.state):
        assert main(["ledger", "--json", "--config", str(device.config)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["torn"] == 0
    air = found["streams"]["air"]
    assert air["lifetime_micro"] == 2_400_000
    assert (air["busiest_day"], air["busiest_day_micro"]) == ("1970-01-01", 1_800_000)
    assert (air["reading_micro"], air["span_micro"], air["releases"]) == (600_000, None, 4)


def test_no_ledger_yet_is_no_error_and_is_not_made(device, capsys):
    device.configure()
    assert main(["ledger", "--config", str(device.config)]) == 0
    assert "none yet, nothing was ever released" in capsys.readouterr().out
    assert not device.state.exists()


@pytest.mark.parametrize("command", ["ledger", "run", "check"])
def test_a_tampered_ledger_is_one_line_that_names_it(device, capsys, command):
    device.configure()
    spend(device)
    path = device.state / "ledger"
    path.write_bytes(path.read_bytes().replace(b"600000", b"500000", 1))
    assert main([command, "--config", str(device.config)]) == 1
    captured = capsys.readouterr()
    text = captured.out if command == "check" else captured.err
    (line,) = [line for line in text.splitlines() if "damaged" in line]
    assert f"{path}:2: the ledger is damaged, nothing is published; restore it" in line


@pytest.mark.parametrize("command", ["ledger", "run"])
def test_an_unreadable_ledger_is_one_line_that_names_it(device, capsys, command):
    device.configure()
    path = device.state / "ledger"
    path.mkdir(parents=True)  # unreadable for all users, including root
    assert main([command, "--config", str(device.config)]) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert f"{path}: cannot be used (Is a directory)" in err


def test_the_ledger_shows_what_a_key_has_spent(keyed, device, capsys):
    keyed(privacy="{epsilon: 2}")
    with Ledger(device.state) as ledger:
        for hour in range(3):
            ledger.debit({"doors": 2 * UNIT}, 3600 * hour, 3600 * (hour + 1))
    assert main(["ledger", "--json", "--config", str(device.config)]) == 0
    doors = json.loads(capsys.readouterr().out)["streams"]["doors"]
    assert (doors["reading_micro"], doors["span_micro"]) == (None, None)
    assert (doors["key_micro"], doors["busiest_day_micro"]) == (2 * UNIT, 6 * UNIT)
    assert main(["ledger", "--config", str(device.config)]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[1].split()[4:9] == ["-", "-", "2", "6", "1970-01-01"]
    assert "a key once in each window that it appears in" in out
