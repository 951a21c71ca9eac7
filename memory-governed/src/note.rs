//! What an agent or a tool wrote down, before anyone has decided what it means.

use memory_core::Timestamp;
use serde::{Deserialize, Serialize};

/// Where a note came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteSource {
    /// An agent's own words.
    Agent,
    /// The words of a tool or page: they can propose, but never end a row.
    ToolResult,
}

/// How far the host trusts a writer, from the host's configuration, never from a note.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Text from outside: tools, pages, other parties.
    Untrusted,
    /// An agent.
    #[default]
    Agent,
    /// An agent that may end what others began.
    Authority,
    /// A person.
    Person,
}

/// The writer, as known to the host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Actor {
    /// The agent's name.
    pub agent: String,
    /// The run it is in.
    pub run: String,
    /// How far it is trusted.
    pub trust: Trust,
}

/// A note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Its id, unique in the shared space.
    pub id: String,
    /// Who wrote it.
    pub actor: Actor,
    /// Where it came from.
    pub source: NoteSource,
    /// When what it says was observed.
    pub observed_at: Timestamp,
    /// Its text.
    pub text: String,
}
