//! `cargo xtask release`: packages for the registry, a bill of materials, and the binary as an archive.

mod archive;
mod bill;
mod semver;
mod tree;

use std::path::Path;

use crate::workspace::{Member, Workspace};
use crate::{Result, process};

/// The registry has other crates named `memory` and `memory-core`, so each of ours is published under a longer name.
pub(crate) const PREFIX: &str = "agentmem";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Change nothing outside the target folder: package everything and publish nothing.
    #[arg(long)]
    dry_run: bool,
    /// With `--dry-run`: do not build the packages or the binary. A release needs the whole form.
    #[arg(long, requires = "dry_run")]
    quick: bool,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let out = workspace.target.join("release-artifacts");
    std::fs::create_dir_all(&out)?;
    let tree = tree::copy(workspace)?;
    println!("renamed copy: {}", tree.display());
    bill::write(workspace, &out)?;
    package(workspace, &tree, args.quick)?;
    if args.quick {
        println!(
            "\nquick: neither the packages nor the binary were built, and no API was compared with the last release"
        );
        return Ok(());
    }
    semver::check(workspace)?;
    archive::binary(workspace, &out)?;
    if args.dry_run {
        println!("\ndry run: nothing was published; the artefacts are in {}", out.display());
        return Ok(());
    }
    publish(workspace, &tree)
}

/// The members that are published, in no order; Cargo finds it.
fn published(workspace: &Workspace) -> impl Iterator<Item = &Member> {
    workspace.members.iter().filter(|member| member.is_published())
}

fn published_name(member: &str) -> String {
    format!("{PREFIX}-{member}")
}

/// Packages every published crate; without `quick`, builds each from its package alone.
fn package(workspace: &Workspace, tree: &Path, quick: bool) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.current_dir(tree).args(["package", "--allow-dirty"]);
    if quick {
        cargo.arg("--no-verify");
    }
    select(workspace, tree, &mut cargo);
    process::run(&mut cargo)
}

fn publish(workspace: &Workspace, tree: &Path) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.current_dir(tree).args(["publish", "--allow-dirty"]);
    select(workspace, tree, &mut cargo);
    process::run(&mut cargo)
}

fn select(workspace: &Workspace, tree: &Path, cargo: &mut std::process::Command) {
    for member in published(workspace) {
        cargo.args(["--package", &published_name(&member.name)]);
    }
    cargo.env("CARGO_TARGET_DIR", tree.with_file_name("release-packages"));
}
