//! The test binary as another process: a replica.
//!
//! A test that needs one runs its own binary with its own name and a role; it starts with `if let Some(role) =
//! child::role() { … return }`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdout, Command, Stdio};

const ROLE: &str = "MEMORY_POSTGRES_TEST_ROLE";
const GIVEN: &str = "MEMORY_POSTGRES_TEST_GIVEN";
/// Prefix of a child's messages, since the test harness prints too.
const MARK: &str = "child: ";

/// The role and arguments of this process; `None` in the main test process.
pub(crate) fn role() -> Option<(String, String)> {
    Some((std::env::var(ROLE).ok()?, std::env::var(GIVEN).ok()?))
}

/// Sends a complete line to the parent at once.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n{MARK}{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// A running child; killed if the test ends first.
pub(crate) struct Child {
    process: std::process::Child,
    output: BufReader<ChildStdout>,
}

impl Child {
    pub(crate) fn start(test: &str, role: &str, given: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(GIVEN, given)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self { process, output }
    }

    /// Its next line, if any.
    pub(crate) fn line(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            self.output.read_line(&mut line).unwrap();
            if let Some(said) = line.strip_suffix('\n')?.strip_prefix(MARK) {
                return Some(said.to_owned());
            }
        }
    }

    /// SIGKILL at any point.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
