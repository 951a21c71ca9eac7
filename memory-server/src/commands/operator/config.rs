//! `config`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use memory::config::Discovery;
use memory_core::Scope;
use serde::Serialize;

use crate::terminal::{Context, Exit, Failure, Origin, Out, Settings};

/// What `config init` writes.
const TEMPLATE: &str = include_str!("memory.toml");

#[derive(Args, Debug)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Write a commented memory.toml, and say which store commands use from now on; an existing file is never overwritten
    Init {
        /// Where [default: --config, else MEMORY_CONFIG, else memory.toml]
        file: Option<PathBuf>,
    },
    /// Report problems: unknown keys, broken references, servers that do not answer, and on
    /// PostgreSQL what a scope's role can still see. Opens nothing that writes
    Check {
        /// Time limit for each server
        #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
        timeout: u64,
        /// Contact no server
        #[arg(long)]
        offline: bool,
    },
}

#[derive(Serialize)]
struct Setting<T> {
    value: T,
    from: Origin,
}

#[derive(Serialize)]
struct Shown {
    file: Option<String>,
    url: Setting<String>,
    embedder: Option<Setting<String>>,
    tenant: Setting<String>,
    scope: Setting<Scope>,
    backends: BTreeMap<String, String>,
    /// Kind by name.
    embedders: BTreeMap<String, &'static str>,
    /// The language model and its host.
    chat_model: Option<String>,
    agents: Vec<String>,
    /// The largest scope that a snapshot includes, in bytes; null for any.
    snapshot_max_scope_bytes: Option<u64>,
    warnings: Vec<String>,
}

pub(crate) async fn run(context: &Context, args: &ConfigArgs, out: &mut Out) -> Result<Exit, Failure> {
    match &args.action {
        Some(Action::Check { timeout, offline }) => {
            super::config_check::run(context, Duration::from_secs(*timeout), *offline, out).await
        }
        Some(Action::Init { file }) => init(context, &file_to_write(context, file.as_ref()), out),
        None => show(&context.settings()?, out),
    }
}

fn show(settings: &Settings, out: &mut Out) -> Result<Exit, Failure> {
    let config = settings.config.as_ref();
    let file = config.map(memory::Config::file);
    let shown = Shown {
        file: config.map(|config| config.origin().display().to_string()),
        url: Setting { value: settings.shown_url()?, from: settings.store_origin },
        embedder: settings.shown_embedder()?.map(|(value, from)| Setting { value, from }),
        tenant: Setting { value: settings.tenant.to_string(), from: settings.tenant_origin },
        scope: Setting { value: settings.scope.clone(), from: settings.scope_origin },
        backends: file
            .iter()
            .flat_map(|file| &file.backends)
            .map(|(name, section)| (name.clone(), section.url.to_string()))
            .collect(),
        embedders: file
            .iter()
            .flat_map(|file| &file.embedders)
            .map(|(name, section)| (name.clone(), section.kind()))
            .collect(),
        chat_model: file.and_then(|file| file.models.chat.as_ref()).map(memory::config::ChatSection::shown),
        agents: file.iter().flat_map(|file| file.agents.keys().cloned()).collect(),
        snapshot_max_scope_bytes: file.and_then(|file| file.snapshot.max_scope_bytes),
        warnings: config.map(memory::Config::warnings).unwrap_or_default(),
    };
    if out.is_json() {
        out.document(&shown)?;
        return Ok(Exit::Ok);
    }
    let rows = [
        ["file".to_owned(), String::new(), shown.file.unwrap_or_else(|| "none".to_owned())],
        ["url".to_owned(), shown.url.from.as_str().to_owned(), shown.url.value],
        match shown.embedder {
            Some(Setting { value, from }) => ["embedder".to_owned(), from.as_str().to_owned(), value],
            None => ["embedder".to_owned(), String::new(), "none: search is by words".to_owned()],
        },
        ["tenant".to_owned(), shown.tenant.from.as_str().to_owned(), shown.tenant.value],
        ["scope".to_owned(), shown.scope.from.as_str().to_owned(), {
            let scope = shown.scope.value;
            format!("{}:{}", scope.kind, scope.id)
        }],
    ];
    let backends = shown
        .backends
        .into_iter()
        .map(|(name, url)| [format!("backend {name}"), "memory.toml".to_owned(), url]);
    let embedders = shown
        .embedders
        .into_iter()
        .map(|(name, kind)| [format!("embedder {name}"), "memory.toml".to_owned(), kind.to_owned()]);
    let agents = shown.agents.into_iter().map(|name| ["agent".to_owned(), "memory.toml".to_owned(), name]);
    let snapshots = shown.snapshot_max_scope_bytes.map(|bytes| {
        ["snapshot".to_owned(), "memory.toml".to_owned(), format!("scopes of at most {bytes} bytes")]
    });
    let model = shown.chat_model.map(|model| ["chat model".to_owned(), "memory.toml".to_owned(), model]);
    let rows: Vec<[String; 3]> = rows
        .into_iter()
        .chain(backends)
        .chain(embedders)
        .chain(model)
        .chain(agents)
        .chain(snapshots)
        .collect();
    out.table(["SETTING", "FROM", "VALUE"], &rows)?;
    for warning in shown.warnings {
        crate::terminal::note(&format!("warning: {warning}"));
    }
    Ok(Exit::Ok)
}

/// The store that commands use, without secrets; `None` if it cannot be determined.
fn used(context: &Context) -> Option<String> {
    context.settings().and_then(|settings| settings.shown_url()).ok()
}

fn init(context: &Context, file: &Path, out: &mut Out) -> Result<Exit, Failure> {
    let written = write_template(context, file)?;
    if !written.written {
        let there = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
        return Err(Failure::File(format!("{} cannot be written", file.display()), there));
    }
    match out.is_json() {
        true => out.document(&written)?,
        false => written.tell(out)?,
    }
    Ok(Exit::Ok)
}

/// What happened to a configuration and to the store that commands use.
#[derive(Serialize)]
pub(super) struct Written {
    file: String,
    /// Whether it was written; otherwise it already existed.
    written: bool,
    store_before: Option<String>,
    store: Option<String>,
}

/// The configuration to write: the one that commands would read.
pub(super) fn file_to_write(context: &Context, typed: Option<&PathBuf>) -> PathBuf {
    let first =
        || Discovery::from_environment(context.global().config.as_deref()).candidates().swap_remove(0);
    typed.cloned().unwrap_or_else(first)
}

/// Writes a commented memory.toml, if there is no such file.
pub(super) fn write_template(context: &Context, file: &Path) -> Result<Written, Failure> {
    let store_before = used(context);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // URLs may carry passwords.
        options.mode(0o600);
    }
    let written = options
        .open(file)
        .and_then(|mut file| file.write_all(TEMPLATE.as_bytes()).and_then(|()| file.sync_all()));
    let written = match written {
        Ok(()) => true,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(Failure::File(format!("{} cannot be written", file.display()), error)),
    };
    Ok(Written { file: file.display().to_string(), written, store_before, store: used(context) })
}

impl Written {
    pub(super) fn tell(&self, out: &mut Out) -> Result<(), Failure> {
        let Self { file, written, store_before, store } = self;
        match written {
            true => out.line(format!("written: {file}"))?,
            false => out.line(format!("{file} is there already, and stays as it is"))?,
        }
        match store {
            Some(after) if store_before.as_ref() != Some(after) => {
                let Some(was) = store_before.as_deref().filter(|was| !is_yet_to_be_created(was)) else {
                    return out.line(format!("commands in this folder will keep their store at {after}"));
                };
                out.line(format!("the store of commands in this folder was {was}"))?;
                out.line(format!("from now on it is {after}"))?;
                out.line(format!(
                    "to keep the former, set it as `url` of its backend in {file}, or copy it: memory migrate {was} {after}"
                ))
            }
            Some(after) if *written => out.line(format!("commands in this folder still use {after}")),
            Some(after) => out.line(format!("commands in this folder use {after}")),
            None => Ok(()),
        }
    }
}

fn is_yet_to_be_created(url: &str) -> bool {
    url.strip_prefix("sqlite:").is_some_and(|file| !Path::new(file).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_a_valid_configuration_without_warnings() {
        let config = memory::Config::parse(TEMPLATE, "memory.toml").unwrap();
        assert_eq!(config.default_backend(), Some("local"));
        assert_eq!(config.warnings(), Vec::<String>::new());
    }
}
