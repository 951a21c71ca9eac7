//! What the URLs of services have in common: `NAME+https://host[:port][/path]?name=value`, with keys by reference.

use std::path::{Path, PathBuf};

#[cfg(any(feature = "mem0", feature = "mem9"))]
use memory_core::{Capabilities, EmbeddingOwner};
use memory_core::{Error, ErrorKind, Result};
use memory_http::{EgressPolicy, Endpoint};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::factory::OpenContext;
use crate::url::BackendUrl;

/// The parameter for the key shared by all tenants.
const KEY: &str = "api_key";
/// The parameter for the pattern of tenants' key references.
const KEY_PATTERN: &str = "tenant_key";
/// Prefix of the parameters for one tenant's key.
const TENANT_KEY: &str = "tenant_keys.";

/// The type of a parameter's value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Text,
    Number,
    #[cfg_attr(not(feature = "mem9"), allow(dead_code, reason = "used only by mem9"))]
    Switch,
    /// A path, relative to the folder of `memory.toml`.
    File,
    #[cfg_attr(
        not(any(feature = "mem0", feature = "mem9")),
        allow(dead_code, reason = "not used by servers")
    )]
    OneOf(&'static [&'static str]),
}

/// Parameters of every memory service.
#[cfg(any(feature = "mem0", feature = "mem9"))]
pub(crate) const COMMON: &[(&str, Kind)] = &[
    ("tenancy", Kind::OneOf(&["shared_key", "shared_key_with_prefix", "key_per_tenant"])),
    ("api_key_env", Kind::Text),
    ("api_key_file", Kind::File),
    ("tenant_key_env", Kind::Text),
    ("tenant_key_file", Kind::File),
    ("prefix", Kind::Text),
    ("run_credential", Kind::Text),
    ("ca_file", Kind::File),
    ("timeout_ms", Kind::Number),
    ("add_timeout_ms", Kind::Number),
    ("forget_timeout_ms", Kind::Number),
    ("max_reply_bytes", Kind::Number),
];

/// A parsed service URL.
#[derive(Debug)]
pub(crate) struct Remote {
    service: &'static str,
    #[cfg_attr(not(feature = "mem0"), allow(dead_code, reason = "used only by mem0"))]
    pub(crate) host: String,
    pub(crate) fields: Map<String, Value>,
}

impl Remote {
    /// Parses the URL of a service that has these parameters. Values are never quoted in errors: one may be a misplaced
    /// key.
    pub(crate) fn read(
        service: &'static str,
        known: &[&[(&str, Kind)]],
        url: &BackendUrl,
        context: &OpenContext,
    ) -> Result<Self> {
        let (place, base_url) = base_url(service, url)?;
        let host = place.origin().host().to_owned();
        let mut fields = Map::new();
        fields.insert("base_url".to_owned(), Value::String(base_url));
        let base_dir = context.base_dir.as_deref();
        let mut tenants = Map::new();
        let find = |name: &str| known.iter().copied().flatten().find(|(known, _)| *known == name);
        let has_tenants = find("tenancy").is_some();
        for (name, text) in url.parameters()? {
            if name == KEY || (has_tenants && name == KEY_PATTERN) {
                for (kind, place) in reference(&name, &text, base_dir)? {
                    put(service, &mut fields, format!("{name}_{kind}"), place)?;
                }
            } else if let Some(tenant) = name.strip_prefix(TENANT_KEY).filter(|_| has_tenants) {
                tenants.insert(tenant.to_owned(), Value::Object(reference(&name, &text, base_dir)?));
            } else {
                let Some((_, kind)) = find(&name) else { return Err(unknown(service, known, &name)) };
                let value = value(service, &name, &text, *kind, base_dir)?;
                put(service, &mut fields, name, value)?;
            }
        }
        // Tenant keys imply the tenancy. One key for all must be requested explicitly, unless it is the default.
        if !tenants.is_empty() || fields.keys().any(|name| name.starts_with(KEY_PATTERN)) {
            fields.entry("tenancy").or_insert_with(|| json!("key_per_tenant"));
        }
        if !tenants.is_empty() {
            fields.insert("tenant_keys".to_owned(), Value::Object(tenants));
        }
        Ok(Self { service, host, fields })
    }

    /// Converts the fields into options.
    pub(crate) fn options<T: DeserializeOwned>(self) -> Result<T> {
        serde_json::from_value(Value::Object(self.fields)).map_err(|error| {
            Error::internal(format!("the parameters of the {} URL were parsed incorrectly", self.service))
                .with_source(error)
        })
    }
}

/// What may be reached: public addresses over https, and hosts that the operator lists.
pub(crate) fn policy(context: &OpenContext) -> Result<EgressPolicy> {
    context.allowed_hosts.iter().try_fold(EgressPolicy::new(), |policy, host| policy.allow_host(host))
}

/// What every memory service can do.
#[cfg(any(feature = "mem0", feature = "mem9"))]
pub(crate) fn facts() -> Capabilities {
    let mut capabilities = Capabilities::none();
    capabilities.memory_layer = true;
    capabilities.embedding = EmbeddingOwner::Remote;
    capabilities
}

/// If a host was refused, adds where to list it.
pub(crate) fn with_advice(error: Error) -> Error {
    if error.kind() != ErrorKind::EgressDenied {
        return error;
    }
    let message = format!(
        "{}: in `allow` under [egress] of memory.toml, with --allow-host of the command line, or in a program with \
         `Registry::with_allowed_hosts`",
        error.message()
    );
    error.retold(message)
}

/// Sets a field, which must not be set yet: `api_key=env:NAME` and `api_key_env=NAME` mean the same.
fn put(service: &str, fields: &mut Map<String, Value>, name: String, value: Value) -> Result<()> {
    if fields.contains_key(&name) {
        return Err(Error::invalid(format!("the {service} URL sets `{name}` in two ways; keep one"))
            .with_detail("parameter", name));
    }
    fields.insert(name, value);
    Ok(())
}

fn base_url(service: &str, url: &BackendUrl) -> Result<(Endpoint, String)> {
    let wrong = |why: &str| {
        Error::invalid(format!(
            "the {service} URL is not accepted: {why}; write {service}+https://host[/path]?name=value"
        ))
    };
    let (_, transport) = url.scheme().split_once('+').unwrap_or_default();
    let rest = url.expose_rest();
    if rest.contains('#') {
        return Err(wrong("it has a `#`"));
    }
    let place = rest.split_once('?').map_or(rest, |(place, _)| place);
    if !place.starts_with("//") || place == "//" {
        return Err(wrong("it names no host"));
    }
    let base = format!("{transport}:{place}");
    let endpoint = Endpoint::parse(&base).map_err(|error| {
        Error::new(error.kind(), format!("the {service} URL is not accepted: {}", error.message()))
            .with_source(error)
    })?;
    Ok((endpoint, base))
}

/// `env:NAME` or `file:PATH`.
fn reference(name: &str, text: &str, base_dir: Option<&Path>) -> Result<Map<String, Value>> {
    let (kind, place) = match text.split_once(':') {
        Some(("env", variable)) if !variable.is_empty() => ("env", Value::String(variable.to_owned())),
        Some(("file", path)) if !path.is_empty() => ("file", file(name, path, base_dir)?),
        _ => {
            return Err(Error::invalid(format!(
                "the parameter `{name}` takes a reference to the key, never the key itself: write `{name}=env:VARIABLE` or `{name}=file:PATH`"
            ))
            .with_detail("parameter", name));
        }
    };
    Ok(Map::from_iter([(kind.to_owned(), place)]))
}

fn file(name: &str, path: &str, base_dir: Option<&Path>) -> Result<Value> {
    let path = base_dir.map_or_else(|| PathBuf::from(path), |base| base.join(path));
    path.into_os_string()
        .into_string()
        .map(Value::String)
        .map_err(|_| Error::invalid(format!("the folder that `{name}` is relative to is not UTF-8")))
}

fn value(service: &str, name: &str, text: &str, kind: Kind, base_dir: Option<&Path>) -> Result<Value> {
    let read = match kind {
        Kind::Text => Some(Value::String(text.to_owned())),
        Kind::Number => text.parse::<u64>().ok().map(Value::from),
        Kind::Switch => text.parse::<bool>().ok().map(Value::from),
        Kind::File => return file(name, text, base_dir),
        Kind::OneOf(words) => words.contains(&text).then(|| Value::String(text.to_owned())),
    };
    read.ok_or_else(|| {
        let wanted = match kind {
            Kind::Number => "a whole number".to_owned(),
            Kind::Switch => "`true` or `false`".to_owned(),
            Kind::OneOf(words) => format!("`{}`", words.join("` or `")),
            Kind::Text | Kind::File => "a text".to_owned(),
        };
        Error::invalid(format!("the parameter `{name}` of the {service} URL must be {wanted}"))
            .with_detail("parameter", name)
    })
}

fn unknown(service: &str, known: &[&[(&str, Kind)]], name: &str) -> Error {
    let listed = known.iter().copied().flatten().map(|(name, _)| *name);
    let tenants = known.iter().copied().flatten().any(|(name, _)| *name == "tenancy");
    let of_tenants = [KEY_PATTERN, "tenant_keys.TENANT"].into_iter().filter(|_| tenants);
    let known: Vec<&str> = [KEY].into_iter().chain(of_tenants).chain(listed).collect();
    Error::invalid(format!("the {service} URL has no parameter `{name}`; there are: {}", known.join(", ")))
        .with_detail("parameter", name)
        .with_detail("parameters", known)
}
