//! Reading and writing rows of the tables.

use memory_core::host::{self, Session, int, text};
use memory_core::sql::SqlValue;
use memory_core::{Error, Result};

use crate::model::Agent;
use crate::rows::{Cells, Table, Values};

/// Most arguments of one statement: far below the facet's limit, so that no statement takes long.
const MAX_ARGUMENTS: usize = 4_000;
/// A statement takes no more rows once their text reaches this many bytes.
const MAX_BYTES: usize = 8 << 20;

/// Most ids that one statement asks for.
pub(super) const MAX_IDS: usize = 500;

/// `?, ?, ?`
pub(super) fn marks(count: usize) -> String {
    vec!["?"; count].join(", ")
}

impl Cells for host::Cells {
    type Fault = Error;

    fn text(&mut self) -> Result<String> {
        Self::text(self)
    }

    fn real(&mut self) -> Result<f64> {
        Self::real(self)
    }

    fn int(&mut self) -> Result<i64> {
        Self::int(self)
    }

    /// Read here and not by [`host::Cells::json`], so that numbers keep their bits.
    fn json<T: serde::de::DeserializeOwned>(&mut self) -> Result<T> {
        serde_json::from_str(&Self::text(self)?).map_err(|error| {
            Error::corrupt("a graph's table holds what is not the JSON it was given").with_source(error)
        })
    }
}

/// Inserts rows that this revision of an agent's graph adds; those whose key is taken are left out. Returns how many it
/// inserted.
pub(super) async fn insert(
    tx: &Session<'_>,
    table: Table,
    (agent, revision): (&Agent, u64),
    rows: &[Values],
) -> Result<u64> {
    let width = table.columns().len() + 2;
    let (mut args, mut bytes, mut stored) = (Vec::new(), 0, 0);
    for row in rows {
        args.extend([text(agent.as_str()), int(revision)]);
        args.extend_from_slice(row);
        bytes += row.iter().map(bytes_of).sum::<usize>();
        if args.len() + width > MAX_ARGUMENTS || bytes >= MAX_BYTES {
            stored += flush(tx, table, &args).await?;
            args.clear();
            bytes = 0;
        }
    }
    if !args.is_empty() {
        stored += flush(tx, table, &args).await?;
    }
    Ok(stored)
}

async fn flush(tx: &Session<'_>, table: Table, args: &[SqlValue]) -> Result<u64> {
    let width = table.columns().len() + 2;
    let row = format!("({})", marks(width));
    let rows = vec![row.as_str(); args.len() / width].join(", ");
    let (name, columns) = (table.name(), table.columns().join(", "));
    tx.exec(
        &format!("INSERT INTO {name} (agent_id, added, {columns}) VALUES {rows} ON CONFLICT DO NOTHING"),
        args,
    )
    .await
}

const fn bytes_of(value: &SqlValue) -> usize {
    if let SqlValue::Text(text) = value { text.len() } else { 0 }
}
