//! Writes a snapshot.

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memory_core::limits::MAX_PAGE;
use memory_core::{
    Clock as _, Error, ErrorKind, Provider, ReadSnapshot, Record, Result, Retry, Scope, TenantId, Timestamp,
    TombstonesOf,
};
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::control::{Control, Progress};
use super::format::digest::{SqlHash, line_of, skipped_in, without_feed};
use super::format::lines::{
    End, Frame, Header, MAX_LINE_BYTES, MAX_NOT_CARRIED, SQL, SQL_BASE64, ScopeEnd, ScopeSkipped, Section,
    SqlBegin, TakenAt, VERSION, WITHOUT_TOMBSTONES,
};
use super::format::records::Passed;
use super::report::{NotCarried, ScopeNote, add, add_lost};
use super::scopes::{Found, Walk};
use crate::hex::hex;
use crate::stream::next;
use crate::system::SystemClock;

/// Lines between two progress reports.
const SHOW_EVERY: u64 = 1_024;

/// What a snapshot covers, and its limits.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SnapshotOptions {
    /// Only this tenant's scopes; `None` for every tenant's, if the store lists them.
    pub tenant: Option<TenantId>,
    /// Only this scope.
    pub scope: Option<Scope>,
    /// Skip scopes larger than this, in bytes; `None` to skip none.
    pub max_scope_bytes: Option<u64>,
    /// The time for its header; `None` for now, by this host's clock.
    pub taken_at: Option<Timestamp>,
}

impl SnapshotOptions {
    memory_core::setters! {
        with_tenant(tenant: Option<TenantId>);
        with_scope(scope: Option<Scope>);
        with_max_scope_bytes(max_scope_bytes: Option<u64>);
        with_taken_at(taken_at: Option<Timestamp>);
    }
}

/// The result of a snapshot.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SnapshotReport {
    /// When it was taken.
    pub created_at: Timestamp,
    /// Scopes contained.
    pub scopes: u64,
    /// Their entries.
    pub entries: u64,
    /// Vectors of these.
    pub vectors: u64,
    /// SQL databases contained.
    pub databases: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// The overall digest from its last line, which identifies it.
    pub sha256: String,
    /// How many scopes it does not contain.
    pub skipped: u64,
    /// The first thousand of them.
    pub skipped_scopes: Vec<ScopeNote>,
    /// The first thousand scopes whose database is not completely contained.
    pub not_carried: Vec<NotCarried>,
}

impl SnapshotReport {
    /// Whether everything is contained.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.skipped == 0 && self.not_carried.is_empty()
    }
}

/// Why a scope's lines end early.
enum Trouble {
    /// The scope is skipped; the snapshot continues.
    Skip(Error),
    /// The snapshot ends.
    End(Error),
}

impl From<Error> for Trouble {
    /// An error of the store while reading a scope.
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::Corrupt
            | ErrorKind::TooLarge
            | ErrorKind::ResultTooLarge
            | ErrorKind::InvalidArgument
            | ErrorKind::WrongType => Self::Skip(error),
            _ => Self::End(error),
        }
    }
}

/// Output that is digested as it is written.
struct Out<'w, W> {
    to: &'w mut W,
    file: Sha256,
    scope: Sha256,
    scope_bytes: u64,
    max_scope_bytes: Option<u64>,
    progress: Progress,
    lines: u64,
}

/// Streams every durable scope of a store.
///
/// Occupies a thread of the executor while it writes and digests, so use a file or pipe that accepts bytes quickly.
///
/// # Behavior
/// - SNP-1: Every agent's and user's scope that holds live entries or has a SQL database is in the snapshot or named as
///   skipped; run scopes are never included.
/// - SNP-2: Without a tenant, all tenants are included.
/// - SNP-3: The entries of all scopes are as of one moment if the store serves read snapshots.
/// - SNP-4: A scope that is larger than `max_scope_bytes` is skipped with `too_large`.
/// - SNP-5: A scope whose content the store cannot read is skipped with its error; any other failure ends the snapshot.
/// - SNP-6: What the dump of a database cannot hold is listed with its scope, in the file and in the report.
/// - SNP-7: Memory is bounded whatever the store holds.
/// - SNP-9: Two snapshots of a store that was not used in between differ only in their header and in the overall digest.
///
/// # Errors
/// `capability_unsupported` for a store with neither facet, or without a list of tenants if no tenant is named;
/// `unavailable` if `to` cannot be written or it was stopped; the store's errors.
pub async fn write<W: Write + Send>(
    from: &dyn Provider,
    to: &mut W,
    options: &SnapshotOptions,
    control: &Control,
) -> Result<SnapshotReport> {
    let capabilities = from.capabilities();
    let mut sections = Vec::new();
    if from.backend().is_some() {
        sections.push(Section::Entries);
    }
    if from.sql().is_some() {
        sections.push(Section::Sql);
    }
    if sections.is_empty() {
        return Err(Error::unsupported("snapshot", from.name()));
    }
    // Taken before reading, so that anything forgotten meanwhile counts as forgotten after the copy.
    let created_at = options.taken_at.unwrap_or_else(|| SystemClock.now());
    let as_of = if capabilities.read_snapshot { Some(from.read_snapshot().await?) } else { None };
    let of = match (&options.scope, &options.tenant) {
        (Some(scope), _) => TombstonesOf::Scope(scope.clone()),
        (None, Some(tenant)) => TombstonesOf::Tenant(tenant.clone()),
        (None, None) => TombstonesOf::Store,
    };
    let mut tombstones =
        if capabilities.erase { from.tombstones(&of, None, MAX_PAGE).await? } else { Vec::new() };
    let header = Header {
        version: if tombstones.is_empty() { WITHOUT_TOMBSTONES } else { VERSION },
        created_at,
        by: concat!("memory ", env!("CARGO_PKG_VERSION")).to_owned(),
        provider: from.name().to_owned(),
        sections,
        sql_dialect: capabilities.sql_dialect,
        consistency: if as_of.is_some() { TakenAt::Entries } else { TakenAt::PerScope },
        tenant: options.scope.as_ref().map(|scope| &scope.tenant).or(options.tenant.as_ref()).cloned(),
    };
    let mut out = Out {
        to,
        file: Sha256::new(),
        scope: Sha256::new(),
        scope_bytes: 0,
        max_scope_bytes: options.max_scope_bytes,
        progress: Progress::default(),
        lines: 0,
    };
    out.frame(&Frame::MemorySnapshot(header))?;
    while let Some(last) = tombstones.last().map(|last| last.id) {
        let is_last = tombstones.len() < MAX_PAGE;
        out.frame(&Frame::Tombstones(tombstones))?;
        tombstones = if is_last { Vec::new() } else { from.tombstones(&of, Some(&last), MAX_PAGE).await? };
    }
    let (mut end, mut databases) = (End::default(), 0);
    let (mut skipped, mut skipped_scopes, mut not_carried) = (0, Vec::new(), Vec::new());
    let mut walk = Walk::new(from, options.tenant.as_ref(), options.scope.as_ref()).at(as_of.clone());
    while let Some(found) = walk.next().await? {
        out.scope = Sha256::new();
        out.scope_bytes = 0;
        out.frame(&Frame::Scope(found.scope.clone()))?;
        match out.scope_lines(from, as_of.as_deref(), &found, control).await {
            Ok(counts) => {
                let (sha256, bytes) = (hex(out.scope.clone()), out.scope_bytes);
                let Counts { entries, vectors, sql_lines, not_carried: what } = counts;
                end.scopes += 1;
                end.entries += entries;
                end.vectors += vectors;
                end.sql_lines += sql_lines;
                databases += u64::from(found.sql.is_some());
                out.frame(&Frame::ScopeEnd(ScopeEnd { bytes, sha256, not_carried: what.clone() }))?;
                add_lost(&mut not_carried, &found.scope, what);
            }
            Err(Trouble::Skip(error)) => {
                end.skipped += 1;
                let note = ScopeNote::new(&found.scope, &error);
                let (code, reason) = (note.code.clone(), note.reason.clone());
                out.frame(&Frame::ScopeSkipped(ScopeSkipped { code, reason }))?;
                add(&mut skipped, &mut skipped_scopes, note);
            }
            Err(Trouble::End(error)) => return Err(error),
        }
        out.progress.scopes += 1;
        control.go_on()?;
        control.show(&out.progress);
    }
    end.bytes = out.progress.bytes;
    end.sha256 = hex(out.file.clone());
    let sha256 = end.sha256.clone();
    let (scopes, entries, vectors) = (end.scopes, end.entries, end.vectors);
    out.frame(&Frame::End(end))?;
    out.to.flush().map_err(unwritten)?;
    Ok(SnapshotReport {
        created_at,
        scopes,
        entries,
        vectors,
        databases,
        bytes: out.progress.bytes,
        sha256,
        skipped,
        skipped_scopes,
        not_carried,
    })
}

/// Totals of a scope's lines.
#[derive(Default)]
struct Counts {
    entries: u64,
    vectors: u64,
    sql_lines: u64,
    not_carried: Vec<String>,
}

impl<W: Write + Send> Out<'_, W> {
    async fn scope_lines(
        &mut self,
        from: &dyn Provider,
        as_of: Option<&dyn ReadSnapshot>,
        found: &Found,
        control: &Control,
    ) -> std::result::Result<Counts, Trouble> {
        let held = found.entries.unwrap_or(0).saturating_add(found.sql.unwrap_or(0));
        self.check_size(held)?;
        let mut counts = Counts::default();
        if let Some(backend) = from.backend() {
            let mut passed = Passed::default();
            if found.entries.is_some() {
                let mut records = match as_of {
                    Some(as_of) => as_of.export_scope(&found.scope).await?,
                    None => backend.export_scope(&found.scope).await?,
                };
                while let Some(record) = next(&mut records).await {
                    counts.entries += 1;
                    let line = readable(&mut record?, &mut passed, counts.entries)?;
                    self.content(line.as_bytes())?;
                    self.progress.entries += 1;
                    self.tick(control)?;
                }
            }
            let end = passed.end();
            (counts.entries, counts.vectors) = (end.entries, end.vectors);
            self.frame(&Frame::EntriesEnd(end)).map_err(Trouble::End)?;
        }
        if let (Some(sql), Some(dialect), Some(_)) = (from.sql(), from.capabilities().sql_dialect, found.sql)
        {
            self.frame(&Frame::SqlBegin(SqlBegin { dialect })).map_err(Trouble::End)?;
            let mut hash = SqlHash::default();
            let mut dump = sql.dump(&found.scope).await?;
            while let Some(line) = next(&mut dump).await {
                let line = line?;
                let line = without_feed(&line);
                hash.add(line);
                if counts.not_carried.len() < MAX_NOT_CARRIED {
                    counts.not_carried.extend(skipped_in(line));
                }
                self.content(&framed(line))?;
                self.progress.sql_lines += 1;
                self.tick(control)?;
            }
            counts.sql_lines = hash.lines();
            self.frame(&Frame::SqlEnd(hash.end())).map_err(Trouble::End)?;
        }
        Ok(counts)
    }

    fn tick(&mut self, control: &Control) -> std::result::Result<(), Trouble> {
        self.lines += 1;
        if self.lines.is_multiple_of(SHOW_EVERY) {
            control.show(&self.progress);
        }
        control.go_on().map_err(Trouble::End)
    }

    /// SNP-4.
    fn check_size(&self, bytes: u64) -> std::result::Result<(), Trouble> {
        match self.max_scope_bytes {
            Some(limit) if bytes > limit => Err(Trouble::Skip(Error::new(
                ErrorKind::TooLarge,
                format!("the scope exceeds the limit of {limit} bytes"),
            ))),
            _ => Ok(()),
        }
    }

    /// Writes a line from a store, including its line feed.
    fn content(&mut self, line: &[u8]) -> std::result::Result<(), Trouble> {
        if line.len() > MAX_LINE_BYTES {
            return Err(Trouble::Skip(Error::new(
                ErrorKind::TooLarge,
                format!("the scope contains something that exceeds the {MAX_LINE_BYTES} bytes of a line"),
            )));
        }
        self.check_size(self.scope_bytes.saturating_add(line.len() as u64))?;
        self.bytes(line).map_err(Trouble::End)
    }

    fn frame(&mut self, frame: &Frame) -> Result<()> {
        let mut line = serde_json::to_vec(frame)
            .map_err(|error| Error::internal("a line has no JSON form").with_source(error))?;
        line.push(b'\n');
        self.bytes(&line)
    }

    fn bytes(&mut self, line: &[u8]) -> Result<()> {
        self.to.write_all(line).map_err(unwritten)?;
        self.file.update(line);
        self.scope.update(line);
        self.scope_bytes += line.len() as u64;
        self.progress.bytes += line.len() as u64;
        Ok(())
    }
}

/// The line of a scope's record with this number, after checking that it can be read back.
fn readable(record: &mut Record, passed: &mut Passed, number: u64) -> std::result::Result<String, Trouble> {
    let line = line_of(record).and_then(|line| passed.take(line.as_bytes()).map(|_| line));
    line.map_err(|error| {
        Trouble::Skip(Error::corrupt(format!(
            "record {number} of the scope, in the order of keys, cannot be restored ({}); write that key \
                 again, or delete it",
            error.message()
        )))
    })
}

/// A dump line as a line of the file, including its line feed.
fn framed(line: &[u8]) -> Vec<u8> {
    let is_json = !line.contains(&b'\n')
        && serde_json::from_slice::<&RawValue>(line).is_ok_and(|raw| raw.get().len() == line.len());
    let mut framed = Vec::with_capacity(line.len() + 16);
    if is_json {
        framed.extend_from_slice(SQL.as_bytes());
        framed.extend_from_slice(line);
    } else {
        framed.extend_from_slice(SQL_BASE64.as_bytes());
        framed.push(b'"');
        framed.extend_from_slice(STANDARD.encode(line).as_bytes());
        framed.push(b'"');
    }
    framed.extend_from_slice(b"}\n");
    framed
}

pub(super) fn unwritten(error: io::Error) -> Error {
    Error::unavailable("writing the snapshot failed; make room and start it again")
        .with_retry(Retry::Never)
        .with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_dump_is_kept_byte_for_byte() {
        assert_eq!(framed(br#"{"row":[1]}"#), b"{\"sql\":{\"row\":[1]}}\n");
        for odd in [&b"not json"[..], b" 1", b"{\"a\":\n1}", b"", b"\xff"] {
            let line = framed(odd);
            let line = line.strip_prefix(b"{\"sql_base64\":\"").unwrap().strip_suffix(b"\"}\n").unwrap();
            assert_eq!(STANDARD.decode(line).unwrap(), odd);
        }
    }
}
