//! Options of `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use memory::OfferedTool;
use memory_core::ScopeKind;

use crate::terminal::CredentialArgs;

/// Clients whose configuration format is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Client {
    /// `.mcp.json` in a project
    ClaudeCode,
    /// `claude_desktop_config.json`
    ClaudeDesktop,
    /// `.cursor/mcp.json` in a project, or `~/.cursor/mcp.json`
    Cursor,
    /// `.vscode/mcp.json` in a project
    Vscode,
}

impl Client {
    /// The client, and where its configuration goes.
    pub(crate) const fn place(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code, put this into .mcp.json of a project",
            Self::ClaudeDesktop => "Claude Desktop, put this into claude_desktop_config.json",
            Self::Cursor => "Cursor, put this into .cursor/mcp.json of a project, or ~/.cursor/mcp.json",
            Self::Vscode => "VS Code, put this into .vscode/mcp.json of a project",
        }
    }
}

/// A tool to offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolName {
    /// The Memory tool: `memory`
    Memory,
    /// Files under /memories, with the commands of Anthropic's memory tool: `memory_files`
    Files,
}

impl ToolName {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Files => "files",
        }
    }

    pub(super) const fn offered(self) -> OfferedTool {
        match self {
            Self::Memory => OfferedTool::Memory,
            Self::Files => OfferedTool::Files,
        }
    }
}

/// Whose memory is offered, and by which tools.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct OfferArgs {
    /// The agent whose memory is served [default: memory.toml's]
    #[arg(long, value_name = "ID")]
    pub(super) agent: Option<String>,
    /// The user whose memory may be used [default: memory.toml's, else none]
    #[arg(long, value_name = "ID")]
    pub(super) user: Option<String>,
    /// Serve only these kinds of scope [default: memory.toml's rules; without memory.toml those named here, and run]
    #[arg(long, value_name = "KIND,…", value_delimiter = ',')]
    pub(super) scopes: Option<Vec<ScopeKind>>,
    /// Offer these tools [default: memory.toml's, else memory]
    #[arg(long, value_name = "TOOL,…", value_delimiter = ',')]
    pub(super) tools: Option<Vec<ToolName>>,
}

#[derive(Args, Debug, Default)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(super) offer: OfferArgs,
    /// Let the client's `_meta` name the user and the run of each call: for a host that serves several people
    #[arg(long)]
    pub(super) trust_meta: bool,
    #[command(flatten)]
    pub(crate) credentials: CredentialArgs,
    /// Print the configuration for a client, and exit
    #[arg(long, value_name = "CLIENT")]
    pub(crate) print_config: Option<Client>,
    #[command(flatten)]
    pub(crate) http: HttpArgs,
}

/// Options of serving over HTTP.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct HttpArgs {
    /// Serve over HTTP at this address instead, as 127.0.0.1:7077; port 0 takes a free one
    #[arg(long = "http", value_name = "ADDR", value_parser = address, conflicts_with_all = ["agent", "user", "scopes", "tools", "trust_meta"])]
    pub(crate) http: Option<SocketAddr>,
    /// The certificate chain for TLS, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_key", requires = "http")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its key, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// A proxy in front of this server ends TLS: other addresses than loopback may be listened on, and any Host is accepted
    #[arg(long, requires = "http", conflicts_with = "tls_cert")]
    pub(crate) behind_proxy: bool,
    /// The file of tokens [default: memory.toml's, else memory.tokens.jsonl beside it; without a memory.toml, in the data
    /// folder]
    #[arg(long, value_name = "FILE", requires = "http")]
    pub(crate) tokens: Option<PathBuf>,
    /// At the end, go on serving for so long with /readyz at 503, so that balancers send nothing more; at most 300
    #[arg(long, value_name = "SECONDS", default_value_t = 0, hide_default_value = true, requires = "http",
          value_parser = clap::value_parser!(u64).range(..=300))]
    pub(crate) drain: u64,
}

/// An address to listen at; `localhost` is 127.0.0.1.
fn address(text: &str) -> Result<SocketAddr, &'static str> {
    let numeric = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    numeric.as_deref().unwrap_or(text).parse().map_err(|_| "give IP:PORT, as 127.0.0.1:7077 or [::1]:7077")
}

impl HttpArgs {
    /// Where clients reach a server bound to this address. `HOST` stands for a name that only the operator knows: that
    /// of the machine, or of the proxy that ends TLS.
    pub(crate) fn url(&self, bound: SocketAddr) -> String {
        let scheme = if self.tls_cert.is_some() { "https" } else { "http" };
        match bound.ip() {
            ip if ip.is_unspecified() => format!("{scheme}://HOST:{}", bound.port()),
            ip if ip.is_loopback() && self.behind_proxy => "https://HOST".to_owned(),
            _ => format!("{scheme}://{bound}"),
        }
    }
}
