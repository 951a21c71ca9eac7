//! Cargo subcommands at a pinned version: installed ones, or in the target folder, when first needed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::pip::{self, Package};
use crate::workspace::Workspace;
use crate::{Result, process};

/// The program `name` of this version: from the path if it matches, else from `built`, a Python package with the program
/// for this machine; if that cannot be had, it is compiled, with these options of `cargo install`.
pub(crate) fn pinned(
    workspace: &Workspace,
    name: &str,
    version: &str,
    built: Option<&Package>,
    options: &[&str],
) -> Result<PathBuf> {
    let tools = workspace.target.join("tools");
    let program =
        |folder: &Path| folder.join("bin").join(name).with_extension(std::env::consts::EXE_EXTENSION);
    let kept = program(&tools);
    let found = [PathBuf::from(name), kept.clone()].into_iter().find(|p| is_version(p, name, version));
    if let Some(program) = found {
        return Ok(program);
    }
    if let Some(package) = built {
        let usable = |folder: &Path| match is_version(&program(folder), name, version) {
            true => Ok(()),
            false => Err(format!("{} does not run here", package.requirement).into()),
        };
        match pip::unpacked(workspace, package, usable) {
            Ok(folder) => return Ok(program(&folder)),
            Err(error) => println!("{error}"),
        }
    }
    println!("building {name} {version} into {}", tools.display());
    let mut install = workspace.cargo();
    // Unoptimised: it runs for seconds, and optimising takes minutes.
    install.env("CARGO_PROFILE_DEV_DEBUG", "false");
    install.args(["install", name, "--locked", "--debug", "--version", version]).args(options);
    process::run(install.arg("--root").arg(&tools))?;
    Ok(kept)
}

fn is_version(program: &Path, name: &str, version: &str) -> bool {
    let printed = Command::new(program).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    printed.is_ok_and(|output| {
        let printed = String::from_utf8_lossy(&output.stdout);
        let found = printed.trim().strip_prefix(name).map(str::trim_start);
        found.is_some_and(|found| found.strip_prefix('v').unwrap_or(found) == version)
    })
}
