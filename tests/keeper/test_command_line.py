"""The commands of a keeper: files for their owner only, one process, no key without its ledger."""

import json
import os
import re
import stat

import pytest

from pansketch_keeper import state
from pansketch_keeper.__main__ import main
from pansketch_keeper.ledger import KeeperLedger
from tests.keeper.site import answerer, ask_of, released

KEY = re.compile(r"  tower: \{key: ([0-9a-f]{64})(?:, previous: \[(.*)\])?\}")


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """A command in a folder of its own: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pansketch_keeper.__main__._harden", list)

    def found(*words):
        code = main(words)
        out, err = capsys.readouterr()
        return code, out, err

    return found


@pytest.fixture
def made(run):
    code, out, _ = run("init", "--fleet", "meadow", "--name", "tower", "--url", "mqtt://h")
    assert code == 0
    return KEY.search(out)[1]


def public(out):
    """Current key, and earlier ones."""
    key, previous = KEY.search(out).groups()
    return key, previous.split(", ") if previous else []


def test_init_writes_for_its_owner_only(made, tmp_path):
    folder = tmp_path / "keeper-state"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    with state.opened(folder) as held:
        assert [key.public.hex() for key in held.keys.values()] == [made]
        # WAL files too, which SQLite makes while the ledger is open.
        assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}


def test_init_overwrites_nothing(made, run, tmp_path):
    again = ("init", "--fleet", "meadow", "--name", "tower", "--url", "mqtt://h")
    assert run(*again)[0] == 2
    (tmp_path / "keeper.yaml").unlink()
    code, _, err = run(*again)
    assert (code, "is not empty" in err) == (2, True)
    assert not (tmp_path / "keeper.yaml").exists()
    assert run("init", "--fleet", "Meadow", "--name", "tower", "--url", "mqtt://h")[0] == 2
    assert run("init", "--fleet", "meadow", "--name", "tower", "--url", "http://h")[0] == 2


@pytest.mark.parametrize(
    ("option", "value", "place"),
    [("--config", "no/keeper.yaml", "no/keeper.yaml"), ("--state", "file/state", "file/state")],
)
def test_init_names_what_it_cannot_make(run, tmp_path, option, value, place):
    (tmp_path / "file").write_text("")
    words = ("--fleet", "meadow", "--name", "tower", "--url", "mqtt://h", option, value)
    code, _, err = run("init", *words)
    assert (code, len(err.splitlines()), "; " in err) == (2, 1, True)
    assert err.startswith(f"pansketch-keeper: {place}: cannot be ")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_init_takes_any_name_of_a_folder(run, tmp_path):
    words = ("--fleet", "meadow", "--name", "tower", "--url", "mqtt://h", "--state", "it's: #1")
    assert run("init", *words)[0] == 0
    assert (tmp_path / "it's: #1" / "ledger.sqlite").exists()
    assert run("check")[0] == 0


def test_rotate_keeps_the_old_key_until_it_is_erased(made, run, tmp_path):
    code, out, _ = run("rotate")
    current, previous = public(out)
    assert (code, previous) == (0, [made])
    assert current != made
    assert public(run("export-public")[1]) == (current, [made])
    ids = re.search(r"last: (.*)", out)[1].split(", ")
    path = tmp_path / "keeper-state" / f"key-{ids[0]}"
    held = os.open(path, os.O_RDONLY)
    try:
        assert os.pread(held, 32, 0) != bytes(32)
        assert public(run("rotate", "--erase", ids[0])[1]) == (current, [])
        assert os.pread(held, 32, 0) == bytes(32), "overwritten, not only unlinked"
    finally:
        os.close(held)
    assert not path.exists()
    assert run("rotate", "--erase", ids[0])[0] == 2
    code, _, err = run("rotate", "--erase", ids[1])
    assert (code, "current key" in err) == (2, True)
    for no_id in ("no-key", ""):
        assert "no id of a key" in run("rotate", "--erase", no_id)[2]
    assert run("check")[0] == 0


@pytest.mark.parametrize("rest", ["key-{id}.new", "key-{id}"])
def test_a_rotation_that_a_crash_cut_off_is_finished(made, run, tmp_path, rest):
    """After the ledger's entry and before the file has its name, or after both."""
    folder = tmp_path / "keeper-state"
    (path,) = folder.glob("key-*")
    path.rename(folder / rest.format(id=path.name.removeprefix("key-")))
    assert run("check")[0] == 0
    assert path.exists()


def test_a_rotation_without_its_entry_is_undone(made, run, tmp_path):
    path = tmp_path / "keeper-state" / f"key-{'0' * 16}.new"
    path.write_bytes(bytes(32))
    assert run("check")[0] == 0
    assert not path.exists()


def damage(folder, what):
    (key,) = folder.glob("key-*")
    match what:
        case "no ledger":
            (folder / "ledger.sqlite").unlink()
        case "old ledger":
            (folder / f"key-{'0' * 16}").write_bytes(bytes(32))
        case "no key":
            key.unlink()
        case "init was cut off":
            for path in folder.iterdir():
                path.unlink()
            with KeeperLedger.create(folder / "ledger.sqlite"):
                pass
        case "another key":
            key.write_bytes(bytes(range(32)))
        case "short key":
            key.write_bytes(bytes(31))
        case "readable key":
            key.chmod(0o644)
        case "link to a key":
            key.rename(folder / "elsewhere")
            key.symlink_to(folder / "elsewhere")
        case "no mark":
            (folder / "ledger-mark").unlink()
        case "no ledger's mark":
            (folder / "ledger-mark").write_text("soon")
        case "another file of that name":
            (folder / "key-of-the-door").write_text("under the mat")
        case "open folder":
            folder.chmod(0o755)
        case "link to the folder":
            folder.rename(folder.with_name("real"))
            folder.symlink_to(folder.with_name("real"))


@pytest.mark.parametrize(
    "what",
    [
        *("no ledger", "old ledger", "no key", "another key", "short key", "readable key"),
        *("link to a key", "open folder", "link to the folder", "no mark", "no ledger's mark"),
        *("another file of that name", "init was cut off"),
    ],
)
def test_a_state_that_is_not_whole_is_refused(made, run, tmp_path, what):
    damage(tmp_path / "keeper-state", what)
    code, out, err = run("check")
    assert (code, "wrong" in out) == (1, True), err
    code, _, err = run("run")
    assert code == (2 if "folder" in what else 1)
    assert len(err.splitlines()) == 1, "no connection was tried"
    assert "; " in err, "what to do"


def test_one_process_holds_a_state(made, run, tmp_path):
    with state.opened(tmp_path / "keeper-state"):
        for command in ("run", "rotate"):
            code, _, err = run(command)
            assert (code, "another keeper" in err) == (1, True)
        assert run("ledger")[0] == run("export-public")[0] == 0


def test_the_ledger_is_shown_by_stream_and_level(sites, run, tmp_path):
    tower = sites[0]
    tower.write(1)
    with state.opened(tower.state) as held:
        answerer(held).reply(ask_of(tower, released(sites, range(1, 4))).encode())
    config = ("--config", str(tower.config))
    _, out, _ = run("ledger", "--json", *config)
    assert json.loads(out) == [
        {"stream": "air", "level": "window", "share": "1"}
        | {"questions": 1, "devices": 1, "windows": 3, "open": 0}
    ]
    assert run("ledger", *config)[1].splitlines()[1].split() == ["air", "window", *"11130"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "is empty"),
        ("fleet: meadow\n", "is missing"),
        ("fleet: A B\nname: x\nmqtt: {url: 'mqtt://h'}\n", "no id"),
        ("fleet: a\nname: x\nmqtt: {url: 'mqtt://h'}\nkey: 1\n", "unknown key"),
        ("fleet: a\nname: x\nmqtt: {url: 'mqtt://h', username: x, password: ''}\n", "is empty"),
    ],
)
def test_a_wrong_configuration_is_one_line(run, tmp_path, text, what):
    (tmp_path / "keeper.yaml").write_text(text)
    code, _, err = run("run")
    assert (code, len(err.splitlines())) == (2, 1)
    assert what in err
    assert run("nothing")[0] == run("run", "--more")[0] == 2
    assert run("--help")[0] == 0
