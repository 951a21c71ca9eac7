//! The drift guard on SQLite: each store is a file, and the floor is raw rusqlite.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use memory_core::{Error, Result};

use super::engine::Engine;
use crate::bench::floor::Floor;
use crate::bench::machine::{Folder, Machine, folder};
use crate::bench::measure::Slice;
use crate::bench::ours::{self, repeat};
use crate::bench::workload::{Work, Workload};

pub(super) struct Sqlite {
    parent: PathBuf,
    dir: Folder,
    floor: Floor,
    stop: Arc<AtomicBool>,
}

impl Sqlite {
    pub(super) fn new(parent: PathBuf, workload: &Arc<Workload>, stop: &Arc<AtomicBool>) -> Result<Self> {
        let dir = folder(parent.clone())?;
        let floor = Floor::create(&dir.path().join("floor.db"), Arc::clone(workload))?;
        Ok(Self { parent, dir, floor, stop: Arc::clone(stop) })
    }

    fn file(&self, name: &str) -> PathBuf {
        ours::file(&self.dir.path().join(name))
    }
}

impl Engine for Sqlite {
    fn machine(&self) -> Machine {
        Machine::of(&self.parent)
    }

    fn location(&self) -> String {
        self.parent.display().to_string()
    }

    fn store(&mut self, name: &'static str) -> Result<String> {
        ours::url(&self.file(name), "normal")
    }

    fn overwrite(&mut self, _: u64, slice: Duration) -> Result<u64> {
        repeat(Work::Set, Slice::lasting(slice, &self.stop), || self.floor.run(Work::Set))
    }

    /// Commits to a table that holds no entries.
    fn others_commit(&mut self, name: &'static str) -> Result<()> {
        memory_sqlite::prepare_process();
        rusqlite::Connection::open(self.file(name))
            .and_then(|foreign| foreign.execute_batch("UPDATE sequence SET last = last"))
            .map_err(|error| Error::internal("another connection could not commit").with_source(error))
    }
}
