//! `memory_entries` as a virtual table.
//!
//! # Safety
//!
//! rusqlite calls the methods with SQLite's arguments. It requires `#[repr(C)]` structs whose first member is
//! SQLite's own, which [`EntriesTable`] and [`EntriesCursor`] are. Everything else is safe code.
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::ffi::{CStr, c_int};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use memory_core::scope::{successor, upper_bound};
use memory_core::{Entry, Error, Result};
use rusqlite::types::ValueRef;
use rusqlite::vtab::{
    Context, Filters, IndexConstraintOp, IndexInfo, Module, VTab, VTabConfig, VTabConnection, VTabCursor,
    sqlite3_vtab, sqlite3_vtab_cursor,
};
use rusqlite::{Connection, ffi};

use super::source::{EntryReader, EntrySource, KeyRange};
use crate::error::engine;
use crate::file::column::signed;
use crate::kv::row::encode_metadata;
use crate::sandbox::limits::heap;
use crate::sandbox::limits::interrupt::{Interrupt, Interrupted};
use crate::sandbox::lock::lock;

const SCHEMA: &CStr = c"CREATE TABLE memory_entries(key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL, \
    metadata TEXT NOT NULL, source TEXT, version INTEGER NOT NULL, created_at INTEGER NOT NULL, \
    updated_at INTEGER NOT NULL, expires_at INTEGER, access_count INTEGER NOT NULL) WITHOUT ROWID";

/// The source of a connection's table.
#[derive(Clone)]
pub(in crate::sandbox) struct Source {
    entries: Arc<dyn EntrySource>,
    interrupt: Arc<Mutex<Interrupt>>,
}

/// Registers the table on a connection.
pub(in crate::sandbox) fn register(
    conn: &Connection,
    entries: Arc<dyn EntrySource>,
    interrupt: Arc<Mutex<Interrupt>>,
) -> Result<()> {
    let module = &const { Module::<'_, EntriesTable>::eponymous_only_module().without_rowid() };
    conn.create_module("memory_entries", module, Some(Source { entries, interrupt })).map_err(engine)
}

#[repr(C)]
struct EntriesTable {
    base: sqlite3_vtab,
    source: Source,
}

/// Deadline for reading entries in a statement that has none.
const LONGEST: Duration = Duration::from_secs(3_600);

/// The bits of the plan's number: conditions on the key. Each has one argument, in this order.
const EQUAL: c_int = 1;
const ABOVE: c_int = 2;
const BELOW: c_int = 4;
const GLOB: c_int = 8;

// SAFETY: `#[repr(C)]`, SQLite's own member first.
unsafe impl<'vtab> VTab<'vtab> for EntriesTable {
    type Aux = Source;
    type Cursor = EntriesCursor;

    fn connect(
        db: &mut VTabConnection,
        aux: Option<&Source>,
        _: &[u8],
        _: &[u8],
        _: &[u8],
        _: &[&[u8]],
    ) -> rusqlite::Result<(Cow<'static, CStr>, Self)> {
        db.config(VTabConfig::Innocuous)?;
        let source = aux.cloned().ok_or(rusqlite::Error::InvalidQuery)?;
        Ok((Cow::Borrowed(SCHEMA), Self { base: sqlite3_vtab::default(), source }))
    }

    /// SQLite checks every condition again, so a plan may return more rows than necessary.
    fn best_index(&self, info: &mut IndexInfo) -> rusqlite::Result<bool> {
        let mut usable: [Option<usize>; 4] = [None; 4];
        for (at, constraint) in info.constraints().enumerate() {
            if constraint.column() != 0 || !constraint.is_usable() {
                continue;
            }
            let slot = match constraint.operator() {
                IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ => 0,
                IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_GT
                | IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_GE => 1,
                IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_LT
                | IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_LE => 2,
                IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_GLOB => 3,
                _ => continue,
            };
            // GLOB has no collation.
            if (slot == 3 || info.collation(at)? == "BINARY")
                && let Some(slot) = usable.get_mut(slot)
            {
                slot.get_or_insert(at);
            }
        }
        let (mut plan, mut argument) = (0, 0);
        for (constraint, bit) in usable.into_iter().zip([EQUAL, ABOVE, BELOW, GLOB]) {
            if let Some(constraint) = constraint {
                argument += 1;
                plan |= bit;
                info.constraint_usage(constraint).set_argv_index(argument);
            }
        }
        info.set_idx_num(plan);
        let (cost, rows) = match plan {
            plan if plan & EQUAL != 0 => (1.0, 1),
            0 => (1e6, 100_000),
            _ => (1e4, 1_000),
        };
        info.set_estimated_cost(cost);
        info.set_estimated_rows(rows);
        let ordered = info.num_of_order_by() == 1
            && info.order_bys().all(|order| order.column() == 0 && !order.is_order_by_desc());
        info.set_order_by_consumed(ordered);
        Ok(true)
    }

    fn open(&'vtab mut self) -> rusqlite::Result<EntriesCursor> {
        Ok(EntriesCursor {
            base: sqlite3_vtab_cursor::default(),
            source: self.source.clone(),
            reader: None,
            entry: None,
        })
    }
}

#[repr(C)]
struct EntriesCursor {
    base: sqlite3_vtab_cursor,
    source: Source,
    reader: Option<Box<dyn EntryReader>>,
    entry: Option<Entry>,
}

impl EntriesCursor {
    fn advance(&mut self) -> rusqlite::Result<()> {
        let reader = &mut self.reader;
        let next = heap::unmetered(|| reader.as_mut().map_or(Ok(None), |reader| reader.next()));
        self.entry = next.map_err(|error| self.failed(&error))?;
        Ok(())
    }

    fn failed(&self, error: &Error) -> rusqlite::Error {
        if error.kind() == memory_core::ErrorKind::Timeout {
            lock(&self.source.interrupt).interrupted.get_or_insert(Interrupted::Deadline);
            return rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_INTERRUPT), None);
        }
        rusqlite::Error::ModuleError(error.message().to_owned())
    }
}

// SAFETY: `#[repr(C)]`, SQLite's own member first.
unsafe impl VTabCursor for EntriesCursor {
    fn filter(&mut self, plan: c_int, _: Option<&str>, arguments: &Filters<'_>) -> rusqlite::Result<()> {
        self.reader = None;
        let range = range(plan, arguments);
        let deadline = lock(&self.source.interrupt).deadline.unwrap_or_else(|| Instant::now() + LONGEST);
        let opened = heap::unmetered(|| self.source.entries.read(&range, deadline));
        self.reader = Some(opened.map_err(|error| self.failed(&error))?);
        self.advance()
    }

    fn next(&mut self) -> rusqlite::Result<()> {
        self.advance()
    }

    fn eof(&self) -> bool {
        self.entry.is_none()
    }

    fn column(&self, context: &mut Context, column: c_int) -> rusqlite::Result<()> {
        let Some(entry) = &self.entry else { return Ok(()) };
        match column {
            0 => context.set_result(entry.key.as_str()),
            1 => context.set_result(entry.value.as_str()),
            2 => context.set_result(encode_metadata(&entry.metadata).unwrap_or_else(|| "{}".to_owned())),
            3 => context.set_result(entry.source.as_ref().map(memory_core::Source::as_str)),
            4 => context.set_result(signed(entry.version)),
            5 => context.set_result(entry.created_at.as_millis()),
            6 => context.set_result(entry.updated_at.as_millis()),
            7 => context.set_result(entry.expires_at.map(memory_core::Timestamp::as_millis)),
            _ => context.set_result(signed(entry.access_count)),
        }
    }

    fn rowid(&self) -> rusqlite::Result<i64> {
        Ok(0)
    }
}

/// The range of keys that satisfies a plan; an argument that is not text does not narrow it.
fn range(plan: c_int, arguments: &Filters<'_>) -> KeyRange {
    let mut range = KeyRange::default();
    let mut narrow = |from: Option<String>, to: Option<String>| {
        if let Some(from) = from
            && from > range.from
        {
            range.from = from;
        }
        if let Some(to) = to {
            range.to = Some(range.to.take().map_or_else(|| to.clone(), |known| known.min(to.clone())));
        }
    };
    let mut texts = arguments.iter().map(|value| match value {
        ValueRef::Text(text) => std::str::from_utf8(text).ok().map(str::to_owned),
        _ => None,
    });
    for bit in [EQUAL, ABOVE, BELOW, GLOB] {
        if plan & bit == 0 {
            continue;
        }
        let Some(Some(text)) = texts.next() else { continue };
        match bit {
            EQUAL => narrow(Some(text.clone()), Some(successor(&text))),
            ABOVE => narrow(Some(text), None),
            // Include the key itself.
            BELOW => narrow(None, Some(successor(&text))),
            _ => {
                let prefix = text.split(['*', '?', '[']).next().unwrap_or_default();
                let to = if prefix.is_empty() { None } else { upper_bound(prefix) };
                narrow(Some(prefix.to_owned()), to);
            }
        }
    }
    range
}
