//! Follows docs/vendor.md as it stands, from an empty folder to the report.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::workspace::Workspace;
use crate::{Result, process};

const PAGE: &str = "docs/vendor.md";

pub(crate) fn follow(workspace: &Workspace) -> Result<()> {
    let page = workspace.read(Path::new(PAGE))?;
    let commands = page.split_once("```sh\n").and_then(|(_, rest)| rest.split_once("```"));
    let (commands, _) = commands.ok_or("docs/vendor.md has no block of commands")?;
    let folder = workspace.target.join("vendor");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    // The page has the checkout beside the vendor's folder.
    let checkout = format!("ln -s \"$1\" memory\n{commands}");
    let mut shell = Command::new("sh");
    // What the workspace compiled alike serves here too.
    shell.current_dir(&folder).env("CARGO_TARGET_DIR", &workspace.target).env("CARGO_PROFILE_DEV_DEBUG", "0");
    process::run(shell.args(["-euc", &checkout, "sh"]).arg(&workspace.root))?;
    let report = fs::read_to_string(folder.join("my-backend/conformance.md"))?;
    let counts =
        report.lines().find(|line| line.contains(" cases passed, ")).ok_or("a report without counts")?;
    if page.contains(counts) {
        Ok(())
    } else {
        Err(format!("{PAGE} shows other numbers than this: {counts}").into())
    }
}
