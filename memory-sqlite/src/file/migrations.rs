//! The statements that create the tables, one migration per version of the format.

use rusqlite::Connection;

/// The current format. A file with a higher `user_version` is refused.
pub(crate) const USER_VERSION: i32 = 6;

/// Entry `i` migrates from `user_version` i to i + 1. Released ones never change.
const MIGRATIONS: [&str; 6] = [V1, V2, V3, V4, V5, V6];

const V1: &str = "
CREATE TABLE sequence (
    name TEXT PRIMARY KEY,
    last INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO sequence (name, last) VALUES ('space', 0);

CREATE TABLE scope (
    digest BLOB PRIMARY KEY,
    space INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    kind INTEGER NOT NULL,
    name TEXT NOT NULL,
    entries INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    expiring INTEGER NOT NULL,
    version INTEGER NOT NULL,
    floor INTEGER NOT NULL,
    changes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX scope_name ON scope (tenant, kind, name);

CREATE TABLE entry (
    space INTEGER NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    born INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    expires_at INTEGER,
    accesses INTEGER NOT NULL,
    size INTEGER NOT NULL,
    body INTEGER,
    source TEXT,
    metadata TEXT,
    text TEXT,
    value TEXT,
    PRIMARY KEY (space, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX entry_expiry ON entry (space, expires_at, size) WHERE expires_at IS NOT NULL;

CREATE TABLE body (
    id INTEGER PRIMARY KEY,
    metadata TEXT,
    text TEXT,
    value TEXT NOT NULL
) STRICT;

CREATE TABLE garbage (
    space INTEGER PRIMARY KEY
) STRICT;
";

/// Vectors. An id is never reused: a vector cached in memory is right as long as its row exists.
const V2: &str = "
CREATE TABLE model (
    id INTEGER PRIMARY KEY,
    provider TEXT NOT NULL,
    name TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    UNIQUE (provider, name, dimensions)
) STRICT;

CREATE TABLE vector (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    space INTEGER NOT NULL,
    model INTEGER NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    expires_at INTEGER,
    text TEXT,
    data BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX vector_key ON vector (space, key, model);
CREATE INDEX vector_model ON vector (space, model);

ALTER TABLE scope ADD COLUMN vectors INTEGER NOT NULL DEFAULT 0;
";

/// Triggers notice changes by other programs. Our own connections run no triggers; their statements do the same.
///
/// A trigger's own UPDATE of `entry` sets only `version`, and one of `scope` none of the columns that `scope_moved`
/// watches, so they also end if a program enables recursive triggers.
const V3: &str = "
CREATE TABLE database (
    id BLOB PRIMARY KEY
) STRICT, WITHOUT ROWID;
INSERT INTO database (id) VALUES (randomblob(16));

ALTER TABLE scope ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;
ALTER TABLE scope ADD COLUMN nonce INTEGER NOT NULL DEFAULT 0;
ALTER TABLE scope ADD COLUMN recount INTEGER NOT NULL DEFAULT 0;
CREATE INDEX scope_space ON scope (space);
UPDATE scope SET generation = 1, nonce = random();

CREATE TRIGGER entry_inserted AFTER INSERT ON entry BEGIN
    UPDATE scope SET generation = generation + 1, nonce = random(), changes = changes + 1, recount = 1,
        version = version + 1 WHERE space = NEW.space;
    UPDATE entry SET version = (SELECT version FROM scope WHERE space = NEW.space)
        WHERE space = NEW.space AND key = NEW.key AND EXISTS (SELECT 1 FROM scope WHERE space = NEW.space);
END;

CREATE TRIGGER entry_updated AFTER UPDATE OF space, key, born, created_at, updated_at, expires_at, size, body, source,
    metadata, text, value ON entry BEGIN
    UPDATE scope SET generation = generation + 1, nonce = random(), changes = changes + 1, recount = 1,
        version = version + 1 WHERE space = NEW.space OR space = OLD.space;
    UPDATE entry SET version = (SELECT version FROM scope WHERE space = NEW.space)
        WHERE space = NEW.space AND key = NEW.key AND EXISTS (SELECT 1 FROM scope WHERE space = NEW.space);
END;

CREATE TRIGGER entry_renumbered AFTER UPDATE OF version ON entry BEGIN
    UPDATE scope SET generation = generation + 1, nonce = random(), changes = changes + 1, recount = 1
        WHERE space = NEW.space;
    UPDATE scope SET version = version + 1 WHERE space = NEW.space AND version <> NEW.version;
    UPDATE entry SET version = (SELECT version FROM scope WHERE space = NEW.space)
        WHERE space = NEW.space AND key = NEW.key
        AND version <> (SELECT version FROM scope WHERE space = NEW.space);
END;

CREATE TRIGGER entry_deleted AFTER DELETE ON entry BEGIN
    UPDATE scope SET generation = generation + 1, nonce = random(), changes = changes + 1, recount = 1,
        floor = version WHERE space = OLD.space;
END;

CREATE TRIGGER body_updated AFTER UPDATE ON body BEGIN
    UPDATE entry SET body = body WHERE body = NEW.id OR body = OLD.id;
END;

CREATE TRIGGER body_deleted AFTER DELETE ON body BEGIN
    UPDATE entry SET body = body WHERE body = OLD.id;
END;

CREATE TRIGGER scope_inserted AFTER INSERT ON scope BEGIN
    UPDATE scope SET generation = max(generation, 0) + 1, nonce = random(), recount = 1 WHERE digest = NEW.digest;
END;

CREATE TRIGGER scope_moved AFTER UPDATE OF digest, space, tenant, kind, name ON scope BEGIN
    UPDATE scope SET generation = generation + 1, nonce = random(), changes = changes + 1, recount = 1
        WHERE digest = NEW.digest;
END;
";

/// Tombstones, by digests: an empty digest stands for the whole tenant, or the whole scope.
const V4: &str = "
CREATE TABLE tombstone (
    tenant BLOB NOT NULL,
    scope BLOB NOT NULL,
    key BLOB NOT NULL,
    at INTEGER NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (tenant, scope, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX tombstone_scope ON tombstone (scope);
";

/// When scopes were used, which SQL databases to remove, and which runs have ended. No triggers: other programs' writes
/// do not count as use.
const V5: &str = "
ALTER TABLE database ADD COLUMN tracked_since INTEGER NOT NULL DEFAULT 0;
ALTER TABLE scope ADD COLUMN used_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE scope ADD COLUMN leaving INTEGER NOT NULL DEFAULT 0;
CREATE INDEX scope_leaving ON scope (leaving) WHERE leaving <> 0;

CREATE TABLE ended (
    digest BLOB PRIMARY KEY,
    tenant TEXT,
    name TEXT,
    at INTEGER NOT NULL,
    leaving INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX ended_leaving ON ended (leaving) WHERE leaving <> 0;
CREATE INDEX ended_at ON ended (at);
";

/// Segments of text indexes: what searches have analysed.
const V6: &str = "
CREATE TABLE text_segment (
    id INTEGER PRIMARY KEY,
    space INTEGER NOT NULL,
    first TEXT NOT NULL,
    last TEXT NOT NULL,
    documents INTEGER NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX text_segment_first ON text_segment (space, first);

ALTER TABLE scope ADD COLUMN segments INTEGER NOT NULL DEFAULT 0;
";

/// The statements that create the schema of this `user_version`.
pub(crate) fn statements(version: i32) -> impl Iterator<Item = &'static str> {
    MIGRATIONS.into_iter().take(usize::try_from(version).unwrap_or(0))
}

/// The migrations from this `user_version` to [`USER_VERSION`].
pub(crate) fn migrations_from(version: i32) -> impl Iterator<Item = &'static str> {
    MIGRATIONS.into_iter().skip(usize::try_from(version).unwrap_or(0))
}

/// Whether the triggers are exactly those of this version.
pub(crate) fn has_triggers(conn: &Connection) -> rusqlite::Result<bool> {
    let mut statement = conn.prepare("SELECT sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY name")?;
    let found = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
    let mut made: Vec<&str> = V3
        .split("\n\n")
        .map(|part| part.trim().trim_end_matches(';'))
        .filter(|part| part.starts_with("CREATE TRIGGER "))
        .collect();
    made.sort_unstable();
    Ok(found == made)
}
