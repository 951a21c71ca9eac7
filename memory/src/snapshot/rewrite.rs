//! Rewrites a snapshot without a forgotten target.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

use memory_core::{EraseTarget, Error, ErrorKind, Result};
use sha2::{Digest as _, Sha256};

use super::file::place::{Draft, Place, sync_folder, unwritten as file_unwritten};
use super::format::digest::EntriesHash;
use super::format::lines::{End, Frame, ScopeEnd};
use super::format::scanner::{Item, Scanner};
use super::write::unwritten;
use crate::hex::hex;

/// What a snapshot holds, or held, of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// Nothing.
    Nothing,
    /// Something, among other content. For a rewritten snapshot, with its new digest and size.
    Some {
        /// Its digest now.
        sha256: String,
        /// Its bytes now.
        bytes: u64,
    },
    /// Nothing else.
    All,
}

/// Output that is digested as it is written.
struct Out<W> {
    to: W,
    file: Sha256,
    scope: Sha256,
    scope_bytes: u64,
    end: End,
}

impl<W: Write> Out<W> {
    fn raw(&mut self, line: &[u8]) -> Result<()> {
        self.to.write_all(line).map_err(unwritten)?;
        self.file.update(line);
        self.scope.update(line);
        self.scope_bytes += line.len() as u64;
        self.end.bytes += line.len() as u64;
        Ok(())
    }

    fn frame(&mut self, frame: &Frame) -> Result<()> {
        let mut line = serde_json::to_vec(frame)
            .map_err(|error| Error::internal("a line has no JSON form").with_source(error))?;
        line.push(b'\n');
        self.raw(&line)
    }
}

/// Whether a snapshot contains anything of a target. Reads and checks the whole file.
pub(crate) fn holds(path: &Path, target: &EraseTarget) -> Result<Held> {
    copy(&mut Scanner::open(open(path)?)?, std::io::sink(), target).map(|(held, _)| held)
}

/// Replaces a snapshot with one that lacks the target, completely or not at all, or removes it if it contains nothing
/// else. The time at which it was taken stays.
pub(crate) fn rewrite(path: &Path, target: &EraseTarget) -> Result<Held> {
    let place = Place::of(path)?;
    place.clean()?;
    let mut scanner = Scanner::open(open(path)?)?;
    let (mut draft, file) = Draft::create(&place)?;
    let (held, out) = copy(&mut scanner, BufWriter::with_capacity(1 << 16, file), target)?;
    match held {
        Held::Nothing => {}
        Held::All => {
            fs::remove_file(path).map_err(file_unwritten(path))?;
            sync_folder(&place.folder)?;
        }
        Held::Some { .. } => {
            let written = out.into_inner().map_err(std::io::IntoInnerError::into_error);
            written.and_then(|file| file.sync_all()).map_err(file_unwritten(path))?;
            draft.name(&place)?;
        }
    }
    Ok(held)
}

fn open(path: &Path) -> Result<BufReader<File>> {
    let found = fs::symlink_metadata(path).map_err(unread)?;
    if !found.is_file() {
        return Err(Error::corrupt("it is not a file"));
    }
    File::open(path).map(|file| BufReader::with_capacity(1 << 16, file)).map_err(unread)
}

fn unread(error: std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::NotFound => ErrorKind::NotFound,
        std::io::ErrorKind::PermissionDenied => ErrorKind::Forbidden,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, format!("it cannot be read: {error}")).with_source(error)
}

/// Copies everything except the target.
fn copy<W: Write>(scanner: &mut Scanner<BufReader<File>>, to: W, target: &EraseTarget) -> Result<(Held, W)> {
    let mut out = Out { to, file: Sha256::new(), scope: Sha256::new(), scope_bytes: 0, end: End::default() };
    out.raw(scanner.line())?;
    let mut dropped = false;
    // The current scope, and its totals without the target's lines.
    let (mut scope, mut leaves_out) = (None, false);
    let (mut hash, mut sql_lines) = (EntriesHash::default(), 0_u64);
    let (mut entries, mut vectors) = (0, 0);
    loop {
        let item = scanner.next()?;
        if let Item::Scope(next) = &item {
            leaves_out = target.has_scope(next);
            dropped |= leaves_out;
            (hash, scope) = (EntriesHash::default(), Some(next.clone()));
            (entries, vectors, sql_lines) = (0_u64, 0_u64, 0);
            (out.scope, out.scope_bytes) = (Sha256::new(), 0);
        }
        match item {
            Item::End => {
                let mut end = std::mem::take(&mut out.end);
                end.sha256 = hex(out.file.clone());
                let (sha256, empty) = (end.sha256.clone(), end.scopes + end.skipped == 0);
                let before = end.bytes;
                out.frame(&Frame::End(end))?;
                let bytes = before + out.end.bytes;
                out.to.flush().map_err(unwritten)?;
                let held = match (dropped, empty) {
                    (false, _) => Held::Nothing,
                    (true, true) => Held::All,
                    (true, false) => Held::Some { sha256, bytes },
                };
                return Ok((held, out.to));
            }
            _ if leaves_out => {}
            Item::Tombstones(_) | Item::Scope(_) | Item::SqlBegin | Item::SqlEnd(_) => {
                out.raw(scanner.line())?;
            }
            Item::Record(mut record) => {
                let goes = scope.as_ref().is_some_and(|scope| target.has_entry(scope, &record.entry.key));
                dropped |= goes;
                if !goes {
                    entries += 1;
                    vectors += record.vectors.len() as u64;
                    hash.add_line(scanner.line(), &mut record)?;
                    out.raw(scanner.line())?;
                }
            }
            Item::EntriesEnd => out.frame(&Frame::EntriesEnd(std::mem::take(&mut hash).end()))?,
            Item::Sql(_) => {
                sql_lines += 1;
                out.raw(scanner.line())?;
            }
            Item::ScopeEnd(end) => {
                let (bytes, sha256) = (out.scope_bytes, hex(out.scope.clone()));
                out.frame(&Frame::ScopeEnd(ScopeEnd { bytes, sha256, ..end }))?;
                out.end.scopes += 1;
                out.end.entries += entries;
                out.end.vectors += vectors;
                out.end.sql_lines += sql_lines;
            }
            Item::ScopeSkipped(_) => {
                out.raw(scanner.line())?;
                out.end.skipped += 1;
            }
        }
    }
}
