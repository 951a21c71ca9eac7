//! Those of PyPI, by `theirs.py`, in a Python environment under `target/`.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use memory_server::terminal::note;
use tokio::process::Command;

use super::table::{Measured, Outcome};
use super::work::Work;

const SCRIPT: &str = include_str!("theirs.py");
/// Of the checkout that the program runs in, as is the target folder.
const CLIENT: &str = "clients/python/src";
const ENVIRONMENT: &str = "target/compare/python";
/// How long an installation, a build, or one product, may take.
const LIMIT: Duration = Duration::from_secs(1_800);
/// What the compared products need of a Python besides its version.
const FIT: &str = "import sqlite3; sqlite3.connect(':memory:').enable_load_extension(True)";

/// What one product took; why not, if it cannot be had.
pub(super) async fn measure(
    name: &str,
    packages: &[&str],
    work: &Path,
    own: &Path,
    postgres: Option<&str>,
) -> Outcome {
    match with_packages(name, packages).await {
        Ok(python) => {
            let mut command = Command::new(python);
            command.env("MEMORY_COMPARE_POSTGRES", postgres.unwrap_or_default());
            script(command, work, own, name).await.unwrap_or_else(Outcome::absent)
        }
        Err(why) => Outcome::absent(why),
    }
}

/// The same for this product's own server and its client, which needs no package.
pub(super) async fn over_http(given: &Path, own: &Path, work: &Work) -> Outcome {
    match served(given, own, work).await {
        Ok(outcome) => outcome,
        Err(why) => Outcome::absent(why),
    }
}

async fn served(given: &Path, own: &Path, work: &Work) -> Result<Outcome, String> {
    if !Path::new(CLIENT).is_dir() {
        return Err(format!("there is no {CLIENT} here; run it in a checkout"));
    }
    let shown = |error: memory_core::Error| error.to_string();
    let url = super::ours::file(own, "full").map_err(shown)?;
    let memory = super::ours::open(&url, work).await.map_err(shown)?;
    let (server, token, _tokens) = memory_server::http::guarded(memory).map_err(shown)?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let serving = tokio::spawn(async move { server.serve(listener).await });
    let mut command = Command::new("python3");
    command
        .env("PYTHONPATH", CLIENT)
        .env("MEMORY_URL", format!("http://{address}"))
        .env("MEMORY_TOKEN", token)
        .env("MEMORY_COMPARE_VERSION", env!("CARGO_PKG_VERSION"));
    let outcome = script(command, given, own, "memory-http").await;
    serving.abort();
    outcome
}

async fn script(mut python: Command, work: &Path, own: &Path, name: &str) -> Result<Outcome, String> {
    answered(python.args(["-c", SCRIPT]).arg(work).arg(own).arg(name)).await
}

/// Runs what measures another product and ends with what it took.
pub(super) async fn answered(command: &mut Command) -> Result<Outcome, String> {
    let said = output(command).await?;
    // A library may print before it.
    let last = said.lines().last().unwrap_or_default();
    let answer: serde_json::Value =
        serde_json::from_str(last).map_err(|_| format!("it ended without an answer: {last}"))?;
    match answer.get("why").and_then(serde_json::Value::as_str) {
        Some(why) => Err(why.to_owned()),
        None => {
            let measured: Measured = serde_json::from_value(answer).map_err(|error| error.to_string())?;
            Ok(Outcome::Measured(measured))
        }
    }
}

/// The environment's Python, with these packages.
async fn with_packages(name: &str, packages: &[&str]) -> Result<PathBuf, String> {
    let python = Path::new(ENVIRONMENT).join("bin/python");
    if !python.exists() {
        let base = fit().await?;
        output(Command::new(base).args(["-m", "venv", ENVIRONMENT])).await?;
    }
    let complete = Path::new(ENVIRONMENT).join(format!("{name}.complete"));
    let wanted = packages.join(" ");
    if std::fs::read_to_string(&complete).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    note(&format!("installing {wanted} and what they need into {ENVIRONMENT}"));
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]);
    pip.args(["--timeout", "20", "--retries", "1"]).args(packages);
    output(&mut pip).await.map_err(|why| format!("it cannot be had here: {why}"))?;
    std::fs::write(complete, wanted).map_err(|error| error.to_string())?;
    Ok(python)
}

/// A Python whose SQLite takes extensions.
async fn fit() -> Result<&'static str, String> {
    for python in ["python3", "/usr/bin/python3"] {
        if output(Command::new(python).args(["-c", FIT])).await.is_ok() {
            return Ok(python);
        }
    }
    Err("there is no Python whose sqlite3 loads extensions".to_owned())
}

/// Standard output; the last line of standard error if it fails.
pub(super) async fn output(command: &mut Command) -> Result<String, String> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(LIMIT, command.output())
        .await
        .map_err(|_| format!("it took longer than {} s", LIMIT.as_secs()))?
        .map_err(|error| error.to_string())?;
    if ended.status.success() {
        return Ok(String::from_utf8_lossy(&ended.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    Err(said.trim_end().lines().last().unwrap_or("it failed and said nothing").to_owned())
}
