"""`python -m testbed.chaos`: a small run accounts for everything, and would notice if it did
not."""

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.chaos.accounting import accounting, evidence
from testbed.chaos.accounting.accounting import UNKNOWN_LEDGER as UNKNOWN
from testbed.chaos.accounting.accounting import account
from testbed.chaos.environment.configuration import SMALL_OUTBOX_BYTES, STREAM, state_in
from testbed.chaos.environment.supervisor import End
from testbed.chaos.observation.held_in_memory import LATE_SECONDS
from testbed.chaos.observation.ledger_marks import Drop, Span
from testbed.chaos.observation.observer import Name
from tests.packages import needs
from tests.testbed.chaos.small_run import SMALL, ended, failures, in_database, left_behind, start


@pytest.fixture(scope="module")
@needs("mosquitto", "openssl", "libfaketime")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, which no test changes."""
    folder = tmp_path_factory.mktemp("chaos") / "run"
    code, said = ended(start(folder, *SMALL))
    assert code == 0, said
    assert "every debit is reconciled; nothing was merged twice" in said
    assert left_behind(folder) == []
    return folder


@pytest.fixture
def copied(run: Path, tmp_path: Path) -> Path:
    """The finished run once more, to be tampered with."""
    shutil.copytree(run, tmp_path / "run")
    return tmp_path / "run"


def test_every_debit_of_a_run_is_in_one_class(run):
    found = evidence.gather(run)
    settled = account(found)
    assert settled.failures == ()
    assert sum(found.run.faults.values()) == 6
    assert len(settled.classes) == len(found.debits) == sum(settled.totals().values())
    # The run waits for four windows of each device's fast stream. The slow one may have fewer where
    # a busy machine keeps agents away for long.
    fast = Counter(debit.name.device for debit in found.debits if debit.name.stream == STREAM)
    assert len(fast) == 2
    assert min(fast.values()) >= 4
    assert settled.totals()[accounting.NOWHERE] == 0
    assert settled.totals()[accounting.MERGED] == len(found.stored) > 0
    # The second device writes only what is not acknowledged in time.
    assert {held.name.device for held in found.run.held} == {"dev-02"}
    assert {held.name for held in found.run.held} & {row.name for row in found.stored}
    assert (run / "report.json").exists()
    assert "| all |" in (run / "report.md").read_text()


COLUMNS = "device, stream, sequence, window_start, window_end, fingerprint, digest, received_at"
COLUMNS += ", payload, clock_synchronised, incarnation"


# Of the device that writes before it sends: what the other one loses, a kill may explain.
ONE = "rowid = (SELECT min(rowid) FROM releases WHERE device = 'dev-01')"
TAMPERED: dict[str, tuple[tuple[str, ...], str]] = {
    "a release that is lost": ((f"DELETE FROM releases WHERE {ONE}",), "debited, and nowhere"),
    "one that is stored again under another name": (
        (
            f"CREATE TEMP TABLE other AS SELECT {COLUMNS} FROM releases WHERE {ONE}",
            "UPDATE other SET sequence = sequence + 1000, window_start = window_start + 10000,"
            " window_end = window_end + 10000",
            f"INSERT INTO releases ({COLUMNS}) SELECT * FROM other",
        ),
        "stored 2 times",
    ),
    "one that is stored twice": (
        (
            # No trigger of this table is looked at.
            "PRAGMA legacy_alter_table = ON",
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
        "stored without a debit",
    ),
    "one with another end": (
        (f"UPDATE releases SET window_end = window_end + 1 WHERE {ONE}",),
        "stored with another number or end than the debit's",
    ),
    "one that is disputed": (
        (f"INSERT INTO disputed ({COLUMNS}) SELECT {COLUMNS} FROM releases WHERE {ONE}",),
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
    run = json.loads((copied / evidence.RUN).read_text())
    (copied / evidence.RUN).write_text(json.dumps({**run, "debits": run["debits"][1:]}))
    whole = ledger.read_bytes()
    lines = whole.splitlines(keepends=True)
    first = next(number for number, text in enumerate(lines) if text.startswith(b"debit 1 "))
    ledger.write_bytes(b"".join([*lines[:first], *lines[first + 1 :]]))
    assert any("without a debit" in failure for failure in failures(copied))
    ledger.write_bytes(whole.replace(b"debit 1 ", b"debit 9 ", 1))
    assert any("the ledger is damaged" in failure for failure in failures(copied))


def test_a_window_that_is_debited_again_under_another_number_is_noticed(run):
    """As a device does that has lost its ledger and makes a window a second time."""
    found = evidence.gather(run)
    first = found.debits[0]
    again = (*found.debits, replace(first, sequence=first.sequence + 7))
    assert f"{first.name}: debited 2 times" in changed(run, debits=again)


def test_it_notices_other_bytes_in_what_was_seen(copied):
    """As if a device had made one release twice, and as if one had no trace."""
    made = copied / evidence.MADE
    first, *rest = made.read_text().splitlines()
    other = next(line for line in rest if '"payload"' in line)
    twice = first.partition('"payload"')[0] + '"payload"' + other.partition('"payload"')[2]
    made.write_text("\n".join([first, twice, *rest]) + "\n")
    assert any("made 2 times" in failure for failure in failures(copied))
    made.write_text("\n".join(rest) + "\n")
    assert any("other bytes than the device's" in failure for failure in failures(copied))


TOO_FEW = "of what no fault destroyed were merged; wanted: 95%"


def changed(folder: Path, /, **values: object) -> list[str]:
    """The failures of the run with these, but for the floor: one in twenty is a twentieth here."""
    found = account(replace(evidence.gather(folder), **values)).failures
    return [failure for failure in found if TOO_FEW not in failure]


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


def test_an_unknown_ledger_explains_an_end_where_two_agents_had_one_name(run):
    waiting = "waiting for the collector to acknowledge the outbox (releases: 3)"
    end = End("dev-01", 1, waiting, False, f"air: the collector holds windows that {UNKNOWN}\n")
    found = evidence.gather(run)
    alone = replace(found.run, ends=(end,))
    assert len(changed(run, run=alone)) == 1
    twin = next(debit.name for debit in found.debits if debit.name.device == "dev-01")
    assert changed(run, run=replace(alone, twins=frozenset({twin}))) == []
    other = replace(end, lines_before="anything")
    again = replace(alone, twins=frozenset({twin}), ends=(other,))
    assert len(changed(run, run=again)) == 1


@pytest.mark.parametrize("mark", ["damaged", "erased", "unkept"])
def test_a_fault_excuses_the_releases_that_it_names_and_no_others(run, mark):
    found = evidence.gather(run)
    lost, other = stored_first(found), found.stored[-1].name
    rest = tuple(row for row in found.stored if row.name != lost)
    marked = getattr(found.run, mark)  # by the faults of the run itself
    excused = replace(found.run, **{mark: marked | {lost}})
    assert changed(run, stored=rest, run=excused) == []
    wrong = replace(found.run, **{mark: marked | {other}})
    assert changed(run, stored=rest, run=wrong) == [f"{lost}: debited, and nowhere"]


def test_a_second_agent_of_a_name_excuses_only_windows_that_it_released(run):
    found = evidence.gather(run)
    lost = stored_first(found)
    rest = tuple(row for row in found.stored if row.name != lost)
    gone = {"stored": rest, "refused": found.refused | {lost}, "disputed": (lost,)}
    assert changed(run, **gone, run=replace(found.run, twins=frozenset({lost}))) == []
    assert changed(run, **gone) == [
        f"{lost}: disputed, as if it had been made twice",
        f"{lost}: refused for good",
    ]


def test_too_few_that_arrive_are_a_failure_though_each_is_in_a_class(run):
    """Still waiting is no loss; a run in which much of it waits has shown nothing."""
    found = evidence.gather(run)
    names = [row.name for row in found.stored]
    late = {row.name: row.digest for row in found.stored if row.name in names[: len(names) // 4]}
    rest = tuple(row for row in found.stored if row.name not in late)
    counted = Counter(name.device for name in late)
    listed = {d: (n + counted[d], dropped) for d, (n, dropped) in found.listed.items()}
    waiting = {**found.waiting, **late}
    settled = account(replace(found, stored=rest, waiting=waiting, listed=listed))
    assert set(settled.totals()) >= {accounting.WAITING}
    (said,) = settled.failures
    assert TOO_FEW in said


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


FULL, ROOM = SMALL_OUTBOX_BYTES, SMALL_OUTBOX_BYTES // 4


@pytest.mark.parametrize(
    ("device", "held_bytes", "full_at", "fine"),
    [
        ("dev-01", FULL, None, True),
        ("dev-01", ROOM, None, False),
        ("dev-01", ROOM, 1000.0, True),
        ("dev-01", ROOM, 1000.0 + 2 * LATE_SECONDS, False),
        ("dev-05", FULL, None, False),
        ("dev-05", FULL, 1000.0, True),
    ],
)
def test_a_drop_needs_an_outbox_or_a_disk_that_was_full_then(
    run, device, held_bytes, full_at, fine
):
    """The first device has a small outbox, the fifth one of the usual size."""
    found = evidence.gather(run)
    name, debit = stored_first(found), found.debits[0]
    name = replace(name, device=device)
    more = replace(
        found.run,
        devices=tuple(f"dev-{n:02d}" for n in range(1, 6)),
        drops=(*found.run.drops, Drop(name, 1000.0, held_bytes)),
        full_disks=() if full_at is None else (Span(device, full_at, full_at),),
    )
    classes = {name: accounting.DROPPED}
    said = list(accounting._wrong_drops(replace(found, run=more, debits=(debit,)), classes))
    assert said == (
        [] if fine else [f"{name}: dropped, and there was room for it ({held_bytes} bytes held)"]
    )


def test_nothing_excuses_a_refusal(run):
    found = evidence.gather(run)
    lost = stored_first(found)
    rest = tuple(row for row in found.stored if row.name != lost)
    assert changed(run, stored=rest, refused=frozenset({lost})) == [f"{lost}: refused for good"]
