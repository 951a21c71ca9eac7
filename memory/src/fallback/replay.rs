//! Replays queued writes to the primary when it is back: in order, and once each.

use memory_core::{Error, ErrorKind, Expect, GetOptions, Key, Reply, Request, Result, Scope};

use super::journal::{Journal, JournalState, Row};
use super::pair::Stores;
use super::primary::falls;

/// Most writes in one call; the next call continues.
const MAX_WRITES: usize = 1_000;
/// Attempts at a write while others write the same keys.
const MAX_ATTEMPTS: usize = 5;

/// Keys, with the versions that their replay wrote.
type Versions = Vec<(Key, u64)>;

/// Why a write stays in the journal.
enum Stays {
    /// The primary cannot be reached or refuses access.
    Later,
    /// The primary refuses it.
    Refused(&'static str),
}

impl Stores {
    /// Replays the queued writes of one scope or of all, unless another process is doing so. If the primary fails, the
    /// rest stays queued.
    pub(super) async fn replay(&self, journal: &Journal, scope: Option<&Scope>) -> Result<()> {
        if scope.is_none() && journal.counts()?.waiting == 0 {
            return Ok(());
        }
        let Some(_turn) = self.turn.try_lock() else { return Ok(()) };
        let Some(_processes) = journal.try_turn()? else { return Ok(()) };
        self.finish_intended(journal).await?;
        for _ in 0..MAX_WRITES {
            let Some(row) = journal.oldest(scope)? else { break };
            match self.replay_one(journal, &row).await? {
                Ok(versions) => journal.done(&row, &versions)?,
                Err(Stays::Later) => break,
                Err(Stays::Refused(why)) => journal.set_aside(row.id, why)?,
            }
        }
        Ok(())
    }

    /// Writes one record to the primary over exactly the state just read there. That tells a repeated write from
    /// someone else's write in between.
    async fn replay_one(&self, journal: &Journal, row: &Row) -> Result<Result<Versions, Stays>> {
        let mut resumed = row.expects.clone().filter(|_| row.state == JournalState::Trying);
        for _ in 0..MAX_ATTEMPTS {
            let is_resumed = resumed.is_some();
            let expects = match resumed.take() {
                Some(expects) => expects,
                None => match self.look(journal, row).await {
                    Ok(Ok(expects)) => expects,
                    Ok(Err(stays)) => return Ok(Err(stays)),
                    Err(error) => return Ok(Err(stays(&error))),
                },
            };
            journal.trying(row.id, Some(&expects))?;
            let (mut outcome, mut done, mut versions) = (Ok(()), 0_usize, Versions::new());
            for call in row.record.calls(&row.scope, &expects, self.clock.now()) {
                let keys = keys(&call);
                match self.primary.run(call).await {
                    Ok(Reply::Set(set)) => versions.extend(keys.into_iter().map(|key| (key, set.version))),
                    Ok(Reply::BulkInsert(sets)) => {
                        versions.extend(keys.into_iter().zip(sets.iter().map(|set| set.version)));
                    }
                    Ok(_) => {}
                    Err(failed) => {
                        outcome = Err(failed.error);
                        break;
                    }
                }
                done += 1;
            }
            let is_resumed = is_resumed || done > 0;
            match outcome {
                Ok(()) => return Ok(Ok(versions)),
                // Another write came between reading and writing. Nothing was done, so try again over it.
                Err(error) if error.kind() == ErrorKind::Conflict && !is_resumed => {
                    journal.trying(row.id, None)?;
                }
                // Either the earlier attempt succeeded and someone wrote after it, or someone wrote before it.
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    return Ok(Err(Stays::Refused("conflict: another wrote the key while it was replayed")));
                }
                Err(error) => {
                    // The earlier attempt may still have succeeded.
                    if falls(&error) && !is_resumed {
                        journal.trying(row.id, None)?;
                    }
                    return Ok(Err(stays(&error)));
                }
            }
        }
        Ok(Err(Stays::Later))
    }

    /// The primary's entries for the keys of a record.
    async fn look(&self, journal: &Journal, row: &Row) -> Result<Result<Vec<Expect>, Stays>> {
        let request = Request::GetMany {
            scope: row.scope.clone(),
            keys: row.record.keys().cloned().collect(),
            options: GetOptions::uncounted(),
        };
        let Reply::GetMany(entries) = self.primary.run(request).await? else {
            return Err(Error::internal("a read was answered by something else"));
        };
        for entry in entries.iter().flatten().filter(|entry| entry.updated_at > row.record.at) {
            // A later entry may be the replay's own.
            if journal.written(&row.scope, &entry.key)? != Some(entry.version) {
                return Ok(Err(Stays::Refused("newer: the primary has a later write of the key")));
            }
        }
        Ok(Ok(super::record::Record::expects(&entries)))
    }
}

fn keys(call: &Request) -> Vec<Key> {
    match call {
        Request::Set { key, .. } => vec![key.clone()],
        Request::BulkInsert { items, .. } => items.iter().map(|item| item.key.clone()).collect(),
        _ => Vec::new(),
    }
}

fn stays(error: &Error) -> Stays {
    match error.kind() {
        ErrorKind::InvalidArgument => Stays::Refused("invalid_argument"),
        ErrorKind::TooLarge => Stays::Refused("too_large"),
        ErrorKind::WrongType => Stays::Refused("wrong_type"),
        ErrorKind::QuotaExceeded => Stays::Refused("quota_exceeded"),
        ErrorKind::EmbedderNotConfigured => Stays::Refused("embedder_not_configured"),
        ErrorKind::DimensionMismatch => Stays::Refused("dimension_mismatch"),
        ErrorKind::VectorUnsupported => Stays::Refused("vector_unsupported"),
        ErrorKind::Unsupported => Stays::Refused("capability_unsupported"),
        _ => Stays::Later,
    }
}
