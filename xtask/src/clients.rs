//! MCP clients that `memory serve` is tested with, at pinned versions, under the target folder only. Existing
//! installations are reused.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::workspace::Workspace;
use crate::{Result, pip, process};

/// Names a Python whose package `mcp` is installed.
pub(crate) const PYTHON_VARIABLE: &str = "MEMORY_TEST_MCP_PYTHON";
/// Names the script of the MCP Inspector.
pub(crate) const INSPECTOR_VARIABLE: &str = "MEMORY_TEST_MCP_INSPECTOR";

const PYTHON_PACKAGE: (&str, &str) = ("mcp", "2.3.0");
/// The last version that runs on Node.js before 22.19.
const INSPECTOR: (&str, &str) = ("@modelcontextprotocol/inspector", "1.0.3");

/// A Python with the package `mcp`.
pub(crate) fn python(workspace: &Workspace) -> Result<PathBuf> {
    let (name, version) = PYTHON_PACKAGE;
    environment(workspace, &format!("python-{name}-{version}"), &[&format!("{name}=={version}")])
}

/// A Python with these packages.
pub(crate) fn environment(workspace: &Workspace, folder: &str, requirements: &[&str]) -> Result<PathBuf> {
    let python = pip::python()?;
    let recent =
        "import sys; sys.exit('Python 3.10 or newer is needed' if sys.version_info < (3, 10) else 0)";
    process::capture(Command::new(python).args(["-c", recent]))?;
    let inside = |folder: &Path| folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let folder = whole(workspace, folder, |folder| {
        println!("installing {} for Python into {}", requirements.join(", "), folder.display());
        process::capture(Command::new(python).args(["-m", "venv"]).arg(folder))?;
        let mut pip = Command::new(inside(folder));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]);
        pip.args(["--timeout", "20", "--retries", "1"]).args(requirements);
        process::capture(&mut pip).map(drop)
    })?;
    Ok(inside(&folder))
}

/// The script of the MCP Inspector, to be run by `node`.
pub(crate) fn inspector(workspace: &Workspace) -> Result<PathBuf> {
    let (name, version) = INSPECTOR;
    if !process::starts("node") || !process::starts("npm") {
        return Err("no Node.js with npm".into());
    }
    let folder = whole(workspace, &format!("inspector-{version}"), |folder| {
        println!("installing {name} {version} into {}", folder.display());
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error"]);
        npm.args(["--fetch-retries", "1", "--fetch-timeout", "30000", "--prefix"]);
        npm.arg(folder).arg(format!("{name}@{version}"));
        // Without a way to its registry, npm may wait for ever.
        process::within(Duration::from_secs(180), &mut npm)
    })?;
    Ok(folder.join("node_modules").join(name).join("cli/build/cli.js"))
}

fn whole(workspace: &Workspace, name: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    pip::filled(&workspace.target.join("clients").join(name), fill)
}
