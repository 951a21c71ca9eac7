//! Queries that are over at once, without a thread of their own.
//!
//! Handing a statement to a thread costs more than most statements do. A query that came before, is compiled, and took few
//! steps is run where it was asked for, within bounds so narrow that nothing an agent writes holds up the caller: it compiles
//! nothing, calls no virtual table, touches no value of more than [`VALUE_BYTES`], takes little memory, and looks at the clock
//! every few instructions. Whatever comes to a bound is run again, on a thread: it only reads, so nobody sees the difference.

use std::time::{Duration, Instant};

use memory_core::sql::SqlValue;
use memory_validator::Mode;
use rusqlite::limits::Limit;

use super::authorizer::Phase;
use super::heap::Meter;
use super::{Alarm, Ran, STEPS, Sandbox, Statement, lock};
use crate::file::Role;

/// Most instructions, and time, of the last run on a thread.
pub(super) const MOST_STEPS: i32 = 500;
const QUICK: Duration = Duration::from_micros(500);
/// When a run is given up.
const LONGEST: Duration = Duration::from_millis(1);
/// Instructions between two looks at the clock. A few are the most that run beyond the moment.
const LOOK_EVERY: i32 = 10;
/// Longest value or row that is touched, in bytes: an instruction takes as long as the values that it works on.
const VALUE_BYTES: i32 = 64 << 10;
/// Memory of a run, in bytes.
pub(super) const HEAP_BYTES: usize = 1 << 20;
/// Bytes of arguments.
const ARGUMENT_BYTES: usize = 4 << 10;

/// What is known of a statement that was seen on a connection.
#[derive(Debug)]
pub(super) struct Seen {
    /// What it reads; `None`: it must always run on a thread.
    relations: Option<Vec<String>>,
    /// Whether these are found to be tables that hold their rows themselves.
    are_tables: bool,
    /// Whether the last run was over at once.
    was_small: bool,
}

impl Seen {
    pub(super) fn of(statement: &Statement<'_>, relations: Option<Vec<String>>) -> Self {
        let relations = relations.filter(|_| statement.mode == Mode::Query && !may_hide_work(statement.sql));
        Self { relations, are_tables: false, was_small: false }
    }

    /// Of a query that was new and ran at once.
    pub(super) fn small(relations: Vec<String>) -> Self {
        Self { relations: Some(relations), are_tables: true, was_small: true }
    }
}

impl Sandbox {
    /// Remembers how a statement that is kept ran on a thread.
    pub(super) fn measured(&mut self, statement: &Statement<'_>, steps: i32, elapsed: Duration) {
        let small = (0..=MOST_STEPS).contains(&steps) && elapsed <= QUICK;
        let compiled = self.watch().take_compiled();
        let Some(seen) = self.seen.get_mut(statement.sql) else { return };
        if let Some(relations) = compiled {
            *seen = Seen::of(statement, relations);
        }
        seen.was_small = small;
        let Some(relations) = seen.relations.take_if(|_| small && !seen.are_tables) else { return };
        let are_tables = relations.iter().all(|name| self.is_table(name));
        if are_tables && let Some(seen) = self.seen.get_mut(statement.sql) {
            (seen.are_tables, seen.relations) = (true, Some(relations));
        }
    }

    pub(super) fn is_table(&self, name: &str) -> bool {
        let sql = "SELECT EXISTS (SELECT 1 FROM main.sqlite_schema \
                   WHERE type = 'table' AND rootpage > 0 AND lower(name) = lower(?1))";
        self.trusted(|conn| conn.prepare(sql)?.query_row([name], |row| row.get(0))).unwrap_or(false)
    }

    /// Runs a query here and now if it is known to be small; `None`: it is to be run as any other.
    pub(crate) fn run_small(&mut self, statement: &Statement<'_>) -> Option<Ran> {
        let known = match self.seen.get(statement.sql) {
            Some(seen) => seen.are_tables && seen.was_small,
            None => self.may_be_short(statement),
        };
        if !known || self.role != Role::Reader || argument_bytes(statement.args) > ARGUMENT_BYTES {
            return None;
        }
        let until = statement.deadline.min(Instant::now() + LONGEST);
        let longest = self.conn.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES).ok()?;
        *lock(&self.alarm) =
            Alarm { deadline: Some(until), cancel: statement.cancel.clone(), log: None, rang: None };
        let ran = self.look_at_the_clock(LOOK_EVERY).and_then(|()| self.step_small(statement, until));
        *lock(&self.alarm) = Alarm::default();
        // Where these failed, less would be allowed than elsewhere.
        let _ = self.conn.set_limit(Limit::SQLITE_LIMIT_LENGTH, longest);
        let _ = self.look_at_the_clock(STEPS);
        if ran.is_none()
            && let Some(seen) = self.seen.get_mut(statement.sql)
        {
            seen.was_small = false;
        }
        ran
    }

    fn step_small(&mut self, statement: &Statement<'_>, until: Instant) -> Option<Ran> {
        if !self.seen.contains_key(statement.sql) {
            return self.step_short(statement, until);
        }
        // Nothing may be compiled, not even the statement itself anew.
        self.watch().begin(Phase::Closed);
        let meter = Meter::begin(Some(HEAP_BYTES), Some((until, statement.cancel)));
        let mut kept = self.conn.prepare_cached(statement.sql).ok()?;
        let ran = self.step(&mut kept, statement, true);
        drop(kept);
        let peak_bytes = meter.peak();
        drop(meter);
        ran.ok().map(|ran| Ran { peak_bytes, ..ran })
    }

    fn look_at_the_clock(&mut self, every: i32) -> Option<()> {
        let alarm = std::sync::Arc::clone(&self.alarm);
        self.conn.progress_handler(every, Some(move || lock(&alarm).rings())).ok()
    }
}

fn argument_bytes(args: &[SqlValue]) -> usize {
    args.iter()
        .map(|arg| match arg {
            SqlValue::Text(text) | SqlValue::Numeric(text) => text.len(),
            SqlValue::Blob(bytes) => bytes.len(),
            SqlValue::Json(json) => json.as_str().len(),
            SqlValue::Null | SqlValue::Bool(_) | SqlValue::Int(_) | SqlValue::Real(_) => 8,
            _ => usize::MAX,
        })
        .fold(0, usize::saturating_add)
}

/// Whether a text may do more than what it reads tells: to count the rows of a table is one instruction, however many there
/// are, and of a table that is joined by the names of columns alone nobody is told.
pub(super) fn may_hide_work(sql: &str) -> bool {
    [b"count".as_slice(), b"using", b"natural"].iter().any(|word| contains(sql, word))
}

/// Whether a word in lower case stands in a text, whatever its case there.
pub(super) fn contains(text: &str, word: &[u8]) -> bool {
    text.as_bytes().windows(word.len()).any(|found| found.eq_ignore_ascii_case(word))
}
