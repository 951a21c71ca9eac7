//! What a definition may reach: only what the operator lists under `[definitions]`.

use std::path::{Component, Path, PathBuf};

use memory_core::{Error, Result};

use super::content::Definition;
use crate::config::real;
use crate::config::sections::definitions::DefinitionsSection;
use crate::url::BackendUrl;

/// Parameters with plain values, which cannot reach anything.
const PLAIN: &[&str] = &[
    "access_entries",
    "application_name",
    "channel_binding",
    "checkpoint_pages",
    "connect_timeout",
    "durability",
    "exports",
    "flavour",
    "index_vectors_from",
    "pool_size",
    "prefix",
    "prepared",
    "preview",
    "queue_operations",
    "ranking",
    "readers",
    "run_credential",
    "schema",
    "sql.checkpoint_pages",
    "sql.dumps",
    "sql.handles",
    "sql.inline",
    "sql.max_descriptors",
    "sql.max_savepoints",
    "sql.max_transactions",
    "sql.readers_per_scope",
    "sql.workers",
    "sslmode",
    "sync",
    "tenancy",
    "workers",
];
/// Suffixes of such parameters.
const PLAIN_ENDS: &[&str] = &["_ms", "_bytes", "_kib"];
/// Parameters with a path, besides `…_file` and `sql.shared.…`.
const PATHS: &[&str] = &["sql.root", "sslrootcert"];

/// The operator's lists, and the base of their paths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowed<'a> {
    pub(crate) section: &'a DefinitionsSection,
    pub(crate) base_dir: Option<&'a Path>,
}

impl Allowed<'_> {
    /// Refuses anything not listed. The error says what it is, but quotes no value that may be a misplaced secret.
    pub(crate) fn check(&self, definition: &Definition) -> Result<BackendUrl> {
        for (name, list, what) in [
            (&definition.embedder, &self.section.embedders, "embedders"),
            (&definition.fallback, &self.section.fallbacks, "fallbacks"),
        ] {
            if name.as_ref().is_some_and(|name| !list.contains(name)) {
                return Err(denied(what, "the name"));
            }
        }
        let url = definition.whole_url()?;
        if !self.section.schemes.iter().any(|scheme| scheme == url.scheme()) {
            return Err(denied("schemes", "the scheme of the URL"));
        }
        match url.expose_rest().strip_prefix("//") {
            Some(rest) if !rest.starts_with('/') => self.check_authority(url.scheme(), rest)?,
            _ if url.scheme() == "sqlite" => self.check_file(&url)?,
            _ => {
                return Err(Error::invalid(
                    "a definition names its host in the URL, as in postgres://user@host/database",
                ));
            }
        }
        for (name, value) in url.parameters()? {
            self.check_parameter(&name, &value)?;
        }
        Ok(url)
    }

    fn check_authority(&self, scheme: &str, rest: &str) -> Result<()> {
        let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
        let authority = rest.get(..end).unwrap_or_default();
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (user, hosts),
            None => ("", authority),
        };
        if user.contains(':') || rest.get(end..).is_some_and(|rest| rest.contains('@')) {
            return Err(Error::invalid(
                "a definition must not contain a password; name a variable or file, for example password_env=NAME",
            ));
        }
        let default = match scheme {
            "postgres" | "postgresql" => Some("5432"),
            other if other.ends_with("https") => Some("443"),
            other if other.ends_with("http") => Some("80"),
            _ => None,
        };
        for host in hosts.split(',') {
            let host = host.to_ascii_lowercase();
            let has_port = host
                .rsplit_once(':')
                .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
            let whole = match default {
                Some(port) if !has_port => format!("{host}:{port}"),
                _ => host,
            };
            if !self.section.hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(&whole)) {
                return Err(denied("hosts", "a host of the URL, with its port,"));
            }
        }
        Ok(())
    }

    fn check_file(&self, url: &BackendUrl) -> Result<()> {
        let path = url.decoded_path()?;
        if path == ":memory:" {
            return Ok(());
        }
        let path = path.strip_prefix("//").unwrap_or(&path);
        self.check_path(path)
    }

    fn check_parameter(&self, name: &str, value: &str) -> Result<()> {
        let is_key = matches!(name, "api_key" | "tenant_key") || name.starts_with("tenant_keys.");
        if is_key {
            return match (value.strip_prefix("env:"), value.strip_prefix("file:")) {
                (Some(variable), _) => self.check_variable(name, variable),
                (None, Some(path)) => self.check_path(path),
                (None, None) => Err(Error::invalid(format!(
                    "`{name}` must be a reference, {name}=env:NAME or {name}=file:PATH; a definition must not contain a key"
                ))),
            };
        }
        if name.ends_with("_env") {
            return self.check_variable(name, value);
        }
        if name.ends_with("_file") || name.starts_with("sql.shared.") || PATHS.contains(&name) {
            return self.check_path(value);
        }
        let word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'~' | b'{' | b'}');
        if (PLAIN.contains(&name) || PLAIN_ENDS.iter().any(|end| name.ends_with(end)))
            && value.len() <= 128
            && value.bytes().all(word)
        {
            return Ok(());
        }
        Err(Error::forbidden(
            format!(
                "`{name}` is not allowed in a definition, or its value is not a plain word; ask the operator to put the \
                 backend under [backends] of memory.toml"
            ),
        )
        .with_detail("parameter", name))
    }

    fn check_variable(&self, name: &str, variable: &str) -> Result<()> {
        let allowed = |pattern: &String| match pattern.strip_suffix('*') {
            Some(start) => variable.starts_with(start),
            None => pattern == variable,
        };
        if self.section.env.iter().any(allowed) {
            Ok(())
        } else {
            Err(denied("env", &format!("the variable that `{name}` names")))
        }
    }

    /// Whether a file is in one of the allowed folders, after resolving links.
    fn check_path(&self, text: &str) -> Result<()> {
        let path = self.based(Path::new(text));
        let climbs = Path::new(text).components().any(|part| matches!(part, Component::ParentDir));
        let real = if climbs { None } else { real(&path) };
        let allowed = real.is_some_and(|real| {
            let folders = self.section.paths.iter().filter_map(|folder| real_folder(&self.based(folder)));
            folders.into_iter().any(|folder| real.starts_with(&folder) && real != folder)
        });
        if allowed { Ok(()) } else { Err(denied("paths", "a file")) }
    }

    fn based(&self, path: &Path) -> PathBuf {
        match self.base_dir {
            Some(base) => base.join(path),
            None => Path::new(".").join(path),
        }
    }
}

fn real_folder(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().filter(|path| path.is_dir())
}

fn denied(list: &'static str, what: &str) -> Error {
    Error::forbidden(format!(
        "{what} is not in `{list}` under [definitions] of memory.toml; ask the operator to add it"
    ))
    .with_detail("list", list)
}
