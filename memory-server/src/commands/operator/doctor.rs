//! `doctor`: whether everything is in place, and what to do if not. Changes nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use memory::system::SystemClock;
use memory::{Access, HealthStatus};
use memory_api::{Known, TokenFile};
use memory_core::{Clock as _, ErrorKind, Provider as _};
use serde::Serialize;

use super::config_check::{self, Status as Found, late, may_hold, may_write};
use crate::http::tokens_file;
use crate::terminal::{Context, Exit, Failure, Out, Settings, bytes, counted, is_unmade};

/// Larger files are not read completely.
const MAX_CHECKED_BYTES: u64 = 1 << 30;
const RESTORE: &str = "restore a snapshot: `memory restore FILE`";

#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    /// Contact no server
    #[arg(long)]
    offline: bool,
    /// Time limit for each server
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Ok,
    Warn,
    Fail,
}

#[derive(Serialize)]
struct Line {
    /// What was checked.
    check: String,
    status: Status,
    message: String,
    /// What to do.
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

#[derive(Serialize)]
struct Report {
    status: Status,
    checks: Vec<Line>,
}

impl Report {
    fn ok(&mut self, check: &str, message: impl Into<String>) {
        self.add(check, Status::Ok, message, None);
    }

    fn warn(&mut self, check: &str, message: impl Into<String>, advice: impl Into<String>) {
        self.add(check, Status::Warn, message, Some(advice.into()));
    }

    fn fail(&mut self, check: &str, message: impl Into<String>, advice: impl Into<String>) {
        self.add(check, Status::Fail, message, Some(advice.into()));
    }

    /// Adds another part's finding; what to do comes after the first `;`.
    fn told(&mut self, check: &str, status: Status, words: &str) {
        let (found, advice) =
            words.split_once("; ").map_or((words, None), |(found, then)| (found, Some(then)));
        self.add(check, status, found, advice.map(str::to_owned));
    }

    fn add(&mut self, check: &str, status: Status, message: impl Into<String>, advice: Option<String>) {
        self.status = self.status.max(status);
        self.checks.push(Line { check: check.to_owned(), status, message: message.into(), advice });
    }
}

pub(crate) async fn run(context: &Context, args: &DoctorArgs, out: &mut Out) -> Result<Exit, Failure> {
    let mut report = Report { status: Status::Ok, checks: Vec::new() };
    let timeout = Duration::from_secs(args.timeout);
    let context = &embedder(context, &mut report);
    configuration(context, timeout, args.offline, &mut report).await?;
    match context.settings() {
        Ok(settings) => {
            tokens(&settings, &mut report);
            audit(&settings, &mut report);
            store(&settings, timeout, args.offline, &mut report).await;
        }
        Err(error) => {
            report.fail("store", error.message(), "correct the options, the environment or memory.toml");
        }
    }
    let exit = if report.status == Status::Fail { Exit::Failed } else { Exit::Ok };
    out.tell(&report, |out| {
        for Line { check, status, message, advice } in &report.checks {
            let word = match status {
                Status::Ok => "ok  ",
                Status::Warn => "warn",
                Status::Fail => "FAIL",
            };
            out.line(format!("{word}  {check}: {message}"))?;
            if let Some(advice) = advice {
                out.line(format!("      -> {advice}"))?;
            }
        }
        Ok(())
    })?;
    Ok(exit)
}

/// Whether the `--embedder` can be opened. If not, the other checks go on without it.
fn embedder(context: &Context, report: &mut Report) -> Context {
    match context.registry() {
        Err(error) if context.global().embedder.is_some() => {
            report.told("embedder", Status::Fail, error.message());
            context.without_embedder()
        }
        _ => context.clone(),
    }
}

/// The findings of `config check`, and who may read and write the file.
async fn configuration(
    context: &Context,
    timeout: Duration,
    offline: bool,
    report: &mut Report,
) -> Result<(), Failure> {
    let Some(checked) = config_check::examine(context, timeout, offline).await? else {
        report.ok("configuration", "no memory.toml: defaults hold; `memory init` writes one");
        return Ok(());
    };
    for finding in checked.findings() {
        let check = format!("{} {}", finding.place, finding.check);
        match finding.status {
            Found::Ok => report.ok(&check, finding.message.as_str()),
            // About a server, a file or a model; the message says what to do there.
            Found::Warning if finding.place != "memory.toml" => {
                report.told(&check, Status::Warn, &finding.message);
            }
            Found::Problem if finding.place != "memory.toml" => {
                report.told(&check, Status::Fail, &finding.message);
            }
            Found::Warning => {
                report.warn(
                    &check,
                    finding.message.as_str(),
                    format!("see {} and docs/configuration.md", checked.file()),
                );
            }
            Found::Problem => {
                report.fail(&check, finding.message.as_str(), format!("correct {}", checked.file()));
            }
        }
    }
    private("memory.toml", Path::new(checked.file()), "it may hold passwords", report);
    Ok(())
}

/// Whether the tokens of `serve --http` can be read, and by their owner alone; otherwise it does not start.
fn tokens(settings: &Settings, report: &mut Report) {
    let Ok(file) = tokens_file(None, settings.config.as_ref()) else { return };
    if !file.exists() {
        return;
    }
    match TokenFile::new(file.clone()).read() {
        Ok((_, known)) => {
            let now = SystemClock.now();
            let valid = |known: &&Known| known.revoked_at.is_none() && !known.token.is_expired(now);
            let kept = known.values().filter(valid).count();
            let message =
                format!("{} in force; only you may read {}", counted(kept, "token"), file.display());
            match kept {
                0 => report.warn(
                    "tokens",
                    message,
                    "`memory token create NAME` makes one: until then `serve --http` lets nobody in",
                ),
                _ => report.ok("tokens", message),
            }
        }
        Err(error) => {
            let advice = match error.kind() {
                ErrorKind::Forbidden => format!("chmod 600 {}", file.display()),
                ErrorKind::Corrupt => {
                    "correct it, or move it away and make new tokens: until then `serve --http` lets nobody in".to_owned()
                }
                _ => "make it a file that you may read".to_owned(),
            };
            report.fail("tokens", error.message(), advice);
        }
    }
}

/// Whether the audit file can be written and has every record.
fn audit(settings: &Settings, report: &mut Report) {
    let Some(file) = settings.audit_file().filter(|file| file.exists()) else { return };
    if !may_write(&file) {
        let message = format!("{} is read-only for you", file.display());
        return report.warn("audit", message, "run what is audited as a user who may write it");
    }
    match memory::audit::missing(&file) {
        Ok(0) => report.ok("audit", format!("no record is missing at the end of {}", file.display())),
        Ok(missing) => report.warn(
            "audit",
            format!(
                "{} missing at the end of {}; its gaps say when",
                counted(missing, "record"),
                file.display()
            ),
            "see whether its disk was full or too slow, and that it has room now",
        ),
        Err(error) => report.told("audit", Status::Fail, error.message()),
    }
}

/// The store: its file, format and content, and the space left.
async fn store(settings: &Settings, timeout: Duration, offline: bool, report: &mut Report) {
    let (url, base) = match settings.backend_url() {
        Ok(named) => named,
        Err(error) => return report.fail("store", error.message(), "correct `url` of the store"),
    };
    let shown = settings.shown_url().unwrap_or_else(|_| url.to_string());
    let file = match url.scheme() {
        "sqlite" => match memory::sqlite::file(&url, base.as_deref()) {
            Ok(file) => file,
            Err(error) => return report.fail("store", error.message(), "correct `url` of the store"),
        },
        _ if offline => return report.ok("store", format!("{shown}, not contacted")),
        _ => None,
    };
    if let Some(file) = &file {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        space(folder, report);
        if !file.exists() {
            return new_file(file, folder, report);
        }
        if !file.is_file() {
            return report.fail("store", format!("{} is no file", file.display()), "name another file");
        }
        private("store's file", file, "it holds what agents remember", report);
        writable(file, folder, report);
        pages(file, report);
        let databases = memory::sqlite::sql_databases(&url, base.as_deref()).unwrap_or_default();
        sql_pages(&databases, report);
    }
    let looked = async {
        let memory = settings.open(Access::Read).await?;
        let health = memory.health().await?;
        memory_core::Result::Ok((memory.capabilities(), health))
    };
    match tokio::time::timeout(timeout, looked).await.unwrap_or_else(|_| Err(late(timeout))) {
        Ok((capabilities, health)) => {
            match health.status {
                HealthStatus::Ok => report.ok("store", format!("{shown} opens: {}", health.message)),
                HealthStatus::Degraded => report.told("store", Status::Warn, &health.message),
                _ => report.told("store", Status::Fail, &health.message),
            }
            if capabilities.kv {
                report.ok(
                    "search",
                    match capabilities.vector_search {
                        true => "entries are found by words and by meaning",
                        false => "entries are found by words; --embedder adds meaning (docs/embedders.md)",
                    },
                );
            }
        }
        Err(error) if is_unmade(&error) => {
            report.ok(
                "store",
                format!("{shown} has no tables yet; the first command that stores something creates them"),
            );
        }
        Err(error) => report.told("store", Status::Fail, error.message()),
    }
}

/// A file that the first command that stores something will create.
fn new_file(file: &Path, folder: &Path, report: &mut Report) {
    match may_hold(folder) {
        Ok(()) => {
            let with = if folder.is_dir() { "" } else { ", with its folder," };
            report.ok(
                "store",
                format!(
                    "{}{with} will be created by the first command that stores something",
                    file.display()
                ),
            );
        }
        Err(why) => report.fail("store", why, "name another file"),
    }
}

/// Whether this user may change the store.
fn writable(file: &Path, folder: &Path, report: &mut Report) {
    if may_write(file) && may_write(folder) {
        return;
    }
    report.warn(
        "write access",
        format!(
            "{} is read-only for you: what is stored can be read, and nothing can be stored",
            file.display()
        ),
        "to store something, run as a user who may write the file and its folder",
    );
}

/// Reads every page.
fn pages(file: &Path, report: &mut Report) {
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    if size > MAX_CHECKED_BYTES {
        let message = format!("not read whole: it has {}", bytes(size));
        return report.ok("integrity", message + "; `memory drift repair --dry-run` does");
    }
    match memory::sqlite::quick_check(file) {
        Ok(()) => report.ok("integrity", format!("every page of {} is well formed", bytes(size))),
        Err(error) => report.told("integrity", Status::Fail, error.message()),
    }
}

/// Reads every page of the SQL databases next to the store, as long as they are not too large together.
fn sql_pages(databases: &[PathBuf], report: &mut Report) {
    let (mut read, mut left, mut size) = (0, 0, 0);
    for database in databases {
        let length = database.metadata().map_or(0, |metadata| metadata.len());
        if size + length > MAX_CHECKED_BYTES {
            left += 1;
            continue;
        }
        (read, size) = (read + 1, size + length);
        // Other failures are not the file's fault: a schema may call functions that only a sandbox has.
        if let Err(error) = memory::sqlite::quick_check(database)
            && error.kind() == ErrorKind::Corrupt
        {
            return report.fail("integrity", format!("{}: {}", database.display(), error.message()), RESTORE);
        }
    }
    if read > 0 {
        let more = if left > 0 { format!("; {left} more were not read") } else { String::new() };
        let message =
            format!("every page of {}, {}, is well formed{more}", counted(read, "SQL database"), bytes(size));
        report.ok("integrity", message);
    }
}

/// Whether others may read or write a file.
#[cfg(unix)]
fn private(check: &str, file: &Path, why: &str, report: &mut Report) {
    use std::os::unix::fs::PermissionsExt as _;

    let Ok(metadata) = file.metadata() else { return };
    let mode = metadata.permissions().mode() & 0o777;
    let advice = format!("chmod 600 {}", file.display());
    if mode & 0o022 != 0 {
        report.fail(
            check,
            format!("others may write {} (mode {mode:03o}), and {why}", file.display()),
            advice,
        );
    } else if mode & 0o044 != 0 {
        report.warn(
            check,
            format!("others may read {} (mode {mode:03o}), and {why}", file.display()),
            advice,
        );
    } else {
        report.ok(check, format!("only you may read {}", file.display()));
    }
}

#[cfg(not(unix))]
fn private(check: &str, file: &Path, _why: &str, report: &mut Report) {
    report.ok(check, file.display().to_string());
}

/// Room for more.
#[cfg(unix)]
fn space(folder: &Path, report: &mut Report) {
    /// Less is a warning; a tenth of it is a failure.
    const MIN_FREE_BYTES: u64 = 1 << 30;
    let there = folder.ancestors().find(|folder| folder.is_dir());
    let Some(Ok(found)) = there.map(rustix::fs::statvfs) else { return };
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let message = format!("{} are free for the store", bytes(free));
    let advice = "free some space, or move the store: `memory migrate`";
    match free {
        free if free < MIN_FREE_BYTES / 10 => report.fail("disk", message, advice),
        free if free < MIN_FREE_BYTES => report.warn("disk", message, advice),
        _ => report.ok("disk", message),
    }
}

#[cfg(not(unix))]
fn space(_folder: &Path, _report: &mut Report) {}
