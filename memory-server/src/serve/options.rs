//! Options of `serve`.

use clap::{Args, ValueEnum};
use memory_core::ScopeKind;

use crate::terminal::CredentialArgs;

/// Clients whose configuration format is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Client {
    /// `.mcp.json` in a project
    ClaudeCode,
    /// `claude_desktop_config.json`
    ClaudeDesktop,
    /// `.cursor/mcp.json` in a project, or `~/.cursor/mcp.json`
    Cursor,
    /// `.vscode/mcp.json` in a project
    Vscode,
}

#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// The agent whose memory is served [default: memory.toml's]
    #[arg(long, value_name = "ID")]
    pub(super) agent: Option<String>,
    /// The user whose memory may be used [default: memory.toml's, else none]
    #[arg(long, value_name = "ID")]
    pub(super) user: Option<String>,
    /// Serve only these kinds of scope [default: memory.toml's rules; without memory.toml those named here, and run]
    #[arg(long, value_name = "KIND,…", value_delimiter = ',')]
    pub(super) scopes: Option<Vec<ScopeKind>>,
    /// Let the client's `_meta` name the user and the run of each call: for a host that serves several people
    #[arg(long)]
    pub(super) trust_meta: bool,
    #[command(flatten)]
    pub(super) credentials: CredentialArgs,
    /// Print the configuration for a client, and exit
    #[arg(long, value_name = "CLIENT")]
    pub(super) print_config: Option<Client>,
}
