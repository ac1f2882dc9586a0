"""One line and an exit code for every wrong input on the command line."""

import pytest

BAD = [
    (["query", "--stream", "water", "mean", "temp"], 2, "unknown stream 'water'"),
    (
        ["query", "--stream", "fine", "mean", "rain"],
        2,
        "unknown attribute 'rain'; the stream has temp",
    ),
    (
        ["query", "--stream", "fine", "mean", "wind"],
        2,
        "wind has categories: ask `count 'wind = calm'`",
    ),
    (["query", "--stream", "fine", "mean", "temp", "5"], 2, "write: query --stream STREAM mean"),
    (["query", "--stream", "fine", "quantile", "temp"], 2, "quantile ATTRIBUTE Q"),
    (["query", "--stream", "fine", "quantile", "temp", "1.5"], 2, "between 0 and 1"),
    (["query", "--stream", "fine", "quantile", "temp", "-0.1"], 2, "between 0 and 1"),
    (["query", "--stream", "fine", "quantile", "temp", "nan"], 2, "'nan' is not a number"),
    (["query", "--stream", "fine", "cdf", "temp", "warm"], 2, "'warm' is not a number"),
    (["query", "--stream", "fine", "range", "temp", "5"], 2, "give LOW and HIGH"),
    (["query", "--stream", "fine", "range", "temp", "9", "5"], 2, "LOW must not exceed HIGH"),
    (["query", "--stream", "fine", "range", "temp", "0", "5", "temp", "1", "2"], 2, "given twice"),
    (["query", "--stream", "fine", "range", "wind", "west"], 2, "no category 'west'"),
    (["query", "--stream", "fine", "range", "temp", "0", "5", "wind"], 2, "name one of calm"),
    (["query", "--stream", "fine", "median", "temp"], 2, "invalid choice"),
    (["query", "mean", "temp"], 2, "--stream"),
    (["query", "--stream", "fine", "--from", "soon", "mean", "temp"], 2, "'soon' is no date"),
    (["query", "--stream", "fine", "--to", "0", "mean", "temp"], 2, "no window of fine starts"),
    (["query", "--stream", "fine", "--devices", "zed", "mean", "temp"], 2, "there are one, two"),
    (["query", "--stream", "air", "mean", "temp"], 1, "nothing stored yet of stream air"),
    (["sample", "--stream", "air", "--rows", "5", "--out", "-"], 1, "nothing stored yet"),
    (["sample", "--stream", "fine", "--rows", "0", "--out", "-"], 2, "whole number from 1"),
    (["sample", "--stream", "fine", "--rows", "many", "--out", "-"], 2, "whole number"),
    (["sample", "--stream", "fine", "--rows", "9" * 20, "--out", "-"], 2, "1 to 100000000"),
    (["sample", "--stream", "fine", "--rows", "9" * 5000, "--out", "-"], 2, "1 to 100000000"),
    (["sample", "--stream", "fine", "--rows", "5"], 2, "--out"),
    (["sample", "--stream", "fine", "--rows", "5", "--out", "/no/folder/x.csv"], 2, "cannot write"),
    (["sample", "--stream", "fine", "--rows", "5", "--out", "/tmp"], 2, "cannot write /tmp"),
    (["sample", "--stream", "fine", "--rows", "5", "--out", "-", "--seed", "-1"], 2, "--seed"),
    (["export", "--stream", "air", "--out", "-"], 1, "nothing stored yet"),
    (["export", "--stream", "fine", "--devices", "zed", "--out", "-"], 2, "from device 'zed'"),
    (["devices", "--color"], 2, "unrecognized"),
    (["dance"], 2, "invalid choice"),
    (["devices", "--config", "a", "--config-dir", "b"], 2, "'a' is given, too; name one of them"),
    (["quarantine"], 2, "required: list|retry"),
    (["devices", "At tic"], 2, "'At tic' is no pattern"),
    (["exclude", "At*"], 2, "'At*' is no device's name"),
    (["forget", "-"], 2, "nothing is known of a device '-'"),
    (["revoke", "\x1b[2J"], 2, "is no device's name"),
    (["disputed"], 2, "required: list|keep|drop"),
    (["verify", "/no/copy.sqlite"], 2, "there is no file /no/copy.sqlite"),
    (["verify", __file__], 1, "is not a collector's database: name another file"),
    (["verify", "/no/copy.sqlite", "--rebuild"], 2, "there is no file /no/copy.sqlite"),
]


@pytest.mark.parametrize(("words", "code", "part"), BAD)
def test_wrong_input_gives_one_line_on_stderr_and_its_exit_code(filled, run, words, code, part):
    got, out, err = run(*words)
    assert (got, out) == (code, "")
    assert part in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_no_command_and_no_configuration(run, tmp_path):
    assert run()[0] == 2
    code, _, err = run("devices", config=tmp_path / "missing.yaml")
    assert code == 2
    assert "missing.yaml" in err
    assert err.count("\n") == 1
    broken = tmp_path / "broken.yaml"
    broken.write_text("fleet: x\nflet: y\n")
    code, _, err = run("devices", config=broken)
    assert code == 2
    assert "broken.yaml:2" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ["devices"],
        ["query", "--stream", "fine", "mean", "temp"],
        ["sample", "--stream", "fine", "--rows", "1", "--out", "-"],
        ["export", "--stream", "fine", "--out", "-"],
    ],
)
def test_without_a_database_every_reader_names_the_fix(small_fleet, run, words):
    code, out, err = run(*words)
    assert (code, out) == (1, "")
    assert "there is no database" in err
    assert "serve" in err
    assert err.count("\n") == 1
    assert not small_fleet.database.exists()
