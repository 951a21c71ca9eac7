//! `cargo xtask fuzz`: runs every fuzz target of `fuzz/` for a while with libFuzzer.
//!
//! libFuzzer needs nightly Rust, a C++ compiler and cargo-fuzz. On stable Rust, `cargo xtask test` replays the seeds.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use toml::{Table, Value};

use crate::process::Stream;
use crate::process::starts;
use crate::steps::{Done, Steps};
use crate::workspace::Workspace;
use crate::{Result, process, tools};

const VERSION: &str = "0.13.2";
const TOOLCHAIN: &str = "nightly";
/// Seconds that one input may take before it counts as a hang.
const PATIENCE: u64 = 20;
const MEMORY_MIB: u64 = 2_048;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long each target runs.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Only this target.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Name the targets and run none.
    #[arg(long)]
    list: bool,
    /// The sanitizer to build with: address, memory, thread or none. Without unsafe code of our own, none finds as much
    /// and tries about twice as many inputs.
    #[arg(long, value_name = "NAME", default_value = "none")]
    sanitizer: String,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let mut targets = targets(workspace)?;
    if let Some(only) = &args.only {
        if !targets.contains(only) {
            return Err(format!("no fuzz target {only}; there are {}", targets.join(", ")).into());
        }
        targets = vec![only.clone()];
    }
    if args.list {
        targets.iter().for_each(|target| println!("{target}"));
        return Ok(());
    }
    println!("Builds the fuzz targets, then runs {} of them for {} s each:", targets.len(), args.seconds);
    println!("  {}", targets.join(", "));
    println!(
        "Inputs that reach new code are kept in fuzz/corpus, an input that breaks a promise in fuzz/artifacts."
    );
    let mut steps = Steps::new("fuzz");
    add(workspace, &mut steps, &targets, Duration::from_secs(args.seconds), &args.sanitizer);
    steps.finish()
}

/// The names of the targets: the binaries of `fuzz/Cargo.toml`.
pub(crate) fn targets(workspace: &Workspace) -> Result<Vec<String>> {
    let manifest: Table = workspace.read(Path::new("fuzz/Cargo.toml"))?.parse()?;
    let binaries = manifest.get("bin").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let names: Vec<String> =
        binaries.iter().filter_map(|bin| bin.get("name")?.as_str().map(str::to_owned)).collect();
    if names.is_empty() { Err("fuzz/Cargo.toml names no targets".into()) } else { Ok(names) }
}

/// A build step and one step per target; one skipped step if the machine cannot fuzz.
pub(crate) fn add(
    workspace: &Workspace,
    steps: &mut Steps,
    targets: &[String],
    each: Duration,
    sanitizer: &str,
) {
    let mut fuzzer = None;
    steps.step("fuzz/build", || {
        if let Some(missing) = missing() {
            return Ok(Done::Skipped(missing));
        }
        let ready = Fuzzer::build(workspace, sanitizer)?;
        fuzzer = Some(ready);
        Ok(Done::Passed)
    });
    let Some(fuzzer) = fuzzer else { return };
    for target in targets {
        steps.step(format!("fuzz/{target}"), || {
            let executions = fuzzer.run(target, each)?;
            Ok(Done::Noted(format!("{executions} executions")))
        });
    }
}

/// Why this machine cannot fuzz, if so.
fn missing() -> Option<String> {
    let nightly = process::capture(Command::new("rustup").args(["run", TOOLCHAIN, "rustc", "--version"]));
    if nightly.is_err() {
        return Some(format!(
            "no {TOOLCHAIN} Rust (`rustup toolchain install {TOOLCHAIN} --profile minimal`)"
        ));
    }
    let chosen = std::env::var("CXX").ok();
    let compilers = chosen.iter().map(String::as_str).chain(["c++", "g++", "clang++"]);
    if !compilers.into_iter().any(starts) {
        return Some("no C++ compiler to build libFuzzer with (install g++ or clang, or set CXX)".to_owned());
    }
    None
}

struct Fuzzer {
    program: PathBuf,
    folder: PathBuf,
    target_dir: PathBuf,
    sanitizer: String,
}

impl Fuzzer {
    fn build(workspace: &Workspace, sanitizer: &str) -> Result<Self> {
        let fuzzer = Self {
            program: tools::pinned(workspace, "cargo-fuzz", VERSION, None, &[])?,
            folder: workspace.root.join("fuzz"),
            target_dir: workspace.target.join("fuzz"),
            sanitizer: sanitizer.to_owned(),
        };
        process::run(&mut fuzzer.cargo_fuzz("build"))?;
        Ok(fuzzer)
    }

    fn cargo_fuzz(&self, command: &str) -> Command {
        let mut rustup = Command::new("rustup");
        rustup.args(["run", TOOLCHAIN]).arg(&self.program).args([
            command,
            "--features",
            "libfuzzer",
            "--sanitizer",
            &self.sanitizer,
        ]);
        // Otherwise the cargo that runs this would be used, with another toolchain.
        rustup.arg("--target-dir").arg(&self.target_dir).env_remove("CARGO").current_dir(&self.folder);
        rustup
    }

    /// Runs one target and returns how many inputs it tried.
    fn run(&self, target: &str, time: Duration) -> Result<u64> {
        let (corpus, seeds) = (format!("corpus/{target}"), format!("seeds/{target}"));
        std::fs::create_dir_all(self.folder.join(&corpus))?;
        let mut command = self.cargo_fuzz("run");
        // libFuzzer adds to the first folder and only reads the second.
        command.args([target, &corpus, &seeds, "--"]);
        command.arg(format!("-max_total_time={}", time.as_secs().max(1)));
        command.arg(format!("-timeout={PATIENCE}")).arg(format!("-rss_limit_mb={MEMORY_MIB}"));
        command.arg("-print_final_stats=1");
        let mut output = Output::default();
        let outcome = process::sift(&mut command, Stream::Stderr, |line| output.read(line));
        if let Err(error) = outcome {
            return Err(output.failure(target, &error.to_string()).into());
        }
        match output.executions {
            Some(0) | None => {
                Err(format!("{target} tried no input: libFuzzer reported no executions").into())
            }
            Some(executions) => Ok(executions),
        }
    }
}

/// The relevant part of libFuzzer's output.
#[derive(Debug, Default)]
struct Output {
    executions: Option<u64>,
    /// The input that failed.
    artifact: Option<String>,
}

impl Output {
    /// Reads a line; false if it is noise.
    fn read(&mut self, line: &str) -> bool {
        if let Some(count) = line.strip_prefix("stat::number_of_executed_units:") {
            self.executions = count.trim().parse().ok();
        } else if let Some((_, file)) = line.split_once("Test unit written to ") {
            self.artifact = Some(file.trim().to_owned());
        }
        // Progress twice a second, newly reached functions, dictionary words.
        !["#", "INFO:", "WARNING: Failed to find function", "\tNEW_FUNC", "\""]
            .iter()
            .any(|start| line.starts_with(start))
    }

    fn failure(&self, target: &str, error: &str) -> String {
        let Some(artifact) = &self.artifact else { return format!("{target}: {error}") };
        let file = artifact.rsplit_once("artifacts/").map_or(artifact.as_str(), |(_, file)| file);
        format!(
            "{target}: the input in fuzz/artifacts/{file} breaks a promise\n\
             again, on stable Rust:   cargo run -p memory-fuzz --example replay -- {target} fuzz/artifacts/{file}\n\
             make it smaller:         cd fuzz && cargo +{TOOLCHAIN} fuzz tmin --features libfuzzer {target} artifacts/{file}\n\
             once it is fixed:        cp fuzz/artifacts/{file} fuzz/seeds/{target}/WHAT_IT_WAS"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finished_run_tells_how_many_inputs_it_tried() {
        let mut output = Output::default();
        assert!(!output.read("#512\tNEW    cov: 12 ft: 30 corp: 4/20b exec/s: 0 rss: 40Mb"));
        assert!(output.read("stat::number_of_executed_units: 81234"));
        assert_eq!(output.executions, Some(81_234));
        assert_eq!(output.artifact, None);
    }

    #[test]
    fn a_failure_tells_how_to_see_it_again() {
        let mut output = Output::default();
        assert!(output.read("thread '<unnamed>' panicked at src/json.rs:12:3:"));
        output.read(
            "artifact_prefix='/x/fuzz/artifacts/json/'; Test unit written to /x/fuzz/artifacts/json/crash-ab12",
        );
        let message = output.failure("json", "exit status: 77");
        assert!(message.starts_with("json: the input in fuzz/artifacts/json/crash-ab12 breaks a promise"));
        assert!(message.contains("--example replay -- json fuzz/artifacts/json/crash-ab12"));
    }

    #[test]
    fn without_an_input_the_error_itself_is_told() {
        assert_eq!(Output::default().failure("json", "exit status: 1"), "json: exit status: 1");
    }
}
