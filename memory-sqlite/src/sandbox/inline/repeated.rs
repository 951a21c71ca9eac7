//! Repeated quick queries, without a worker.
//!
//! Handing a statement to a worker costs more than most statements do. So a query that is already prepared and took few
//! steps before runs on the caller's thread, within limits so narrow that nothing an agent writes holds up the caller:
//! it compiles nothing, calls no virtual table, touches no value of more than [`VALUE_BYTES`], takes little memory, and
//! checks the clock every few instructions. A query that exceeds a limit is run again on a worker; since it only reads,
//! nobody sees the difference.

use std::time::{Duration, Instant};

use memory_core::sql::SqlValue;
use memory_validator::Mode;
use rusqlite::limits::Limit;

use super::history::Seen;
use crate::file::open::Role;
use crate::sandbox::authorizer::Phase;
use crate::sandbox::connection::{STEPS, Sandbox};
use crate::sandbox::limits::heap::Meter;
use crate::sandbox::limits::interrupt::Interrupt;
use crate::sandbox::lock::lock;
use crate::sandbox::statement::{Ran, Statement};

/// Most instructions, and longest time, of the last run on a worker.
pub(in crate::sandbox) const MOST_STEPS: i32 = 500;
const QUICK: Duration = Duration::from_micros(500);
/// When a run is abandoned.
const LONGEST: Duration = Duration::from_millis(1);
/// Instructions between two clock checks; at most this many run past the limit.
const CHECK_EVERY: i32 = 10;
/// Longest value or row, in bytes: an instruction's time depends on the values it works on.
const VALUE_BYTES: i32 = 64 << 10;
/// Memory of a run, in bytes.
pub(in crate::sandbox) const HEAP_BYTES: usize = 1 << 20;
/// Bytes of all arguments.
const ARGUMENT_BYTES: usize = 4 << 10;

impl Sandbox {
    /// Records how a prepared statement ran on a worker.
    pub(in crate::sandbox) fn measured(&mut self, statement: &Statement<'_>, steps: i32, elapsed: Duration) {
        let small = (0..=MOST_STEPS).contains(&steps) && elapsed <= QUICK;
        let compiled = self.watch().take_compiled();
        let Some(seen) = self.seen.get_mut(statement.sql) else { return };
        if let Some(relations) = compiled {
            *seen = Seen::of(statement, relations);
        }
        seen.was_quick = small;
        let Some(relations) = seen.relations.take_if(|_| small && !seen.are_tables) else { return };
        let are_tables = relations.iter().all(|name| self.is_table(name));
        if are_tables && let Some(seen) = self.seen.get_mut(statement.sql) {
            (seen.are_tables, seen.relations) = (true, Some(relations));
        }
    }

    pub(in crate::sandbox) fn is_table(&self, name: &str) -> bool {
        let sql = "SELECT EXISTS (SELECT 1 FROM main.sqlite_schema \
                   WHERE type = 'table' AND rootpage > 0 AND lower(name) = lower(?1))";
        self.trusted(|conn| conn.prepare(sql)?.query_row([name], |row| row.get(0))).unwrap_or(false)
    }

    /// Whether a statement is kept prepared, and was quick when it last ran.
    pub(crate) fn was_quick(&self, sql: &str, mode: Mode) -> bool {
        self.seen.get(sql).is_some_and(|seen| seen.was_quick && seen.mode == mode)
    }

    /// Runs a query inline if it is known to be small; `None`: run it like any other.
    pub(crate) fn run_inline(&mut self, statement: &Statement<'_>) -> Option<Ran> {
        let known = match self.seen.get(statement.sql) {
            Some(seen) => seen.are_tables && seen.was_quick,
            None => self.may_be_inlined(statement),
        };
        if !known
            || self.resolve_anew().unwrap_or(true)
            || self.role != Role::Reader
            || argument_bytes(statement.args) > ARGUMENT_BYTES
        {
            return None;
        }
        let until = statement.deadline.min(Instant::now() + LONGEST);
        let longest = self.conn.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES).ok()?;
        *lock(&self.interrupt) = Interrupt {
            deadline: Some(until),
            cancel: statement.cancel.clone(),
            log: None,
            interrupted: None,
        };
        let ran = self.check_clock(CHECK_EVERY).and_then(|()| self.step_repeated(statement, until));
        *lock(&self.interrupt) = Interrupt::default();
        // If these fail, the limits are tighter than elsewhere.
        let _ = self.conn.set_limit(Limit::SQLITE_LIMIT_LENGTH, longest);
        let _ = self.check_clock(STEPS);
        if ran.is_none()
            && let Some(seen) = self.seen.get_mut(statement.sql)
        {
            seen.was_quick = false;
        }
        ran
    }

    fn step_repeated(&mut self, statement: &Statement<'_>, until: Instant) -> Option<Ran> {
        if !self.seen.contains_key(statement.sql) {
            return self.step_unseen(statement, until);
        }
        // Nothing may be compiled, not even this statement again.
        self.watch().begin(Phase::Closed);
        let meter = Meter::begin(Some(HEAP_BYTES), Some((until, statement.cancel)));
        let mut kept = self.conn.prepare_cached(statement.sql).ok()?;
        let ran = self.step(&mut kept, statement, true);
        drop(kept);
        let peak_bytes = meter.peak();
        drop(meter);
        ran.ok().map(|ran| Ran { peak_bytes, ..ran })
    }

    fn check_clock(&mut self, every: i32) -> Option<()> {
        let interrupt = std::sync::Arc::clone(&self.interrupt);
        self.conn.progress_handler(every, Some(move || lock(&interrupt).is_due())).ok()
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
