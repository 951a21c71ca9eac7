//! Background work of a provider: writing access counts and uses, sweeping, building vector indexes.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::kv::{access, expiry};
use crate::lifecycle::{eviction, uses};
use crate::store::Store;
use crate::vector::index;

/// The pause between two rounds.
const PERIOD: Duration = Duration::from_secs(5);

/// A sweep once in this many rounds.
const SWEEP_EVERY: u32 = 12;

/// A search for scopes that need an index once in this many rounds.
const INDEX_EVERY: u32 = 120;

/// Runs until the provider is dropped.
pub(crate) async fn run(store: Weak<Store>) {
    let mut beat = 0_u32;
    loop {
        let Some(full) = store.upgrade().map(|store| Arc::clone(&store.full)) else { return };
        // Wakes early if many counts are held.
        let _ = tokio::time::timeout(PERIOD, full.notified()).await;
        let Some(store) = store.upgrade() else { return };
        if let Err(error) = access::flush(&store).await {
            tracing::debug!(%error, "access counts could not be written and stay in memory");
        }
        if let Err(error) = uses::flush(&store).await {
            tracing::debug!(%error, "uses of scopes could not be written and stay in memory");
        }
        beat = beat.wrapping_add(1);
        if beat.is_multiple_of(SWEEP_EVERY)
            && let Err(error) = expiry::sweep(&store).await.and(eviction::sweep_fences(&store).await)
        {
            tracing::debug!(%error, "sweeping failed and will be tried again");
        }
        if beat.is_multiple_of(INDEX_EVERY)
            && let Err(error) = index::maintain(&store).await
        {
            tracing::warn!(%error, "building vector indexes failed and will be tried again");
        }
    }
}
