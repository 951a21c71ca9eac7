//! Digests of a scope's content: two stores with equal digests have equal content.

use memory_core::sql::DumpStream;
use memory_core::{Backend, Record, RecordStream, Result, Scope, SqlFacet};
use sha2::{Digest as _, Sha256};

use super::super::control::Control;
use super::lines::{EntriesEnd, SqlEnd};
use crate::hex::hex;
use crate::stream::next;

/// The digest of a scope's entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntriesDigest {
    /// Number of entries.
    pub entries: u64,
    /// Number of vectors.
    pub vectors: u64,
    /// SHA-256 of their lines in a snapshot, in hexadecimal.
    pub sha256: String,
    /// The same without versions and access counts.
    pub content: String,
}

/// The digest of a scope's SQL database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SqlDigest {
    /// Lines of its dump.
    pub lines: u64,
    /// SHA-256 of them, in hexadecimal.
    pub sha256: String,
    /// The same without what the dump says it does not contain.
    pub content: String,
}

impl EntriesDigest {
    pub(in crate::snapshot) fn of(end: &EntriesEnd) -> Self {
        let EntriesEnd { entries, vectors, sha256, content } = end.clone();
        Self { entries, vectors, sha256, content }
    }

    /// Whether both are equal except for versions and access counts, which a store assigns itself.
    #[must_use]
    pub fn same_content(&self, other: &Self) -> bool {
        self.entries == other.entries && self.content == other.content
    }
}

/// A record's line, with its line feed.
pub(in crate::snapshot) fn line_of(record: &mut Record) -> Result<String> {
    record.vectors.sort_by(|a, b| a.model.cmp(&b.model));
    let mut line = record.to_line()?;
    line.push('\n');
    Ok(line)
}

/// Digests a stream of records.
#[derive(Clone, Default)]
pub(in crate::snapshot) struct EntriesHash {
    entries: u64,
    vectors: u64,
    lines: Sha256,
    content: Sha256,
}

impl EntriesHash {
    /// Adds a record of a store.
    pub(in crate::snapshot) fn add(&mut self, mut record: Record) -> Result<()> {
        let line = line_of(&mut record)?;
        self.add_line(line.as_bytes(), &mut record)
    }

    /// Adds a record whose line, including the line feed, is known. Leaves the record unchanged.
    pub(in crate::snapshot) fn add_line(&mut self, line: &[u8], record: &mut Record) -> Result<()> {
        self.entries += 1;
        self.vectors += record.vectors.len() as u64;
        self.lines.update(line);
        let entry = &mut record.entry;
        let given = (entry.version, entry.access_count);
        (entry.version, entry.access_count) = (1, 0);
        let content = record.to_line();
        (record.entry.version, record.entry.access_count) = given;
        self.content.update(content?.as_bytes());
        self.content.update(b"\n");
        Ok(())
    }

    pub(in crate::snapshot) fn end(self) -> EntriesEnd {
        EntriesEnd {
            entries: self.entries,
            vectors: self.vectors,
            sha256: hex(self.lines),
            content: hex(self.content),
        }
    }
}

/// Digests a stream of dump lines.
#[derive(Clone, Default)]
pub(in crate::snapshot) struct SqlHash {
    lines: u64,
    hash: Sha256,
    content: Sha256,
}

impl SqlHash {
    /// Adds a line without its line feed.
    pub(in crate::snapshot) fn add(&mut self, line: &[u8]) {
        self.lines += 1;
        self.hash.update(line);
        self.hash.update(b"\n");
        if !line.starts_with(SKIPPED) {
            self.content.update(line);
            self.content.update(b"\n");
        }
    }

    pub(in crate::snapshot) fn lines(&self) -> u64 {
        self.lines
    }

    pub(in crate::snapshot) fn end(self) -> SqlEnd {
        SqlEnd { lines: self.lines, sha256: hex(self.hash), content: hex(self.content) }
    }
}

/// A dump line without its line feed.
pub(in crate::snapshot) fn without_feed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

/// The digest of a scope's entries, from one snapshot of the store.
///
/// # Errors
/// As [`Backend::export_scope`].
pub async fn entries_digest(backend: &dyn Backend, scope: &Scope) -> Result<EntriesDigest> {
    digest_of(backend.export_scope(scope).await?, &Control::default()).await
}

pub(in crate::snapshot) async fn digest_of(
    mut records: RecordStream,
    control: &Control,
) -> Result<EntriesDigest> {
    let mut hash = EntriesHash::default();
    while let Some(record) = next(&mut records).await {
        control.go_on()?;
        hash.add(record?)?;
    }
    Ok(EntriesDigest::of(&hash.end()))
}

/// Lines of an empty dump: the first and the last.
const EMPTY_DUMP: u64 = 2;
/// Prefix of a dump line about something that is not contained.
const SKIPPED: &[u8] = b"{\"skipped\":";

impl SqlDigest {
    /// The digest of a dump; `None` if it is empty.
    pub(in crate::snapshot) fn of(end: &SqlEnd) -> Option<Self> {
        let SqlEnd { lines, sha256, content } = end.clone();
        (lines > EMPTY_DUMP).then_some(Self { lines, sha256, content })
    }
}

/// The digest of a scope's SQL database, from one snapshot of the store; `None` if it is empty.
///
/// # Errors
/// As [`SqlFacet::dump`].
pub async fn sql_digest(sql: &dyn SqlFacet, scope: &Scope) -> Result<Option<SqlDigest>> {
    digest_of_dump(sql.dump(scope).await?, &Control::default()).await
}

pub(in crate::snapshot) async fn digest_of_dump(
    mut dump: DumpStream,
    control: &Control,
) -> Result<Option<SqlDigest>> {
    let mut hash = SqlHash::default();
    while let Some(line) = next(&mut dump).await {
        control.go_on()?;
        hash.add(without_feed(&line?));
    }
    Ok(SqlDigest::of(&hash.end()))
}

/// What a dump line says is not contained.
pub(in crate::snapshot) fn skipped_in(line: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Skipped {
        skipped: String,
    }
    if !line.starts_with(SKIPPED) {
        return None;
    }
    serde_json::from_slice::<Skipped>(line).ok().map(|line| line.skipped)
}
