//! Runs the binary and examines the result.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// A user with an empty home, whose default store is in it.
pub(crate) struct User {
    home: tempfile::TempDir,
}

/// The binary in this home, without the machine's settings.
pub(crate) fn command(home: &Path, arguments: &[&str]) -> Command {
    let mut command = at_home(home, crate::PROGRAM);
    command.args(arguments);
    command
}

/// A program in this home, without the machine's settings.
pub(crate) fn at_home(home: &Path, program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(home).env("HOME", home);
    for name in [
        "XDG_DATA_HOME",
        "XDG_CONFIG_HOME",
        "MEMORY_URL",
        "MEMORY_TENANT",
        "MEMORY_CONFIG",
        "MEMORY_BACKEND",
        "AGENT_MEMORY_DB_PATH",
    ] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The result of one run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl User {
    pub(crate) fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.home().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// A command line, not yet run.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        command(self.home(), arguments)
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        finish(self.command(arguments).spawn().unwrap())
    }

    /// Runs with this standard input.
    pub(crate) fn run_with(&self, arguments: &[&str], stdin: &[u8]) -> Ran {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let stdin = stdin.to_vec();
        let writer = std::thread::spawn(move || drop(pipe.write_all(&stdin)));
        let ran = finish(child);
        writer.join().unwrap();
        ran
    }

    /// Runs a command that must succeed; returns its standard output.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        ran.stdout
    }

    /// Runs a command with `--json` that must succeed; returns the document.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let ran = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        ran.document()
    }

    /// Runs a command that must end with this code and an error of this kind; returns the error.
    pub(crate) fn refused(&self, arguments: &[&str], code: i32, kind: &str) -> Value {
        let ran = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(ran.code, Some(code), "{arguments:?}: {ran:?}");
        assert_eq!(ran.stdout, "", "{arguments:?}");
        let mut error: Value = serde_json::from_str(&ran.stderr).unwrap_or_else(|_| panic!("{ran:?}"));
        let error = error["error"].take();
        assert_eq!(error["code"], kind, "{arguments:?}: {error}");
        error
    }
}

impl Ran {
    pub(crate) fn document(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Fails unless the document has these members; others do not matter.
#[track_caller]
pub(crate) fn has(document: &Value, wanted: Value) {
    for (name, value) in wanted.as_object().unwrap() {
        assert_eq!(document[name], *value, "`{name}` of {document}");
    }
}

fn finish(child: std::process::Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
