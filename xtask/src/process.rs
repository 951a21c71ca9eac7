//! Runs other programs with inherited or captured output.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;

/// Prints the command line and runs it with inherited output; a non-zero exit is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", line(command));
    let status = command.status().map_err(|e| format!("cannot start `{}`: {e}", line(command)))?;
    if status.success() { Ok(()) } else { Err(format!("`{}`: {status}", line(command)).into()) }
}

/// The stream of a child that [`watch`] reads. The other is inherited.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// Like [`run`], but every line of one stream is also passed to `seen`.
pub(crate) fn watch(command: &mut Command, stream: Stream, mut seen: impl FnMut(&str)) -> Result<()> {
    sift(command, stream, |line| {
        seen(line);
        true
    })
}

/// Like [`watch`], but prints only lines for which `seen` returns true.
pub(crate) fn sift(command: &mut Command, stream: Stream, mut seen: impl FnMut(&str) -> bool) -> Result<()> {
    println!("$ {}", line(command));
    match stream {
        Stream::Stdout => command.stdout(Stdio::piped()),
        Stream::Stderr => command.stderr(Stdio::piped()),
    };
    let mut child = command.spawn().map_err(|e| format!("cannot start `{}`: {e}", line(command)))?;
    let pipe: Box<dyn Read> = match (child.stdout.take(), child.stderr.take()) {
        (Some(stdout), _) => Box::new(stdout),
        (_, Some(stderr)) => Box::new(stderr),
        _ => return Err("the child's output is not a pipe".into()),
    };
    let mut lines = BufReader::new(pipe);
    let mut bytes = Vec::new();
    // By bytes: a test may print what is not UTF-8.
    while lines.read_until(b'\n', &mut bytes)? > 0 {
        let text = String::from_utf8_lossy(&bytes);
        if seen(text.trim_end()) {
            print!("{text}");
        }
        bytes.clear();
    }
    let status = child.wait()?;
    if status.success() { Ok(()) } else { Err(format!("`{}`: {status}", line(command)).into()) }
}

/// Runs quietly and returns standard output; on failure the error carries standard error.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("cannot start `{}`: {e}", line(command)))?;
    if output.status.success() {
        Ok(String::from_utf8(output.stdout)?)
    } else {
        let stderr = String::from_utf8_lossy(&output.stderr);
        Err(format!("`{}`: {}\n{}", line(command), output.status, stderr.trim_end()).into())
    }
}

/// Runs quietly, for so long at most; what it prints on standard error is in the error.
pub(crate) fn within(limit: Duration, command: &mut Command) -> Result<()> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| format!("cannot start `{}`: {e}", line(command)))?;
    let until = Instant::now() + limit;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if Instant::now() < until => thread::sleep(Duration::from_millis(100)),
            None => {
                child.kill()?;
                child.wait()?;
                return Err(format!("`{}` took longer than {} s", line(command), limit.as_secs()).into());
            }
        }
    };
    let mut printed = String::new();
    if let Some(mut pipe) = child.stderr.take() {
        pipe.read_to_string(&mut printed)?;
    }
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{}`: {status}\n{}", line(command), printed.trim_end()).into())
    }
}

/// Whether the program exists.
pub(crate) fn starts(program: &str) -> bool {
    // CC may carry arguments (`ccache gcc`).
    let mut words = program.split_whitespace();
    let Some(name) = words.next() else { return false };
    Command::new(name)
        .args(words)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

fn line(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            words.push(format!("{}={}", name.to_string_lossy(), quoted(&value.to_string_lossy())));
        }
    }
    let program = command.get_program().to_string_lossy();
    // Cargo passes its full path to what it runs; readers know it as `cargo`.
    let name = std::path::Path::new(program.as_ref()).file_name().unwrap_or_default();
    words.push(name.to_string_lossy().into_owned());
    words.extend(command.get_args().map(|arg| quoted(&arg.to_string_lossy())));
    words.join(" ")
}

fn quoted(word: &str) -> String {
    if word.is_empty() || word.contains(char::is_whitespace) { format!("'{word}'") } else { word.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_shows_variables_and_quotes_what_has_spaces() {
        let mut command = Command::new("/somewhere/bin/cargo");
        command.env("RUSTDOCFLAGS", "-D warnings").args(["doc", "--no-deps"]);
        assert_eq!(line(&command), "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps");
    }

    #[test]
    fn a_command_that_hangs_is_ended() {
        let hung = within(Duration::ZERO, Command::new("sleep").arg("60"));
        assert!(hung.is_err_and(|error| error.to_string().contains("took longer than")));
    }
}
