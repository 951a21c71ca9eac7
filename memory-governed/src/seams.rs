//! What storing needs from deciding: which row a request refers to.

use memory_core::Timestamp;
use serde::{Deserialize, Serialize};

use crate::bucket::Bucket;
use crate::note::{Note, Trust};
use crate::request::WriteRequest;

/// Another name of a row, and how far the one who gave it is trusted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Alias {
    /// In lower case, with white space collapsed.
    pub alias: String,
    /// The trust of the writer who gave it.
    pub trust: Trust,
}

/// A row that a note may refer to.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Its bucket.
    pub bucket: Bucket,
    /// Its id.
    pub id: String,
    /// Its revision.
    pub rev: u64,
    /// Whether it is open or active. Of ended rows, the latest are included for their words, plus one that the request
    /// names.
    pub is_live: bool,
    /// Its content: title, text or statement.
    pub title: String,
    /// What else it says.
    pub description: String,
    /// Its other names.
    pub aliases: Vec<Alias>,
    /// When it was first observed.
    pub opened_at: Timestamp,
    /// When it ended, if it has.
    pub ended_at: Option<Timestamp>,
    /// The agent who created it.
    pub opened_by: String,
    /// The trust of its creator.
    pub trust: Trust,
}

/// A candidate and how well it fits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    /// The row.
    pub id: String,
    /// Its revision when it was scored.
    pub rev: u64,
    /// The score; larger fits better.
    pub score: f64,
}

/// Which row a request refers to.
#[derive(Clone, Debug, PartialEq)]
pub enum Resolution {
    /// Exactly this one.
    Bind {
        /// The row's id.
        target: String,
        /// The likeliest, best first.
        candidates: Vec<Scored>,
        /// Why it is certain.
        reason: String,
    },
    /// It is not certain: the request waits.
    Defer {
        /// The likeliest, best first.
        candidates: Vec<Scored>,
        /// Why not.
        reason: String,
    },
    /// What it asks for is already so; the reason.
    NoOp(String),
}

/// Decides which row a request refers to. Must be deterministic, because it is asked again when the request is
/// replayed.
///
/// Asked for every request that ends a row, and for those that change a row by reference
/// ([`WriteRequest::reference_text`] without a target). Everything else names its row or creates one.
pub trait Resolver: Send + Sync {
    /// Binds the request to one of the candidates of its bucket, or to none.
    fn resolve(&self, request: &WriteRequest, note: &Note, candidates: &[Candidate]) -> Resolution;

    /// Its name and version, recorded with each event.
    fn version(&self) -> String;
}
