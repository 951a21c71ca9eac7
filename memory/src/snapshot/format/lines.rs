//! The lines of a snapshot (`docs/spec/snapshot.md`).

use std::io::{self, BufRead, Read as _};

use memory_core::{Scope, SqlDialect, TenantId, Timestamp, Tombstone};
use serde::{Deserialize, Serialize};

/// The format version that is written, and the newest that can be read.
pub const VERSION: u32 = 2;
/// The version of a snapshot without tombstones.
pub(in crate::snapshot) const WITHOUT_TOMBSTONES: u32 = 1;
/// Longest line of a snapshot in bytes, including its line feed.
pub const MAX_LINE_BYTES: usize = 64 << 20;
/// Most omissions listed in a scope's last line.
pub(in crate::snapshot) const MAX_NOT_CARRIED: usize = 1_000;

/// The facets of scopes in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::snapshot) enum Section {
    Entries,
    Sql,
}

/// The time that the scopes reflect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::snapshot) enum TakenAt {
    /// Each facet of each scope at a time of its own.
    PerScope,
    /// The entries of all scopes at the same time, each SQL database at a time of its own.
    Entries,
}

/// The first line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::snapshot) struct Header {
    pub(in crate::snapshot) version: u32,
    pub(in crate::snapshot) created_at: Timestamp,
    pub(in crate::snapshot) by: String,
    pub(in crate::snapshot) provider: String,
    pub(in crate::snapshot) sections: Vec<Section>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::snapshot) sql_dialect: Option<SqlDialect>,
    pub(in crate::snapshot) consistency: TakenAt,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::snapshot) tenant: Option<TenantId>,
}

/// The end of a scope's records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::snapshot) struct EntriesEnd {
    pub(in crate::snapshot) entries: u64,
    pub(in crate::snapshot) vectors: u64,
    pub(in crate::snapshot) sha256: String,
    pub(in crate::snapshot) content: String,
}

/// The beginning of a dump.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(in crate::snapshot) struct SqlBegin {
    pub(in crate::snapshot) dialect: SqlDialect,
}

/// The end of a dump.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::snapshot) struct SqlEnd {
    pub(in crate::snapshot) lines: u64,
    pub(in crate::snapshot) sha256: String,
    pub(in crate::snapshot) content: String,
}

/// The end of a scope.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::snapshot) struct ScopeEnd {
    pub(in crate::snapshot) bytes: u64,
    pub(in crate::snapshot) sha256: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::snapshot) not_carried: Vec<String>,
}

/// Why a scope is not in the snapshot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::snapshot) struct ScopeSkipped {
    pub(in crate::snapshot) code: String,
    pub(in crate::snapshot) reason: String,
}

/// The last line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::snapshot) struct End {
    pub(in crate::snapshot) scopes: u64,
    pub(in crate::snapshot) skipped: u64,
    pub(in crate::snapshot) entries: u64,
    pub(in crate::snapshot) vectors: u64,
    pub(in crate::snapshot) sql_lines: u64,
    pub(in crate::snapshot) bytes: u64,
    pub(in crate::snapshot) sha256: String,
}

/// A line that is neither a record nor part of a dump.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::snapshot) enum Frame {
    MemorySnapshot(Header),
    Tombstones(Vec<Tombstone>),
    Scope(Scope),
    EntriesEnd(EntriesEnd),
    SqlBegin(SqlBegin),
    SqlEnd(SqlEnd),
    ScopeEnd(ScopeEnd),
    ScopeSkipped(ScopeSkipped),
    End(End),
}

/// Prefixes of the line of a record, plain or as a string.
pub(in crate::snapshot) const RECORD: [&str; 2] = ["{\"entry\":", "{\"record\":"];
/// Prefixes of a dump line, plain or in base64.
pub(in crate::snapshot) const SQL: &str = "{\"sql\":";
pub(in crate::snapshot) const SQL_BASE64: &str = "{\"sql_base64\":";

/// What reading a line found.
pub(in crate::snapshot) enum Read {
    Line,
    End,
    /// The file ends in the middle of a line.
    Cut,
    TooLong,
}

/// Reads the next line, including its line feed, into `line`, which is cleared first.
pub(in crate::snapshot) fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Read> {
    line.clear();
    let limit = u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX);
    let read = input.take(limit).read_until(b'\n', line)?;
    Ok(match line.last() {
        None => Read::End,
        Some(b'\n') => Read::Line,
        Some(_) if read == MAX_LINE_BYTES => Read::TooLong,
        Some(_) => Read::Cut,
    })
}
