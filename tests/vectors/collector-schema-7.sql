CREATE TABLE releases (
    id INTEGER PRIMARY KEY,
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
    incarnation BLOB NOT NULL, late INTEGER NOT NULL DEFAULT 0,
    UNIQUE (device, stream, window_start),
    CHECK (window_start < window_end)
) STRICT;
CREATE INDEX releases_by_window ON releases (stream, window_start, device, sequence);
CREATE INDEX releases_by_sequence
    ON releases (device, stream, incarnation, sequence, window_end);
CREATE TABLE disputed (
    id INTEGER PRIMARY KEY,
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
    incarnation BLOB NOT NULL,
    UNIQUE (device, stream, window_start, digest)
) STRICT;
CREATE TABLE damaged (
    id INTEGER PRIMARY KEY,
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
    incarnation BLOB NOT NULL,
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
CREATE TABLE scales (
    stream TEXT NOT NULL,
    begins INTEGER NOT NULL,
    domain TEXT NOT NULL,
    settings TEXT NOT NULL,
    message BLOB NOT NULL,
    noted_at INTEGER NOT NULL,
    PRIMARY KEY (stream, begins)
) STRICT, WITHOUT ROWID;
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
CREATE TABLE layouts (
    fingerprint BLOB PRIMARY KEY,
    family TEXT NOT NULL,
    blocks TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE sums (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    stream TEXT NOT NULL,
    seconds INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    fingerprint BLOB NOT NULL,
    releases INTEGER NOT NULL,
    draws INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    seal INTEGER NOT NULL,
    counters BLOB,
    UNIQUE (stream, seconds, bucket, fingerprint)
) STRICT;
CREATE TABLE holdings (
    device TEXT NOT NULL,
    stream TEXT NOT NULL,
    incarnation BLOB NOT NULL,
    windows INTEGER NOT NULL,
    numbers INTEGER NOT NULL,
    used INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    first_start INTEGER NOT NULL,
    last_end INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    late INTEGER NOT NULL,
    disputed INTEGER NOT NULL,
    unsynchronised INTEGER NOT NULL,
    PRIMARY KEY (device, stream, incarnation)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER releases_held AFTER INSERT ON releases BEGIN
    UPDATE releases SET late = 1 WHERE id = NEW.id AND EXISTS (SELECT 1 FROM releases WHERE device = NEW.device AND stream = NEW.stream AND incarnation = NEW.incarnation AND sequence > NEW.sequence AND received_at < NEW.received_at);
    INSERT INTO holdings VALUES (
        NEW.device, NEW.stream, NEW.incarnation, 1, NOT ((SELECT count(*) >= 2 FROM releases WHERE device = NEW.device AND stream = NEW.stream AND incarnation = NEW.incarnation AND sequence = NEW.sequence) OR (SELECT count(*) >= 1 FROM disputed WHERE device = NEW.device AND stream = NEW.stream AND incarnation = NEW.incarnation AND sequence = NEW.sequence)),
        NOT (SELECT count(*) >= 2 FROM releases WHERE device = NEW.device AND stream = NEW.stream AND incarnation = NEW.incarnation AND sequence = NEW.sequence), NEW.sequence, NEW.sequence, NEW.window_start,
        NEW.window_end, NEW.received_at, EXISTS (SELECT 1 FROM releases WHERE device = NEW.device AND stream = NEW.stream AND incarnation = NEW.incarnation AND sequence > NEW.sequence AND received_at < NEW.received_at), 0,
        NEW.clock_synchronised IS 0
    ) ON CONFLICT (device, stream, incarnation) DO UPDATE SET
        windows = windows + excluded.windows, numbers = numbers + excluded.numbers,
        used = used + excluded.used, first = min(first, excluded.first),
        last = max(last, excluded.last), first_start = min(first_start, excluded.first_start),
        last_end = max(last_end, excluded.last_end),
        received_at = max(received_at, excluded.received_at), late = late + excluded.late,
        disputed = disputed + excluded.disputed,
        unsynchronised = unsynchronised + excluded.unsynchronised;
END;
CREATE TRIGGER releases_gone AFTER DELETE ON releases BEGIN
    DELETE FROM holdings WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation AND windows + disputed = 1;
    UPDATE holdings SET
        windows = windows - 1, used = used - NOT (SELECT count(*) >= 1 FROM releases WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation AND sequence = OLD.sequence), late = late - OLD.late, unsynchronised = unsynchronised - (OLD.clock_synchronised IS 0),
        numbers = numbers - NOT ((SELECT count(*) >= 1 FROM releases WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation AND sequence = OLD.sequence) OR (SELECT count(*) >= 1 FROM disputed WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation AND sequence = OLD.sequence)),
        first = CASE WHEN OLD.sequence > first THEN first ELSE (SELECT min(x) FROM (SELECT min(sequence) AS x FROM releases WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation UNION ALL SELECT min(sequence) AS x FROM disputed WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation)) END,
        last = CASE WHEN OLD.sequence < last THEN last ELSE (SELECT max(x) FROM (SELECT max(sequence) AS x FROM releases WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation UNION ALL SELECT max(sequence) AS x FROM disputed WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation)) END,
        first_start = CASE WHEN OLD.window_start > first_start THEN first_start
            ELSE (SELECT min(x) FROM (SELECT * FROM (SELECT window_start AS x FROM releases WHERE device = OLD.device AND stream = OLD.stream AND +incarnation = OLD.incarnation ORDER BY window_start LIMIT 1) UNION ALL SELECT min(window_start) FROM disputed WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation)) END,
        last_end = CASE WHEN OLD.window_end < last_end THEN last_end
            ELSE (SELECT max(x) FROM (SELECT max(window_end) AS x FROM releases WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation UNION ALL SELECT max(window_end) AS x FROM disputed WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation)) END,
        received_at = CASE WHEN OLD.received_at < received_at THEN received_at
            ELSE coalesce((SELECT received_at FROM releases WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation AND received_at = OLD.received_at LIMIT 1), (SELECT max(x) FROM (SELECT max(received_at) AS x FROM releases WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation UNION ALL SELECT max(received_at) AS x FROM disputed WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation))) END
    WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation;
END;
CREATE TRIGGER disputed_held AFTER INSERT ON disputed BEGIN
    
    INSERT INTO holdings VALUES (
        NEW.device, NEW.stream, NEW.incarnation, 0, NOT ((SELECT count(*) >= 1 FROM releases WHERE device = NEW.device AND stream = NEW.stream AND incarnation = NEW.incarnation AND sequence = NEW.sequence) OR (SELECT count(*) >= 2 FROM disputed WHERE device = NEW.device AND stream = NEW.stream AND incarnation = NEW.incarnation AND sequence = NEW.sequence)),
        0, NEW.sequence, NEW.sequence, NEW.window_start,
        NEW.window_end, NEW.received_at, 0, 1,
        0
    ) ON CONFLICT (device, stream, incarnation) DO UPDATE SET
        windows = windows + excluded.windows, numbers = numbers + excluded.numbers,
        used = used + excluded.used, first = min(first, excluded.first),
        last = max(last, excluded.last), first_start = min(first_start, excluded.first_start),
        last_end = max(last_end, excluded.last_end),
        received_at = max(received_at, excluded.received_at), late = late + excluded.late,
        disputed = disputed + excluded.disputed,
        unsynchronised = unsynchronised + excluded.unsynchronised;
END;
CREATE TRIGGER disputed_gone AFTER DELETE ON disputed BEGIN
    DELETE FROM holdings WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation AND windows + disputed = 1;
    UPDATE holdings SET
        disputed = disputed - 1, 
        numbers = numbers - NOT ((SELECT count(*) >= 1 FROM releases WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation AND sequence = OLD.sequence) OR (SELECT count(*) >= 1 FROM disputed WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation AND sequence = OLD.sequence)),
        first = CASE WHEN OLD.sequence > first THEN first ELSE (SELECT min(x) FROM (SELECT min(sequence) AS x FROM releases WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation UNION ALL SELECT min(sequence) AS x FROM disputed WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation)) END,
        last = CASE WHEN OLD.sequence < last THEN last ELSE (SELECT max(x) FROM (SELECT max(sequence) AS x FROM releases WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation UNION ALL SELECT max(sequence) AS x FROM disputed WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation)) END,
        first_start = CASE WHEN OLD.window_start > first_start THEN first_start
            ELSE (SELECT min(x) FROM (SELECT * FROM (SELECT window_start AS x FROM releases WHERE device = OLD.device AND stream = OLD.stream AND +incarnation = OLD.incarnation ORDER BY window_start LIMIT 1) UNION ALL SELECT min(window_start) FROM disputed WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation)) END,
        last_end = CASE WHEN OLD.window_end < last_end THEN last_end
            ELSE (SELECT max(x) FROM (SELECT max(window_end) AS x FROM releases WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation UNION ALL SELECT max(window_end) AS x FROM disputed WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation)) END,
        received_at = CASE WHEN OLD.received_at < received_at THEN received_at
            ELSE coalesce((SELECT received_at FROM releases WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation AND received_at = OLD.received_at LIMIT 1), (SELECT max(x) FROM (SELECT max(received_at) AS x FROM releases WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation UNION ALL SELECT max(received_at) AS x FROM disputed WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation))) END
    WHERE device = OLD.device AND stream = OLD.stream AND incarnation = OLD.incarnation;
END;
CREATE TABLE tallies (
    device TEXT NOT NULL,
    stream TEXT NOT NULL,
    releases INTEGER NOT NULL,
    value REAL NOT NULL,
    variance REAL NOT NULL,
    PRIMARY KEY (device, stream)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER totals_added AFTER INSERT ON totals WHEN NOT EXISTS (SELECT 1 FROM excluded WHERE device = NEW.device AND since <= NEW.window_start AND NEW.window_start < until) BEGIN
    INSERT INTO tallies VALUES (NEW.device, NEW.stream, 1, NEW.value, NEW.variance)
    ON CONFLICT (device, stream) DO UPDATE SET releases = releases + 1,
        value = value + excluded.value, variance = variance + excluded.variance;
END;
CREATE TRIGGER totals_gone AFTER DELETE ON totals WHEN NOT EXISTS (SELECT 1 FROM excluded WHERE device = OLD.device AND since <= OLD.window_start AND OLD.window_start < until) BEGIN
    DELETE FROM tallies WHERE device = OLD.device AND stream = OLD.stream AND releases = 1;
    UPDATE tallies SET releases = releases - 1, value = value - OLD.value,
        variance = variance - OLD.variance WHERE device = OLD.device AND stream = OLD.stream;
END;
CREATE TRIGGER excluded_insert AFTER INSERT ON excluded BEGIN
    DELETE FROM tallies WHERE device = NEW.device;
    INSERT INTO tallies SELECT device, stream, count(*), sum(value), sum(variance) FROM totals AS t WHERE NOT EXISTS (SELECT 1 FROM excluded WHERE device = t.device AND since <= t.window_start AND t.window_start < until) AND device = NEW.device GROUP BY device, stream;
END;
CREATE TRIGGER excluded_delete AFTER DELETE ON excluded BEGIN
    DELETE FROM tallies WHERE device = OLD.device;
    INSERT INTO tallies SELECT device, stream, count(*), sum(value), sum(variance) FROM totals AS t WHERE NOT EXISTS (SELECT 1 FROM excluded WHERE device = t.device AND since <= t.window_start AND t.window_start < until) AND device = OLD.device GROUP BY device, stream;
END;
PRAGMA user_version = 7;
