"""`python -m chaos`: a small run accounts for everything, and would notice if it did not."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from agent.outbox import Key, Outbox
from agent.records import FORGOTTEN, encode
from agent.segments import numbers_in
from chaos import accounting, damage, evidence
from chaos.accounting import account
from chaos.faults import KINDS, Targets, schedule
from chaos.injector import ACTS
from chaos.packets import PublishReader, connect, publish
from chaos.programs import End
from chaos.site import database_in, state_in
from chaos.sums import wrong_sums
from chaos.witness import Name

REPOSITORY = Path(__file__).resolve().parents[2]
SMALL = ("--devices", "2", "--windows", "4", "--faults", "6", "--seed", "121")
MOST_SECONDS = 150.0
TARGETS = Targets({kind.where: ("one", "two") for kind in KINDS})


def start(folder: Path, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "chaos", "--out", str(folder), *options],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    said, _ = process.communicate(timeout=MOST_SECONDS)
    return process.returncode, said


def left_behind(folder: Path) -> list[str]:
    """The command lines of processes that have to do with the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words:
            found.append(words)
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, which nobody changes."""
    folder = tmp_path_factory.mktemp("chaos") / "run"
    code, said = ended(start(folder, *SMALL))
    assert code == 0, said
    assert "every debit is accounted for; nothing was merged twice" in said
    assert left_behind(folder) == []
    return folder


@pytest.fixture
def copied(run: Path, tmp_path: Path) -> Path:
    """The finished run once more, to be tampered with."""
    shutil.copytree(run, tmp_path / "run")
    return tmp_path / "run"


def failures(folder: Path) -> list[str]:
    found = evidence.gather(folder)
    return [*account(found).failures, *wrong_sums(folder, found)]


def in_database(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(database_in(folder), isolation_level=None)) as database:
        for statement in statements:
            database.execute(statement)


def test_every_debit_of_a_run_is_in_one_class(run):
    found = evidence.gather(run)
    settled = account(found)
    assert settled.failures == ()
    assert sum(found.run.faults.values()) == 6
    assert len(settled.classes) == len(found.debits) == sum(settled.totals().values())
    # Two streams of two devices, four windows of each at least.
    assert len(found.debits) >= 16
    assert settled.totals()[accounting.NOWHERE] == 0
    assert settled.totals()[accounting.MERGED] == len(found.stored) > 0
    # The second device writes only what is not acknowledged in time.
    assert {held.name.device for held in found.run.held} == {"dev-02"}
    assert {held.name for held in found.run.held} & {row.name for row in found.stored}
    assert (run / "report.json").exists()
    assert "| all |" in (run / "report.md").read_text()


COLUMNS = "device, stream, sequence, window_start, window_end, fingerprint, digest, received_at"
COLUMNS += ", payload"
# Of the device that writes before it sends: what the other one loses, a kill may explain.
ONE = "rowid = (SELECT min(rowid) FROM releases WHERE device = 'dev-01')"
TAMPERED: dict[str, tuple[tuple[str, ...], str]] = {
    "a release that is lost": ((f"DELETE FROM releases WHERE {ONE}",), "debited, and nowhere"),
    "one that is stored again under another name": (
        (
            f"CREATE TEMP TABLE other AS SELECT * FROM releases WHERE {ONE}",
            "UPDATE other SET sequence = sequence + 1000, window_start = window_start + 10000,"
            " window_end = window_end + 10000",
            "INSERT INTO releases SELECT * FROM other",
        ),
        "stored 2 times",
    ),
    "one that is stored twice": (
        (
            "CREATE TABLE loose AS SELECT * FROM releases",
            f"INSERT INTO loose SELECT * FROM releases WHERE {ONE}",
            "DROP TABLE releases",
            "ALTER TABLE loose RENAME TO releases",
        ),
        "stored 2 times",
    ),
    "one with other bytes": (
        (f"UPDATE releases SET payload = CAST(payload || x'00' AS BLOB) WHERE {ONE}",),
        "stored with other bytes than the device's",
    ),
    "one of another window": (
        (f"UPDATE releases SET window_start = window_start - 1 WHERE {ONE}",),
        "stored with another window than the debit's",
    ),
    "one that is disputed": (
        (
            f"INSERT INTO disputed ({COLUMNS}, disputed_at) SELECT {COLUMNS}, 0 FROM releases"
            f" WHERE {ONE}",
        ),
        "disputed, as if it had been made twice",
    ),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_the_accounting_notices(copied, what):
    """Negative controls, in the collector's database."""
    statements, says = TAMPERED[what]
    in_database(copied, *statements)
    assert any(says in failure for failure in failures(copied)), failures(copied)


def test_the_program_fails_when_something_is_lost(copied):
    in_database(copied, f"DELETE FROM releases WHERE {ONE}")
    code, said = ended(start(copied, "--judge"))
    assert code == 1
    assert "debited, and nowhere" in said


def test_it_notices_a_debit_that_is_gone_and_one_that_is_changed(copied):
    ledger = state_in(copied, "dev-01") / "ledger"
    whole = ledger.read_bytes()
    lines = whole.splitlines(keepends=True)
    ledger.write_bytes(b"".join([lines[0], *lines[2:]]))
    assert any("without a debit" in failure for failure in failures(copied))
    ledger.write_bytes(whole.replace(b"debit 1 ", b"debit 9 ", 1))
    assert any("the ledger is damaged" in failure for failure in failures(copied))


def test_it_notices_other_bytes_in_what_was_seen(copied):
    """As if a device had made one release twice, and as if nobody had seen one."""
    made = copied / evidence.MADE
    first, *rest = made.read_text().splitlines()
    other = next(line for line in rest if '"payload"' in line)
    twice = first.partition('"payload"')[0] + '"payload"' + other.partition('"payload"')[2]
    made.write_text("\n".join([first, twice, *rest]) + "\n")
    assert any("made 2 times" in failure for failure in failures(copied))
    made.write_text("\n".join(rest) + "\n")
    assert any("other bytes than the device's" in failure for failure in failures(copied))


def changed(folder: Path, /, **values: object) -> list[str]:
    return list(account(replace(evidence.gather(folder), **values)).failures)


def stored_first(found: evidence.Evidence) -> Name:
    return next(row.name for row in found.stored if row.name.device == "dev-01")


def test_a_crash_excuses_only_what_nobody_has_seen(run):
    found = evidence.gather(run)
    lost = stored_first(found)
    rest = tuple(row for row in found.stored if row.name != lost)
    excused = replace(found.run, lost_with_process=found.run.lost_with_process | {lost})
    assert changed(run, stored=rest, run=excused) == [f"{lost}: debited, and nowhere"]
    unseen = {name: payloads for name, payloads in found.made.items() if name != lost}
    assert changed(run, stored=rest, run=excused, made=unseen) == []


@pytest.mark.parametrize(
    ("end", "fine"),
    [
        (End("dev-01", 1, "pansketch-agent: anything", False), False),
        (End("dev-01", -11, "", False), False),
        (End("dev-01", -9, "", True), True),
        (End("broker", -11, "", False), True),
        (End("collector", 1, "database x: database is locked: check", False), True),
        (End("collector", 1, "anything else", False), False),
    ],
)
def test_a_program_ends_by_itself_for_a_known_reason_only(run, end, fine):
    ends = replace(evidence.gather(run).run, ends=(end,))
    assert (changed(run, run=ends) == []) is fine


def test_drops_are_counted_and_named(run):
    found = evidence.gather(run)
    device = found.run.devices[0]
    (waiting, _), quiet = found.listed[device], replace(found.run, ends=())
    many = found.counted_dropped[device] + 5
    listed = {**found.listed, device: (waiting, many)}
    counts = {**found.counted_dropped, device: many}
    said = changed(run, run=quiet, counted_dropped=counts, listed=listed)
    assert len(said) == 1
    assert "dropped releases and names" in said[0]
    assert any("does not show" in failure for failure in changed(run, counted_dropped=counts))


def test_nothing_is_dropped_where_there_is_room(run):
    """The two devices of the run have small outboxes; a third one would have a usual one."""
    found = evidence.gather(run)
    name = replace(found.stored[0].name, device="dev-05")
    more = replace(found.run, devices=("dev-01", "dev-02", "dev-03", "dev-04", "dev-05"))
    counts = {"dev-05": 1}
    listed = {"dev-05": (0, 1)}
    dropped = found.dropped | {name}
    said = changed(run, run=more, dropped=dropped, counted_dropped=counts, listed=listed)
    assert said == ["dev-05: has dropped 1 releases, and there was room for them"]


def test_a_refusal_needs_a_collector_that_was_misconfigured(run):
    found = evidence.gather(run)
    lost = stored_first(found)
    rest = tuple(row for row in found.stored if row.name != lost)
    (said,) = changed(run, stored=rest, refused=frozenset({lost}))
    assert said == f"{lost}: refused, and the collector's configuration was never another"
    faults = {**found.run.faults, "collector-misconfigured": 1}
    excused = replace(found.run, faults=faults)
    assert changed(run, stored=rest, refused=frozenset({lost}), run=excused) == []


def test_an_interrupted_run_leaves_no_process_behind(tmp_path):
    folder = tmp_path / "run"
    process = start(folder, "--devices", "2", "--windows", "500", "--faults", "40")
    log, deadline = folder / "log" / "dev-02.log", time.monotonic() + MOST_SECONDS
    while not log.exists() or "is in the outbox" not in log.read_text():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert left_behind(folder)
    process.send_signal(signal.SIGTERM)
    assert ended(process) == (
        1,
        f"2 devices, 500 windows each, 40 faults; all files are in {folder}\nchaos: interrupted\n",
    )
    assert left_behind(folder) == []


def test_a_schedule_follows_from_its_seed_and_has_every_kind():
    planned = schedule(1, 200, 100.0, 9.0, TARGETS)
    assert planned == schedule(1, 200, 100.0, 9.0, TARGETS)
    assert planned != schedule(2, 200, 100.0, 9.0, TARGETS)
    assert {fault.kind for fault in planned} == {kind.name for kind in KINDS} == set(ACTS)
    assert [fault.number for fault in planned] == list(range(1, 201))
    assert [fault.at for fault in planned] == sorted(fault.at for fault in planned)
    least = {kind.name: kind.seconds[0] for kind in KINDS}
    assert all(
        least[fault.kind] <= fault.seconds <= max(9.0, least[fault.kind]) for fault in planned
    )
    assert all(fault.at + fault.seconds <= 100.0 for fault in planned)


def test_what_has_no_target_does_not_happen():
    targets = Targets({"broker": ("broker",)}, {"garbage": "for a test"})
    kinds = {fault.kind for fault in schedule(1, 100, 10.0, 9.0, targets)}
    assert kinds == {kind.name for kind in KINDS if kind.where == "broker"} - {"garbage"}


def outbox_of(folder: Path) -> Outbox:
    return Outbox(folder, 2**20)


@pytest.mark.parametrize("how", [damage.tear, damage.flip])
def test_damage_costs_an_outbox_exactly_what_it_says(tmp_path, how: Callable[..., damage.Damage]):
    lost = 0
    for number in range(24):
        folder = tmp_path / str(number)
        box = outbox_of(folder)
        for sequence in range(1, 7):
            box.put(Key(sequence, "air"), os.urandom(80))
        box.forget(Key(2, "air"))
        before = {key: box.read(key) for key in box.waiting()}
        done = how(folder, number / 24)
        after = outbox_of(folder)
        assert {*after.waiting()} - {Key(2, "air")} == before.keys() - done.cost, done.what
        assert all(after.read(key) == before[key] for key in before.keys() - done.cost)
        lost += len(done.cost)
    assert lost >= 8


def test_there_may_be_nothing_to_damage(tmp_path):
    assert damage.tear(tmp_path / "none", 0.5).cost == frozenset()
    outbox_of(tmp_path / "empty")
    assert damage.flip(tmp_path / "empty", 0.5).cost == frozenset()


V5_PUBLISH = b"\x32\x0f\x00\x03a/b\x00\x07\x02\x01\x00hello"


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_a_bystander_reads_what_is_published(step):
    content = connect("me", "user", "word") + publish("a/b", b"first") + publish("c", bytes(300))
    reader = PublishReader()
    parts = [content[at : at + step] for at in range(0, len(content), step)]
    assert [m for part in parts for m in reader.feed(part)] == [
        ("a/b", b"first"),
        ("c", bytes(300)),
    ]


def test_a_bystander_reads_version_5():
    hello = bytearray(connect("me", "user", "word"))
    hello[8] = 5
    assert PublishReader().feed(bytes(hello) + V5_PUBLISH) == [("a/b", b"hello")]


def test_a_bystander_bears_anything():
    for number in range(200):
        reader = PublishReader()
        reader.feed(os.urandom(300))
        reader.feed(bytes([number]) * 300)


def test_a_segment_of_forgotten_releases_can_be_damaged(tmp_path):
    box = outbox_of(tmp_path)
    box.put(Key(1, "air"), b"payload")
    box.forget(Key(1, "air"))
    (number,) = numbers_in(tmp_path)
    content = (tmp_path / f"{number:08d}.segment").read_bytes()
    assert encode(FORGOTTEN, Key(1, "air")) in content
    assert damage.tear(tmp_path, 0.01).cost == frozenset()
