//! `cargo xtask check`: requirements for a change, besides its tests.

mod book;
mod deny;
mod links;
mod manifests;
pub(crate) mod product;
mod source;
mod structure;
mod tree;
mod vendor;
mod words;

use std::cell::OnceCell;
use std::path::PathBuf;

use crate::libraries::Libraries;
use crate::steps::{Done, Steps};
use crate::workspace::{Member, Workspace};
use crate::{Result, process};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also check the locked dependencies against the advisory database, if it can be reached.
    #[arg(long)]
    advisories: bool,
    /// Only steps whose name contains this.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

type Step<'w> = (&'static str, Box<dyn FnOnce() -> Result<Done> + 'w>);

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let only = |name: &str| args.only.as_deref().is_none_or(|text| name.contains(text));
    std::thread::scope(|scope| {
        // It has a target folder of its own: one compiles while the other's last crate leaves a processor idle.
        let product = only("product").then(|| scope.spawn(|| product::build(workspace)));
        steps(workspace, args, only, || {
            product.map_or(Err("not built".to_owned()), |built| built.join().map_err(|_| "panicked")?)
        })
    })
}

fn steps(
    workspace: &Workspace,
    args: &Args,
    only: impl Fn(&str) -> bool,
    product: impl FnOnce() -> std::result::Result<PathBuf, String>,
) -> Result<()> {
    let prepared = OnceCell::new();
    let libraries = || prepared.get_or_init(|| Libraries::prepare(workspace));
    // Quick ones first.
    let all: Vec<Step<'_>> = vec![
        ("pages", passed(|| links::pages(workspace))),
        ("links", passed(|| links::links(workspace))),
        ("words", passed(|| words::check(workspace))),
        ("manifests", passed(|| manifests::check(workspace))),
        ("floors", passed(|| tree::floors(workspace))),
        ("circles", passed(|| structure::circles(workspace))),
        ("sizes of files and folders", passed(|| structure::sizes(workspace))),
        ("unchecked providers", passed(|| structure::doors(workspace))),
        ("formatting", passed(|| formatting(workspace))),
        ("interleavings", passed(|| interleavings(workspace))),
        ("rig", passed(|| rig(workspace))),
        ("vendor", vendor_page(workspace)),
        ("book", passed(|| book::build(workspace))),
        ("dependency trees", passed(|| tree::feature_sets(workspace))),
        ("lints", passed(|| lints(workspace, libraries()))),
        ("documentation", passed(|| documentation(workspace, libraries()))),
        ("features", passed(|| features(workspace, libraries()))),
        ("product", passed(|| product::check(workspace, &product()?))),
        ("licences, bans, sources", passed(|| deny::check(workspace))),
        ("advisories", Box::new(|| deny::advisories(workspace, args.advisories))),
    ];
    let mut steps = Steps::new("check");
    for (name, work) in all.into_iter().filter(|(name, _)| only(name)) {
        steps.step(name, work);
    }
    steps.finish()
}

fn passed<'w>(work: impl FnOnce() -> Result<()> + 'w) -> Box<dyn FnOnce() -> Result<Done> + 'w> {
    Box::new(move || work().map(|()| Done::Passed))
}

fn formatting(workspace: &Workspace) -> Result<()> {
    process::run(workspace.cargo().args(["fmt", "--all", "--check"]))
}

/// Runs the model check of how memory-sqlite takes turns, which is a package outside the workspace.
fn interleavings(workspace: &Workspace) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.args(["test", "--locked", "--manifest-path", "memory-sqlite/loom/Cargo.toml", "--target-dir"]);
    process::run(cargo.arg(workspace.target.join("loom")))
}

/// Tests memory-rig, a package outside the workspace. It shares the target folder, and with it the SQLite that is built there.
fn rig(workspace: &Workspace) -> Result<()> {
    let cargo = |arguments: &[&str]| {
        let mut cargo = workspace.cargo();
        process::run(cargo.args(arguments).args(["--manifest-path", "memory-rig/Cargo.toml"]))
    };
    cargo(&["fmt", "--check"])?;
    let target = workspace.target.display().to_string();
    cargo(&["test", "--locked", "--features", "history", "--tests", "--examples", "--target-dir", &target])
}

/// The commands of the page for vendors are for a Unix shell.
fn vendor_page(workspace: &Workspace) -> Box<dyn FnOnce() -> Result<Done> + '_> {
    match cfg!(unix) {
        true => passed(|| vendor::follow(workspace)),
        false => Box::new(|| Ok(Done::Skipped("its commands are for a Unix shell".to_owned()))),
    }
}

fn lints(workspace: &Workspace, libraries: &Libraries) -> Result<()> {
    let mut what = vec!["--workspace".to_owned(), "--all-targets".to_owned()];
    what.extend(libraries.every_feature(workspace));
    clippy(workspace, libraries, &what)
}

fn clippy(workspace: &Workspace, libraries: &Libraries, what: &[String]) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.arg("clippy").args(what).args(["--", "-D", "warnings"]);
    process::run(libraries.apply(&mut cargo))
}

fn documentation(workspace: &Workspace, libraries: &Libraries) -> Result<()> {
    let mut cargo = workspace.cargo();
    // Libraries only: the binary and the library `memory` would write the same pages.
    cargo.args(["doc", "--no-deps", "--lib"]).args(libraries.every_feature(workspace));
    libraries.apply(&mut cargo);
    for member in workspace.members.iter().filter(|member| member.has_library()) {
        cargo.args(["--package", &member.name]);
    }
    process::run(cargo.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Published libraries are compiled without features and with each alone, and the facade's, which adopters choose from, are
/// linted so. "lints" covers all together.
fn features(workspace: &Workspace, libraries: &Libraries) -> Result<()> {
    let mut failed = Vec::new();
    for member in &workspace.members {
        for set in feature_sets(member, libraries) {
            // Libraries only: tests and programs are built with the features they ask for. One tool for all, so that
            // members which depend on each other are compiled once.
            let mut what = vec!["--lib".to_owned(), "--package".to_owned(), member.name.clone()];
            what.push("--no-default-features".to_owned());
            what.extend(set);
            let mut cargo = workspace.cargo();
            cargo.arg("clippy").args(what);
            if member.name == "memory" {
                cargo.args(["--", "-D", "warnings"]);
            }
            if let Err(error) = process::run(libraries.apply(&mut cargo)) {
                failed.push(error.to_string());
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n").into()) }
}

/// None, and each alone. One member at a time: in a workspace build another member may enable a missing feature. Nobody depends
/// on the program's library, or enables what the laboratory needs.
fn feature_sets(member: &Member, libraries: &Libraries) -> Vec<Vec<String>> {
    let is_chosen_from = member.is_published() && member.has_library() && member.name != product::PACKAGE;
    if !is_chosen_from || member.features.is_empty() {
        return Vec::new();
    }
    let alone = member.features.keys().filter(|feature| {
        !["default", product::LAB].contains(&feature.as_str()) && libraries.builds(member, feature)
    });
    let alone = alone.map(|feature| vec!["--features".to_owned(), feature.clone()]);
    std::iter::once(Vec::new()).chain(alone).collect()
}
