"""`validate` and `check` of a stream of keys: its key, its error and its cost."""

import json

import pytest

from pansketch_agent.__main__ import main


@pytest.mark.parametrize(
    ("rows", "line", "words"),
    [
        ("time,bagde\n", 9, "no 'badge'; rename it to one of: bagde"),
        ("when,badge\n", 6, "no column 'time'"),
    ],
)
def test_a_file_without_the_key_is_wrong_input(keyed, device, capsys, rows, line, words):
    keyed(rows=rows)
    for command in ("validate", "run"):
        assert main([command, "--config", str(device.config)]) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert f"config.yaml:{line}: streams.doors." in err
        assert words in err


def facts_of(out: str) -> dict[str, str]:
    facts = (line.strip().split("  ", 1) for line in out.splitlines() if line.startswith("  "))
    return {name: text.strip() for name, text in facts}


def test_validate_states_how_good_the_answers_are_without_a_guess(keyed, device, capsys):
    spec = keyed(privacy="{epsilon: 2}", sketch="memory: 4KiB").streams[0].spec
    assert main(["validate", "--config", str(device.config)]) == 0
    facts = facts_of(capsys.readouterr().out)
    assert facts["tracked"] == "32768 slots, a bit each, on 16 levels (any number of keys)"
    for keys in (300, 3000, 100_000, 10_000_000):
        error = spec.planned_error(keys) / keys
        assert f"± {error:.2g} of {keys:,} keys" in facts["planned error"]
    keyed(privacy="{epsilon: 2}", sketch="memory: 64B, release: bitmap")
    assert main(["validate", "--config", str(device.config)]) == 0
    facts = facts_of(capsys.readouterr().out)
    assert facts["planned error"].endswith("no estimate of 10,000,000 keys (standard error)")


def test_validate_states_what_a_key_spends_and_how_good_the_answers_are(keyed, device, capsys):
    sketch = "expected_keys: 5000, memory: 512B, release: bitmap"
    spec = keyed(privacy="{epsilon: 2, daily_cap: 5}", sketch=sketch).streams[0].spec
    assert main(["validate", "--config", str(device.config)]) == 0
    facts = facts_of(capsys.readouterr().out)
    assert facts["key"] == "badge (any text)"
    assert facts["tracked"] == "4096 of 8192 slots, a bit each (level 1)"
    error = spec.planned_error(5000)
    assert facts["planned error"] == f"± {error:.2g} keys (standard error) for 5000 on one device"
    assert facts["state"] == "512 bytes, from the first instant to the last"
    assert (
        facts["unit"] == "one key: all that bears it in a window on this device, added or removed"
    )
    assert facts["epsilon"] == "2 per key per window per device: state 1 + output 1"
    assert facts["a silent snapshot"] == "is covered: snapshot and release jointly cost 2"
    assert facts["a key"] == (
        "spends 2 in each window on each device that it appears on: w windows on d devices cost "
        "w x d x 2"
    )
    day = "48 at most, for a key in every window on one device (24 windows of 1h)"
    assert facts["a day"] == day
    assert facts["an announced intrusion"].startswith("freezes the sketch: no more keys until")
    assert facts["daily cap"] == (
        "5: at most 2 windows a day of this stream on this device, then the stream stops"
    )
    assert facts["fingerprint"] == spec.fingerprint.hex()


def test_validate_of_a_universe_and_of_announced_intrusions(keyed, device, capsys):
    keyed(privacy="{epsilon: 2, intrusion: announced}")
    assert main(["validate", "--config", str(device.config)]) == 0
    facts = facts_of(capsys.readouterr().out)
    assert facts["key"] == "badge (the numbers 0 to 999)"
    assert facts["epsilon"] == "2 per key per window per device: state 2 + output 0"
    assert facts["a silent snapshot"].startswith("is not covered")


def test_check_names_the_key_and_what_it_spends(keyed, device, capsys):
    keyed(privacy="{epsilon: 2}", sketch="universe: 1000, release: bitmap")
    main(["check", "--json", "--config", str(device.config)])
    found = {each["subject"]: each for each in json.loads(capsys.readouterr().out)}
    assert found["source doors"]["text"].endswith("rows.csv: has the key badge")
    assert found["keys doors"]["state"] == "note"
    assert found["keys doors"]["text"] == (
        "epsilon 2 per key per window per device (state 1 + output 1), 48 for a key all day long "
        "on one device"
    )
