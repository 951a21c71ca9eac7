//! Issue trackers with notes that closed an issue: `NAME.cases.jsonl`, with `NAME.items.jsonl` beside it, gzip or plain.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use memory_core::{Error, Result, Timestamp};
use serde::Deserialize;

use crate::lines::{self, LeftOut, Lines};

/// Longest line, in bytes.
const MAX_LINE_BYTES: u64 = 16 << 20;

/// An issue.
#[derive(Debug, Deserialize)]
pub(super) struct Item {
    #[serde(deserialize_with = "lines::text")]
    pub(super) id: String,
    #[serde(default, deserialize_with = "lines::text")]
    pub(super) title: String,
    #[serde(default, deserialize_with = "lines::text")]
    pub(super) description: String,
    #[serde(deserialize_with = "lines::time")]
    pub(super) created_at: Timestamp,
    #[serde(default, deserialize_with = "memory_core::time::read_or_none")]
    pub(super) closed_at: Option<Timestamp>,
}

/// A note, the issue it closed, and what was open then.
#[derive(Debug, Deserialize)]
pub(super) struct Case {
    #[serde(default, deserialize_with = "lines::text")]
    pub(super) case: String,
    pub(super) note: String,
    #[serde(deserialize_with = "lines::time")]
    pub(super) observed_at: Timestamp,
    #[serde(deserialize_with = "lines::text")]
    pub(super) gold: String,
    pub(super) open: Vec<Id>,
}

/// The id of an issue.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(transparent)]
pub(super) struct Id(#[serde(deserialize_with = "lines::text")] pub(super) String);

/// One tracker.
#[derive(Debug)]
pub(super) struct Tracker {
    /// NAME of its files.
    pub(super) name: String,
    /// By time of creation.
    pub(super) items: Vec<Item>,
    /// By time.
    pub(super) cases: Vec<Case>,
    /// Lines that are no issue, and cases that name issues which are not there.
    pub(super) left_out: Vec<LeftOut>,
}

/// Reads a tracker from its file of cases.
pub(super) fn load(path: &Path) -> Result<Tracker> {
    let (name, items_path) = beside(path)?;
    let Lines { read: items, mut left_out } = lines::read::<Item>(&items_path, MAX_LINE_BYTES)?;
    let (mut seen, mut kept) = (HashSet::new(), Vec::new());
    for (line, item) in items {
        if seen.insert(item.id.clone()) {
            kept.push(item);
        } else {
            left_out.push(LeftOut { line, why: format!("`{}` is there already", item.id) });
        }
    }
    let mut items: Vec<Item> = kept;
    let known: HashSet<&str> = items.iter().map(|item| item.id.as_str()).collect();
    let Lines { read, left_out: mut lost } = lines::read::<Case>(path, MAX_LINE_BYTES)?;
    let mut cases = Vec::new();
    for (line, case) in read {
        let stranger = case.open.iter().find(|Id(id)| !known.contains(id.as_str()));
        if !case.open.iter().any(|Id(id)| *id == case.gold) {
            let why = format!("`{}` is not among the issues open then", case.gold);
            lost.push(LeftOut { line, why });
        } else if let Some(Id(id)) = stranger {
            lost.push(LeftOut { line, why: format!("`{id}` is not in {}", items_path.display()) });
        } else {
            cases.push(case);
        }
    }
    if cases.is_empty() {
        let why =
            lost.first().map(|first| format!("; line {}: {}", first.line, first.why)).unwrap_or_default();
        let why = format!("no case of {} can be judged{why}", path.display());
        return Err(Error::invalid(why).with_detail("file", path.display().to_string()));
    }
    lines::tell(&items_path, &left_out);
    lines::tell(path, &lost);
    left_out.append(&mut lost);
    items.sort_by(|a, b| a.created_at.cmp(&b.created_at).then_with(|| a.id.cmp(&b.id)));
    cases.sort_by(|a, b| a.observed_at.cmp(&b.observed_at).then_with(|| a.case.cmp(&b.case)));
    Ok(Tracker { name, items, cases, left_out })
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
