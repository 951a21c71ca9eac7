//! What a provider does by itself: writing access counts and uses, sweeping, indexing vectors.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::kv::{access, expiry};
use crate::lifecycle::{eviction, uses};
use crate::store::Store;
use crate::vector::index;

/// The pause between two rounds.
const BEAT: Duration = Duration::from_secs(5);

/// Rounds between two sweeps.
const BEATS_OF_SWEEP: u32 = 12;

/// Rounds between two looks for scopes that need an index.
const BEATS_OF_INDEXES: u32 = 120;

/// Runs until the provider is dropped.
pub(crate) async fn run(store: Weak<Store>) {
    let mut beat = 0_u32;
    loop {
        let Some(full) = store.upgrade().map(|store| Arc::clone(&store.full)) else { return };
        // Wakes early where many counts are held.
        let _ = tokio::time::timeout(BEAT, full.notified()).await;
        let Some(store) = store.upgrade() else { return };
        if let Err(error) = access::flush(&store).await {
            tracing::debug!(%error, "access counts stay held");
        }
        if let Err(error) = uses::flush(&store).await {
            tracing::debug!(%error, "uses of scopes stay held");
        }
        beat = beat.wrapping_add(1);
        if beat.is_multiple_of(BEATS_OF_SWEEP)
            && let Err(error) = expiry::sweep(&store).await.and(eviction::sweep_fences(&store).await)
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
