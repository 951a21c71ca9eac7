//! Entries, and queries for them.

use memory_core::host::{Cells, int, maybe, text};
use memory_core::sql::SqlValue;
use memory_core::{Error, Result};
use serde::Serialize;
use serde_json::Value;

use super::expiry::parse_expiry;
use crate::limits::{check_content, check_metadata, check_tags, short};
use crate::model::Agent;
use crate::rows::Tree;

/// An entry to store.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct NewEntry {
    /// A short title.
    pub title: String,
    /// The text.
    pub content: String,
    /// A JSON object.
    pub metadata: Value,
    /// Tags.
    pub tags: Vec<String>,
    /// 0 to 10.
    pub importance: Option<u8>,
    /// RFC 3339 with any offset, or Unix seconds; `None` for never.
    pub expires_at: Option<String>,
    /// The id of the entry it belongs to.
    pub parent_id: Option<String>,
}

impl NewEntry {
    /// An entry that never expires, with the first 50 characters as title.
    #[must_use]
    pub fn new(content: impl Into<String>) -> Self {
        let content = content.into();
        Self {
            title: content.chars().take(50).collect(),
            content,
            metadata: Value::Object(serde_json::Map::new()),
            tags: Vec::new(),
            importance: None,
            expires_at: None,
            parent_id: None,
        }
    }

    /// Sets when it expires.
    #[must_use]
    pub fn with_expiry(mut self, expires_at: impl Into<String>) -> Self {
        self.expires_at = Some(expires_at.into());
        self
    }

    /// The arguments for its own columns, in order.
    pub(super) fn values(&self) -> Result<Vec<SqlValue>> {
        short("title", &self.title)?;
        check_content(&self.content)?;
        check_metadata(&self.metadata)?;
        check_tags(&self.tags)?;
        if !self.metadata.is_object() {
            return Err(Error::invalid("the metadata of an entry must be a JSON object"));
        }
        if self.importance.is_some_and(|importance| importance > 10) {
            return Err(Error::invalid("importance must be 0 to 10"));
        }
        let nul = [self.title.as_str(), &self.content, self.parent_id.as_deref().unwrap_or_default()];
        if nul.iter().any(|text| text.contains('\0')) {
            return Err(Error::invalid("a text of an entry holds U+0000; remove it"));
        }
        let expiry = self.expires_at.as_deref().map(parse_expiry).transpose()?;
        let tags = serde_json::to_string(&self.tags)
            .map_err(|error| Error::invalid("the tags cannot be written as JSON").with_source(error))?;
        Ok(vec![
            text(&self.title),
            text(&self.content),
            text(self.metadata.to_string()),
            maybe((!self.tags.is_empty()).then(|| text(tags))),
            maybe(self.importance.map(int)),
            maybe(self.expires_at.as_deref().map(text)),
            maybe(expiry.map(|at| int(at.as_millis()))),
            maybe(self.parent_id.as_deref().map(text)),
        ])
    }
}

/// A stored entry, with the columns of the reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// Its id.
    pub id: String,
    /// The session.
    pub session_id: String,
    /// Who stored it.
    pub agent_id: String,
    /// `learning`, `conversation`, `context`, …
    pub memory_type: String,
    /// A short title.
    pub title: String,
    /// The text.
    pub content: String,
    /// SHA-256 of the content, of learnings.
    pub content_hash: Option<String>,
    /// A JSON object.
    pub metadata: Value,
    /// Tags.
    pub tags: Vec<String>,
    /// 0 to 10.
    pub importance: Option<i64>,
    /// RFC 3339.
    pub created_at: String,
    /// RFC 3339.
    pub accessed_at: String,
    /// As it was given.
    pub expires_at: Option<String>,
    /// The entry it belongs to.
    pub parent_id: Option<String>,
}

/// What [`Entry::read`] reads.
pub(super) const COLUMNS: &str = "id, session_id, agent_id, memory_type, title, content, content_hash, metadata, tags, \
     importance, created_at, accessed_at, expires_at, parent_id";

impl Entry {
    pub(super) fn read(cells: &mut Cells) -> Result<Self> {
        Ok(Self {
            id: cells.text()?,
            session_id: cells.text()?,
            agent_id: cells.text()?,
            memory_type: cells.text()?,
            title: cells.text()?,
            content: cells.text()?,
            content_hash: cells.maybe_text()?,
            metadata: stored::<Tree>(&cells.text()?)?.0,
            tags: cells.maybe_text()?.map_or(Ok(Vec::new()), |tags| stored(&tags))?,
            importance: cells.maybe_int()?,
            created_at: cells.text()?,
            accessed_at: cells.text()?,
            expires_at: cells.maybe_text()?,
            parent_id: cells.maybe_text()?,
        })
    }
}

fn stored<T: serde::de::DeserializeOwned>(written: &str) -> Result<T> {
    serde_json::from_str(written).map_err(|error| {
        Error::corrupt("an entry holds what is not the JSON it was given").with_source(error)
    })
}

/// Which entries.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EntryQuery {
    /// Only those of this session.
    pub session_id: Option<String>,
    /// Only those of this agent.
    pub agent: Option<Agent>,
    /// Only those of this type.
    pub memory_type: Option<String>,
    /// Most entries: 1 to 10,000. Default 100.
    pub limit: usize,
}

impl Default for EntryQuery {
    fn default() -> Self {
        Self { session_id: None, agent: None, memory_type: None, limit: 100 }
    }
}

impl EntryQuery {
    /// Only entries of this agent.
    #[must_use]
    pub fn of(agent: &Agent) -> Self {
        Self { agent: Some(agent.clone()), ..Self::default() }
    }

    /// Only entries of this session.
    #[must_use]
    pub fn in_session(mut self, session_id: impl Into<String>) -> Self {
        self.session_id = Some(session_id.into());
        self
    }
}

/// A session, and how much of it is live.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionSummary {
    /// Its id.
    pub session_id: String,
    /// RFC 3339.
    pub created_at: String,
    /// RFC 3339: when an agent last stored something in it.
    pub last_accessed: String,
    /// The agents that used it, by name.
    pub agents: Vec<String>,
    /// Entries that have not expired.
    pub entries: u64,
}
