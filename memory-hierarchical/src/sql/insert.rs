//! Batches of rows in statements that stay within the stores' limits.

use memory_core::host::{Session, int, text};
use memory_core::sql::SqlValue;
use memory_core::{Error, Result};

use super::rows::Table;
use crate::model::Agent;

/// Most arguments of one statement: far below the limit of the facet, so that no statement takes long.
const MAX_ARGUMENTS: usize = 4_000;
/// A statement takes no more rows once its arguments have this many bytes.
const MAX_BYTES: usize = 8 << 20;

/// Most ids that one statement asks for.
pub(super) const MAX_IDS: usize = 500;

/// `?, ?, ?`
pub(super) fn marks(count: usize) -> String {
    vec!["?"; count].join(", ")
}

/// Inserts rows that this revision of an agent's graph adds; those whose key is taken are left out. Returns how many it
/// inserted.
pub(super) async fn insert(
    tx: &Session<'_>,
    table: Table,
    (agent, revision): (&Agent, u64),
    rows: impl Iterator<Item = Result<Vec<SqlValue>>> + Send,
) -> Result<u64> {
    let (mut args, mut count, mut width, mut bytes, mut stored) = (Vec::new(), 0, 0, 0, 0);
    for row in rows {
        let row = row?;
        bytes += checked_bytes(&row)?;
        width = row.len() + 2;
        args.extend([text(agent.as_str()), int(revision)]);
        args.extend(row);
        count += 1;
        if args.len() + width > MAX_ARGUMENTS || bytes >= MAX_BYTES {
            stored += flush(tx, table, count, width, &args).await?;
            args.clear();
            (count, bytes) = (0, 0);
        }
    }
    if count > 0 {
        stored += flush(tx, table, count, width, &args).await?;
    }
    Ok(stored)
}

async fn flush(tx: &Session<'_>, table: Table, rows: usize, width: usize, args: &[SqlValue]) -> Result<u64> {
    let row = format!("({})", marks(width));
    let rows = vec![row.as_str(); rows].join(", ");
    let Table { name, columns } = table;
    tx.exec(
        &format!("INSERT INTO {name} (agent_id, added, {columns}) VALUES {rows} ON CONFLICT DO NOTHING"),
        args,
    )
    .await
}

/// The bytes of a row's texts. U+0000 is refused everywhere, because one of the stores cannot keep it.
fn checked_bytes(row: &[SqlValue]) -> Result<usize> {
    let mut bytes = 0;
    for value in row {
        if let SqlValue::Text(text) = value {
            if text.contains('\0') {
                return Err(Error::invalid("a text of a memory or an edge holds U+0000; remove it"));
            }
            bytes += text.len();
        }
    }
    Ok(bytes)
}
