//! The entries of a conversation in an export, for adding its turns to another.

use memory_core::layer::{Fact, FactId, Message};
use memory_core::{Backend, Entry, Result, Scope};

use crate::changes::turns_of;
use crate::layer::fact;
use crate::store::log::Log;
use crate::store::progress::Progress;
use crate::store::record::{self, Head, Known};
use crate::store::{digest, forgotten, keys};

/// What an entry of a conversation is.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ConversationEntry {
    /// The end of the log. If two are equal, so are their conversations, as far as they are complete.
    Head(ConversationHead),
    /// A turn, or a fact extracted from turns.
    Fact(Box<Fact>),
    /// What is known about a digest.
    Digest,
    /// What happened to turns, what was forgotten, and the progress of extraction.
    Bookkeeping,
}

/// The end of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationHead(Head);

/// What a scope knows about a fact's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownFact {
    /// Nothing, or its turn is missing.
    No,
    /// It exists and holds.
    Holds,
    /// It exists, but was superseded.
    Superseded,
    /// It was forgotten.
    Forgotten,
}

impl ConversationEntry {
    /// What an entry is; `None` if it does not belong to a conversation.
    ///
    /// # Errors
    /// `corrupt` if it cannot be read.
    pub fn of(entry: &Entry) -> Result<Option<Self>> {
        let key = entry.key.as_str();
        if !keys::is_reserved(key) {
            return Ok(None);
        }
        Ok(Some(if entry.key == keys::head()? {
            Self::Head(ConversationHead(record::read(entry)?))
        } else if key.starts_with(keys::LOG_PREFIX) {
            keys::number(&entry.key)?;
            match fact(entry)? {
                Some(fact) if !digest::is_digest(&fact.id) => return Err(record::unreadable(&entry.key)),
                Some(fact) => Self::Fact(Box::new(fact)),
                None => Self::Bookkeeping,
            }
        } else if key.starts_with(keys::ID_PREFIX) {
            record::read::<Known>(entry)?;
            Self::Digest
        } else if key.starts_with(keys::FORGOTTEN_PREFIX) {
            forgotten::check(entry)?;
            Self::Bookkeeping
        } else if entry.key == keys::extract()? {
            record::read::<Progress>(entry)?;
            Self::Bookkeeping
        } else {
            return Err(keys::strange(&entry.key));
        }))
    }
}

impl ConversationHead {
    /// The end of a scope's log; `None` if nothing was ever said there.
    ///
    /// # Errors
    /// The store's errors.
    pub async fn of(backend: &dyn Backend, scope: &Scope) -> Result<Option<Self>> {
        Ok(Log::new(backend, scope).head().await?.head.map(Self))
    }
}

/// What a scope knows about facts with these ids.
///
/// # Errors
/// The store's errors.
pub async fn known_facts(backend: &dyn Backend, scope: &Scope, ids: &[&FactId]) -> Result<Vec<KnownFact>> {
    let ours: Vec<&str> = ids.iter().filter(|id| digest::is_digest(id)).map(|id| id.as_str()).collect();
    let log = Log::new(backend, scope);
    let known = log.known(&ours).await?;
    let turns = turns_of(&log, &known).await?;
    let mut known = known.into_iter();
    let of = |id: &&FactId| match digest::is_digest(id).then(|| known.next().flatten()).flatten() {
        None => KnownFact::No,
        Some((_, Known { n: None, .. })) => KnownFact::Forgotten,
        Some((_, Known { n: Some(number), .. })) => {
            let found = turns.get(&number).filter(|found| found.turn.id == id.as_str());
            found.map_or(KnownFact::No, |found| match found.turn.superseded_by {
                None => KnownFact::Holds,
                Some(_) => KnownFact::Superseded,
            })
        }
    };
    Ok(ids.iter().map(of).collect())
}

/// The id of the fact that a message with an id or a time becomes in a scope.
///
/// # Errors
/// No known error: such an id is always valid.
pub fn fact_of_message(scope: &Scope, message: &Message) -> Result<FactId> {
    FactId::new(digest::of_message(scope, message))
}
