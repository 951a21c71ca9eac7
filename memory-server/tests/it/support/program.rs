//! Runs the command in a given home.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use memory_conformance::random::Random;

use super::user::command;

pub(crate) fn run(home: &Path, arguments: &[&str]) -> Output {
    command(home, arguments).output().unwrap()
}

/// Runs a command that must end with this code; returns its output.
pub(crate) fn ends(home: &Path, arguments: &[&str], code: i32) -> String {
    let output = run(home, arguments);
    assert_eq!(
        output.status.code(),
        Some(code),
        "{arguments:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn ok(home: &Path, arguments: &[&str]) -> String {
    ends(home, arguments, 0)
}

/// Runs a command that must succeed; returns how long it took.
pub(crate) fn timed(home: &Path, arguments: &[&str]) -> Duration {
    let started = std::time::Instant::now();
    ok(home, arguments);
    started.elapsed()
}

/// Runs a command and kills it after `after`; returns whether it was still running.
pub(crate) fn killed(home: &Path, arguments: &[&str], after: Duration) -> bool {
    let mut child = command(home, arguments).spawn().unwrap();
    std::thread::sleep(after);
    let running = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    running
}

/// Random delays spread over a whole run.
pub(crate) fn moment(random: &mut Random, whole_run: Duration) -> Duration {
    Duration::from_micros(random.below(u64::try_from(whole_run.as_micros()).unwrap() * 11 / 10))
}

/// The number of kills in a test: `MEMORY_KILL_ROUNDS`, or `usual`.
pub(crate) fn rounds(usual: u64) -> u64 {
    std::env::var("MEMORY_KILL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(usual)
}

/// Runs the command to its end; returns its duration and peak memory in KiB.
#[cfg(target_os = "linux")]
pub(crate) fn measured(home: &Path, arguments: &[&str]) -> (Duration, u64) {
    let started = std::time::Instant::now();
    let mut command = command(home, arguments);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let ended = loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let now = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0);
        peak = peak.max(now);
        if let Some(ended) = child.try_wait().unwrap() {
            break ended;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(ended.success(), "{arguments:?}: {ended}");
    (started.elapsed(), peak)
}
