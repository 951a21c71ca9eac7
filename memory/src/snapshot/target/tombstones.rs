//! A target's tombstones for a scope, which keep a copy from bringing back what was forgotten.

use std::collections::HashMap;

use memory_core::limits::MAX_PAGE;
use memory_core::{Key, NameDigest, Provider, Result, Scope, Timestamp, Tombstone, TombstonesOf};

/// The tombstones that concern a scope.
#[derive(Clone, Debug, Default)]
pub(in crate::snapshot) struct ScopeTombstones {
    scope: Option<NameDigest>,
    /// When the whole scope was last forgotten.
    pub(in crate::snapshot) whole: Option<Timestamp>,
    keys: HashMap<NameDigest, Timestamp>,
    /// Whether the source's copy, or at least its database, is older than that.
    pub(in crate::snapshot) source_is_before: bool,
}

impl ScopeTombstones {
    /// Reads them from a store; none if it cannot erase.
    pub(in crate::snapshot) async fn of(provider: &dyn Provider, scope: &Scope) -> Result<Self> {
        let mut buried = Self { scope: Some(NameDigest::of_scope(scope)), ..Self::default() };
        if !provider.capabilities().erase {
            return Ok(buried);
        }
        let of = TombstonesOf::Scope(scope.clone());
        let mut after = None;
        loop {
            let page = provider.tombstones(&of, after.as_ref(), MAX_PAGE).await?;
            for tombstone in &page {
                match tombstone.id.key {
                    Some(key) => drop(buried.keys.insert(key, tombstone.at)),
                    None => buried.whole = buried.whole.max(Some(tombstone.at)),
                }
            }
            after = page.last().map(|last| last.id);
            if page.len() < MAX_PAGE {
                return Ok(buried);
            }
        }
    }

    /// Whether nothing in the scope was forgotten.
    pub(in crate::snapshot) fn is_none(&self) -> bool {
        self.whole.is_none() && self.keys.is_empty()
    }

    /// Whether the whole scope was forgotten after a copy was taken.
    pub(in crate::snapshot) fn covers(&self, taken: Timestamp) -> bool {
        self.whole.is_some_and(|at| taken <= at)
    }

    /// A time after the latest tombstone.
    pub(in crate::snapshot) fn after(&self) -> Timestamp {
        let last = self.keys.values().copied().chain(self.whole).max().unwrap_or(Timestamp::EPOCH);
        Timestamp::from_millis_clamped(last.as_millis().saturating_add(1))
    }

    /// Whether a key was forgotten after a copy was taken, so that its record is left out.
    pub(in crate::snapshot) fn leaves_out(&self, key: &Key, taken: Timestamp) -> bool {
        if self.covers(taken) {
            return true;
        }
        let (Some(scope), false) = (&self.scope, self.keys.is_empty()) else { return false };
        self.keys.get(&NameDigest::of_key(scope, key)).is_some_and(|at| taken <= *at)
    }
}

/// Copies the tombstones of one store to another, page by page.
pub(in crate::snapshot) async fn carry(
    from: &dyn Provider,
    of: &TombstonesOf,
    to: &dyn Provider,
) -> Result<()> {
    if !(from.capabilities().erase && to.capabilities().erase) {
        return Ok(());
    }
    let mut after = None;
    loop {
        let page: Vec<Tombstone> = from.tombstones(of, after.as_ref(), MAX_PAGE).await?;
        to.bury(&page).await?;
        after = page.last().map(|last| last.id);
        if page.len() < MAX_PAGE {
            return Ok(());
        }
    }
}
