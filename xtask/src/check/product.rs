//! The shipped product: the binary `memory`, built by README's first command.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::workspace::Workspace;
use crate::{Result, process};

pub(crate) const PACKAGE: &str = "memory-server";
/// Size limit of the stripped binary, beside the embedding model that it carries as data. `release::archive` has another.
const MAX_BYTES: u64 = 35_800_000;
pub(crate) const MODEL: &str = "memory-model/data/model.bin";
/// Crates for measuring and for vendors, which are never shipped.
const NOT_SHIPPED: &[&str] = &["memory-conformance", "memory-eval", "memory-lab", "libtest-mimic"];
/// The feature that disables layers of the sandbox.
pub(crate) const LAB: &str = "lab";
/// Occurs in every program built with that feature.
const LAB_MARK: &[u8] = b"sandbox layers can be switched off in this build";

#[derive(Deserialize)]
struct Built {
    reason: String,
    executable: Option<PathBuf>,
}

pub(crate) fn check(workspace: &Workspace, binary: &Path) -> Result<()> {
    let mut wrong = dependencies(workspace)?;
    let bytes = fs::read(binary)?;
    println!("{}: {} bytes", binary.display(), bytes.len());
    if let Err(error) = fits(workspace, &bytes, MAX_BYTES) {
        wrong.push(error.to_string());
    }
    if holds(&bytes, LAB_MARK) {
        wrong.push("the binary can disable layers of the sandbox".to_owned());
    }
    // README's first command.
    let mut demo = std::process::Command::new(binary);
    process::run(demo.arg("demo"))?;
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// Refuses a binary of more than `limit` bytes beside the model.
pub(crate) fn fits(workspace: &Workspace, binary: &[u8], limit: u64) -> Result<()> {
    let limit = limit + fs::metadata(workspace.root.join(MODEL))?.len();
    if u64::try_from(binary.len())? > limit {
        return Err(format!("the binary has {} bytes, more than {limit}", binary.len()).into());
    }
    Ok(())
}

/// Forbidden dependencies of the package, and whether one has the feature `lab`.
fn dependencies(workspace: &Workspace) -> Result<Vec<String>> {
    let mut tree = workspace.cargo();
    tree.args(["tree", "--package", PACKAGE, "--edges", "normal", "--target", "all"]);
    tree.args(["--prefix", "none", "--format", "{p}|{f}"]);
    Ok(faults(&process::capture(&mut tree)?))
}

/// Lines of `NAME VERSION…|FEATURE,FEATURE`.
fn faults(tree: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for line in tree.lines() {
        let (package, features) = line.split_once('|').unwrap_or((line, ""));
        let name = package.split_whitespace().next().unwrap_or_default();
        if NOT_SHIPPED.contains(&name) {
            faults.push(format!("{PACKAGE} depends on {name}"));
        }
        let features = features.trim_end_matches(" (*)");
        if name.starts_with("memory") && features.split(',').any(|feature| feature == LAB) {
            faults.push(format!("{PACKAGE} builds {name} with the feature {LAB}"));
        }
    }
    faults.sort();
    faults.dedup();
    faults
}

/// Builds the binary, silently.
pub(crate) fn build(workspace: &Workspace) -> std::result::Result<PathBuf, String> {
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--release", "--bin", "memory", "--message-format", "json-render-diagnostics"]);
    let printed = process::capture(&mut cargo).map_err(|error| error.to_string())?;
    let built = printed.lines().filter_map(|line| serde_json::from_str::<Built>(line).ok());
    let binary =
        built.filter(|message| message.reason == "compiler-artifact").find_map(|message| message.executable);
    binary.ok_or_else(|| "cargo reported no binary".to_owned())
}

fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_shipped_and_the_lab_feature_are_found() {
        let tree = "memory-server v0.1.0 (/somewhere)|default\nmemory-sqlite v0.1.0 (/there)|default,lab (*)\n\
                    memory-eval v0.1.0 (/there)|\nlabel v1.0.0|lab\n";
        assert_eq!(
            faults(tree),
            [
                "memory-server builds memory-sqlite with the feature lab",
                "memory-server depends on memory-eval"
            ]
        );
    }

    #[test]
    fn the_mark_is_found_anywhere_in_a_binary() {
        assert!(holds(&[b"\x7fELF".as_slice(), LAB_MARK, b"\0"].concat(), LAB_MARK));
        assert!(!holds(b"\x7fELF", LAB_MARK));
    }
}
