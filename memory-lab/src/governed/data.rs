//! Issue trackers with notes that closed an issue: `NAME.cases.jsonl`, with `NAME.items.jsonl` beside it, gzip or plain.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use memory_core::{Error, ErrorKind, Result, Timestamp};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Longest line, in bytes.
const MAX_LINE_BYTES: u64 = 16 << 20;

/// An issue.
#[derive(Debug, Deserialize)]
pub(super) struct Item {
    pub(super) id: String,
    pub(super) title: String,
    #[serde(default)]
    pub(super) description: String,
    pub(super) created_at: Timestamp,
}

/// A note, the issue it closed, and what was open then.
#[derive(Debug, Deserialize)]
pub(super) struct Case {
    pub(super) case: String,
    pub(super) note: String,
    pub(super) observed_at: Timestamp,
    pub(super) gold: String,
    pub(super) open: Vec<String>,
}

/// One tracker.
#[derive(Debug)]
pub(super) struct Tracker {
    /// NAME of its files.
    pub(super) name: String,
    /// By time of creation.
    pub(super) items: Vec<Item>,
    /// By time.
    pub(super) cases: Vec<Case>,
}

/// Reads a tracker from its file of cases.
pub(super) fn load(path: &Path) -> Result<Tracker> {
    let (name, items_path) = beside(path)?;
    let mut items: Vec<Item> = lines(&items_path)?;
    let mut cases: Vec<Case> = lines(path)?;
    let known: HashSet<&str> = items.iter().map(|item| item.id.as_str()).collect();
    for case in &cases {
        let broken = if !case.open.contains(&case.gold) {
            Some(format!("`{}` is not among the issues open then", case.gold))
        } else {
            let stranger = case.open.iter().find(|id| !known.contains(id.as_str()));
            stranger.map(|id| format!("`{id}` is not in {}", items_path.display()))
        };
        if let Some(broken) = broken {
            return Err(Error::invalid(format!("case `{}`: {broken}", case.case))
                .with_detail("file", path.display().to_string()));
        }
    }
    items.sort_by(|a, b| a.created_at.cmp(&b.created_at).then_with(|| a.id.cmp(&b.id)));
    cases.sort_by(|a, b| a.observed_at.cmp(&b.observed_at).then_with(|| a.case.cmp(&b.case)));
    Ok(Tracker { name, items, cases })
}

/// The name of a tracker, and the file of its issues.
fn beside(cases: &Path) -> Result<(String, PathBuf)> {
    let file = cases.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let (name, ending) = file
        .split_once(".cases.jsonl")
        .filter(|(name, ending)| !name.is_empty() && ["", ".gz"].contains(ending))
        .ok_or_else(|| {
            Error::invalid(format!("`{file}` is not named NAME.cases.jsonl or NAME.cases.jsonl.gz"))
        })?;
    Ok((name.to_owned(), cases.with_file_name(format!("{name}.items.jsonl{ending}"))))
}

fn lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let named = |error: Error| error.with_detail("file", path.display().to_string());
    let unreadable = |error: std::io::Error| {
        let missing = error.kind() == std::io::ErrorKind::NotFound;
        let kind = if missing { ErrorKind::NotFound } else { ErrorKind::InvalidArgument };
        named(Error::new(kind, format!("{} cannot be read: {error}", path.display())))
    };
    let mut file = BufReader::new(File::open(path).map_err(unreadable)?);
    let gzip = file.fill_buf().map_err(unreadable)?.starts_with(&[0x1f, 0x8b]);
    let mut source: Box<dyn std::io::BufRead> =
        if gzip { Box::new(BufReader::new(MultiGzDecoder::new(file))) } else { Box::new(file) };
    let (mut found, mut line, mut number) = (Vec::new(), String::new(), 0_usize);
    loop {
        line.clear();
        number += 1;
        if (&mut source).take(MAX_LINE_BYTES).read_line(&mut line).map_err(unreadable)? == 0 {
            return Ok(found);
        }
        if !line.trim().is_empty() {
            let wrong = |error| {
                named(Error::invalid(format!(
                    "line {number} of {} is not as it should be: {error}",
                    path.display()
                )))
            };
            found.push(serde_json::from_str(&line).map_err(wrong)?);
        }
    }
}
