-- The tables of a collector's database of schema 2, as that version made them.
CREATE TABLE releases (
    device TEXT NOT NULL,
    stream TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    window_start INTEGER NOT NULL,
    window_end INTEGER NOT NULL,
    fingerprint BLOB NOT NULL,
    digest TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    payload BLOB NOT NULL,
    PRIMARY KEY (device, stream, sequence),
    UNIQUE (device, stream, window_start),
    CHECK (window_start < window_end)
) STRICT;
CREATE INDEX releases_by_window ON releases (stream, window_start, device, sequence);
CREATE TABLE devices (
    device TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    session TEXT NOT NULL,
    since INTEGER NOT NULL,
    streams TEXT NOT NULL
) STRICT;
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
    UNIQUE (digest, topic)
) STRICT;
CREATE TABLE duplicates (device TEXT PRIMARY KEY, total INTEGER NOT NULL) STRICT;
CREATE TABLE refusals (reason TEXT PRIMARY KEY, total INTEGER NOT NULL) STRICT;

CREATE TABLE disputed (
    device TEXT NOT NULL,
    stream TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    window_start INTEGER NOT NULL,
    window_end INTEGER NOT NULL,
    fingerprint BLOB NOT NULL,
    digest TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    payload BLOB NOT NULL,
    disputed_at INTEGER NOT NULL,
    PRIMARY KEY (device, stream, sequence),
    UNIQUE (device, stream, window_start)
) STRICT;
CREATE TRIGGER disputed_stays_out BEFORE INSERT ON releases
WHEN EXISTS (
    SELECT 1 FROM disputed WHERE (device, stream) = (NEW.device, NEW.stream)
    AND (sequence = NEW.sequence OR window_start = NEW.window_start)
) BEGIN SELECT RAISE(ABORT, 'disputed'); END;
PRAGMA user_version = 2;
