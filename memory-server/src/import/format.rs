//! The import formats.

use clap::ValueEnum;
use serde::Serialize;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Format {
    /// Messages, one a line or in a JSON array: `{"role"|"speaker", "content"|"text", "time"?, "session"?}`
    Jsonl,
    /// LoCoMo dialogues, as in `locomo10.json`
    Locomo,
    /// Session files of Claude Code (`~/.claude/projects/*/*.jsonl`)
    ClaudeCode,
    /// `conversations.json` of a ChatGPT data export
    Chatgpt,
    /// `conversations.json`, `memories.json` and `projects.json` of a Claude data export
    Claude,
    /// Agent files of Letta (`.af`): memory blocks and messages
    Letta,
    /// Facts of mem0, as its API or `memory facts --all --json` lists them
    Mem0,
    /// Markdown: files as `memory serve --tools files` keeps them
    Markdown,
    /// A LangGraph store: its SQLite file, or rows of its PostgreSQL table as lines of JSON
    Langgraph,
    /// Entries as `memory export` writes them
    Records,
}

impl Format {
    /// The name on the command line, in keys and in source labels.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Locomo => "locomo",
            Self::ClaudeCode => "claude-code",
            Self::Chatgpt => "chatgpt",
            Self::Claude => "claude",
            Self::Letta => "letta",
            Self::Mem0 => "mem0",
            Self::Markdown => "markdown",
            Self::Langgraph => "langgraph",
            Self::Records => "records",
        }
    }
}
