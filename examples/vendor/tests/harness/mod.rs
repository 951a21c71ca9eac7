//! How the suite opens the backend.

use memory_conformance::{Fixture, Harness, async_trait};
use memory_core::{Provider, Result};
use memory_redb::RedbMemory;

pub struct Files(tempfile::TempDir);

impl Files {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder for the files"))
    }
}

#[async_trait]
impl Harness for Files {
    fn name(&self) -> &str {
        "redb"
    }

    async fn open(&self, fixture: Fixture) -> Result<Box<dyn Provider>> {
        let path = self.0.path().join(format!("{}.redb", fixture.name));
        Ok(Box::new(RedbMemory::open(&path, fixture.clock)?))
    }
}
