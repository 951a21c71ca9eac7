//! Runs test binaries beside each other: one alone often waits (for a timeout, a disk, a server) and leaves processors idle.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::libraries::Ladybug;
use crate::steps::seconds;
use crate::tally::Tally;
use crate::testbed::TestBed;
use crate::workspace::Workspace;
use crate::{Result, process};

/// Binaries whose tests measure how long a thread is held up: nothing else may run beside them.
const ALONE: &[&str] = &["executor"];
/// What runs longest, begun first. The others follow by size, which is a fair guess.
const LONGEST: &[&str] = &[
    "memory-lab it",
    "memory-server it",
    "memory-postgres conformance",
    "memory-remote conformance",
    "memory-sqlite it",
    "memory-postgres it",
];
/// So many failed tests at most are tried again, alone: more are no accident.
const MOST_AGAIN: usize = 3;
/// How often the names of what still runs are printed.
const NEWS: Duration = Duration::from_secs(30);

/// Compiles the tests of the workspace and returns the binaries in the order in which to run them: long ones first, so that
/// no processor is idle at the end.
pub(crate) fn compile(workspace: &Workspace, engine: Option<&Ladybug>) -> Result<Vec<Job>> {
    let mut cargo = cargo_test(workspace, engine);
    cargo.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let mut jobs = Vec::new();
    process::sift(&mut cargo, process::Stream::Stdout, |line| {
        if let Ok(Message { executable: Some(program), manifest_path, target, profile: Some(profile) }) =
            serde_json::from_str(line)
            && profile.test
        {
            jobs.push((
                std::fs::metadata(&program).map_or(0, |file| file.len()),
                manifest_path,
                target,
                program,
            ));
        }
        false
    })?;
    let job =
        |(size, manifest, target, program)| Ok((size, Job::binary(workspace, manifest, &target, program)?));
    let mut jobs = jobs.into_iter().map(job).collect::<Result<Vec<(u64, Job)>>>()?;
    jobs.sort_by_key(|(size, job)| {
        let known = LONGEST.iter().position(|name| *name == job.name);
        (known.unwrap_or(LONGEST.len()), std::cmp::Reverse(*size))
    });
    Ok(jobs.into_iter().map(|(_, job)| job).collect())
}

/// `cargo test --workspace`, with traces, and with the graph engine where its library is there: with one set of features every
/// crate is compiled once.
pub(crate) fn cargo_test(workspace: &Workspace, engine: Option<&Ladybug>) -> Command {
    let mut cargo = workspace.cargo();
    cargo.args(["test", "--workspace", "--features", "memory-server/otel"]);
    if let Some(ladybug) = engine {
        ladybug.apply(cargo.args(["--features", "memory-ladybug/engine"]));
    }
    cargo
}

/// What cargo says of an artefact that it built.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    #[serde(default)]
    manifest_path: PathBuf,
    #[serde(default)]
    target: Target,
    profile: Option<Profile>,
}

#[derive(Default, Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// A command that runs tests.
#[derive(Debug)]
pub(crate) struct Job {
    name: String,
    alone: bool,
    /// A test binary, which runs one of its tests by name.
    is_binary: bool,
    command: Command,
}

impl Job {
    /// The variables and the folder are those that `cargo test` gives a binary.
    fn binary(workspace: &Workspace, manifest: PathBuf, target: &Target, program: PathBuf) -> Result<Self> {
        let member = workspace.members.iter().find(|member| member.manifest_path == manifest);
        let package = &member.ok_or_else(|| format!("{} is no member", manifest.display()))?.name;
        let folder = manifest.parent().ok_or("a manifest lies in a folder")?;
        let mut command = Command::new(program);
        command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder).env("CARGO_PKG_NAME", package);
        let what =
            if target.kind.iter().any(|kind| kind == "test") { target.name.as_str() } else { "unit tests" };
        let alone = ALONE.contains(&target.name.as_str());
        Ok(Self { name: format!("{package} {what}"), alone, is_binary: true, command })
    }

    pub(crate) fn new(name: &str, command: Command) -> Self {
        Self { name: name.to_owned(), alone: false, is_binary: false, command }
    }

    /// The same binary, for one test.
    fn of_test(&self, test: &str) -> Command {
        let mut command = Command::new(self.command.get_program());
        command.args(["--exact", test]);
        command.current_dir(self.command.get_current_dir().unwrap_or(Path::new(".")));
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }
}

/// Runs the jobs, one in each lane of the test bed at a time, and counts their tests.
///
/// Prints one line for each that ends, the whole output of each that fails, and now and then what still runs.
///
/// Where few tests failed, each is tried again once nothing else runs. One that passes then counts as passed, and is
/// named as unstable: it holds a race, or a limit of time that a busy machine exceeds.
///
/// # Errors
/// The names of those that failed.
pub(crate) fn run(jobs: Vec<Job>, bed: &TestBed, tally: &mut Tally) -> Result<()> {
    let (alone, together): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(|job| job.alone);
    let failed = Mutex::new(Vec::new());
    let total = Mutex::new(std::mem::take(tally));
    for (jobs, lanes) in [(together, bed.lanes()), (alone, 1)] {
        beside(jobs, lanes, |lane, job| {
            let mut job = job;
            let ended = one(&mut job, bed, lane);
            match ended.outcome {
                Ok(()) => lock(&total).add(ended.tally),
                Err(error) => lock(&failed).push((job, ended.tally, error.to_string())),
            }
        });
    }
    *tally = total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let failed = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let are_few = failed.iter().map(|(_, tally, _)| tally.names_failed.len()).sum::<usize>() <= MOST_AGAIN;
    let mut names = Vec::new();
    for (job, mut of_job, error) in failed {
        if are_few && job.is_binary {
            of_job.reconsider(|test| passes_alone(&job, test));
        }
        if !of_job.is_settled() {
            names.push(format!("{}: {error}", job.name));
        }
        tally.add(of_job);
    }
    if names.is_empty() { Ok(()) } else { Err(names.join("\n").into()) }
}

fn passes_alone(job: &Job, test: &str) -> bool {
    let (mut tally, mut output) = (Tally::default(), Vec::new());
    let (_, outcome) = merged(&mut job.of_test(test), |line| {
        tally.read(String::from_utf8_lossy(line).trim_end());
        output.extend_from_slice(line);
    });
    let passes = outcome.is_ok() && tally.passed == 1;
    let word = if passes { "passed" } else { "FAILED" };
    println!("{word} when tried again, alone: {test} of {}", job.name);
    if !passes {
        println!("{}", String::from_utf8_lossy(&output));
    }
    passes
}

/// Works on the items in order, on one in each lane at a time.
fn beside<T: Send>(items: Vec<T>, lanes: usize, work: impl Fn(usize, T) + Sync) {
    let queue = Mutex::new(VecDeque::from(items));
    let (queue, work) = (&queue, &work);
    thread::scope(|scope| {
        for lane in 0..lanes {
            scope.spawn(move || {
                loop {
                    // Not in the loop's condition, where the lock would be held while the item is worked on.
                    let Some(item) = lock(queue).pop_front() else { break };
                    work(lane, item);
                }
            });
        }
    });
}

struct Ended {
    tally: Tally,
    outcome: Result<()>,
}

fn one(job: &mut Job, bed: &TestBed, lane: usize) -> Ended {
    let started = Instant::now();
    let mut tally = Tally::default();
    let mut output = Vec::new();
    let mut told = Instant::now();
    // Both streams into one pipe, in the order in which they are written.
    let (cpu, outcome) = merged(bed.apply(lane, &mut job.command), |line| {
        let text = String::from_utf8_lossy(line);
        tally.read(text.trim_end());
        output.extend_from_slice(line);
        if told.elapsed() > NEWS {
            told = Instant::now();
            println!("   {} runs, {}: {}", job.name, seconds(started.elapsed()), text.trim_end());
        }
    });
    let word = if outcome.is_ok() { "ok" } else { "FAILED" };
    let cpu = cpu.map_or_else(String::new, |cpu| format!(", {} of CPU", seconds(cpu)));
    let line = format!("{word} {}: {}, {}{cpu}", job.name, tally.line(), seconds(started.elapsed()));
    if outcome.is_ok() {
        println!("{line}");
    } else {
        println!("{line}\n{}\n-- end of the output of {}", String::from_utf8_lossy(&output), job.name);
    }
    Ended { tally, outcome }
}

/// Runs a command; returns the CPU time of it and its children too, where the system tells.
fn merged(command: &mut Command, seen: impl FnMut(&[u8])) -> (Option<Duration>, Result<()>) {
    let mut cpu = None;
    let outcome = listen(command, seen, &mut cpu);
    (cpu, outcome)
}

fn listen(command: &mut Command, mut seen: impl FnMut(&[u8]), cpu: &mut Option<Duration>) -> Result<()> {
    let (reader, writer) = std::io::pipe()?;
    let mut child = command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // The command holds the pipe's writing ends: kept, they would keep the reader waiting.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut lines = BufReader::new(reader);
    let mut line = Vec::new();
    // By bytes: a test may print what is not UTF-8.
    while lines.read_until(b'\n', &mut line)? > 0 {
        seen(&line);
        line.clear();
    }
    // It has closed its output, so it is ending; its times can be read until it is waited for.
    *cpu = cpu_time(child.id());
    let status = child.wait()?;
    if status.success() { Ok(()) } else { Err(status.to_string().into()) }
}

/// User and system time of a process and of its children that have ended (`/proc/PID/stat`, fields 14 to 17, in ticks of
/// 10 ms).
fn cpu_time(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: u64 =
        fields.split_whitespace().skip(11).take(4).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Some(Duration::from_millis(ticks * 10))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A binary of two tests, of which one passes only alone.
    #[cfg(unix)]
    #[test]
    fn a_test_that_passes_alone_is_named_and_one_that_does_not_fails_the_run() {
        const SCRIPT: &str = r#"
            case "$2" in
                "") echo "test a ... ok"; for name in $FAILS; do echo "test $name ... FAILED"; done
                    echo "test result: FAILED. 1 passed; $COUNT failed; 0 ignored; 0 measured; 0 filtered out"; exit 101;;
                raced) echo "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 2 filtered out";;
                *) exit 101;;
            esac"#;
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("binary");
        std::fs::write(&script, format!("#!/bin/sh{SCRIPT}")).unwrap();
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let mut outcomes = Vec::new();
        for (fails, count) in [("raced", "1"), ("raced broken", "2"), ("raced", "2"), ("", "0")] {
            let mut command = Command::new(&script);
            command.env("FAILS", fails).env("COUNT", count);
            let job = Job { name: "binary".to_owned(), alone: true, is_binary: true, command };
            let mut tally = Tally::default();
            let outcome = run(vec![job], &TestBed::default(), &mut tally);
            outcomes.push((outcome.is_ok(), tally.line(), tally.names_unstable));
        }
        let due = |passes, line: &str, unstable: &[&str]| {
            (passes, line.to_owned(), unstable.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(
            outcomes,
            [
                due(true, "2 passed, 0 failed, 0 skipped", &["raced"]),
                due(false, "2 passed, 1 failed, 0 skipped", &["raced"]),
                due(false, "2 passed, 1 failed, 0 skipped", &["raced"]),
                due(false, "1 passed, 0 failed, 0 skipped", &[]),
            ]
        );
    }

    #[test]
    fn items_are_worked_on_beside_each_other() {
        let (first, second) = (mpsc::channel(), mpsc::channel());
        // Each says that it runs, and waits until the other does.
        let items = vec![(first.0, second.1), (second.0, first.1)];
        let met = Mutex::new(0);
        beside(items, 2, |_, (mine, other)| {
            mine.send(()).unwrap();
            *lock(&met) += i32::from(other.recv_timeout(Duration::from_secs(30)).is_ok());
        });
        assert_eq!(*lock(&met), 2);
    }
}
