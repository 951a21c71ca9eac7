//! `cargo xtask check`: what a change must look like, beyond passing its tests.

use crate::libclang::Libclang;
use crate::process;
use crate::steps::{Done, Steps};
use crate::workspace::{Member, Workspace};
use crate::{Result, deny, fuzz, links, manifests, tree, words};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also ask the advisory database about the locked dependencies, where it can be reached.
    #[arg(long)]
    advisories: bool,
    /// Only steps whose name contains this.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

type Step<'w> = (&'static str, Box<dyn FnOnce() -> Result<Done> + 'w>);

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let libclang = Libclang::prepare(workspace);
    // Quick ones first.
    let all: Vec<Step<'_>> = vec![
        ("pages", passed(|| links::pages(workspace))),
        ("links", passed(|| links::links(workspace))),
        ("words", passed(|| words::check(workspace))),
        ("manifests", passed(|| manifests::check(workspace))),
        ("floors", passed(|| tree::floors(workspace))),
        ("formatting", passed(|| formatting(workspace))),
        ("dependency trees", passed(|| tree::feature_sets(workspace))),
        ("lints", passed(|| lints(workspace, &libclang))),
        ("lints of the fuzz targets", passed(|| fuzz_lints(workspace))),
        ("documentation", passed(|| documentation(workspace, &libclang))),
        ("features", passed(|| features(workspace, &libclang))),
        ("licences, bans, sources", passed(|| deny::check(workspace))),
        ("advisories", Box::new(|| deny::advisories(workspace, args.advisories))),
    ];
    let mut steps = Steps::new("check");
    let only = |name: &str| args.only.as_deref().is_none_or(|text| name.contains(text));
    for (name, work) in all.into_iter().filter(|(name, _)| only(name)) {
        steps.step(name, work);
    }
    steps.finish()
}

fn passed<'w>(work: impl FnOnce() -> Result<()> + 'w) -> Box<dyn FnOnce() -> Result<Done> + 'w> {
    Box::new(move || work().map(|()| Done::Passed))
}

fn formatting(workspace: &Workspace) -> Result<()> {
    process::run(workspace.cargo().args(["fmt", "--all", "--check"]))?;
    process::run(workspace.cargo().args(["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]))
}

fn fuzz_lints(workspace: &Workspace) -> Result<()> {
    process::run(fuzz::stable(workspace, "clippy")?.args(["--all-targets", "--", "-D", "warnings"]))
}

fn lints(workspace: &Workspace, libclang: &Libclang) -> Result<()> {
    let mut what = vec!["--workspace".to_owned(), "--all-targets".to_owned()];
    what.extend(libclang.every_feature(workspace, None));
    clippy(workspace, libclang, &what)
}

fn clippy(workspace: &Workspace, libclang: &Libclang, what: &[String]) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.arg("clippy").args(what).args(["--", "-D", "warnings"]);
    process::run(libclang.apply(&mut cargo))
}

fn documentation(workspace: &Workspace, libclang: &Libclang) -> Result<()> {
    let mut cargo = workspace.cargo();
    // Libraries only: the binary `memory` and the library `memory` would write the same pages.
    cargo.args(["doc", "--no-deps", "--lib"]).args(libclang.every_feature(workspace, None));
    libclang.apply(&mut cargo);
    for member in workspace.members.iter().filter(|member| member.has_library()) {
        cargo.args(["--package", &member.name]);
    }
    process::run(cargo.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Every member with features, with none of them, with each alone, and as shipped; all together is what "lints" builds.
fn features(workspace: &Workspace, libclang: &Libclang) -> Result<()> {
    let mut failed = Vec::new();
    for member in &workspace.members {
        for set in feature_sets(workspace, member, libclang) {
            let mut what = vec!["--package".to_owned(), member.name.clone()];
            what.extend(set);
            if let Err(error) = clippy(workspace, libclang, &what) {
                failed.push(error.to_string());
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n").into()) }
}

fn feature_sets(workspace: &Workspace, member: &Member, libclang: &Libclang) -> Vec<Vec<String>> {
    // Alone in each case: in a build of the whole workspace another member may turn a missing feature on.
    let mut sets = vec![Vec::new()];
    if member.features.is_empty() {
        return sets;
    }
    sets.push(vec!["--no-default-features".to_owned()]);
    sets.push(libclang.every_feature(workspace, Some(member)));
    let alone = member.features.keys().filter(|feature| *feature != "default");
    for feature in alone.filter(|feature| libclang.builds(member, feature)) {
        sets.push(vec!["--no-default-features".to_owned(), "--features".to_owned(), feature.clone()]);
    }
    sets
}
