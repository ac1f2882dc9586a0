"""The command line: exit codes, single-line errors, and the guarantee that validate prints."""

import subprocess
import sys
from pathlib import Path

import pytest

from pansketch_agent.__main__ import main
from pansketch_agent.ledger.ledger import Ledger
from pansketch_agent.outbox.outbox import Key, Outbox


def config_of(device):
    return ["--config", str(device.config)]


@pytest.mark.parametrize(
    ("change", "culprit", "words"),
    [
        (("path: rows.csv", "path: gone.csv"), "gone.csv", "streams.air.source.path"),
        (("temp:", "tmp:"), "tmp:", "no 'tmp'; rename it to one of: temp, wind"),
        (("type: replay, path: rows.csv", "type: system, interval: 1s"), "temp:", "no 'temp'"),
        (("window: 1h", "window: soon"), "soon", "streams.air.window"),
        (("wind:", "wnd:"), "wnd:", "no 'wnd'; rename it to one of: temp, wind"),
        (("device: dev-1", "device: Dev 1"), "Dev 1", "agent.device"),
        (("source:", "sauce:"), "sauce:", "sauce"),
    ],
)
@pytest.mark.parametrize("command", ["validate", "run", "once"])
def test_wrong_input_is_one_line_with_file_line_and_fix(
    device, capsys, change, culprit, words, command
):
    device.configure()
    device.config.write_text(device.config.read_text().replace(*change))
    assert main([command, *config_of(device)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert f"config.yaml:{device.line_of(culprit)}: " in err
    assert words in err
    assert not device.state.exists()


@pytest.mark.parametrize("rows", ["", "when,temp,wind\n"])
def test_a_file_without_times_is_wrong_input(device, capsys, rows):
    device.configure(rows=rows)
    assert main(["validate", *config_of(device)]) == 2
    err = capsys.readouterr().err
    assert f"config.yaml:{device.line_of('source:')}: streams.air.source.path: " in err
    assert "no column 'time'" in err


@pytest.mark.parametrize(
    ("arguments", "program"),
    [
        ([], "pansketch-agent"),
        (["fly"], "pansketch-agent"),
        (["run", "--fly"], "pansketch-agent"),
        (["run", "--drain", "soon"], "pansketch-agent run"),
        (["once", "--drain", "-1"], "pansketch-agent once"),
        (["run", "--config", "a", "--config-dir", "b"], "pansketch-agent run"),
    ],
)
def test_a_wrong_command_line_is_one_line(capsys, arguments, program):
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err.startswith(f"{program}: ")
    assert err.endswith(f"; see {program} --help\n")


def test_a_missing_configuration(capsys, tmp_path):
    assert main(["run", "--config", str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["validate", "--help"]])
def test_help(capsys, arguments):
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "usage: pansketch-agent" in out


def test_validate_states_what_it_costs(device, capsys):
    spec = device.configure().streams[0].spec
    assert main(["validate", *config_of(device)]) == 0
    out = capsys.readouterr().out
    facts = dict(line.strip().split("  ", 1) for line in out.splitlines() if line.startswith("  "))
    facts = {name: text.strip() for name, text in facts.items()}
    assert facts["no step"].startswith("temp: errors allow for any usual one; state it")
    assert facts["state"].startswith(f"{spec.nbytes} bytes")
    assert facts["release"].startswith(f"about {spec.release_nbytes} bytes")
    assert str(24 * spec.release_nbytes) in facts["network"] or "KiB" in facts["network"]
    assert facts["disk"] == "about 384.0 KiB written a day, in whole blocks of 4096 bytes"
    assert "days without the collector, then new releases are dropped" in facts["outbox"]
    assert facts["unit"] == "one reading, added or removed"
    assert facts["epsilon"] == "1 per reading per stream"
    assert facts["a silent snapshot"] == "adds nothing: snapshot and releases jointly cost 1"
    assert facts["a reading"] == "spends 1: it is in one window of this stream only"
    assert "a span" not in facts
    assert facts["a day"] == "1 for each reading in it: n readings of one source spend n x 1"
    assert facts["daily cap"] == "none"
    assert facts["intrusion"] == "silent"
    assert facts["delta"] == "0"
    assert facts["fingerprint"] == spec.fingerprint.hex()
    assert not device.state.exists()


@pytest.mark.parametrize(("kind", "searched"), [("views", True), ("moments", False)])
def test_validate_names_a_missing_step_where_errors_hold_one(device, capsys, kind, searched):
    device.configure()
    lines = device.config.read_text().splitlines()
    lines = [each for each in lines if not each.startswith("    sketch")]
    lines.insert(lines.index("  air:") + 1, f"    sketches: [{{type: {kind}}}]")
    device.config.write_text("\n".join(lines))
    assert main(["validate", *config_of(device)]) == 0
    assert ("  no step" in capsys.readouterr().out) is searched


def test_validate_warns_that_announced_does_not_cover_silence(device, capsys):
    device.configure()
    text = device.config.read_text().replace("intrusion: silent", "intrusion: announced")
    device.config.write_text(text)
    assert main(["validate", *config_of(device)]) == 0
    assert "is not covered when the device publishes again" in capsys.readouterr().out


def test_print_config_shows_origins_and_no_secret(device, capsys):
    device.configure()
    text = device.config.read_text().replace(
        "}\nagent", ", username: me, password: s3cret}\nagent", 1
    )
    device.config.write_text(text)
    assert main(["print-config", *config_of(device)]) == 0
    out = capsys.readouterr().out
    assert f"config.yaml:{device.line_of('window:')}" in out
    assert "profile pi-zero-2w" in out
    assert "***" in out
    assert "s3cret" not in out


def test_a_damaged_ledger_stops_everything(device, capsys):
    device.configure()
    with Ledger(device.state) as ledger:
        ledger.debit({"air": 1}, 0, 10)
        ledger.debit({"air": 1}, 10, 20)
    path = device.state / "ledger"
    path.write_bytes(path.read_bytes().replace(b"air 0 10", b"air 0 11"))
    assert main(["run", *config_of(device)]) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert f"{path}:2: the ledger is damaged" in err
    assert device.outbox() == []


def test_a_ledger_from_an_old_copy_stops_everything(device, capsys, release_of):
    config = device.configure()
    with Ledger(device.state):
        outbox = Outbox(device.state / "outbox", 10**6)
        outbox.put(Key(1, "air"), release_of(config, 1))
    assert main(["run", *config_of(device)]) == 1
    assert "is older than the outbox" in capsys.readouterr().err
    assert len(outbox) == 1


def test_a_second_agent_is_refused(device, capsys):
    device.configure()
    with Ledger(device.state):
        assert main(["run", *config_of(device)]) == 1
    assert "another agent is running" in capsys.readouterr().err


def test_an_unwritable_state_folder_is_reported(device, capsys):
    device.configure()
    device.state.parent.mkdir(parents=True)
    device.state.write_text("a file")
    assert main(["run", *config_of(device)]) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "cannot be used" in err


def test_the_device_imports_only_what_it_may():
    code = (
        "import sys, pansketch_agent.__main__; "
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    root = Path(__file__).resolve().parents[2]
    run = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    loaded = set(run.stdout.split())
    assert {"pansketch_agent", "numpy", "paho", "msgspec"} <= loaded
    assert not loaded & {
        "pansketch_collector",
        "demo",
        "rich",
        "sqlite3",
        "matplotlib",
        "amqtt",
        "asyncio",
    }


def test_validate_states_how_long_a_slot_is_open(device, capsys):
    unit = "{span: 10m, max_readings: 3, open: 20s}"
    device.configure(source="{type: stdin}", privacy=f"{{epsilon: 0.6, unit: {unit}}}")
    assert main(["validate", *config_of(device)]) == 0
    slot = next(line for line in capsys.readouterr().out.splitlines() if "a slot" in line)
    assert "310 s, open for its first 20 s (6.5 % of the time)" in slot
    assert "whether it had its reading is in memory for 20 s at most" in slot


def test_validate_states_what_a_span_costs_and_how_it_is_kept(device, capsys):
    device.configure(
        privacy="{epsilon: 0.6, unit: {span: 10m, max_readings: 60}, daily_cap: 2}", window="7h"
    )
    assert main(["validate", *config_of(device)]) == 0
    out = capsys.readouterr().out
    for words in (
        "one span of 600 s with at most 60 readings, added or removed",
        "0.6 per span, over all windows it touches",
        "spends 0.01: it is in one window of this stream only",
        "spends 0.6 as a whole, over all windows it touches",
        "10.3448 s, by the times of the file: of the rows in it the first is taken",
        "86.4 at most, for a source in every span (144 spans of 10m)",
        "2: at most 3 windows a day of this stream on this device, then the stream stops",
    ):
        assert words in out
