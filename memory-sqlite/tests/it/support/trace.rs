//! System calls of a child, traced by strace.

use std::path::Path;
use std::process::{Command, Stdio};

/// One system call, from the line where it began to the line where it ended.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: String,
    /// Arguments as strace prints them; with `-y` a descriptor carries its path.
    pub(crate) arguments: String,
    pub(crate) began: usize,
    pub(crate) ended: usize,
}

/// Why system calls cannot be traced here; `None` if they can.
pub(crate) fn unavailable() -> Option<String> {
    let probe = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "true"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output();
    match probe {
        Err(error) => Some(format!("strace cannot be started ({error})")),
        Ok(output) if !output.status.success() => {
            Some(format!("strace may not trace: {}", String::from_utf8_lossy(&output.stderr).trim()))
        }
        Ok(_) => None,
    }
}

/// strace with these options, ready for a command line.
pub(crate) fn strace(options: &[&str], output: &Path) -> Command {
    let mut strace = Command::new("strace");
    strace.arg("-f").args(options).arg("-o").arg(output);
    strace
}

/// Reads strace's output, with calls in the order they began.
pub(crate) fn calls(output: &Path) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    for (number, line) in std::fs::read_to_string(output).unwrap().lines().enumerate() {
        let Some((process, event)) = line.split_once(' ') else { continue };
        let event = event.trim_start();
        if let Some(resumed) = event.strip_prefix("<... ") {
            let name = resumed.split(' ').next().unwrap_or_default();
            let waiting = format!("{process} {name}");
            // The call that this thread began and has not finished.
            if let Some(call) =
                calls.iter_mut().rev().find(|call| call.name == waiting && call.ended == usize::MAX)
            {
                call.ended = number;
            }
        } else if let Some((name, arguments)) = event.split_once('(') {
            let ended = if event.ends_with("<unfinished ...>") { usize::MAX } else { number };
            let (name, arguments) = (format!("{process} {name}"), arguments.to_owned());
            calls.push(Call { name, arguments, began: number, ended });
        }
    }
    for call in &mut calls {
        call.name = call.name.split(' ').nth(1).unwrap_or_default().to_owned();
    }
    calls
}
