//! `config check`: problems in memory.toml and in what it refers to. Opens nothing for writing.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use memory::audit::JsonLines;
use memory::config::{DefinitionsSection, Discovery, EmbedderSection};
use memory::postgres::operator;
use memory::{BackendUrl, Config, HealthStatus, Registry};
use memory_api::Jwt;
use memory_core::{EmbedRole, Embedder, Error, Result};
use serde::Serialize;

use crate::serve::refuse_in_memory;
use crate::terminal::{Context, Exit, Failure, Out, word};

/// How severe a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    Ok,
    Warning,
    Problem,
}

/// One finding.
#[derive(Serialize)]
pub(super) struct Finding {
    /// The section, or the file.
    pub(super) place: String,
    /// What was checked, as a fixed word.
    pub(super) check: &'static str,
    pub(super) status: Status,
    pub(super) message: String,
    /// The line of memory.toml, if the finding is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
}

#[derive(Serialize)]
pub(super) struct Checked {
    file: String,
    status: Status,
    findings: Vec<Finding>,
    /// By backend: what scope roles on its server can read of each other despite the validator.
    exposures: BTreeMap<String, Vec<memory::postgres::Exposure>>,
}

impl Checked {
    pub(super) fn file(&self) -> &str {
        &self.file
    }

    pub(super) fn findings(&self) -> &[Finding] {
        &self.findings
    }

    fn note(&mut self, place: &str, check: &'static str, status: Status, message: impl Into<String>) {
        let (place, message) = (place.to_owned(), message.into());
        self.status = self.status.max(status);
        self.findings.push(Finding { place, check, status, message, line: None });
    }
}

pub(super) async fn run(
    context: &Context,
    timeout: Duration,
    offline: bool,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let checked = examine(context, timeout, offline)
        .await?
        .ok_or_else(|| Error::not_found("there is no memory.toml to check; `memory init` writes one"))?;
    let exit = if checked.status == Status::Problem { Exit::Failed } else { Exit::Ok };
    if out.is_json() {
        out.document(&checked)?;
        return Ok(exit);
    }
    out.line(format!("{}: {}", checked.file, word(&checked.status)))?;
    let rows: Vec<[String; 4]> = checked
        .findings
        .into_iter()
        .map(|Finding { place, check, status, message, .. }| {
            [place, check.to_owned(), word(&status), message]
        })
        .collect();
    out.table(["PLACE", "CHECK", "STATUS", "FOUND"], &rows)?;
    Ok(exit)
}

/// The findings about memory.toml; `None` if there is no such file.
pub(super) async fn examine(
    context: &Context,
    timeout: Duration,
    offline: bool,
) -> Result<Option<Checked>, Failure> {
    let explicit = context.global().config.as_deref();
    let Some(file) = Discovery::from_environment(explicit).find()? else { return Ok(None) };
    let mut checked = Checked {
        file: file.display().to_string(),
        status: Status::Ok,
        findings: Vec::new(),
        exposures: BTreeMap::new(),
    };
    let (config, problems) = Config::examine(&read(&file)?, &file);
    for problem in problems {
        let line = problem.details().get("line").and_then(serde_json::Value::as_u64);
        checked.note("memory.toml", "configuration", Status::Problem, problem.message());
        if let Some(last) = checked.findings.last_mut() {
            last.line = line;
        }
    }
    if let Some(config) = config {
        if checked.findings.is_empty() {
            checked.note(
                "memory.toml",
                "configuration",
                Status::Ok,
                "every key is known, and every name that backends and agents use is defined",
            );
        }
        for warning in config.warnings() {
            checked.note("memory.toml", "rules", Status::Warning, warning);
        }
        let registry = context.registry()?;
        for name in config.embedders() {
            let place = format!("[embedders.{name}]");
            match config.open_embedder(&registry, name) {
                Ok(embedder) => {
                    checked.note(&place, "embedder", Status::Ok, "its model or key was found");
                    let is_service = matches!(config.embedder(name), Ok(EmbedderSection::OpenAi(_)));
                    if is_service && !offline {
                        embeds(&place, &*embedder, timeout, &mut checked).await;
                    }
                }
                Err(error) => checked.note(&place, "embedder", Status::Problem, error.message()),
            }
        }
        if config.has_chat_model() {
            match config.open_chat_model(&registry) {
                Ok(_) => checked.note(
                    "[models.chat]",
                    "model",
                    Status::Ok,
                    "its address is allowed, and its key was found",
                ),
                Err(error) => checked.note("[models.chat]", "model", Status::Problem, error.message()),
            }
        }
        for (name, section) in &config.file().backends {
            let place = format!("[backends.{name}]");
            references(&place, &section.url, &config, &mut checked);
            if let Err(error) = config.check_url(&registry, name) {
                checked.note(&place, "url", Status::Problem, error.message());
                continue;
            }
            if let Err(error) = refuse_in_memory(&config, &section.url.to_string()) {
                checked.note(&place, "workers", Status::Problem, error.message());
            }
            if let Err(error) = config.check_backend(&registry, name) {
                checked.note(&place, "pair", Status::Problem, error.message());
            }
            if !offline {
                reach(name, &place, &section.url, (&config, &registry), timeout, &mut checked).await;
            }
        }
        if let Err(error) = config.check_drift(&registry) {
            checked.note("memory.toml", "rules", Status::Problem, error.message());
        }
        if let Some(Err(error)) = config.audit_file().map(|file| JsonLines::check(&file)) {
            checked.note("[audit]", "file", Status::Problem, error.message());
        }
        match Jwt::check(&config, offline).await {
            Ok(Some(())) => {
                checked.note("[http.jwt]", "keys", Status::Ok, "the keys that `jwks` names were read");
            }
            Ok(None) => {}
            Err(error) => checked.note("[http.jwt]", "keys", Status::Problem, error.message()),
        }
        if let Some(section) = &config.file().definitions {
            for (list, name) in unknown(section, &config, &registry) {
                let message =
                    format!("`{list}` names `{name}`, which does not exist; correct it or leave it out");
                checked.note("[definitions]", "reference", Status::Problem, message);
            }
            let file = config.definitions_file()?;
            let there = if file.is_file() { "are in" } else { "will be in" };
            checked.note(
                "[definitions]",
                "definitions",
                Status::Ok,
                format!("definitions {there} {}", file.display()),
            );
        }
    }
    Ok(Some(checked))
}

/// What `[definitions]` allows but does not exist: the list, and the name in it.
fn unknown(
    section: &DefinitionsSection,
    config: &Config,
    registry: &Registry,
) -> impl Iterator<Item = (&'static str, String)> {
    let schemes =
        section.schemes.iter().filter(|name| registry.schemes().all(|known| known != name.as_str()));
    let embedders = section.embedders.iter().filter(|name| config.embedder(name).is_err());
    let fallbacks = section.fallbacks.iter().filter(|name| config.backend_url(name).is_err());
    let base = config.base_dir().unwrap_or_default();
    let paths = section.paths.iter().filter(move |path| !base.join(path).is_dir());
    let named = |list: &'static str| move |name: &String| (list, name.clone());
    (schemes.map(named("schemes")).chain(embedders.map(named("embedders"))))
        .chain(fallbacks.map(named("fallbacks")))
        .chain(paths.map(|path| ("paths", path.display().to_string())))
}

fn read(file: &Path) -> Result<String, Failure> {
    let failed = |error| Failure::File(format!("{} cannot be read", file.display()), error);
    let limit = u64::try_from(memory::config::MAX_CONFIG_BYTES).unwrap_or(u64::MAX);
    let mut text = String::new();
    std::fs::File::open(file)
        .and_then(|file| file.take(limit.saturating_add(1)).read_to_string(&mut text))
        .map_err(failed)?;
    Ok(text)
}

/// Checks that the variables and files a URL refers to exist. Does not read their contents.
fn references(place: &str, url: &BackendUrl, config: &Config, checked: &mut Checked) {
    let parameters = match url.parameters() {
        Ok(parameters) => parameters,
        Err(error) => return checked.note(place, "url", Status::Problem, error.message()),
    };
    for (name, value) in parameters {
        // A pattern depends on the tenant.
        if value.contains('{') {
            continue;
        }
        let (variable, file) = match (value.strip_prefix("env:"), value.strip_prefix("file:")) {
            (Some(variable), _) => (Some(variable), None),
            (None, Some(file)) => (None, Some(file)),
            (None, None) if name.ends_with("_env") => (Some(value.as_str()), None),
            (None, None) if name.ends_with("_file") || name.starts_with("sql.shared.") => {
                (None, Some(value.as_str()))
            }
            (None, None) => continue,
        };
        let there = variable
            .is_some_and(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
            || file.is_some_and(|file| config.base_dir().unwrap_or_default().join(file).is_file());
        if there {
            checked.note(place, "reference", Status::Ok, format!("the target of `{name}` exists"));
        } else {
            let message = format!("the target of `{name}` is missing or empty; set it, or name another");
            checked.note(place, "reference", Status::Problem, message);
        }
    }
}

/// The error of a server that did not answer in time.
pub(super) fn late(after: Duration) -> Error {
    let words = "start the server, or wait for what keeps it busy";
    Error::timeout(format!("no answer within {} s; {words}", after.as_secs()))
}

/// Asks a service to embed one word.
async fn embeds(place: &str, embedder: &dyn Embedder, timeout: Duration, checked: &mut Checked) {
    let asked = embedder.embed(&["memory"], EmbedRole::Query);
    match tokio::time::timeout(timeout, asked).await.unwrap_or_else(|_| Err(late(timeout))) {
        Ok(_) => checked.note(place, "server", Status::Ok, "it embeds"),
        Err(error) => checked.note(place, "server", Status::Problem, error.message()),
    }
}

/// Checks a server without writing to it.
async fn reach(
    name: &str,
    place: &str,
    url: &BackendUrl,
    (config, registry): (&Config, &Registry),
    timeout: Duration,
    checked: &mut Checked,
) {
    match url.scheme() {
        "sqlite" => sqlite(place, url, config, checked),
        "postgres" | "postgresql" => {
            let mut open = memory::OpenContext::default();
            open.base_dir = config.base_dir();
            let looked = async {
                let mut config = memory::postgres::config(url, &open)?;
                // So that the server's refusal is known before the time is up.
                let wait = u64::try_from(timeout.as_millis() / 4).unwrap_or(u64::MAX);
                config.wait_timeout_ms = config.wait_timeout_ms.min(wait);
                operator::doctor(&config).await
            };
            match tokio::time::timeout(timeout, looked).await.unwrap_or_else(|_| Err(late(timeout))) {
                Ok(report) => {
                    for finding in report.findings {
                        let status = match finding.status {
                            operator::Status::Ok => Status::Ok,
                            operator::Status::Warning => Status::Warning,
                            _ => Status::Problem,
                        };
                        checked.note(place, finding.check, status, finding.message);
                    }
                    if let Ok(Some(embedder)) = config.embedder_of(name)
                        && !report.vectors
                    {
                        let message = format!(
                            "it names the embedder `{embedder}`, and its database has no pgvector that its user may use; run \
                             `CREATE EXTENSION vector` in it, or leave out `embedder`"
                        );
                        checked.note(place, "pair", Status::Problem, message);
                    }
                    checked.exposures.insert(name.to_owned(), report.exposures);
                }
                Err(error) => checked.note(place, "server", Status::Problem, error.message()),
            }
        }
        scheme if scheme.starts_with("mem0+") || scheme.starts_with("mem9+") => {
            let asked = async { config.open_alone(registry, name).await?.health().await };
            match tokio::time::timeout(timeout, asked).await.unwrap_or_else(|_| Err(late(timeout))) {
                Ok(health) if health.status == HealthStatus::Ok => {
                    checked.note(place, "server", Status::Ok, health.message);
                }
                Ok(health) => checked.note(place, "server", Status::Problem, health.message),
                Err(error) => checked.note(place, "server", Status::Problem, error.message()),
            }
        }
        scheme => checked.note(
            place,
            "server",
            Status::Warning,
            format!("not opened, since opening `{scheme}` may write"),
        ),
    }
}

/// Checks a database file without opening it, since opening would create it.
fn sqlite(place: &str, url: &BackendUrl, config: &Config, checked: &mut Checked) {
    let path = match url.decoded_path() {
        Ok(path) if path == ":memory:" => {
            return checked.note(place, "file", Status::Ok, "in memory, lost with the process");
        }
        Ok(path) => config.base_dir().unwrap_or_default().join(path.strip_prefix("//").unwrap_or(&path)),
        Err(error) => return checked.note(place, "file", Status::Problem, error.message()),
    };
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    if let Err(why) = may_hold(folder) {
        return checked.note(place, "file", Status::Problem, why + "; name another file");
    }
    let mut header = Vec::new();
    match std::fs::File::open(&path).and_then(|file| file.take(16).read_to_end(&mut header)) {
        Ok(_) if header.is_empty() || header == *b"SQLite format 3\0" => {
            checked.note(place, "file", Status::Ok, format!("{} is there", path.display()));
        }
        Ok(_) => checked.note(
            place,
            "file",
            Status::Problem,
            format!("{} is not a SQLite database; name another file", path.display()),
        ),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            checked.note(place, "file", Status::Ok, format!("{} will be created", path.display()));
        }
        Err(error) => checked.note(
            place,
            "file",
            Status::Problem,
            format!("{} cannot be read: {error}", path.display()),
        ),
    }
}

/// Whether a store can be created in this folder, which is created with it if missing.
pub(super) fn may_hold(folder: &Path) -> Result<(), String> {
    let here = |folder: &Path| folder.as_os_str().is_empty();
    let there = folder.ancestors().find(|folder| folder.exists() || here(folder));
    let there = there.filter(|folder| !here(folder)).unwrap_or(Path::new("."));
    if !there.is_dir() {
        return Err(format!("{} is no folder", there.display()));
    }
    if !may_write(there) {
        return Err(format!("you may not create anything in {}", there.display()));
    }
    Ok(())
}

#[cfg(unix)]
pub(super) fn may_write(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

#[cfg(not(unix))]
pub(super) fn may_write(_path: &Path) -> bool {
    true
}
