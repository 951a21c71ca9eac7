//! Access counts: added to entries that are read, held in memory, written in batches.

use memory_core::access::Share;
use memory_core::{Entry, GetOptions, Result};
use tokio_postgres::IsolationLevel;
use tokio_postgres::types::Type;

use crate::kv::row::StoredEntry;
use crate::store::Store;
use crate::store::columns::{column, signed};
use crate::store::parameters::Value;

/// Keys whose access counts one step writes.
const FLUSH: usize = 500;

impl Store {
    /// The entry with its total access count; counts this access.
    pub(crate) fn finish(&self, stored: StoredEntry, options: GetOptions) -> Entry {
        let StoredEntry { mut entry, space, born } = stored;
        let mut counts = self.accesses.look();
        let key = entry.key.as_str();
        if options.count_access {
            let (before, full) = counts.access(space, key, born, entry.access_count);
            entry.access_count = before;
            if full {
                self.full.notify_one();
            }
        } else {
            entry.access_count = counts.total(space, key, born, entry.access_count);
        }
        entry
    }
}

/// Writes the access counts held in memory; one caller at a time.
pub(crate) async fn flush(store: &Store) -> Result<()> {
    let _one = store.flushing.lock().await;
    // Accesses counted in the meantime wait for the next flush.
    let mut keys = store.accesses.keys();
    while keys > 0 {
        // By now every row read before the last commit has been returned.
        store.accesses.committed();
        let shares = store.accesses.take(FLUSH);
        if shares.is_empty() {
            return Ok(());
        }
        keys = keys.saturating_sub(shares.len());
        let mut settled = Unsettled(Some(store));
        write_counts(store, &shares).await?;
        settled.0 = None;
    }
    Ok(())
}

/// Counts being written; if that fails or is cancelled, they are held again.
struct Unsettled<'a>(Option<&'a Store>);

impl Drop for Unsettled<'_> {
    fn drop(&mut self) {
        if let Some(store) = self.0 {
            store.accesses.failed();
        }
    }
}

async fn write_counts(store: &Store, shares: &[Share]) -> Result<()> {
    let spaces: Vec<i64> = shares.iter().map(|share| share.space).collect();
    let keys: Vec<&str> = shares.iter().map(|share| &*share.key).collect();
    let borns: Vec<i64> = shares.iter().map(|share| share.born).collect();
    let counts: Vec<i64> = shares.iter().map(|share| signed(share.count)).collect();
    let values: [Value<'_>; 4] = [
        (&spaces, Type::INT8_ARRAY),
        (&keys, Type::TEXT_ARRAY),
        (&borns, Type::INT8_ARRAY),
        (&counts, Type::INT8_ARRAY),
    ];
    let mut connection = store.connections.take().await?;
    let transaction = connection.transaction(IsolationLevel::ReadCommitted, false).await?;
    let rows = transaction.query(&store.statements.count_accesses, &values).await?;
    let reached: Vec<Option<i64>> = match rows.first() {
        Some(row) => column(row, 0, "access count")?,
        None => Vec::new(),
    };
    let reached = reached.into_iter().map(|reached| reached.and_then(|reached| u64::try_from(reached).ok()));
    store.accesses.wrote(reached.collect());
    store.accesses.committing();
    transaction.commit().await
}
