//! Tests of what may hang: they fail, and report what every thread waits for.

use std::fmt::Write as _;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Runs work on a separate thread, and fails if it does not end in time.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (send, done) = channel();
    let thread = std::thread::Builder::new()
        .name("watched".to_owned())
        .spawn(move || send.send(work()).unwrap())
        .unwrap();
    match done.recv_timeout(limit) {
        Ok(value) => value,
        Err(RecvTimeoutError::Timeout) => panic!("{what} did not end within {limit:?}\n{}", threads()),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("it ended without an answer"),
        },
    }
}

/// What each thread of this process is doing: its name, state, system call, and where it waits in the kernel; with gdb,
/// also the stacks.
pub(crate) fn threads() -> String {
    let mut told = String::new();
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let path = task.path();
        let stat = read(path.join("stat"));
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap_or('?');
        let (name, place, call) =
            (read(path.join("comm")), read(path.join("wchan")), read(path.join("syscall")));
        let _ = writeln!(told, "{}: {state} {name}, in {place}, call {call}", task.file_name().display());
    }
    let gdb = std::process::Command::new("gdb")
        .args(["--batch", "--ex", "thread apply all backtrace 12", "--pid", &std::process::id().to_string()])
        .output();
    if let Ok(output) = gdb {
        told.push_str(&String::from_utf8_lossy(&output.stdout));
    }
    told
}
