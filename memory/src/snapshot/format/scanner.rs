//! Reads a snapshot: lines, their order, their digests. Keeps only one line in memory, whatever the file contains.

use std::io::{self, BufRead, Seek, SeekFrom};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memory_core::limits::MAX_PAGE;
use memory_core::{Error, Record, Result, Retry, Scope, SqlDialect, Tombstone};
use sha2::{Digest as _, Sha256};

use super::super::control::{Control, Progress};
use super::digest::SqlHash;
use super::lines::{
    End, EntriesEnd, Frame, Header, MAX_LINE_BYTES, MAX_NOT_CARRIED, RECORD, Read, SQL, SQL_BASE64, ScopeEnd,
    ScopeSkipped, Section, SqlBegin, SqlEnd, VERSION, WITHOUT_TOMBSTONES, read_line,
};
use super::records::Passed;
use crate::hex::hex;

/// A parsed line.
#[derive(Debug)]
pub(in crate::snapshot) enum Item {
    Tombstones(Vec<Tombstone>),
    Scope(Scope),
    Record(Box<Record>),
    EntriesEnd,
    SqlBegin,
    Sql(Vec<u8>),
    SqlEnd(SqlEnd),
    ScopeEnd(ScopeEnd),
    ScopeSkipped(ScopeSkipped),
    End,
}

/// The reader's position within a scope.
#[derive(Clone)]
enum Part {
    Begun,
    Entries(Passed),
    AfterEntries,
    Sql(SqlHash),
    AfterSql,
}

/// A scope being read.
#[derive(Clone)]
struct Open {
    scope: Scope,
    hash: Sha256,
    bytes: u64,
    part: Part,
    entries: u64,
    vectors: u64,
    sql_lines: u64,
}

/// The reader's state, to return to a position.
#[derive(Clone)]
pub(in crate::snapshot) struct Mark {
    line: u64,
    hash: Sha256,
    last: Option<Scope>,
    open: Option<Open>,
    totals: End,
    progress: Progress,
}

/// Reads a snapshot line by line and refuses invalid ones.
pub(in crate::snapshot) struct Scanner<R> {
    input: R,
    /// Where the snapshot starts in the input.
    base: u64,
    buffer: Vec<u8>,
    at: Mark,
    pub(in crate::snapshot) header: Header,
}

impl<R: BufRead + Seek> Scanner<R> {
    /// Reads the header.
    pub(in crate::snapshot) fn open(mut input: R) -> Result<Self> {
        let base = input.stream_position().map_err(unread)?;
        let mut buffer = Vec::new();
        let foreign =
            || corrupt("the file does not begin like a snapshot; name a file written by `memory snapshot`");
        let line = match read_line(&mut input, &mut buffer).map_err(unread)? {
            Read::Line => buffer.as_slice(),
            Read::End | Read::Cut | Read::TooLong => return Err(foreign()),
        };
        check_version(line)?;
        let Ok(Frame::MemorySnapshot(header)) = serde_json::from_slice::<Frame>(line) else {
            return Err(foreign());
        };
        if header.sections.contains(&Section::Sql) != header.sql_dialect.is_some() {
            return Err(corrupt("the header contradicts itself about SQL"));
        }
        let mut at = Mark {
            line: 1,
            hash: Sha256::new(),
            last: None,
            open: None,
            totals: End::default(),
            progress: Progress::default(),
        };
        at.hash.update(line);
        at.progress.bytes = line.len() as u64;
        Ok(Self { input, base, buffer, at, header })
    }

    /// The last line read, including its line feed.
    pub(in crate::snapshot) fn line(&self) -> &[u8] {
        &self.buffer
    }

    pub(in crate::snapshot) fn progress(&self) -> &Progress {
        &self.at.progress
    }

    /// The current position.
    pub(in crate::snapshot) fn mark(&self) -> Mark {
        self.at.clone()
    }

    /// Moves to a position.
    pub(in crate::snapshot) fn rewind(&mut self, mark: Mark) -> Result<()> {
        let to = self.base.saturating_add(mark.progress.bytes);
        self.input.seek(SeekFrom::Start(to)).map_err(unread)?;
        self.at = mark;
        Ok(())
    }

    /// The next line; [`Item::End`] is the last.
    pub(in crate::snapshot) fn next(&mut self) -> Result<Item> {
        let mut line = std::mem::take(&mut self.buffer);
        let item = self.read(&mut line);
        self.buffer = line;
        item
    }

    fn read(&mut self, line: &mut Vec<u8>) -> Result<Item> {
        self.at.line += 1;
        match read_line(&mut self.input, line).map_err(unread)? {
            Read::Line => {}
            Read::End | Read::Cut => {
                return Err(self.broken("the file ends before the snapshot does; it was truncated"));
            }
            Read::TooLong => {
                return Err(self.broken(format!("the line is longer than {MAX_LINE_BYTES} bytes")));
            }
        }
        let item = self.item(line)?;
        match item {
            Item::End => {
                let mut more = [0];
                if io::Read::read(&mut self.input, &mut more).map_err(unread)? > 0 {
                    return Err(self.broken("the file goes on after the end of the snapshot"));
                }
                return Ok(item);
            }
            Item::ScopeEnd(_) | Item::ScopeSkipped(_) => {}
            _ => {
                if let Some(open) = &mut self.at.open {
                    open.hash.update(&line);
                    open.bytes += line.len() as u64;
                }
            }
        }
        self.at.hash.update(&line);
        self.at.progress.bytes += line.len() as u64;
        Ok(item)
    }

    fn item(&mut self, line: &[u8]) -> Result<Item> {
        let content = line.strip_suffix(b"\n").unwrap_or(line);
        if RECORD.iter().any(|begin| content.starts_with(begin.as_bytes())) {
            return self.record(line);
        }
        if let Some(rest) = content.strip_prefix(SQL.as_bytes()) {
            let dumped =
                rest.strip_suffix(b"}").ok_or_else(|| self.broken("the line of a dump is invalid"))?;
            return self.dumped(dumped.to_vec());
        }
        if let Some(rest) = content.strip_prefix(SQL_BASE64.as_bytes()) {
            let text = rest.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"}"));
            let dumped = text.and_then(|text| STANDARD.decode(text).ok());
            return self.dumped(dumped.ok_or_else(|| self.broken("the line of a dump is invalid"))?);
        }
        match serde_json::from_slice::<Frame>(content) {
            Ok(Frame::Tombstones(tombstones)) => self.tombstones(tombstones),
            Ok(Frame::Scope(scope)) => self.scope(scope),
            Ok(Frame::EntriesEnd(end)) => self.entries_end(end),
            Ok(Frame::SqlBegin(SqlBegin { dialect })) => self.sql_begin(dialect),
            Ok(Frame::SqlEnd(end)) => self.sql_end(end),
            Ok(Frame::ScopeEnd(end)) => self.scope_end(end),
            Ok(Frame::ScopeSkipped(skipped)) => match self.at.open.take() {
                Some(_) => {
                    self.at.totals.skipped += 1;
                    Ok(Item::ScopeSkipped(skipped))
                }
                None => Err(self.misplaced()),
            },
            Ok(Frame::End(end)) => self.end(end),
            Ok(Frame::MemorySnapshot(_)) => Err(self.misplaced()),
            // serde_json's message could quote the line.
            Err(_) => Err(self.broken("the line is not valid in a snapshot")),
        }
    }

    fn tombstones(&mut self, tombstones: Vec<Tombstone>) -> Result<Item> {
        if self.at.open.is_some() || self.at.last.is_some() || self.header.version == WITHOUT_TOMBSTONES {
            return Err(self.misplaced());
        }
        let odd = |tombstone: &Tombstone| tombstone.id.key.is_some() && tombstone.id.scope.is_none();
        if tombstones.is_empty() || tombstones.len() > MAX_PAGE || tombstones.iter().any(odd) {
            return Err(self.broken("the tombstones are invalid, or too many for a line"));
        }
        Ok(Item::Tombstones(tombstones))
    }

    fn scope(&mut self, scope: Scope) -> Result<Item> {
        if self.at.open.is_some() {
            return Err(self.misplaced());
        }
        if self.at.last.as_ref().is_some_and(|last| *last >= scope) {
            return Err(self.broken("the scope is out of order or repeated"));
        }
        if !scope.kind.is_durable()
            || self.header.tenant.as_ref().is_some_and(|tenant| *tenant != scope.tenant)
        {
            return Err(self.broken("the scope does not belong in this snapshot"));
        }
        self.at.last = Some(scope.clone());
        self.at.open = Some(Open {
            scope: scope.clone(),
            hash: Sha256::new(),
            bytes: 0,
            part: Part::Begun,
            entries: 0,
            vectors: 0,
            sql_lines: 0,
        });
        Ok(Item::Scope(scope))
    }

    fn record(&mut self, line: &[u8]) -> Result<Item> {
        let has_entries = self.header.sections.contains(&Section::Entries);
        let Some(open) = self.at.open.as_mut().filter(|_| has_entries) else { return Err(self.misplaced()) };
        if let Part::Begun = open.part {
            open.part = Part::Entries(Passed::default());
        }
        let Part::Entries(passed) = &mut open.part else { return Err(self.misplaced()) };
        let record = match passed.take(line) {
            Ok(record) => record,
            Err(error) => return Err(self.broken(error.message().to_owned())),
        };
        self.at.progress.entries += 1;
        Ok(Item::Record(Box::new(record)))
    }

    fn entries_end(&mut self, end: EntriesEnd) -> Result<Item> {
        let has_entries = self.header.sections.contains(&Section::Entries);
        let Some(open) = self.at.open.as_mut().filter(|_| has_entries) else { return Err(self.misplaced()) };
        let found = match std::mem::replace(&mut open.part, Part::AfterEntries) {
            Part::Begun => Passed::default(),
            Part::Entries(passed) => passed,
            _ => return Err(self.misplaced()),
        }
        .end();
        (open.entries, open.vectors) = (found.entries, found.vectors);
        if found != end {
            return Err(self.broken("the records of the scope do not match their digest"));
        }
        Ok(Item::EntriesEnd)
    }

    fn sql_begin(&mut self, dialect: SqlDialect) -> Result<Item> {
        let fits = self.header.sql_dialect == Some(dialect);
        match self.at.open.as_mut() {
            Some(open) if fits && matches!(open.part, Part::Begun | Part::AfterEntries) => {
                open.part = Part::Sql(SqlHash::default());
                Ok(Item::SqlBegin)
            }
            _ => Err(self.misplaced()),
        }
    }

    fn dumped(&mut self, dumped: Vec<u8>) -> Result<Item> {
        match self.at.open.as_mut().map(|open| &mut open.part) {
            Some(Part::Sql(hash)) => hash.add(&dumped),
            _ => return Err(self.misplaced()),
        }
        self.at.progress.sql_lines += 1;
        Ok(Item::Sql(dumped))
    }

    fn sql_end(&mut self, end: SqlEnd) -> Result<Item> {
        let Some(open) = self.at.open.as_mut() else { return Err(self.misplaced()) };
        let Part::Sql(hash) = std::mem::replace(&mut open.part, Part::AfterSql) else {
            return Err(self.misplaced());
        };
        let found = hash.end();
        open.sql_lines = found.lines;
        if found != end {
            return Err(self.broken("the dump of the scope's database does not match its digest"));
        }
        Ok(Item::SqlEnd(end))
    }

    fn scope_end(&mut self, end: ScopeEnd) -> Result<Item> {
        let Some(open) = self.at.open.take() else { return Err(self.misplaced()) };
        let is_whole = matches!(open.part, Part::Begun | Part::AfterEntries | Part::AfterSql);
        let matches = open.bytes == end.bytes && hex(open.hash.clone()) == end.sha256;
        if !is_whole || !matches || end.not_carried.len() > MAX_NOT_CARRIED {
            self.at.open = Some(open);
            return Err(self.broken("the scope does not match its digest"));
        }
        let totals = &mut self.at.totals;
        totals.scopes += 1;
        totals.entries += open.entries;
        totals.vectors += open.vectors;
        totals.sql_lines += open.sql_lines;
        self.at.progress.scopes += 1;
        Ok(Item::ScopeEnd(end))
    }

    fn end(&mut self, end: End) -> Result<Item> {
        if self.at.open.is_some() {
            return Err(self.misplaced());
        }
        let mut found = self.at.totals.clone();
        found.bytes = self.at.progress.bytes;
        found.sha256 = hex(self.at.hash.clone());
        if found != end {
            return Err(self.broken("the file does not match its digest"));
        }
        Ok(Item::End)
    }

    fn misplaced(&self) -> Error {
        self.broken("the line is out of place")
    }

    /// An error that gives the position.
    fn broken(&self, what: impl Into<std::borrow::Cow<'static, str>>) -> Error {
        let (what, line) = (what.into(), self.at.line);
        let error = match &self.at.open {
            Some(open) => {
                let scope = serde_json::to_value(&open.scope).unwrap_or_default();
                corrupt(format!("line {line}, in the scope {}: {what}", open.scope))
                    .with_detail("scope", scope)
            }
            None => corrupt(format!("line {line}: {what}")),
        };
        error.with_detail("line", line)
    }
}

/// Checks the version before anything that a newer version may have changed.
fn check_version(line: &[u8]) -> Result<()> {
    #[derive(serde::Deserialize)]
    struct Begin {
        memory_snapshot: Version,
    }
    #[derive(serde::Deserialize)]
    struct Version {
        version: u32,
    }
    match serde_json::from_slice::<Begin>(line) {
        Ok(Begin { memory_snapshot: Version { version } }) if version > VERSION => Err(corrupt(format!(
            "the snapshot has version {version}; this program reads up to {VERSION}: use the one that wrote it, or a newer one"
        ))),
        _ => Ok(()),
    }
}

fn corrupt(what: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::corrupt(what)
}

fn unread(error: io::Error) -> Error {
    Error::unavailable("the rest of the snapshot cannot be read; check that the file still exists")
        .with_retry(Retry::Never)
        .with_source(error)
}

/// Reads a whole snapshot, checks every digest, and returns its counts.
///
/// # Behavior
/// - SNP-11: A file that is truncated, reordered, changed in any bit or not of this format is `corrupt`; the error names the
///   line and its scope.
/// - SNP-13: Nothing in a file makes a reader use more memory than one line.
///
/// # Errors
/// `corrupt` with `details.line`, and `details.scope` within a scope, for an invalid snapshot; `unavailable`.
pub fn check<R: BufRead + Seek>(file: R, control: &Control) -> Result<Progress> {
    let mut scanner = Scanner::open(file)?;
    loop {
        let item = scanner.next()?;
        control.go_on()?;
        match item {
            Item::End => return Ok(*scanner.progress()),
            Item::ScopeEnd(_) => control.show(scanner.progress()),
            _ => {}
        }
    }
}
