//! The suite's cases about graphs, on the engine; sessions are in SQLite, as they are with the engine chosen.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;

use memory_conformance::{Fixture, Harness, Options, async_trait, run};
use memory_core::{IdGen, Provider, Result, TenantId};
use memory_hierarchical::GraphStore;
use memory_ladybug::LadybugGraphs;
use memory_sqlite::{SqliteConfig, SqliteProvider};

struct Engine(tempfile::TempDir);

#[async_trait]
impl Harness for Engine {
    fn name(&self) -> &str {
        "graph-db"
    }

    async fn open(&self, fixture: Fixture) -> Result<Box<dyn Provider>> {
        Ok(Box::new(SqliteProvider::open_in_memory(SqliteConfig::default(), fixture.clock)?))
    }

    async fn open_graphs(
        &self,
        _: Arc<dyn Provider>,
        tenant: &TenantId,
        _: Arc<dyn IdGen>,
    ) -> Result<Arc<dyn GraphStore>> {
        let mut name = String::new();
        for byte in tenant.as_str().bytes() {
            write!(name, "{byte:02x}").unwrap();
        }
        Ok(Arc::new(LadybugGraphs::new(self.0.path().join(name), None)))
    }
}

#[test]
fn every_case_about_graphs_passes() {
    let harness = Engine(tempfile::tempdir().unwrap());
    let options = Options::default().with_filter("graph.");
    let report = run(Arc::new(harness), &options, |_| ControlFlow::Continue(()));
    assert!(report.cases.passed > 15 && report.is_success(), "{}", report.to_markdown());
    assert_eq!((report.cases.skipped, report.cases.refusals), (0, 0), "{}", report.to_markdown());
}
