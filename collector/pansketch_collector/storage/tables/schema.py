"""The tables of the collector's database."""

import re
from typing import Final

from pansketch_collector.storage.tables import enrolments, holding_counts, sums

# The columns of a release in every table.
RELEASE: Final = (
    "device, stream, sequence, window_start, window_end,"
    " fingerprint, digest, received_at, payload, clock_synchronised, incarnation"
)

_COLUMNS: Final = """
    device TEXT NOT NULL,
    stream TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    window_start INTEGER NOT NULL,
    window_end INTEGER NOT NULL,
    fingerprint BLOB NOT NULL,
    digest TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    payload BLOB NOT NULL,
    clock_synchronised INTEGER,
    incarnation BLOB NOT NULL"""
# Device, stream and window_start identify a release: `disputed` has second releases of a window.
# `damaged` has releases whose bytes have changed on the disk (corruption.py), with their present
# columns. `clock_synchronised`: the device's clock was synchronised when the window closed: 1, 0,
# or NULL if unknown. `late`: stored after a release with a higher number of its ledger. `totals`:
# the estimated total of each release.
_RELEASES: Final = f"""
CREATE TABLE releases (
    id INTEGER PRIMARY KEY,{_COLUMNS}, late INTEGER NOT NULL DEFAULT 0,
    UNIQUE (device, stream, window_start),
    CHECK (window_start < window_end)
) STRICT;
CREATE INDEX releases_by_window ON releases (stream, window_start, device, sequence);
CREATE INDEX releases_by_sequence
    ON releases (device, stream, incarnation, sequence, window_end);
CREATE TABLE disputed (
    id INTEGER PRIMARY KEY,{_COLUMNS},
    UNIQUE (device, stream, window_start, digest)
) STRICT;
CREATE TABLE damaged (
    id INTEGER PRIMARY KEY,{_COLUMNS},
    problem TEXT NOT NULL,
    found_at INTEGER NOT NULL
) STRICT;
CREATE TABLE totals (
    device TEXT NOT NULL,
    stream TEXT NOT NULL,
    window_start INTEGER NOT NULL,
    value REAL NOT NULL,
    variance REAL NOT NULL,
    PRIMARY KEY (device, stream, window_start)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER totals_follow AFTER DELETE ON releases BEGIN
    DELETE FROM totals
    WHERE (device, stream, window_start) = (OLD.device, OLD.stream, OLD.window_start);
END;
"""
# `generation.deleted_id` is the largest deleted `releases.id`, which SQLite may otherwise reuse.
# `high_water` has the last deleted release of each ledger: a device's mark
# (fleet/pansketch_fleet/protocol/messages.py, Mark) covers deleted releases too.
_GENERATION: Final = """
CREATE TABLE generation (id TEXT NOT NULL, deleted_id INTEGER NOT NULL) STRICT;
INSERT INTO generation VALUES (lower(hex(randomblob(8))), 0);
CREATE TABLE high_water (
    device TEXT NOT NULL,
    stream TEXT NOT NULL,
    incarnation BLOB NOT NULL,
    sequence INTEGER NOT NULL,
    window_end INTEGER NOT NULL,
    PRIMARY KEY (device, stream, incarnation)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER high_water_remains AFTER DELETE ON releases BEGIN
    INSERT INTO high_water
    VALUES (OLD.device, OLD.stream, OLD.incarnation, OLD.sequence, OLD.window_end)
    ON CONFLICT DO UPDATE SET sequence = max(sequence, excluded.sequence),
        window_end = max(window_end, excluded.window_end);
    UPDATE generation SET deleted_id = max(deleted_id, OLD.id);
END;
"""
# The newest status of each device, and its newest health as JSON.
_DEVICES: Final = """
CREATE TABLE devices (
    device TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    session TEXT NOT NULL,
    since INTEGER NOT NULL,
    streams TEXT NOT NULL
) STRICT;
CREATE TABLE healths (
    device TEXT PRIMARY KEY,
    heard_at INTEGER NOT NULL,
    health TEXT NOT NULL
) STRICT;
CREATE TABLE duplicates (device TEXT PRIMARY KEY, total INTEGER NOT NULL) STRICT;
"""
# Rejected messages with their source; `whole`: the payload is complete.
_QUARANTINE: Final = """
CREATE TABLE quarantine (
    id INTEGER PRIMARY KEY,
    first_received_at INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    times INTEGER NOT NULL,
    topic TEXT NOT NULL,
    reason TEXT NOT NULL,
    text TEXT NOT NULL,
    size INTEGER NOT NULL,
    digest TEXT NOT NULL,
    payload BLOB NOT NULL,
    device TEXT NOT NULL,
    stream TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    whole INTEGER NOT NULL,
    UNIQUE (digest, topic)
) STRICT;
CREATE INDEX quarantine_by_kind ON quarantine (whole, id);
CREATE TABLE quarantined (rows INTEGER NOT NULL, bytes INTEGER NOT NULL) STRICT;
INSERT INTO quarantined VALUES (0, 0);
CREATE TRIGGER quarantine_grows AFTER INSERT ON quarantine BEGIN
    UPDATE quarantined SET rows = rows + 1, bytes = bytes + length(NEW.payload);
END;
CREATE TRIGGER quarantine_shrinks AFTER DELETE ON quarantine BEGIN
    UPDATE quarantined SET rows = rows - 1, bytes = bytes - length(OLD.payload);
END;
CREATE TABLE refusals (reason TEXT PRIMARY KEY, total INTEGER NOT NULL) STRICT;
"""
# All settings that were ever served (config_epochs.py). `removed`: count and range of the windows
# of a device and stream that retention removed (deletions.py). `excluded`: the operator's
# exclusions.
_HISTORY: Final = """
CREATE TABLE epochs (
    id INTEGER PRIMARY KEY,
    stream TEXT NOT NULL,
    settings TEXT NOT NULL,
    window_seconds INTEGER NOT NULL,
    first_served INTEGER NOT NULL,
    last_served INTEGER NOT NULL,
    UNIQUE (stream, settings)
) STRICT;
CREATE TABLE specs (
    epoch INTEGER NOT NULL REFERENCES epochs,
    fingerprint BLOB NOT NULL,
    form TEXT NOT NULL,
    PRIMARY KEY (epoch, fingerprint)
) STRICT, WITHOUT ROWID;
CREATE TABLE removed (
    device TEXT NOT NULL,
    stream TEXT NOT NULL,
    incarnation BLOB NOT NULL,
    windows INTEGER NOT NULL,
    first_sequence INTEGER NOT NULL,
    last_sequence INTEGER NOT NULL,
    first_start INTEGER NOT NULL,
    last_end INTEGER NOT NULL,
    PRIMARY KEY (device, stream, incarnation)
) STRICT, WITHOUT ROWID;
CREATE TABLE excluded (
    device TEXT NOT NULL,
    since INTEGER NOT NULL,
    until INTEGER NOT NULL,
    excluded_at INTEGER NOT NULL,
    PRIMARY KEY (device, since, until)
) STRICT, WITHOUT ROWID;
"""
# All scales that were ever served (config_epochs.py).
_SCALES: Final = """
CREATE TABLE scales (
    stream TEXT NOT NULL,
    begins INTEGER NOT NULL,
    domain TEXT NOT NULL,
    settings TEXT NOT NULL,
    message BLOB NOT NULL,
    noted_at INTEGER NOT NULL,
    PRIMARY KEY (stream, begins)
) STRICT, WITHOUT ROWID;
"""
# Of blinded streams: pansketch_collector/asking/question_store.py. `window_levels`: for each
# release and level the question that lists it. Without a question it waits, or is lost at that
# level for a `problem`. A question's list does not change once its state is `answer`. `counters`:
# the unblinded sum, when all keepers have answered; `seal`: its digest. `keepers`: the reported
# state of each.
_BLINDED: Final = """
CREATE TABLE questions (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    stream TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    level TEXT NOT NULL,
    period_start INTEGER NOT NULL,
    period_end INTEGER NOT NULL,
    windows INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('prepare', 'answer', 'answered', 'failed')),
    problem TEXT NOT NULL,
    asked_at INTEGER NOT NULL,
    settled_at INTEGER,
    payload BLOB NOT NULL,
    draws INTEGER,
    noise REAL,
    counters BLOB,
    seal TEXT
) STRICT;
CREATE INDEX questions_by_period ON questions (stream, level, period_start);
CREATE INDEX questions_open ON questions (id) WHERE state IN ('prepare', 'answer');
CREATE TABLE keeper_answers (
    question INTEGER NOT NULL REFERENCES questions ON DELETE CASCADE,
    key BLOB NOT NULL,
    keeper TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('asked', 'prepared', 'answered')),
    problem TEXT NOT NULL,
    answered_at INTEGER,
    payload BLOB,
    PRIMARY KEY (question, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE window_levels (
    device TEXT NOT NULL,
    stream TEXT NOT NULL,
    incarnation BLOB NOT NULL,
    sequence INTEGER NOT NULL,
    window_start INTEGER NOT NULL,
    level TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    keepers BLOB NOT NULL,
    received_at INTEGER NOT NULL,
    question INTEGER REFERENCES questions ON DELETE CASCADE,
    problem TEXT NOT NULL,
    PRIMARY KEY (device, stream, incarnation, sequence, level, window_start)
) STRICT, WITHOUT ROWID;
CREATE INDEX window_levels_waiting
    ON window_levels (stream, level, fingerprint, keepers, window_start)
    WHERE question IS NULL AND problem = '';
CREATE INDEX window_levels_lost ON window_levels (stream, level, problem)
    WHERE question IS NULL AND problem != '';
CREATE INDEX window_levels_by_question ON window_levels (question);
CREATE TRIGGER window_levels_follow AFTER DELETE ON releases BEGIN
    DELETE FROM window_levels
    WHERE (device, stream, incarnation, sequence, window_start)
        = (OLD.device, OLD.stream, OLD.incarnation, OLD.sequence, OLD.window_start)
        AND question IS NULL;
END;
CREATE TABLE keepers (
    keeper TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    session TEXT NOT NULL,
    since INTEGER NOT NULL
) STRICT;
"""
# Figures of the releases: collector/pansketch_collector/storage/tables/sums.py, holding_counts.py.
_FIGURES: Final = sums.TABLES + holding_counts.TABLES
TABLES: Final = (
    _RELEASES
    + _GENERATION
    + _DEVICES
    + _QUARANTINE
    + _HISTORY
    + _SCALES
    + _BLINDED
    + _FIGURES
    + enrolments.TABLES
)
TRIGGERS: Final = tuple(re.findall(r"CREATE TRIGGER .*?\nEND;", TABLES, re.DOTALL))
VERSION: Final = 8
FIGURES_SINCE: Final = 7
# Upgrades of an earlier schema to the next: new tables, and a column. database.py computes
# missing figures of the stored releases.
UPGRADES: Final = {
    4: _SCALES,
    5: _BLINDED,
    6: "ALTER TABLE releases ADD COLUMN late INTEGER NOT NULL DEFAULT 0;" + _FIGURES,
    7: enrolments.TABLES,
}
