//! Rows of flat memories into the tables.

use std::fmt::Write as _;

use memory_core::Result;
use memory_core::host::{Session as Tx, int, maybe, text};
use memory_core::sql::SqlValue;
use sha2::{Digest as _, Sha256};

use super::flat::{Entry, Flat, Rows, Session, Use};
use super::report::TableReport;
use crate::sessions::Sessions;
use crate::space::begin;
use crate::transfer::{Refusals, Why};

/// Rows of a transaction.
const BATCH: usize = 500;

const SESSION: &str = "INSERT INTO sessions (session_id, created_at, last_accessed, metadata) VALUES (?, ?, ?, ?) \
     ON CONFLICT DO NOTHING RETURNING session_id";
const USE: &str = "INSERT INTO session_agents (session_id, agent_id, first_used, last_used) VALUES (?, ?, ?, ?) \
     ON CONFLICT DO NOTHING RETURNING session_id";
const ENTRY: &str = "INSERT INTO session_entries (id, session_id, agent_id, memory_type, title, content, content_hash, \
     metadata, tags, importance, created_at, accessed_at, expires_at, expires_ms, parent_id) \
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id";

/// Stores everything, in transactions of at most 500 rows; returns a report for each table of the file.
pub(super) async fn store(sessions: &Sessions, flat: Flat) -> Result<(Vec<TableReport>, Refusals)> {
    let Flat { sessions: rows, uses, entries, mut refusals } = flat;
    let mut reports = Vec::new();
    reports.extend(all(sessions, rows, SESSION, session, &mut refusals).await?);
    reports.extend(all(sessions, uses, USE, used, &mut refusals).await?);
    reports.extend(all(sessions, entries, ENTRY, entry, &mut refusals).await?);
    Ok((reports, refusals))
}

fn session(row: &Session) -> Vec<SqlValue> {
    vec![text(&row.id), text(&row.created_at), text(&row.last_accessed), text(row.metadata.to_string())]
}

fn used(row: &Use) -> Vec<SqlValue> {
    vec![text(&row.session), text(&row.agent), text(&row.first), text(&row.last)]
}

fn entry(row: &Entry) -> Vec<SqlValue> {
    // As where a learning is stored: it makes an equal one of the same agent and session impossible.
    let hash = (row.kind == "learning").then(|| {
        let mut hash = String::with_capacity(64);
        for byte in Sha256::digest(row.content.as_bytes()) {
            // Writing to a string does not fail.
            let _ = write!(hash, "{byte:02x}");
        }
        text(hash)
    });
    let tags = (!row.tags.is_empty()).then(|| text(serde_json::Value::from(row.tags.clone()).to_string()));
    vec![
        text(&row.id),
        text(&row.session),
        text(&row.agent),
        text(&row.kind),
        text(&row.title),
        text(&row.content),
        maybe(hash),
        text(row.metadata.to_string()),
        maybe(tags),
        maybe(row.importance.map(int)),
        text(&row.created_at),
        text(&row.accessed_at),
        maybe(row.expires.as_ref().map(|(written, _)| text(written))),
        maybe(row.expires.as_ref().map(|(_, at)| int(at.as_millis()))),
        maybe(row.parent.as_ref().map(text)),
    ]
}

async fn all<T: Sync>(
    sessions: &Sessions,
    rows: Rows<T>,
    statement: &str,
    values: impl Fn(&T) -> Vec<SqlValue> + Send + Sync,
    refusals: &mut Refusals,
) -> Result<Option<TableReport>> {
    let (mut stored, mut repeated) = (0, 0);
    for batch in rows.taken.chunks(BATCH) {
        let tx = begin(&sessions.tables).await?;
        let done = some(&tx, batch, statement, &values).await;
        let (new, twice) = tx.end(done).await?;
        stored += new;
        for id in twice {
            repeated += 1;
            refusals.add(rows.table.unwrap_or_default(), Why::Repeated, || id);
        }
    }
    let taken = u64::try_from(rows.taken.len()).unwrap_or(u64::MAX);
    Ok(rows.table.map(|table| TableReport {
        table,
        rows: rows.rows,
        stored,
        skipped: taken.saturating_sub(stored).saturating_sub(repeated),
        refused: refusals.of(table),
    }))
}

/// Stores some rows; how many are new, and the ids of entries that say what another one of the session says.
async fn some<T>(
    tx: &Tx<'_>,
    batch: &[T],
    statement: &str,
    values: &(impl Fn(&T) -> Vec<SqlValue> + Send + Sync),
) -> Result<(u64, Vec<String>)>
where
    T: Sync,
{
    let (mut stored, mut repeated) = (0, Vec::new());
    for row in batch {
        let values = values(row);
        if !tx.exec_returning(statement, &values).await?.is_empty() {
            stored += 1;
        } else if statement == ENTRY
            && let Some(SqlValue::Text(id)) = values.first()
            && tx.one("SELECT id FROM session_entries WHERE id = ?", &[text(id)]).await?.is_none()
        {
            repeated.push(id.clone());
        }
    }
    Ok((stored, repeated))
}
