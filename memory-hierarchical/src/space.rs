//! Where the tables of this crate are, and how its writers wait for each other.

use memory_core::host::{HostTables, Session};
use memory_core::{ErrorKind, Result};

/// The space of a tenant's tables.
pub const SPACE: &str = "hierarchical";
/// How often a writer waits for the others, each time as long as the provider allows: 30 seconds by default.
const WAITS: u32 = 20;

/// Creates what is missing; writes nothing if nothing is missing.
pub(crate) async fn create(tables: &HostTables, statements: &[String]) -> Result<()> {
    if tables.has_all(statements).await? {
        return Ok(());
    }
    let tx = begin(tables).await?;
    let made = async {
        for statement in statements {
            tx.exec(statement, &[]).await?;
        }
        Ok(())
    }
    .await;
    tx.end(made).await
}

/// Begins a transaction once the other writers are done.
pub(crate) async fn begin(tables: &HostTables) -> Result<Session<'_>> {
    for _ in 1..WAITS {
        match tables.begin().await {
            Err(error) if error.kind() == ErrorKind::Timeout => {}
            begun => return begun,
        }
    }
    tables.begin().await
}
