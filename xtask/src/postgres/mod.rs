//! PostgreSQL servers for the tests: one with pgvector, from a Python package with pinned version and digest, and one
//! without, if the system has one. `cargo xtask postgres` runs them for a developer.

mod package;
mod server;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::workspace::Workspace;
use crate::{Result, process};

use server::{Keeping, Server, User};

/// The URL of a superuser on a server with pgvector.
const SERVER: &str = "MEMORY_TEST_POSTGRES_URL";
/// The URL of a superuser on a server without pgvector.
const PLAIN_SERVER: &str = "MEMORY_TEST_POSTGRES_PLAIN_URL";
/// The folder of the first server's programs, for tests that start and kill their own servers.
const PROGRAMS: &str = "MEMORY_TEST_POSTGRES_BIN";
/// The folder of the second server's programs, which support TLS.
const PLAIN_PROGRAMS: &str = "MEMORY_TEST_POSTGRES_PLAIN_BIN";
/// With `on` the servers sync to disk, as in production; otherwise they are faster.
const FSYNC: &str = "MEMORY_TEST_POSTGRES_FSYNC";

/// Servers that stop when this is dropped, and however this process ends.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    pub(crate) variables: Vec<(&'static str, String)>,
    running: Vec<Server>,
}

/// `cargo xtask postgres`: run until interrupted.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let servers = Servers::start(workspace, &std::env::temp_dir());
    if servers.running.is_empty() {
        return Err("no PostgreSQL server was started".into());
    }
    println!("for the tests, in another terminal:");
    for (name, value) in &servers.variables {
        println!("  export {name}={value}");
    }
    println!("interrupting this command stops the servers and deletes their data");
    loop {
        std::thread::park();
    }
}

impl Servers {
    /// Whether a server is the caller's own.
    pub(crate) fn are_given() -> bool {
        given(SERVER) || given(PLAIN_SERVER)
    }

    /// Starts the servers, with their data below `temporary`; prints why one is left out.
    pub(crate) fn start(workspace: &Workspace, temporary: &Path) -> Self {
        let mut servers = Self::default();
        if given(SERVER) {
            println!("PostgreSQL: {SERVER} is set");
        } else if let Err(error) = servers.start_packaged(workspace, temporary) {
            println!(
                "PostgreSQL: none, tests that need one skip; {SERVER} may name a server of your own: {error}"
            );
        }
        if given(PLAIN_SERVER) {
            println!("PostgreSQL without pgvector: {PLAIN_SERVER} is set");
        } else if let Err(error) = servers.start_plain(temporary) {
            println!("PostgreSQL without pgvector: none, tests that need one skip: {error}");
        }
        servers
    }

    fn start_packaged(&mut self, workspace: &Workspace, temporary: &Path) -> Result<()> {
        let programs = package::prepare(workspace)?;
        let server = Server::start(&programs, &keeping(temporary)?)?;
        println!(
            "PostgreSQL: {} at {}, data in {}",
            version(&programs)?,
            server.url(),
            server.folder.display()
        );
        self.variables.push((SERVER, server.url()));
        if !given(PROGRAMS) {
            self.variables.push((PROGRAMS, server.programs.display().to_string()));
        }
        self.running.push(server);
        Ok(())
    }

    fn start_plain(&mut self, temporary: &Path) -> Result<()> {
        let programs = installed().ok_or("no PostgreSQL without pgvector in /usr/lib/postgresql")?;
        let server = Server::start(&programs, &keeping(temporary)?)?;
        println!("PostgreSQL without pgvector: {} at {}", version(&programs)?, server.url());
        self.variables.push((PLAIN_SERVER, server.url()));
        if !given(PLAIN_PROGRAMS) {
            self.variables.push((PLAIN_PROGRAMS, server.programs.display().to_string()));
        }
        self.running.push(server);
        Ok(())
    }
}

fn given(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

fn keeping(temporary: &Path) -> Result<Keeping<'_>> {
    let fsync = std::env::var(FSYNC).is_ok_and(|value| value == "on");
    Ok(Keeping { user: User::of_servers()?, temporary, fsync })
}

fn version(programs: &Path) -> Result<String> {
    let printed = process::capture(Command::new(programs.join("postgres")).arg("--version"))?;
    Ok(printed.trim().trim_start_matches("postgres (PostgreSQL) ").to_owned())
}

/// The programs of the oldest installed server without pgvector.
fn installed() -> Option<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .ok()?
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let version = path.file_name()?.to_str()?.parse().ok()?;
            Some((version, path.join("bin")))
        })
        .filter(|(version, programs)| {
            *version >= 15 && programs.join("initdb").is_file() && !has_vector(programs)
        })
        .collect();
    found.sort();
    found.into_iter().next().map(|(_, programs)| programs)
}

fn has_vector(programs: &Path) -> bool {
    let shared = process::capture(Command::new(programs.join("pg_config")).arg("--sharedir"));
    // Debian separates the files of all versions; this is the default if pg_config is missing.
    let shared = shared.map_or_else(
        |_| {
            let version = programs.parent().and_then(Path::file_name).unwrap_or_default();
            Path::new("/usr/share/postgresql").join(version)
        },
        |printed| PathBuf::from(printed.trim()),
    );
    shared.join("extension/vector.control").is_file()
}
