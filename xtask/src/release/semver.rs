//! Whether the public API is still what the new version number promises, compared with the last release.

use std::process::Command;

use super::published;
use crate::workspace::Workspace;
use crate::{Result, process, tools};

const VERSION: &str = "0.51.0";

pub(super) fn check(workspace: &Workspace) -> Result<()> {
    let mut git = Command::new("git");
    git.current_dir(&workspace.root).args([
        "tag",
        "--merged",
        "HEAD",
        "--sort=-version:refname",
        "--list",
        "v*",
    ]);
    let tags = process::capture(&mut git)?;
    let Some(last) = before(&tags, env!("CARGO_PKG_VERSION")) else {
        println!("semver: nothing was checked, because no earlier release is tagged (vX.Y.Z)");
        return Ok(());
    };
    println!("semver: compared with {last}");
    let tool = tools::pinned(workspace, "cargo-semver-checks", VERSION, None, &[])?;
    let mut command = Command::new(tool);
    command.current_dir(&workspace.root).args(["semver-checks", "--baseline-rev", last]);
    for member in published(workspace).filter(|member| member.has_library()) {
        command.args(["--package", &member.name]);
    }
    process::run(&mut command)
}

/// The newest of these tags, newest first, but for that of the version which is being released.
fn before<'t>(tags: &'t str, version: &str) -> Option<&'t str> {
    tags.lines().find(|tag| tag.strip_prefix('v').is_some_and(|tagged| tagged != version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_compared_with_the_one_before_whether_it_is_tagged_yet_or_not() {
        assert_eq!(before("", "0.1.0"), None);
        assert_eq!(before("v0.1.0\n", "0.1.0"), None);
        assert_eq!(before("v0.1.0\n", "0.2.0"), Some("v0.1.0"));
        assert_eq!(before("v0.2.0\nv0.1.0\n", "0.2.0"), Some("v0.1.0"));
    }
}
