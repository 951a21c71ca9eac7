//! `cargo xtask soak`: runs tests that are short in `cargo test` for an hour.
//!
//! They are found by name. A test binary, or a module of `tests/it`, called `kill` or `kill_*` kills a process
//! `MEMORY_KILL_ROUNDS` times; one called `soak` or `soak_*` runs for `MEMORY_SOAK_MINUTES`. Without the variable each
//! uses a default for ordinary test runs. Each fuzz target takes one share too.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::libraries::Ladybug;
use crate::steps::{Done, Steps, seconds};
use crate::testbed::{self, TestBed};
use crate::workspace::Workspace;
use crate::{Result, fuzz, process};

/// The package whose tests need the graph engine.
const ENGINE: &str = "memory-ladybug";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Minutes to spend: soak tests and fuzz targets share them, kill tests repeat until their share is used up.
    #[arg(long, value_name = "N", default_value_t = 60)]
    minutes: u64,
    /// Kills in one run of a kill test.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    kill: u64,
    /// Only tests whose `package/test`, and fuzz targets whose `fuzz/target`, contains this.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Kill,
    Soak,
}

#[derive(Debug)]
struct Long<'w> {
    package: &'w str,
    /// The test binary.
    test: &'w str,
    /// Its module; `None`: the whole binary.
    module: Option<String>,
    kind: Kind,
}

impl Long<'_> {
    fn name(&self) -> String {
        format!("{}/{}", self.package, self.module.as_deref().unwrap_or(self.test))
    }
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let tests = found(workspace, args.only.as_deref())?;
    let mut targets = fuzz::targets(workspace)?;
    targets.retain(|target| args.only.as_deref().is_none_or(|only| format!("fuzz/{target}").contains(only)));
    let count = u32::try_from(tests.len() + targets.len())?;
    if count == 0 {
        return Err("no kill test, soak test or fuzz target matches".into());
    }
    let share = Duration::from_secs(args.minutes.saturating_mul(60)) / count;
    println!("{} tests and {} fuzz targets, {} each", tests.len(), targets.len(), seconds(share));
    testbed::require(workspace)?;
    let engine = match tests.iter().any(|long| long.package == ENGINE) {
        true => Some(Ladybug::prepare(workspace).map_err(|error| error.to_string())),
        false => None,
    };
    let bed = TestBed::prepare(workspace, None, engine.as_ref().and_then(|engine| engine.as_ref().ok()));
    let mut steps = Steps::new("soak");
    for long in &tests {
        steps.step(long.name(), || {
            let features: &[&str] = match &engine {
                Some(Err(error)) if long.package == ENGINE => return Ok(Done::Skipped(error.clone())),
                Some(Ok(_)) if long.package == ENGINE => &["--features", "engine"],
                _ => &[],
            };
            let started = Instant::now();
            let mut runs = 0_u64;
            loop {
                let mut cargo = workspace.cargo();
                cargo.args(["test", "--release", "--package", long.package, "--test", long.test]);
                cargo.args(features).args(["--", "--nocapture"]);
                cargo.args(long.module.as_ref().map(|module| format!("{module}::")));
                cargo.env("MEMORY_KILL_ROUNDS", args.kill.to_string());
                // Whole minutes, at least one: no smaller unit is worth the trouble.
                cargo.env("MEMORY_SOAK_MINUTES", (share.as_secs() / 60).max(1).to_string());
                process::run(bed.apply(0, &mut cargo))?;
                runs += 1;
                if long.kind == Kind::Soak || started.elapsed() >= share {
                    break;
                }
            }
            if long.kind == Kind::Kill {
                println!("runs: {runs}, kills in each: {}", args.kill);
            }
            Ok(Done::Passed)
        });
    }
    if !targets.is_empty() {
        fuzz::add(workspace, &mut steps, &targets, share, "none");
    }
    steps.finish()
}

fn found<'w>(workspace: &'w Workspace, only: Option<&str>) -> Result<Vec<Long<'w>>> {
    let files = workspace.files()?;
    let mut tests = Vec::new();
    for member in &workspace.members {
        let package = member.name.as_str();
        for test in member.tests() {
            tests.extend(kind(test).map(|kind| Long { package, test, module: None, kind }));
        }
        let folder = member.manifest_path.with_file_name("tests/it");
        let folder = folder.strip_prefix(&workspace.root)?;
        let modules: BTreeMap<String, Kind> =
            files.iter().filter_map(|file| module(file.strip_prefix(folder).ok()?)).collect();
        tests.extend(modules.into_iter().map(|(module, kind)| Long {
            package,
            test: "it",
            module: Some(module),
            kind,
        }));
    }
    tests.retain(|long| only.is_none_or(|only| long.name().contains(only)));
    Ok(tests)
}

/// The path of the module in this file of `tests/it`, up to the first name that gives its kind.
fn module(file: &Path) -> Option<(String, Kind)> {
    let mut names = Vec::new();
    for part in file {
        let name = Path::new(part).file_stem()?.to_str()?;
        names.push(name);
        if let Some(kind) = kind(name) {
            return Some((names.join("::"), kind));
        }
    }
    None
}

fn kind(test: &str) -> Option<Kind> {
    match test.split('_').next() {
        Some("kill") => Some(Kind::Kill),
        Some("soak") => Some(Kind::Soak),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_tests_are_known_by_the_first_word_of_their_name() {
        assert_eq!(kind("kill"), Some(Kind::Kill));
        assert_eq!(kind("soak_writers"), Some(Kind::Soak));
        assert_eq!(kind("killer_whales"), None);
        assert_eq!(kind("conformance"), None);
    }

    #[test]
    fn long_modules_are_known_by_a_file_or_a_folder() {
        let found = |file| module(Path::new(file));
        assert_eq!(found("fallback/kill.rs"), Some(("fallback::kill".to_owned(), Kind::Kill)));
        assert_eq!(found("kill/restore.rs"), Some(("kill".to_owned(), Kind::Kill)));
        assert_eq!(found("soak_dedup.rs"), Some(("soak_dedup".to_owned(), Kind::Soak)));
        assert_eq!(found("search/nearest.rs"), None);
    }
}
