//! The drift guard of a write: compares what the caller saw with what is stored.

use memory_core::{ContentDigest, DriftChange, DriftReason, Seen};
use memory_core::{DriftCheck, DriftToken, Key, ScopeDigest, Timestamp};

use super::entries::Old;
use crate::commit::batch::Batch;
use crate::commit::scope::Space;
use crate::error::{Fault, displaced};
use crate::file::counts::Counted;

impl Batch<'_> {
    /// A scope's token in this transaction.
    pub(crate) fn token(&self, space: &Space) -> DriftToken {
        space.token(&self.context().watch)
    }

    /// How a write changed the token, if the caller wants to know.
    pub(crate) fn token_change(
        &self,
        check: &DriftCheck,
        before: DriftToken,
        space: &Space,
        digest: impl FnOnce() -> Option<ContentDigest>,
    ) -> Option<DriftChange> {
        check.tells().then(|| DriftChange::new(before, self.token(space), digest()))
    }

    /// Refuses if the file was replaced by another, whatever else is compared.
    pub(crate) fn in_place(&self, check: &DriftCheck, token: DriftToken) -> Result<(), Fault> {
        match (self.is_displaced(), check.tells()) {
            (false, _) => Ok(()),
            (true, true) => Err(DriftReason::FileReplaced.refusal(token).into()),
            (true, false) => Err(displaced().into()),
        }
    }

    /// Compares what the caller saw with what is stored. `Ok(Some)` means that it has drifted.
    pub(crate) fn drifted(
        &self,
        digest: &ScopeDigest,
        space: &Space,
        key: Option<&Key>,
        live: Option<&Old>,
        check: &DriftCheck,
        now: Timestamp,
    ) -> Result<Option<DriftReason>, Fault> {
        if !check.compares() {
            return Ok(None);
        }
        let watch = &self.context().watch;
        if let Err(reason) = check.compare(self.token(space), live.map(|live| live.version), now) {
            return Ok(Some(reason));
        }
        let Some(commits) = watch.foreign_commits(self.connection())? else { return Ok(None) };
        if !watch.triggers_are_intact(self.connection())? {
            return Ok(Some(DriftReason::Triggers));
        }
        if let (Some(key), Some(_), Some(Seen::Entry { digest: Some(seen), .. })) = (key, live, check.seen())
        {
            let stored = self.entry(space, key)?;
            if stored.is_none_or(|stored| ContentDigest::of_entry(&stored.entry) != seen) {
                return Ok(Some(DriftReason::Changed));
            }
        }
        if matches!(check, DriftCheck::Strict(..)) && !self.counts_hold(digest, space, commits)? {
            return Ok(Some(DriftReason::Silent));
        }
        Ok(None)
    }

    /// Whether a scope's rows agree with its counters, counted once per foreign commit.
    fn counts_hold(&self, digest: &ScopeDigest, space: &Space, commits: i64) -> Result<bool, Fault> {
        let watch = &self.context().watch;
        if space.id == 0 || watch.was_counted(digest, commits) {
            return Ok(true);
        }
        let counted = Counted::of(self.connection(), space.id)?;
        let holds = counted.entries == space.entries
            && counted.bytes == space.bytes
            && counted.expiring == space.expiring
            && counted.version <= space.version;
        if holds {
            watch.note_counted(digest, commits);
        }
        Ok(holds)
    }
}
