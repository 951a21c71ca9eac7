//! The tables of a space, in SQL that both dialects understand; triggers are where the dialects differ.

use memory_core::host::{HostTables, Session};
use memory_core::{Error, ErrorKind, Result, SqlDialect};

use crate::bucket::Bucket;
use crate::columns::{Column, Kind, columns, id_column, rev_column, table};

const TABLES: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS notes (note_id TEXT PRIMARY KEY, seq BIGINT NOT NULL UNIQUE, agent TEXT NOT NULL, \
     run TEXT NOT NULL, trust TEXT NOT NULL, source TEXT NOT NULL, observed_at BIGINT NOT NULL, \
     recorded_at BIGINT NOT NULL, text TEXT, state TEXT NOT NULL CHECK (state IN ('new', 'leased', 'done')), \
     lease TEXT, lease_until BIGINT NOT NULL, attempts BIGINT NOT NULL, result TEXT)",
    "CREATE INDEX IF NOT EXISTS notes_by_state ON notes (state, seq)",
    "CREATE INDEX IF NOT EXISTS notes_by_agent ON notes (agent, run, seq)",
    "CREATE TABLE IF NOT EXISTS events_memory (seq BIGINT PRIMARY KEY, event_id TEXT NOT NULL UNIQUE, \
     idempotency_key TEXT NOT NULL UNIQUE, observed_at BIGINT NOT NULL, recorded_at BIGINT NOT NULL, \
     source_agent TEXT NOT NULL, source_run TEXT NOT NULL, trust TEXT NOT NULL, note_id TEXT NOT NULL, \
     causation_pending_id TEXT, bucket TEXT NOT NULL, target_id TEXT NOT NULL, operation TEXT NOT NULL, \
     expected_rev BIGINT, payload_json TEXT NOT NULL, source_ref TEXT NOT NULL, raw_digest TEXT NOT NULL, \
     target_digest TEXT NOT NULL, content_digest TEXT NOT NULL, prev_hash TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS events_by_target ON events_memory (bucket, target_id, seq)",
    "CREATE INDEX IF NOT EXISTS events_by_note ON events_memory (note_id)",
    // Erasable parts: the words behind an event, and the salts of the digests of its three parts.
    "CREATE TABLE IF NOT EXISTS events_raw (event_id TEXT PRIMARY KEY, salt TEXT, raw_input TEXT, reference_text TEXT, \
     target_salt TEXT, content_salt TEXT)",
    // What was forgotten, when and by whom; an event by its position, a row by the name that its events have now.
    "CREATE TABLE IF NOT EXISTS tombstones (seq BIGINT PRIMARY KEY, kind TEXT NOT NULL \
     CHECK (kind IN ('note', 'event', 'row', 'pending')), id TEXT NOT NULL, bucket TEXT, event_seq BIGINT, \
     agent TEXT NOT NULL, run TEXT NOT NULL, trust TEXT NOT NULL, forgotten_at BIGINT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS tombstones_by_event ON tombstones (event_seq)",
    "CREATE TABLE IF NOT EXISTS event_projection (seq BIGINT PRIMARY KEY, bucket TEXT NOT NULL, target_id TEXT NOT NULL, \
     status TEXT NOT NULL CHECK (status IN ('applied', 'recorded', 'failed', 'blocked', 'dead')), \
     attempts BIGINT NOT NULL, next_attempt_at BIGINT NOT NULL, error TEXT)",
    "CREATE INDEX IF NOT EXISTS projection_by_status ON event_projection (status, seq)",
    "CREATE VIEW IF NOT EXISTS applied_events AS SELECT seq, \
     CASE WHEN status IN ('applied', 'recorded') THEN 1 ELSE 0 END AS applied_successfully FROM event_projection",
    "CREATE TABLE IF NOT EXISTS pending_memory_events (pending_id TEXT PRIMARY KEY, seq BIGINT NOT NULL UNIQUE, \
     idempotency_key TEXT NOT NULL UNIQUE, note_id TEXT NOT NULL, agent TEXT NOT NULL, run TEXT NOT NULL, \
     trust TEXT NOT NULL, source TEXT NOT NULL, observed_at BIGINT NOT NULL, recorded_at BIGINT NOT NULL, text TEXT, \
     bucket TEXT NOT NULL, request_json TEXT NOT NULL, interpreter TEXT NOT NULL, reason TEXT NOT NULL, \
     candidates_json TEXT NOT NULL, status TEXT NOT NULL \
     CHECK (status IN ('waiting', 'needs_review', 'resolved', 'no_op', 'rejected')), attempts BIGINT NOT NULL, \
     max_attempts BIGINT NOT NULL, next_attempt_at BIGINT NOT NULL, expires_at BIGINT NOT NULL, resolved_event TEXT UNIQUE)",
    "CREATE INDEX IF NOT EXISTS pending_by_status ON pending_memory_events (status, next_attempt_at)",
    "CREATE TABLE IF NOT EXISTS reviews (seq BIGINT PRIMARY KEY, pending_id TEXT NOT NULL, action TEXT NOT NULL, \
     agent TEXT NOT NULL, run TEXT NOT NULL, trust TEXT NOT NULL, target_id TEXT, recorded_at BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS aliases (bucket TEXT NOT NULL, target_id TEXT NOT NULL, alias_norm TEXT NOT NULL, \
     kind TEXT NOT NULL, source_event BIGINT NOT NULL, trust TEXT NOT NULL, PRIMARY KEY (bucket, target_id, alias_norm))",
];

/// The prefix of a forgotten row's name in the ledger; no id starts with it.
pub(crate) const FORGOTTEN: &str = "~";

/// Tables whose rows are never removed, with the columns that never change. [`erasure`] says what the others may
/// become.
const APPEND_ONLY: [(&str, &str); 3] = [
    (
        "events_memory",
        "seq, event_id, idempotency_key, observed_at, recorded_at, source_agent, source_run, trust, note_id, \
         causation_pending_id, bucket, operation, expected_rev, raw_digest, target_digest, content_digest, prev_hash, hash",
    ),
    ("reviews", "seq, pending_id, action, agent, run, trust, recorded_at"),
    ("tombstones", "seq, kind, id, bucket, event_seq, agent, run, trust, forgotten_at"),
];

/// Creates what is missing; writes nothing if nothing is missing.
pub(super) async fn create(tables: &HostTables) -> Result<()> {
    let statements = statements(tables.dialect());
    if tables.has_all(&statements).await? {
        return check_ledger(&tables.plain()).await;
    }
    let tx = tables.begin().await?;
    let made = async {
        for (place, statement) in statements.iter().enumerate() {
            if place == TABLES.len() {
                check_ledger(&tx).await?;
            }
            tx.exec(statement, &[]).await?;
        }
        Ok(())
    }
    .await;
    tx.end(made).await
}

fn statements(dialect: SqlDialect) -> Vec<String> {
    let mut statements: Vec<String> = TABLES.iter().map(|statement| in_dialect(statement, dialect)).collect();
    statements.extend(
        Bucket::ALL.into_iter().flat_map(|bucket| ["", "shadow_"].map(|prefix| shared_table(bucket, prefix))),
    );
    statements.extend(
        APPEND_ONLY.map(|(name, fixed)| changes_trigger(dialect, name, &erasure(dialect, name, fixed))),
    );
    // The words behind an event may be emptied, and verification finds any other change to them; their row stays.
    let kept = APPEND_ONLY.iter().map(|(name, _)| *name).chain(["events_raw"]);
    statements.extend(kept.flat_map(|name| removal_triggers(dialect, name)));
    statements
}

/// Reports tables made by another build, which lack what forgetting needs.
async fn check_ledger(tx: &Session<'_>) -> Result<()> {
    let Err(error) = tx.query("SELECT target_digest FROM events_memory LIMIT 0", &[]).await else {
        return Ok(());
    };
    if error.kind() != ErrorKind::InvalidArgument {
        return Err(error);
    }
    let told = "this shared state was made by a build before 0.1.0, whose ledger cannot forget; read it with that build, and \
                begin another space";
    Err(Error::new(ErrorKind::Unsupported, told).with_source(error))
}

/// PostgreSQL replaces a view where SQLite keeps it.
fn in_dialect(statement: &str, dialect: SqlDialect) -> String {
    match dialect {
        SqlDialect::Postgres => statement.replace("CREATE VIEW IF NOT EXISTS", "CREATE OR REPLACE VIEW"),
        _ => statement.to_owned(),
    }
}

/// The condition that an update of a row only erases: fixed columns are as before, and the others are as before or
/// empty.
fn erasure(dialect: SqlDialect, table: &str, fixed: &str) -> String {
    let same = match dialect {
        SqlDialect::Postgres => "IS NOT DISTINCT FROM",
        _ => "IS",
    };
    let mut conditions: Vec<String> =
        fixed.split(", ").map(|column| format!("NEW.{column} {same} OLD.{column}")).collect();
    if table != "tombstones" {
        conditions.push(format!("(NEW.target_id {same} OLD.target_id OR NEW.target_id LIKE '{FORGOTTEN}%')"));
    }
    if table == "events_memory" {
        conditions.push("(NEW.payload_json = OLD.payload_json OR NEW.payload_json = '{}')".to_owned());
        conditions.push(
            "(NEW.source_ref = OLD.source_ref OR NEW.source_ref LIKE \
             '{\"candidates\":[],\"reason\":\"\",\"aliases\":[%],\"interpreter\":\"\",\"resolver\":\"\"}')"
                .to_owned(),
        );
    }
    conditions.join(" AND ")
}

/// The trigger that prevents changes to a table's rows, except for an erasure.
fn changes_trigger(dialect: SqlDialect, table: &str, erasure: &str) -> String {
    match dialect {
        SqlDialect::Postgres => format!(
            "CREATE OR REPLACE TRIGGER {table}_changes BEFORE UPDATE ON {table} \
             FOR EACH ROW WHEN (NOT ({erasure})) EXECUTE FUNCTION mem_sql.append_only()"
        ),
        _ => refusal(table, "UPDATE", &format!("NOT ({erasure})")),
    }
}

/// The triggers that keep the rows of a table from being removed.
fn removal_triggers(dialect: SqlDialect, table: &str) -> [String; 2] {
    let keys: &[&str] = match table {
        "events_memory" => &["seq", "event_id", "idempotency_key"],
        "events_raw" => &["event_id"],
        _ => &["seq"],
    };
    let same: Vec<String> =
        keys.iter().map(|key| format!("EXISTS (SELECT 1 FROM {table} WHERE {key} = NEW.{key})")).collect();
    match dialect {
        SqlDialect::Postgres => {
            [("rows", "DELETE", "ROW"), ("all", "TRUNCATE", "STATEMENT")].map(|(name, event, each)| {
                format!(
                    "CREATE OR REPLACE TRIGGER {table}_{name} BEFORE {event} ON {table} \
                     FOR EACH {each} EXECUTE FUNCTION mem_sql.append_only()"
                )
            })
        }
        // SQLite runs no delete triggers for `INSERT OR REPLACE`.
        _ => [refusal(table, "DELETE", "1"), refusal(table, "INSERT", &same.join(" OR "))],
    }
}

/// A trigger of SQLite that refuses.
fn refusal(table: &str, event: &str, when: &str) -> String {
    format!(
        "CREATE TRIGGER IF NOT EXISTS {table}_{event} BEFORE {event} ON {table} WHEN {when} \
         BEGIN SELECT RAISE(ABORT, 'rows of {table} are never changed or removed'); END"
    )
}

/// The table of a bucket; a rebuild fills one whose name starts with `shadow_`.
fn shared_table(bucket: Bucket, prefix: &str) -> String {
    let own: String = columns(bucket)
        .iter()
        .map(|Column { name, kind, required }| {
            let kind = match kind {
                Kind::Text | Kind::Id | Kind::Json => "TEXT",
                Kind::Real | Kind::Share => "DOUBLE PRECISION",
                Kind::Status => return String::new(),
            };
            format!("{name} {kind}{}, ", if *required { " NOT NULL" } else { "" })
        })
        .collect();
    format!(
        "CREATE TABLE IF NOT EXISTS {prefix}{} ({} TEXT PRIMARY KEY, {own}status TEXT NOT NULL, {} BIGINT NOT NULL, \
         created_by TEXT NOT NULL, trust TEXT NOT NULL, first_event BIGINT NOT NULL, last_event BIGINT NOT NULL, \
         observed_at BIGINT NOT NULL, valid_from BIGINT NOT NULL, valid_to BIGINT, superseded_by TEXT, \
         reference_memory_json TEXT NOT NULL)",
        table(bucket),
        id_column(bucket),
        rev_column(bucket),
    )
}
