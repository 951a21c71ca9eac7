//! A shared space with a few rows.

use memory_core::Timestamp;
use memory_governed::resolve::{DeferReason, Resolution, Row, Space, resolve};
use memory_governed::{Actor, Bucket, Note, NoteSource, Operation, Trust, WriteRequest};

/// A day, from 0.
pub(crate) fn day(day: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + day * 86_400_000).unwrap()
}

pub(crate) fn issue(id: &str, title: &str) -> Row {
    Row {
        id: id.to_owned(),
        bucket: Bucket::Issues,
        title: title.to_owned(),
        description: String::new(),
        opened_at: day(1),
        ended_at: None,
        live: true,
        creator: "ann".to_owned(),
        owner: None,
        trust: Trust::Agent,
        aliases: Vec::new(),
    }
}

pub(crate) fn space(rows: impl IntoIterator<Item = Row>) -> Space {
    let mut space = Space::new();
    space.extend(rows);
    space
}

/// Issues about different work, so that words differ in rarity.
pub(crate) fn busy() -> Space {
    space([
        issue("db_outage", "Database outage in the Frankfurt region"),
        issue("redis_timeout", "Redis times out under load"),
        issue("lint_errors", "Lint errors in the billing service"),
        issue("pandas_import_blocker", "The notebook cannot import pandas"),
        issue("slow_search", "Search over archived invoices is slow"),
        issue("csv_export", "CSV export drops the last column of wide reports"),
    ])
}

/// A note by `ann`, who wrote the rows, on day 10.
pub(crate) fn note(text: &str) -> Note {
    Note {
        id: "n1".to_owned(),
        actor: Actor { agent: "ann".to_owned(), run: "r1".to_owned(), trust: Trust::Agent },
        source: NoteSource::Agent,
        observed_at: day(10),
        text: text.to_owned(),
    }
}

pub(crate) fn by(agent: &str, trust: Trust, note: Note) -> Note {
    Note { actor: Actor { agent: agent.to_owned(), run: "r2".to_owned(), trust }, ..note }
}

pub(crate) fn ends() -> WriteRequest {
    WriteRequest::new(Bucket::Issues, Operation::Resolve)
}

/// The result of a request to end an issue.
pub(crate) fn end(space: &Space, text: &str) -> Resolution {
    resolve(space, &ends(), &note(text), &[])
}

#[track_caller]
pub(crate) fn bound(resolution: &Resolution) -> &str {
    match resolution {
        Resolution::Bind(binding) => &binding.id,
        other => panic!("not bound: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn deferred(resolution: &Resolution) -> &DeferReason {
    match resolution {
        Resolution::Defer(deferral) => &deferral.reason,
        other => panic!("not deferred: {other:?}"),
    }
}
