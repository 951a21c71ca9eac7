//! The first line of a backup.

use std::io::{self, BufRead as _, Read as _};
use std::path::Path;

use memory_core::{DriftToken, Scope, Timestamp};
use serde::Deserialize;

use super::file::open_plain;

/// The `format` of a backup.
pub(super) const FORMAT: &str = "memory-drift-backup-1";

/// Longest first line of a backup.
const HEADER: u64 = 16 << 10;

/// When and why a scope was saved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Occasion {
    pub(super) timestamp: Timestamp,
    pub(super) observed: Option<DriftToken>,
    pub(super) actual: Option<DriftToken>,
    pub(super) snapshot: DriftToken,
}

/// The first line of a backup.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Header {
    format: String,
    pub(super) timestamp: Timestamp,
    pub(super) generation_observed: Option<DriftToken>,
    pub(super) generation_actual: Option<DriftToken>,
    pub(super) generation_snapshot: DriftToken,
    pub(super) scope: Scope,
    pub(super) database: Option<String>,
}

/// Reads the first line of a backup.
pub(super) fn header_of(line: &str) -> Option<Header> {
    let whole = format!("{}]}}", line.trim_end());
    serde_json::from_str::<Header>(&whole).ok().filter(|header| header.format == FORMAT)
}

/// Reads the first line of a file.
pub(super) fn header(path: &Path) -> io::Result<Header> {
    let mut line = String::new();
    io::BufReader::new(open_plain(path)?.take(HEADER)).read_line(&mut line)?;
    header_of(&line).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it is not a backup"))
}
