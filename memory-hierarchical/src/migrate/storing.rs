//! Writing rows of flat memories to the tables.

use memory_core::host::{Session as Tx, int, maybe, text};
use memory_core::sql::SqlValue;
use memory_core::{Result, Timestamp};

use super::flat::{Entry, Flat, Rows, Session, Use};
use super::report::TableReport;
use crate::sessions::{EXPIRED, LEARNING, Sessions, content_hash};
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
/// Whether the entry with an id has the same content. The time of its last read does not count.
const SAME: &str = "SELECT CASE WHEN session_id = ? AND agent_id = ? AND memory_type = ? AND title = ? AND content = ? \
     AND metadata = ? AND tags IS NOT DISTINCT FROM ? AND importance IS NOT DISTINCT FROM ? AND created_at = ? \
     AND expires_at IS NOT DISTINCT FROM ? AND parent_id IS NOT DISTINCT FROM ? THEN 1 ELSE 0 END \
     FROM session_entries WHERE id = ?";
/// The positions of its arguments, and of those of [`EXPIRED`], among an entry's values.
const SAID: [usize; 12] = [1, 2, 3, 4, 5, 7, 8, 9, 10, 12, 14, 0];
const HASHED: [usize; 3] = [1, 2, 6];

/// Stores everything, in transactions of at most 500 rows; returns a report for each table of the file.
pub(super) async fn store(sessions: &Sessions, flat: Flat) -> Result<(Vec<TableReport>, Refusals)> {
    let Flat { sessions: rows, uses, entries, mut refusals } = flat;
    let mut reports = Vec::new();
    reports.extend(all(sessions, rows, SESSION, session, &mut refusals).await?);
    reports.extend(all(sessions, uses, USE, used, &mut refusals).await?);
    let now = sessions.clock.now();
    reports.extend(all(sessions, entries, ENTRY, |row| entry(row, now), &mut refusals).await?);
    Ok((reports, refusals))
}

fn session(row: &Session) -> Vec<SqlValue> {
    vec![text(&row.id), text(&row.created_at), text(&row.last_accessed), text(row.metadata.to_string())]
}

fn used(row: &Use) -> Vec<SqlValue> {
    vec![text(&row.session), text(&row.agent), text(&row.first), text(&row.last)]
}

fn entry(row: &Entry, now: Timestamp) -> Vec<SqlValue> {
    // As when a learning is stored: this prevents an equal one for the same agent and session, except for an expired
    // one.
    let is_live = row.expires.as_ref().is_none_or(|(_, at)| *at > now);
    let hash = (row.kind == LEARNING && is_live).then(|| text(content_hash(&row.content)));
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
    let (mut stored, mut refused) = (0, 0);
    for batch in rows.taken.chunks(BATCH) {
        let tx = begin(&sessions.tables).await?;
        let done = some(&tx, batch, statement, &values, sessions.clock.now()).await;
        let (new, others) = tx.end(done).await?;
        stored += new;
        for (why, id) in others {
            refused += 1;
            refusals.add(rows.table.unwrap_or_default(), why, || id);
        }
    }
    let taken = u64::try_from(rows.taken.len()).unwrap_or(u64::MAX);
    Ok(rows.table.map(|table| TableReport {
        table,
        rows: rows.rows,
        stored,
        skipped: taken.saturating_sub(stored).saturating_sub(refused),
        refused: refusals.of(table),
    }))
}

/// Stores some rows; returns how many are new, and the ids of entries that are neither stored nor already there.
async fn some<T>(
    tx: &Tx<'_>,
    batch: &[T],
    statement: &str,
    values: &(impl Fn(&T) -> Vec<SqlValue> + Send + Sync),
    now: Timestamp,
) -> Result<(u64, Vec<(Why, String)>)>
where
    T: Sync,
{
    let (mut stored, mut refused) = (0, Vec::new());
    for row in batch {
        let values = values(row);
        let mut is_new = !tx.exec_returning(statement, &values).await?.is_empty();
        if statement == ENTRY && !is_new {
            let of = |places: &[usize]| -> Vec<SqlValue> {
                places.iter().filter_map(|place| values.get(*place).cloned()).collect()
            };
            let expired = [of(&HASHED), vec![int(now.as_millis())]].concat();
            if tx.exec(EXPIRED, &expired).await? > 0 {
                is_new = !tx.exec_returning(statement, &values).await?.is_empty();
            }
            let why = match tx.one(SAME, &of(&SAID)).await?.map(|mut row| row.int()).transpose()? {
                Some(1) => None,
                Some(_) => Some(Why::Taken),
                None => Some(Why::Repeated),
            };
            if let (Some(why), Some(SqlValue::Text(id))) = (why, values.first()) {
                refused.push((why, id.clone()));
            }
        }
        stored += u64::from(is_new);
    }
    Ok((stored, refused))
}
