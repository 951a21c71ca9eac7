//! Tries statements one by one on the same database, for fuzzing and for measuring layers.

use std::time::{Duration, Instant};

use memory_core::Result;
use memory_core::sql::SqlValue;
use memory_validator::Mode;

use super::connection::{Place, Sandbox};
use super::limits::{Layers, SandboxConfig};
use super::statement::{Cancel, Statement};
use crate::file::open::Role;

/// A sandboxed database in memory on which each statement leaves no trace.
#[derive(Debug)]
pub struct ScratchDatabase {
    sandbox: Sandbox,
}

impl ScratchDatabase {
    /// Creates the database with a script, which runs with the runtime's rights.
    ///
    /// # Errors
    /// As the engine fails.
    pub fn new(script: &str, layers: Layers) -> Result<Self> {
        let mut sandbox =
            Sandbox::open(Place::Empty, Role::Writer, &SandboxConfig::default(), &[], None, layers)?;
        sandbox.with_runtime_rights(|conn| conn.execute_batch(script).map_err(crate::error::engine))?;
        Ok(Self { sandbox })
    }

    /// Runs a statement as an agent's, and rolls it back.
    ///
    /// # Errors
    /// Those of the sandbox and the engine; `details.layer` names the layer.
    pub fn run(&mut self, sql: &str, args: &[SqlValue], mode: Mode, timeout: Duration) -> Result<()> {
        self.sandbox.begin_immediate()?;
        let ran = self.sandbox.run(&Statement {
            sql,
            args,
            mode,
            deadline: Instant::now() + timeout,
            max_rows: 1_000,
            max_bytes: 1 << 20,
            frees: false,
            cancel: &Cancel::default(),
        });
        self.sandbox.rollback()?;
        ran.map(drop)
    }
}
