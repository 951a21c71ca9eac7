//! A scope in a file of its own, before it goes.

use std::fs;
use std::path::{Path, PathBuf};

use memory_core::{Error, ErrorKind, Provider, Result, Scope, Timestamp};

use super::policy::GcOptions;
use crate::snapshot::{Control, FileOptions, SnapshotOptions, to_file};

/// Writes a scope's last snapshot; `None`: none is wanted, or it is a run's, which no snapshot carries.
///
/// The name tells no tenant and no id: they are in the file, which is as private as the store.
pub(super) async fn snapshot(
    provider: &dyn Provider,
    scope: &Scope,
    options: &GcOptions,
    now: Timestamp,
    control: &Control,
) -> Result<Option<PathBuf>> {
    let Some(folder) = options.snapshot_to.as_ref().filter(|_| scope.kind.is_durable()) else {
        return Ok(None);
    };
    private_folder(folder)?;
    let digest = scope.digest().to_hex();
    let name = format!("{}-{}-{}.snapshot", scope.kind, digest.get(..16).unwrap_or(&digest), now.as_millis());
    let path = folder.join(name);
    let of = SnapshotOptions::default().with_scope(Some(scope.clone())).with_taken_at(Some(now));
    let file = FileOptions::default().with_overwrite(true).with_ledger(options.ledger.clone());
    let report = to_file(provider, &path, &of, &file, control).await?;
    if !report.is_complete() {
        return Err(Error::new(
            ErrorKind::Unavailable,
            "the last snapshot is not complete, so the scope stays; see `memory snapshot` on it for what is left out",
        ));
    }
    Ok(Some(path))
}

fn private_folder(folder: &Path) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder.create(folder).map_err(|error| {
        Error::new(ErrorKind::Unavailable, "the folder for last snapshots cannot be made; see the cause")
            .with_source(error)
    })
}
