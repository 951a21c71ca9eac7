//! Whole scopes and stores: list, export, import, snapshot, migrate, collect, forget.

mod export;
mod forget;
mod gc;
mod import;
mod scopes;
mod snapshot;

pub(crate) use export::{ExportArgs, run as export};
pub(crate) use forget::{ForgetArgs, run as forget, typed_row};
pub(crate) use gc::{GcArgs, run as gc};
pub(crate) use import::{ImportArgs, run as import};
pub(crate) use scopes::{ScopesArgs, describe, scopes, stats};
pub(crate) use snapshot::{MigrateArgs, RestoreArgs, SnapshotArgs, migrate, restore, snapshot};
