//! The test binary as another process.
//!
//! A test that needs a second process starts its own binary with its own path and a role; it begins with
//! `if let Some(role) = child::role() { … return }`.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

const ROLE: &str = "MEMORY_SQLITE_TEST_ROLE";
/// Prefix of a child's lines, since the test harness prints lines too.
const MARK: &str = "child: ";

/// The role of this process; `None` in the process that runs the tests.
pub(crate) fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// The path of the enclosing test, which stays right when the test is renamed.
#[allow(unused_macros, reason = "not every test binary has children")]
macro_rules! this_test {
    () => {{
        fn here() {}
        $crate::support::child::path_around(std::any::type_name_of_val(&here))
    }};
}
#[allow(unused_imports, reason = "as above")]
pub(crate) use this_test;

/// The path of the function that declares `here`, or a closure around it.
pub(crate) fn path_around(here: &'static str) -> &'static str {
    here.trim_end_matches("::here").split("::{{closure}}").next().unwrap_or(here)
}

/// A variable set by the parent.
pub(crate) fn given(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("the child was started without {name}"))
}

pub(crate) fn number(name: &str) -> u64 {
    given(name).parse().unwrap()
}

/// Reports to the parent at once and as a whole: one `write` from this thread.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n{MARK}{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Ends this process when its parent is gone, so that none is left behind.
pub(crate) fn end_with_parent() {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(3);
    });
}

/// The arguments that make this binary run one test, named by its path: `child::this_test!()`.
pub(crate) fn arguments(test: &str) -> [String; 4] {
    // The harness omits the crate's name.
    let name = test.split_once("::").map_or(test, |(_, name)| name);
    [name.to_owned(), "--exact".into(), "--nocapture".into(), "--test-threads=1".into()]
}

/// A command that runs `test` of this binary in a role.
pub(crate) fn command(test: &str, role: &str) -> Command {
    through(Command::new(std::env::current_exe().unwrap()), test, role)
}

/// A command that makes `program` run `test` of this binary; `program` takes a command line as its last arguments.
pub(crate) fn wrapped(mut program: Command, test: &str, role: &str) -> Command {
    program.arg(std::env::current_exe().unwrap());
    through(program, test, role)
}

/// Runs a test in a child whose environment names `FOLDER`, a file system of 4 MiB.
#[cfg(target_os = "linux")]
pub(crate) fn on_a_small_file_system(test: &str, role: &str) {
    let folder = super::files::folder();
    // A mount that only the child and its children see, and that ends with them.
    let script = "mount -t tmpfs -o size=4m none \"$FOLDER\"";
    let unshare = |script: &str| {
        let mut unshare = Command::new("unshare");
        unshare
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
            .env("FOLDER", folder.path());
        unshare
    };
    match unshare(script).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return super::skip(test, &format!("a small file system cannot be mounted: {reason}"));
        }
        Err(error) => return super::skip(test, &format!("unshare cannot be run: {error}")),
    }
    let mut command = wrapped(unshare(&format!("{script} && exec \"$0\" \"$@\"")), test, role);
    let said = Child::start(command.env("FOLDER", folder.path())).finish();
    println!("{role}: {}", said.join("; "));
}

fn through(mut program: Command, test: &str, role: &str) -> Command {
    program.args(arguments(test)).env(ROLE, role);
    program
}

/// A running child; killed if the test ends first.
pub(crate) struct Child {
    process: std::process::Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Child {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (process.stdin.take(), process.stdout.take().unwrap());
        Self { process, input, output: BufReader::new(output) }
    }

    pub(crate) fn with(test: &str, role: &str, given: &[(&str, &OsStr)]) -> Self {
        let mut command = command(test, role);
        command.envs(given.iter().copied());
        Self::start(&mut command)
    }

    /// A child that opens a database, reports that it is ready, and then executes one command per line.
    pub(crate) fn obedient(test: &str, database: &Path) -> Self {
        let mut child = Self::with(test, "obey", &[("DATABASE", database.as_os_str())]);
        assert_eq!(child.expect_line(), "ready");
        child
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Its next line; `None` at the end. A line cut off by its death does not count.
    pub(crate) fn line(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            self.output.read_line(&mut line).unwrap();
            let whole = line.strip_suffix('\n')?;
            if let Some(said) = whole.strip_prefix(MARK) {
                return Some(said.to_owned());
            }
        }
    }

    /// Like [`line`](Self::line), but there must be one.
    pub(crate) fn expect_line(&mut self) -> String {
        self.line().expect("the child ended early; its own output says why")
    }

    /// Sends it a line.
    pub(crate) fn tell(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
        input.flush().unwrap();
    }

    /// Sends it a line and waits for its answer.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        self.expect_line()
    }

    /// SIGKILL, wherever it is.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
    }

    /// Closes its input, which makes it end.
    pub(crate) fn end(mut self) -> Vec<String> {
        self.input = None;
        self.finish()
    }

    /// Its output up to its end, which must be a success.
    pub(crate) fn finish(mut self) -> Vec<String> {
        let said: Vec<String> = std::iter::from_fn(|| self.line()).collect();
        let status = self.process.wait().unwrap();
        assert!(status.success(), "the child failed: {status}; it said {said:?}");
        said
    }

    /// Its output up to its end, whatever its status.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        let said = std::iter::from_fn(|| self.line()).collect();
        self.process.wait().unwrap();
        said
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
