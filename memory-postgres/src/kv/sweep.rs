//! Reclaiming what expired or was dropped, and writing access counts: in small steps, each a transaction of its own.

use std::sync::{Arc, Weak};
use std::time::Duration;

use memory_core::Result;
use memory_core::access::Share;
use tokio_postgres::IsolationLevel;
use tokio_postgres::types::Type;

use crate::error::Effect;
use crate::kv::row::{column, signed};
use crate::kv::target::Value;
use crate::kv::uses;
use crate::search::index;
use crate::store::Store;

/// Rows of one step.
const STEP: i32 = 500;
/// Keys whose access counts one step writes.
const FLUSH: usize = 500;
/// Between two looks at what is to be done.
const BEAT: Duration = Duration::from_secs(5);
/// Beats between two sweeps.
const BEATS_OF_SWEEP: u32 = 12;

/// Beats between two looks for scopes that have become large.
const BEATS_OF_INDEXES: u32 = 120;

/// Works until the provider is gone.
pub(crate) async fn run(store: Weak<Store>) {
    let mut beat = 0_u32;
    loop {
        let Some(full) = store.upgrade().map(|store| Arc::clone(&store.full)) else { return };
        // Whichever is first: the beat, or that many counts are held.
        let _ = tokio::time::timeout(BEAT, full.notified()).await;
        let Some(store) = store.upgrade() else { return };
        if let Err(error) = accesses(&store).await {
            tracing::debug!(%error, "access counts stay held");
        }
        if let Err(error) = uses::flush(&store).await {
            tracing::debug!(%error, "uses of scopes stay held");
        }
        beat = beat.wrapping_add(1);
        if beat.is_multiple_of(BEATS_OF_SWEEP)
            && let Err(error) = sweep(&store).await.and(uses::sweep_uses(&store).await)
        {
            tracing::debug!(%error, "sweeping is put off");
        }
        if beat.is_multiple_of(BEATS_OF_INDEXES)
            && let Err(error) = index::maintain(&store).await
        {
            tracing::warn!(%error, "indexes of vectors are put off");
        }
    }
}

/// Reclaims what has expired by now, and dropped scopes. Returns how many expired entries there were.
pub(crate) async fn sweep(store: &Store) -> Result<u64> {
    let mut removed = 0;
    loop {
        let row = store.write(&store.statements.sweep_garbage, &[(&STEP, Type::INT4)]).await?;
        if column::<i32>(&row, 0, "count")? == 0 {
            break;
        }
    }
    loop {
        let (now, limit) = (store.time.parameter(), i64::from(STEP) * 4);
        let values: [Value<'_>; 2] = [(&now, Type::INT8), (&limit, Type::INT8)];
        let connection = store.connections.take().await?;
        let spaces = connection.query(&store.statements.expired_spaces, &values, Effect::None).await?;
        drop(connection);
        let mut step = 0;
        for row in &spaces {
            let (tenant, space): (&str, i64) = (column(row, 0, "scope")?, column(row, 1, "scope")?);
            let values: [Value<'_>; 4] =
                [(&tenant, Type::TEXT), (&space, Type::INT8), (&now, Type::INT8), (&STEP, Type::INT4)];
            let row = store.write(&store.statements.sweep_space, &values).await?;
            step += u64::try_from(column::<i32>(&row, 0, "count")?).unwrap_or_default();
        }
        removed += step;
        // What is left is locked, or of scopes that were dropped meanwhile.
        if step == 0 {
            return Ok(removed);
        }
    }
}

/// Writes the access counts that are held; one caller at a time.
pub(crate) async fn accesses(store: &Store) -> Result<()> {
    let _one = store.flushing.lock().await;
    // Those counted meanwhile are left for the next time.
    let mut keys = store.accesses.keys();
    while keys > 0 {
        // Rows that were read before the last write was committed have been answered by now.
        store.accesses.committed();
        let shares = store.accesses.take(FLUSH);
        if shares.is_empty() {
            return Ok(());
        }
        keys = keys.saturating_sub(shares.len());
        let mut settled = Unsettled(Some(store));
        write(store, &shares).await?;
        settled.0 = None;
    }
    Ok(())
}

/// Counts that are being written; held again where that fails or is given up.
struct Unsettled<'a>(Option<&'a Store>);

impl Drop for Unsettled<'_> {
    fn drop(&mut self) {
        if let Some(store) = self.0 {
            store.accesses.failed();
        }
    }
}

async fn write(store: &Store, shares: &[Share]) -> Result<()> {
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
