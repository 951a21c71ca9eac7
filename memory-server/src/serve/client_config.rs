//! The configuration to paste into a client.

use std::collections::BTreeMap;

use memory::{BackendUrl, Config};
use memory_core::{Error, Result};
use serde::Serialize;
use serde_json::json;

use super::identity::no_agent;
use super::options::{Client, ServeArgs};
use crate::terminal::{Global, sqlite_url};

/// The JSON text that makes `client` start this program with these options. Clients start servers from other folders,
/// so every path in it is absolute.
pub(super) fn for_client(client: Client, global: &Global, args: &ServeArgs) -> Result<String> {
    let program = std::env::current_exe().map_err(|error| {
        Error::invalid("the path of this program is unknown; write the configuration by hand")
            .with_source(error)
    })?;
    let program = text(&program)?;
    let arguments = arguments(global, args)?;
    serde_json::to_string_pretty(&document(client, &program, &arguments))
        .map_err(|error| Error::internal("the configuration cannot be serialized as JSON").with_source(error))
}

/// The JSON text that makes `client` connect to a server at `url`, with a token from its environment or entered by the
/// user.
pub(crate) fn over_http(client: Client, url: &str) -> Result<String> {
    let headers = |token: &str| json!({"Authorization": format!("Bearer {token}")});
    let url = format!("{url}/mcp");
    let document = match client {
        Client::ClaudeCode => {
            json!({"mcpServers": {"memory": {"type": "http", "url": url, "headers": headers("${MEMORY_TOKEN}")}}})
        }
        Client::Cursor => {
            json!({"mcpServers": {"memory": {"url": url, "headers": headers("${env:MEMORY_TOKEN}")}}})
        }
        Client::Vscode => json!({
            "inputs": [{
                "type": "promptString", "id": "memory-token", "description": "Token for memory", "password": true,
            }],
            "servers": {"memory": {"type": "http", "url": url, "headers": headers("${input:memory-token}")}},
        }),
        Client::ClaudeDesktop => {
            return Err(Error::invalid(
                "the file of Claude Desktop starts programs, and names no server over HTTP; leave out --http",
            ));
        }
    };
    serde_json::to_string_pretty(&document)
        .map_err(|error| Error::internal("the configuration cannot be serialized as JSON").with_source(error))
}

/// How to start the server.
#[derive(Serialize)]
struct Server<'a> {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    transport: Option<&'static str>,
    command: &'a str,
    args: &'a [String],
}

/// Servers by name, in the section where the client looks for them.
type Document<'a> = BTreeMap<&'static str, BTreeMap<&'static str, Server<'a>>>;

fn document<'a>(client: Client, program: &'a str, arguments: &'a [String]) -> Document<'a> {
    let (section, transport) = match client {
        Client::ClaudeCode | Client::Cursor => ("mcpServers", Some("stdio")),
        Client::ClaudeDesktop => ("mcpServers", None),
        Client::Vscode => ("servers", Some("stdio")),
    };
    let server = Server { transport, command: program, args: arguments };
    BTreeMap::from([(section, BTreeMap::from([("memory", server)]))])
}

/// The command line of `serve`, without options that only print.
fn arguments(global: &Global, args: &ServeArgs) -> Result<Vec<String>> {
    let mut arguments = vec!["serve".to_owned()];
    let mut option = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
    if let Some(url) = global.url.as_ref().filter(|url| !url.is_empty()) {
        option("url", absolute_url(url)?);
    }
    if let Some(backend) = global.backend.as_ref().filter(|name| !name.is_empty()) {
        option("backend", backend.clone());
    }
    for host in global.allow_hosts.iter().filter(|host| !host.is_empty()) {
        option("allow-host", host.clone());
    }
    for credential in args.credentials.as_given() {
        option("credential", absolute_credential(credential)?);
    }
    // From the client's folder, the configuration found from here may not be found.
    let config = Config::discover(global.config.as_deref())?;
    if let Some(config) = &config {
        option("config", text(&absolute(config.origin())?)?);
    }
    let configured = config.as_ref().is_some_and(|config| config.file().default.agent.is_some());
    if args.offer.agent.is_none() && !configured {
        return Err(no_agent());
    }
    if let Some(embedder) = global.embedder.as_ref().filter(|name| !name.is_empty()) {
        option("embedder", absolute_embedder(embedder)?);
    }
    for (name, value) in
        [("tenant", &global.tenant), ("agent", &args.offer.agent), ("user", &args.offer.user)]
    {
        if let Some(value) = value {
            option(name, value.clone());
        }
    }
    if let Some(kinds) = &args.offer.scopes {
        let kinds: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
        option("scopes", kinds.join(","));
    }
    if let Some(tools) = &args.offer.tools {
        let names: Vec<&str> = tools.iter().map(|tool| tool.as_str()).collect();
        option("tools", names.join(","));
    }
    if args.trust_meta {
        arguments.push("--trust-meta".to_owned());
    }
    Ok(arguments)
}

/// Makes the path in a SQLite URL absolute; other URLs stay.
fn absolute_url(url: &str) -> Result<String> {
    let parsed = BackendUrl::parse(url)?;
    let path = match parsed.scheme() {
        "sqlite" => parsed.decoded_path()?,
        _ => return Ok(url.to_owned()),
    };
    if path == ":memory:" || path.starts_with('/') {
        return Ok(url.to_owned());
    }
    let options = url.split_once('?').map(|(_, options)| format!("?{options}")).unwrap_or_default();
    Ok(sqlite_url(&absolute(path.as_ref())?)? + &options)
}

/// Makes the folder of a local model absolute; a name stays.
fn absolute_embedder(embedder: &str) -> Result<String> {
    match embedder.strip_prefix("static:") {
        Some(folder) => Ok(format!("static:{}", text(&absolute(folder.as_ref())?)?)),
        None => Ok(embedder.to_owned()),
    }
}

/// Makes the path of a key file absolute; a variable stays.
fn absolute_credential(credential: &str) -> Result<String> {
    match credential.split_once("=file:") {
        Some((name, path)) => Ok(format!("{name}=file:{}", text(&absolute(path.as_ref())?)?)),
        None => Ok(credential.to_owned()),
    }
}

fn absolute(path: &std::path::Path) -> Result<std::path::PathBuf> {
    std::path::absolute(path).map_err(|error| {
        Error::invalid("the working directory is unknown; give absolute paths").with_source(error)
    })
}

fn text(path: &std::path::Path) -> Result<String> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| Error::invalid("a path is not UTF-8, which JSON cannot hold; use one that is UTF-8"))
}
