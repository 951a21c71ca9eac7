//! `cargo xtask python`: the tests of the Python client, against the real binary.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::pip::Package;
use crate::workspace::Workspace;
use crate::{Result, clients, pip, process};

/// Names the binary that the tests start.
const BINARY: &str = "MEMORY_BINARY";

const TOOLS: &[&str] = &[
    "anthropic==2.14.0",
    "langgraph-checkpoint==4.3.2",
    "mypy==2.4.1",
    "openai==3.57.0",
    "pytest==8.4.2",
    "pytest-asyncio==1.5.0",
    "pytest-mock==3.17.0",
];
/// LangGraph's own tests of stores, which are in source distributions alone.
const SUITES: &[&str] = &["langgraph-checkpoint==4.3.2", "langgraph-checkpoint-sqlite==3.1.2"];
/// Read for the arguments of its calls, not run.
const MEM0: Package = Package { requirement: "mem0ai==2.2.1", megabytes: 1, archive: None };

/// What the tests need besides the binary.
#[derive(Debug)]
pub(crate) struct Tools {
    python: PathBuf,
    suites: PathBuf,
    mem0: PathBuf,
}

impl Tools {
    /// Downloads it the first time.
    pub(crate) fn prepare(workspace: &Workspace) -> Result<Self> {
        let python = clients::environment(workspace, "python-client-anthropic", TOOLS)?;
        let suites = pip::filled(&workspace.target.join("clients/langgraph-suites"), |folder| {
            println!("downloading {} as sources into {}", SUITES.join(", "), folder.display());
            sources(&python, folder)
        })?;
        let mem0 = pip::unpacked(workspace, &MEM0, |_| Ok(()))?;
        Ok(Self { python, suites, mem0 })
    }

    /// Checks the types, then runs the tests with this binary.
    pub(crate) fn test(&self, workspace: &Workspace, binary: &Path) -> Result<()> {
        let client = workspace.root.join("clients/python");
        let python = || {
            let mut command = Command::new(&self.python);
            command.current_dir(&client).env("PYTHONDONTWRITEBYTECODE", "1");
            command
        };
        process::run(python().args(["-m", "mypy", "--cache-dir"]).arg(workspace.target.join("mypy")))?;
        let mut tests = python();
        tests.env(BINARY, binary).env("MEMORY_LANGGRAPH_SUITES", &self.suites);
        tests.env("MEMORY_MEM0_SOURCE", &self.mem0);
        process::run(tests.args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"]))
    }
}

/// Downloads and unpacks source distributions.
fn sources(python: &Path, folder: &Path) -> Result<()> {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"]);
    pip.args(["--timeout", "20", "--retries", "1"]);
    for suite in SUITES {
        pip.args(["--no-binary", suite.split("==").next().unwrap_or(suite), suite]);
    }
    process::capture(pip.arg("--dest").arg(folder))?;
    for file in std::fs::read_dir(folder)? {
        let path = file?.path();
        process::capture(Command::new(python).args(["-m", "tarfile", "--extract"]).args([&path, folder]))?;
    }
    Ok(())
}

/// The command. `MEMORY_BINARY` names a binary to test; otherwise it is built.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let tools = Tools::prepare(workspace)?;
    let binary = match std::env::var_os(BINARY) {
        Some(binary) => std::path::absolute(PathBuf::from(binary))?,
        None => {
            process::run(workspace.cargo().args(["build", "--package", "memory-server", "--bin", "memory"]))?;
            built(workspace)
        }
    };
    tools.test(workspace, &binary)
}

/// The debug binary of the workspace.
pub(crate) fn built(workspace: &Workspace) -> PathBuf {
    workspace.target.join("debug").join(format!("memory{}", std::env::consts::EXE_SUFFIX))
}
