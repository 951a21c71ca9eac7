//! Graphs on each store.

mod rows;
mod stores;

pub(crate) use rows::*;
pub(crate) use stores::{Kept, Store};

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use memory_core::{Clock, IdGen, Provider, TenantId, Timestamp};
use memory_hierarchical::SqlGraphs;

/// Runs a test's body on each store.
macro_rules! on_both_stores {
    ($($(#[$doc:meta])* async fn $name:ident($world:ident) $body:block)+) => {
        $(mod $name {
            #[allow(unused_imports, reason = "not every body needs all")]
            use super::*;

            async fn body($world: $crate::support::World) $body

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                body($crate::support::World::on($crate::support::Store::sqlite()).await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() {
                if let Some(store) = $crate::support::Store::postgres().await {
                    body($crate::support::World::on(store).await).await;
                }
            }
        })+
    };
}
pub(crate) use on_both_stores;

/// A clock that tests move.
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

/// A tenant's graphs in a store of its own.
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
        let graphs = Arc::new(SqlGraphs::open(Arc::clone(&store.provider), &tenant()).await.unwrap());
        let clock = Arc::new(TestClock(AtomicI64::new(1_800_000_000_000)));
        Self { graphs, clock, ids: Arc::default(), store }
    }

    pub(crate) fn provider(&self) -> Arc<dyn Provider> {
        Arc::clone(&self.store.provider)
    }
}
