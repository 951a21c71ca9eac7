//! The seven state machines: how an event changes a row. Pure, so that a rebuild gives the same as the projection.

use std::collections::BTreeMap;

use serde_json::Value;

use super::row::Row;
use crate::bucket::{Bucket, Operation};
use crate::columns::{Kind, SUPERSEDED_BY, columns};
use crate::ledger::Event;
use crate::note::Trust;
use crate::seams::Alias;

/// Most aliases that a row remembers.
const MAX_ALIASES: usize = 32;

/// How an event changes a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// The row is now this.
    Write(Box<Row>),
    /// The event is part of the history, and changes nothing; why.
    Record(&'static str),
    /// It is already so; why.
    NoOp(&'static str),
    /// It cannot be done on this row, and must not be guessed; why.
    Defer(&'static str),
    /// It makes no sense; the reason.
    Reject(String),
}

/// Applies an event to the row it names.
pub(crate) fn step(prior: Option<&Row>, event: &Event) -> Step {
    match (event.operation, prior) {
        (Operation::Resolve, prior) => end(prior, event, "resolved"),
        (Operation::Invalidate, prior) if event.bucket == Bucket::Decisions => {
            end(prior, event, "superseded")
        }
        (Operation::Invalidate, prior) => end(prior, event, "invalidated"),
        (Operation::Reopen, prior) => reopen(prior, event),
        (Operation::Review, _) => Step::Record("a decision that changes no row"),
        (Operation::Upsert | Operation::Append, None) => create(event),
        (Operation::Append, Some(row)) => append_again(row, event),
        (Operation::Upsert, Some(row)) => change(row, event),
    }
}

fn end(prior: Option<&Row>, event: &Event, status: &str) -> Step {
    match prior {
        None => Step::Defer("no such row"),
        Some(row) if !row.is_live() => Step::NoOp("it has ended already"),
        Some(row) if row.valid_from > event.observed_at => {
            Step::Defer("the row was opened after this was observed")
        }
        Some(row) => {
            let mut row = changed(row, event);
            row.status = status.to_owned();
            row.valid_to = Some(event.observed_at);
            row.superseded_by = event.payload.get(SUPERSEDED_BY).and_then(Value::as_str).map(str::to_owned);
            Step::Write(Box::new(row))
        }
    }
}

/// The row holds again from the event's time on, so that earlier observations do not end it.
fn reopen(prior: Option<&Row>, event: &Event) -> Step {
    match prior {
        None => Step::Defer("no such row"),
        Some(row) if row.is_live() => Step::NoOp("it is open"),
        Some(row) if row.valid_to.is_some_and(|ended| ended > event.observed_at) => {
            Step::Defer("it ended after this was observed")
        }
        Some(row) => {
            let mut row = changed(row, event);
            row.status = "open".to_owned();
            (row.valid_from, row.valid_to) = (event.observed_at, None);
            Step::Write(Box::new(row))
        }
    }
}

fn create(event: &Event) -> Step {
    let bucket = event.bucket;
    let missing = columns(bucket)
        .iter()
        .find(|column| column.required && event.payload.get(column.name).is_none_or(Value::is_null));
    if let Some(missing) = missing {
        return Step::Reject(format!("a new row of {bucket} needs {}", missing.name));
    }
    let status = match bucket {
        Bucket::Issues => "open",
        Bucket::Plan | Bucket::Results => "current",
        _ => "active",
    };
    let mut row = Row {
        bucket,
        id: event.target_id.clone(),
        status: status.to_owned(),
        fields: BTreeMap::new(),
        rev: 1,
        created_by: event.actor.agent.clone(),
        trust: event.actor.trust,
        first_event: event.seq,
        last_event: event.seq,
        observed_at: event.observed_at,
        valid_from: event.observed_at,
        valid_to: None,
        superseded_by: None,
        aliases: Vec::new(),
    };
    merge(&mut row, event);
    remember(&mut row, event);
    Step::Write(Box::new(row))
}

/// A decision, result or learning whose id is taken; a different one has already been given its own id.
fn append_again(row: &Row, event: &Event) -> Step {
    let mut same = row.clone();
    merge(&mut same, event);
    if same.fields == row.fields {
        Step::NoOp("it is recorded already")
    } else {
        Step::Defer("the id is taken")
    }
}

fn change(row: &Row, event: &Event) -> Step {
    if event.bucket == Bucket::TaskState && event.observed_at < row.observed_at {
        return Step::Record("a later state is known");
    }
    if !row.is_live() {
        return Step::Defer("the row has ended, and nothing reopens it silently");
    }
    if event.is_emptied() {
        return Step::NoOp("it says nothing, or what it said was forgotten");
    }
    let mut next = row.clone();
    merge(&mut next, event);
    remember(&mut next, event);
    if event.bucket == Bucket::TaskState {
        // If the same state is observed again later, it outlasts what was observed in between.
        next.observed_at = event.observed_at;
    }
    if next == *row {
        return Step::NoOp("it says so already");
    }
    next.observed_at = next.observed_at.max(event.observed_at);
    Step::Write(Box::new(changed(&next, event)))
}

/// The row after an event. What binds others has the trust of the most trusted of its writers, whose words they are.
fn changed(row: &Row, event: &Event) -> Row {
    let trust = match row.bucket {
        Bucket::Plan | Bucket::Constraints => row.trust.max(event.actor.trust),
        _ => row.trust,
    };
    Row { rev: row.rev + 1, last_event: event.seq, trust, ..row.clone() }
}

/// Sets the given members; `null` removes one. A plan is replaced as a whole, since it has one member.
fn merge(row: &mut Row, event: &Event) {
    for column in columns(event.bucket) {
        let Some(value) = event.payload.get(column.name) else { continue };
        match (column.kind, value) {
            (_, Value::Null) => drop(row.fields.remove(column.name)),
            (Kind::Status, Value::String(status)) => row.status.clone_from(status),
            (Kind::Real | Kind::Share, number) => {
                // The column's type, so that what is read back equals what was written. Not every store has a negative
                // zero.
                let number = number.as_f64().map(|number| number + 0.0);
                let number = number.and_then(serde_json::Number::from_f64);
                row.fields.insert(column.name.to_owned(), number.map_or(Value::Null, Value::Number));
            }
            (_, value) => drop(row.fields.insert(column.name.to_owned(), value.clone())),
        }
    }
}

/// Keeps the names given by whoever creates or changes the row. Merely mentioning a row does not name it.
fn remember(row: &mut Row, event: &Event) {
    for alias in &event.source_ref.aliases {
        let alias = alias.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        if alias.is_empty() || row.aliases.len() >= MAX_ALIASES {
            continue;
        }
        let trust: Trust = event.actor.trust;
        match row.aliases.iter_mut().find(|known| known.alias == alias) {
            Some(known) => known.trust = known.trust.max(trust),
            None => row.aliases.push(Alias { alias, trust }),
        }
    }
    row.aliases.sort();
}
