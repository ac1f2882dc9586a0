"""Tests of the tutorial without packages; `make test-deb` runs its commands."""

import re
from pathlib import Path

import pytest

from pansketch_fleet.config.loader import load_agent, load_collector
from pansketch_fleet.protocol.signed_release import new_credentials
from testbed.debian.tutorial import (
    CLONE,
    FOLDERS,
    PAGE,
    Block,
    TutorialError,
    blocks,
    files,
    left_over,
    owned,
)

REPOSITORY = Path(__file__).parents[3]
FOUND = list(blocks(PAGE.read_text()))


def test_each_machine_has_commands_and_make_runs_those_of_the_clone():
    assert {block.machine for block in FOUND} == {*FOLDERS, CLONE}
    first = next(block for block in FOUND if block.machine == CLONE)
    assert first.commands.startswith("make deb ")
    assert re.search(r"^test-deb: deb ", (REPOSITORY / "Makefile").read_text(), re.M)
    for block in FOUND:
        if block.machine == CLONE:
            assert all(line.startswith("make ") for line in block.commands.splitlines())


def test_a_block_without_a_machine_is_refused():
    """Negative control."""
    with pytest.raises(TutorialError, match="ls /"):
        list(blocks("```sh\nls /\n```\n"))
    with pytest.raises(TutorialError, match="no machine"):
        list(blocks('```sh title="desktop"\nls /\n```\n'))


def test_the_text_below_a_block_is_its_output():
    found = '```sh title="pi"\nls\n```\n\nSee:\n\n```text\na\n```\n'
    page = f"{found}```yaml\nb\n```\n```text\nc\n```\n"
    assert list(blocks(page)) == [Block("pi", "ls\n", "a\n")]


def test_an_output_without_a_line_is_noticed():
    block = Block("pi", "ls\n", "at … and …, then\nb\n")
    assert block.missing("x\nat 1 and  2, then\n  b c\n") == []
    assert block.missing("at 1 or 2, then\nb") == ["at … and …, then"]


def test_a_file_that_is_left_is_noticed_unless_an_output_names_it(tmp_path):
    for name in ("etc/own/file", "var/lib/kept/ledger", "var/log/line", ".hidden/file"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    found = files(tmp_path)
    assert {"/etc/own/file", "/var/lib/kept/ledger", "/.hidden/file"} <= found
    assert "/var/log/line" not in found
    before = {"/etc", "/var", "/var/lib", "/.hidden", "/.hidden/file"}
    kept = "it: /var/lib/kept is kept: for you"
    assert left_over(before, found, "") == {*found} - before
    assert left_over(before, found, kept) == {"/etc/own", "/etc/own/file"}


def test_a_package_of_debian_excuses_its_files_and_one_of_ours_does_not(tmp_path):
    info = tmp_path / "var/lib/dpkg/info"
    info.mkdir(parents=True)
    (info / "adduser.list").write_text("/.\n/etc\n/etc/adduser.conf\n")
    (info / "pansketch-agent.list").write_text("/etc\n/etc/pansketch\n")
    assert owned(tmp_path) == {"/.", "/etc", "/etc/adduser.conf"}


def test_the_files_of_the_page_are_one_fleet(tmp_path):
    """As the shell joins them: a section `mqtt` of each program, and the settings of the fleet."""
    page = PAGE.read_text()
    texts = dict(re.findall(r"^cat .*?> (\S+) <<'YAML'\n(.*?)^YAML$", page, re.M | re.S))
    fleet = texts["/root/fleet.yaml"]
    for name in ("ca.crt", "collector.crt", "collector.key"):
        (tmp_path / name).write_text("")
    device = tmp_path / "device.json"
    device.write_bytes(new_credentials("home", "attic").encode())
    device.chmod(0o600)

    def written(name):
        text = (texts[name] + fleet).replace("/etc/pansketch/ca.crt", str(tmp_path / "ca.crt"))
        path = tmp_path / Path(name).name
        path.write_text(text)
        return path

    environment = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    agent = load_agent(written("/root/attic.yaml"), environment)
    collector = load_collector(written("/etc/pansketch/collector.yaml"), environment)
    assert agent.agent.credentials is not None
    assert agent.mqtt.enrolled
    assert collector.mqtt.cert_file == tmp_path / "collector.crt"
    assert [each.spec for each in agent.streams] == [each.spec for each in collector.streams]
