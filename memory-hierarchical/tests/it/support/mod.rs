//! Graphs on each store.

mod rows;

pub(crate) use memory_fakes::on_both_stores;
pub(crate) use memory_fakes::stores::{Kept, Store};
pub(crate) use rows::*;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use memory_core::{Clock, IdGen, Provider, TenantId, Timestamp};
use memory_hierarchical::SqlGraphs;

/// A clock moved by tests.
#[derive(Debug)]
pub(crate) struct TestClock(AtomicI64);

impl TestClock {
    pub(crate) fn set(&self, time: &str) {
        self.0.store(time.parse::<Timestamp>().unwrap().as_millis(), Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis_clamped(self.0.load(Ordering::SeqCst))
    }
}

#[derive(Debug, Default)]
pub(crate) struct TestIds(AtomicU64);

impl IdGen for TestIds {
    fn fresh(&self) -> u128 {
        u128::from(self.0.fetch_add(1, Ordering::SeqCst)) + 1
    }
}

/// A tenant's graphs in a separate store.
pub(crate) struct World {
    pub(crate) graphs: Arc<SqlGraphs>,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) ids: Arc<TestIds>,
    pub(crate) store: Kept,
}

pub(crate) fn tenant() -> TenantId {
    "acme".parse().unwrap()
}

impl World {
    pub(crate) async fn on(store: Kept) -> Self {
        let ids = Arc::<TestIds>::default();
        let graphs =
            SqlGraphs::open(Arc::clone(&store.provider), &tenant(), Arc::clone(&ids) as _).await.unwrap();
        let clock = Arc::new(TestClock(AtomicI64::new(1_800_000_000_000)));
        Self { graphs: Arc::new(graphs), clock, ids, store }
    }

    pub(crate) fn provider(&self) -> Arc<dyn Provider> {
        Arc::clone(&self.store.provider)
    }
}
