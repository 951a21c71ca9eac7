//! Entries within a write transaction: reading, writing with their vectors, removing, reclaiming, quotas.

use memory_core::json::Json;
use memory_core::{Key, Quota, ScopeDigest, Timestamp};
use rusqlite::params;

use super::row::{self, Sql, StoredEntry};
use crate::commit::batch::Batch;
use crate::commit::feed::TextEdit;
use crate::commit::scope::{Space, Target};
use crate::error::Fault;
use crate::file::column::{signed, time, unsigned};

/// A row with less text than this is stored in `entry`, where a page holds four or more; longer texts go to `body`.
/// In a table without rowids SQLite spills rows of over a quarter of a page, which is slow.
const INLINE_BYTES: usize = 900;

/// Most expired rows that one write reclaims for space.
const RECLAIM: usize = 512;

static SELECT_ENTRY: Sql = Sql::new(
    "SELECT {columns} FROM entry e LEFT JOIN body b ON b.id = e.body WHERE e.space = ?1 AND e.key = ?2",
);

/// What a write needs to know about the row it replaces, live or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Old {
    pub(crate) version: u64,
    pub(crate) born: i64,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) accesses: u64,
    pub(crate) size: u64,
    pub(crate) body: Option<i64>,
}

impl Old {
    pub(crate) fn is_live(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|at| at > now)
    }
}

/// The content of a row to write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content<'a> {
    pub(crate) value: &'a Json,
    /// As encoded by [`encode_metadata`](super::row::encode_metadata).
    pub(crate) metadata: Option<&'a str>,
    pub(crate) source: Option<&'a str>,
    pub(crate) text: Option<&'a str>,
    /// As counted by `Entry::size_bytes`.
    pub(crate) size: u64,
}

/// The versions and times of a row to write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct History {
    pub(crate) version: u64,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) accesses: u64,
    /// `None`: the row is a new incarnation of its key.
    pub(crate) born: Option<i64>,
}

impl Batch<'_> {
    /// The row of a key, live or not.
    pub(crate) fn old(&self, space: &Space, key: &Key) -> Result<Option<Old>, Fault> {
        if space.entries == 0 {
            return Ok(None);
        }
        let mut statement = self.statement(
            "SELECT version, born, created_at, expires_at, accesses, size, body \
             FROM entry WHERE space = ?1 AND key = ?2",
        )?;
        let mut rows = statement.query(params![space.id, key.as_str()])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        Ok(Some(Old {
            version: unsigned(row.get(0)?, "version")?,
            born: row.get(1)?,
            created_at: time(row.get(2)?)?,
            expires_at: row.get::<_, Option<i64>>(3)?.map(time).transpose()?,
            accesses: unsigned(row.get(4)?, "access count")?,
            size: unsigned(row.get(5)?, "size")?,
            body: row.get(6)?,
        }))
    }

    /// The whole entry of a key, live or not.
    pub(crate) fn entry(&self, space: &Space, key: &Key) -> Result<Option<StoredEntry>, Fault> {
        let mut statement = self.statement(SELECT_ENTRY.get())?;
        let mut rows = statement.query(params![space.id, key.as_str()])?;
        Ok(rows.next()?.map(row::read).transpose()?)
    }

    /// Writes a row over the old one, if any, and updates the counters.
    pub(crate) fn put(
        &mut self,
        target: &Target,
        space: &mut Space,
        key: &Key,
        old: Option<&Old>,
        content: Content<'_>,
        history: History,
    ) -> Result<(), Fault> {
        self.ensure_row(target, space)?;
        let gone = match old {
            Some(_) => self.remove_derived(space, key.as_str())?,
            None => Vec::new(),
        };
        space.changes += 1;
        space.used_at = space.used_at.max(self.now().as_millis());
        space.move_token(&self.context().watch);
        let born = history.born.unwrap_or(space.changes);
        let Content { value, metadata, source, text, size } = content;
        let length = key.as_str().len()
            + value.len_bytes()
            + metadata.map_or(0, str::len)
            + source.map_or(0, str::len)
            + text.map_or(0, str::len);
        let old_body = old.and_then(|old| old.body);
        let body = if length <= INLINE_BYTES {
            if let Some(id) = old_body {
                self.statement("DELETE FROM body WHERE id = ?1")?.execute([id])?;
            }
            None
        } else if let Some(id) = old_body {
            self.statement("UPDATE body SET metadata = ?2, text = ?3, value = ?4 WHERE id = ?1")?
                .execute(params![id, metadata, text, value.as_str()])?;
            Some(id)
        } else {
            Some(
                self.statement("INSERT INTO body (metadata, text, value) VALUES (?1, ?2, ?3)")?
                    .insert(params![metadata, text, value.as_str()])?,
            )
        };
        let inline = |content| if body.is_none() { content } else { None };
        let sql = match old {
            Some(_) => {
                "UPDATE entry SET version = ?3, born = ?4, created_at = ?5, updated_at = ?6, expires_at = ?7, \
                 accesses = ?8, size = ?9, body = ?10, source = ?11, metadata = ?12, text = ?13, value = ?14 \
                 WHERE space = ?1 AND key = ?2"
            }
            None => {
                "INSERT INTO entry (space, key, version, born, created_at, updated_at, expires_at, accesses, size, \
                 body, source, metadata, text, value) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)"
            }
        };
        self.statement(sql)?.execute(params![
            space.id,
            key.as_str(),
            signed(history.version),
            born,
            history.created_at.as_millis(),
            history.updated_at.as_millis(),
            history.expires_at.map(Timestamp::as_millis),
            signed(history.accesses),
            signed(size),
            body,
            source,
            inline(metadata),
            inline(text),
            inline(Some(value.as_str())),
        ])?;
        space.version = space.version.max(history.version);
        space.entries = space.entries + 1 - u64::from(old.is_some());
        space.bytes = (space.bytes + size).saturating_sub(old.map_or(0, |old| old.size));
        space.expiring = (space.expiring + u64::from(history.expires_at.is_some()))
            .saturating_sub(u64::from(old.is_some_and(|old| old.expires_at.is_some())));
        space.touch();
        self.wrote(1 + length / 4_096 * 2);
        self.publish_vectors(&target.digest, space, gone, Vec::new());
        self.publish_text(&target.digest, space, || TextEdit::Put {
            key: key.clone(),
            version: history.version,
            value: value.clone(),
            text: text.map(str::to_owned),
            expires_at: history.expires_at,
        });
        Ok(())
    }

    /// Removes a row and updates the counters.
    pub(crate) fn remove(
        &mut self,
        target: &Target,
        space: &mut Space,
        key: &Key,
        old: &Old,
    ) -> Result<(), Fault> {
        self.statement("DELETE FROM entry WHERE space = ?1 AND key = ?2")?
            .execute(params![space.id, key.as_str()])?;
        if let Some(id) = old.body {
            self.statement("DELETE FROM body WHERE id = ?1")?.execute([id])?;
        }
        let gone = self.remove_derived(space, key.as_str())?;
        space.changes += 1;
        space.used_at = space.used_at.max(self.now().as_millis());
        space.move_token(&self.context().watch);
        space.floor = space.floor.max(old.version);
        space.entries = space.entries.saturating_sub(1);
        space.bytes = space.bytes.saturating_sub(old.size);
        space.expiring = space.expiring.saturating_sub(u64::from(old.expires_at.is_some()));
        space.touch();
        self.wrote(1);
        self.publish_vectors(&target.digest, space, gone, Vec::new());
        self.publish_text(&target.digest, space, || TextEdit::Removed { key: key.clone() });
        Ok(())
    }

    /// Removes what was computed from the entry of a key: the segment it is in, and its vectors, whose ids it returns.
    fn remove_derived(&mut self, space: &mut Space, key: &str) -> rusqlite::Result<Vec<i64>> {
        self.remove_segment(space, key)?;
        self.remove_vectors(space, key)
    }

    /// Removes the vectors of a key and returns their ids. If the scope has none, the database is not asked.
    pub(crate) fn remove_vectors(&mut self, space: &mut Space, key: &str) -> rusqlite::Result<Vec<i64>> {
        if space.vectors == 0 {
            return Ok(Vec::new());
        }
        let gone = self
            .statement("DELETE FROM vector WHERE space = ?1 AND key = ?2 RETURNING id")?
            .query_map(params![space.id, key], |row| row.get(0))?
            .collect::<rusqlite::Result<Vec<i64>>>()?;
        if !gone.is_empty() {
            space.vectors = space.vectors.saturating_sub(gone.len() as u64);
            space.touch();
            self.wrote(gone.len());
        }
        Ok(gone)
    }

    /// Expired rows of a scope that still exist: their number and bytes.
    pub(crate) fn expired(&self, space: &Space, now: Timestamp) -> Result<(u64, u64), Fault> {
        if space.expiring == 0 {
            return Ok((0, 0));
        }
        let (count, bytes) = self
            .statement(
                "SELECT count(*), coalesce(sum(size), 0) FROM entry WHERE space = ?1 AND expires_at <= ?2",
            )?
            .query_row(params![space.id, now.as_millis()], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok((unsigned(count, "count")?, unsigned(bytes, "size")?))
    }

    /// Number and bytes of a scope's live entries.
    pub(crate) fn live(&self, space: &Space, now: Timestamp) -> Result<(u64, u64), Fault> {
        let (entries, bytes) = self.expired(space, now)?;
        Ok((space.entries.saturating_sub(entries), space.bytes.saturating_sub(bytes)))
    }

    /// Removes up to `limit` expired rows of a scope, which is invisible to callers. Returns how many.
    pub(crate) fn reclaim(
        &mut self,
        digest: &ScopeDigest,
        space: &mut Space,
        now: Timestamp,
        limit: usize,
    ) -> Result<usize, Fault> {
        if space.expiring == 0 {
            return Ok(0);
        }
        let mut found = Vec::new();
        {
            let mut statement = self.statement(
                "SELECT key, version, size, body FROM entry WHERE space = ?1 AND expires_at <= ?2 LIMIT ?3",
            )?;
            let mut rows = statement.query(params![space.id, now.as_millis(), signed(limit as u64)])?;
            while let Some(row) = rows.next()? {
                let key: String = row.get(0)?;
                let version = unsigned(row.get(1)?, "version")?;
                let size = unsigned(row.get(2)?, "size")?;
                found.push((key, version, size, row.get::<_, Option<i64>>(3)?));
            }
        }
        let mut gone = Vec::new();
        for (key, version, size, body) in &found {
            gone.extend(self.remove_derived(space, key)?);
            self.statement("DELETE FROM entry WHERE space = ?1 AND key = ?2")?
                .execute(params![space.id, key])?;
            if let Some(id) = body {
                self.statement("DELETE FROM body WHERE id = ?1")?.execute([id])?;
            }
            space.floor = space.floor.max(*version);
            space.entries = space.entries.saturating_sub(1);
            space.bytes = space.bytes.saturating_sub(*size);
            space.expiring = space.expiring.saturating_sub(1);
        }
        if !found.is_empty() {
            space.touch();
            self.wrote(found.len());
            if !gone.is_empty() {
                self.publish_vectors(digest, space, gone, Vec::new());
            }
        }
        Ok(found.len())
    }

    /// Checks a write of one entry against the quota, reclaiming expired rows to make room, possibly including the
    /// old row.
    #[allow(clippy::too_many_arguments, reason = "the arguments of one write, which its caller keeps using")]
    pub(crate) fn allow(
        &mut self,
        target: &Target,
        space: &mut Space,
        key: &Key,
        quota: Quota,
        old: &mut Option<Old>,
        size: u64,
        now: Timestamp,
    ) -> Result<(), Fault> {
        if quota.is_unlimited() {
            return Ok(());
        }
        let live = old.filter(|old| old.is_live(now));
        let after = |(entries, bytes): (u64, u64)| match live {
            Some(old) => (entries, (bytes + size).saturating_sub(old.size)),
            None => (entries + 1, bytes + size),
        };
        // An upper bound of what is live, available without counting.
        let most = (space.entries, space.bytes);
        if quota.check(most, after(most)).is_ok() {
            return Ok(());
        }
        if self.reclaim(&target.digest, space, now, RECLAIM)? > 0 {
            // Reclaimed rows stay reclaimed, even if the write is refused.
            self.keep(&target.digest, *space);
            *old = self.old(space, key)?;
        }
        let exact = self.live(space, now)?;
        Ok(quota.check(exact, after(exact))?)
    }
}
