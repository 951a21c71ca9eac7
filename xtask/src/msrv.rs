//! `cargo xtask msrv`: builds with the oldest supported Rust.

use std::process::Command;

use crate::libraries::Libraries;
use crate::workspace::Workspace;
use crate::{Result, process};

impl Workspace {
    /// The oldest Rust the workspace supports.
    pub(crate) fn rust_version(&self) -> Result<&str> {
        let versions = self.members.iter().filter_map(|member| member.rust_version.as_deref());
        versions.max().ok_or_else(|| "no member names a rust-version".into())
    }
}

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let version = workspace.rust_version()?;
    let installed = process::capture(Command::new("rustup").args(["toolchain", "list"])).unwrap_or_default();
    if !installed.lines().any(|line| line.starts_with(version)) {
        println!("skipped: toolchain {version} is not installed (`rustup toolchain install {version}`)");
        return Ok(());
    }
    let mut check = Command::new("rustup");
    let libraries = Libraries::prepare(workspace);
    check.current_dir(&workspace.root).args(["run", version, "cargo", "check", "--workspace"]);
    libraries.apply(check.args(libraries.every_feature(workspace)));
    // A separate folder: artefacts of two compilers would evict each other.
    check.env_remove("CARGO").env("CARGO_TARGET_DIR", workspace.target.join("msrv"));
    process::run(&mut check)
}
