//! Short queries that are new, on the caller's thread: compiled there too, and run within the bounds of [`super::small`].
//!
//! Compiling is short because the text is, and because it may read nothing but tables that hold their rows themselves: a
//! view brings a text of its own, a virtual table code of its own. Which tables these are is found on a thread, and holds
//! for one version of the schema.

use std::time::Instant;

use memory_validator::Mode;

use super::authorizer::Phase;
use super::heap::Meter;
use super::run::Compiled;
use super::small::{HEAP_BYTES, MOST_STEPS, Seen, may_hide_work};
use super::{Ran, Sandbox, Statement};

/// Longest text.
const TEXT_BYTES: usize = 512;
/// Tables that are known of one connection.
const TABLES: usize = 64;
/// How many queries are left to threads after as many as these have come to a bound one after the other, as a power of 2.
const MOST_MISSES: u8 = 8;

/// What a connection knows for running queries that are new.
#[derive(Debug, Default)]
pub(super) struct Short {
    /// The version of the schema for which the tables are known.
    version: Option<i64>,
    /// Queries in a row that came to a bound.
    misses: u8,
    /// How many are not tried for that.
    skips: u16,
}

impl Sandbox {
    /// Whether a query that was not seen before may be tried. The validator has read it: see
    /// [`memory_validator::Validator::check_short`].
    pub(super) fn may_be_short(&mut self, statement: &Statement<'_>) -> bool {
        if statement.mode != Mode::Query || statement.sql.len() > TEXT_BYTES || self.short.version.is_none() {
            return false;
        }
        if self.short.skips > 0 {
            self.short.skips -= 1;
            return false;
        }
        !may_hide_work(statement.sql)
    }

    pub(super) fn step_short(&mut self, statement: &Statement<'_>, until: Instant) -> Option<Ran> {
        if self.schema_version() != self.short.version {
            self.forget_tables();
            return None;
        }
        let meter = Meter::begin(Some(HEAP_BYTES), Some((until, statement.cancel)));
        // What cannot be compiled reads something that is not known yet, or is an error for a thread to tell.
        let Compiled { mut program, plain, relations, .. } =
            self.compile_as(statement, Phase::CompilingShort).ok()?;
        let relations = relations.filter(|_| plain)?;
        // It stays closed: nothing is compiled while it runs.
        let ran = self.step(&mut program, statement, false);
        drop(program);
        let peak_bytes = meter.peak();
        drop(meter);
        let Ok(ran) = ran else {
            // The engine may have let go of the schema, which it then reads anew with the next statement.
            self.forget_tables();
            self.short.misses = (self.short.misses + 1).min(MOST_MISSES);
            self.short.skips = (1 << self.short.misses) - 1;
            return None;
        };
        self.short.misses = 0;
        self.keep(statement.sql, Seen::small(relations));
        Some(Ran { peak_bytes, ..ran })
    }

    /// Learns from a query that ran on a thread which tables may be read at once.
    pub(super) fn learn_tables(&mut self, relations: Option<&[String]>, steps: i32) {
        let Some(relations) = relations.filter(|_| steps <= MOST_STEPS && !self.is_writer()) else { return };
        let version = self.schema_version();
        if version != self.short.version {
            self.forget_tables();
        }
        for name in relations {
            let known = {
                let mut watch = self.watch();
                let full = watch.tables().len() >= TABLES;
                full || watch.tables().contains(name)
            };
            if !known && self.is_table(name) {
                self.watch().tables().insert(name.clone());
            }
        }
        // It may have changed meanwhile.
        if self.schema_version() == version {
            self.short.version = version;
        } else {
            self.forget_tables();
        }
    }

    pub(super) fn forget_tables(&mut self) {
        self.short.version = None;
        self.watch().tables().clear();
    }

    fn schema_version(&self) -> Option<i64> {
        self.trusted(|conn| conn.prepare_cached("PRAGMA schema_version")?.query_row([], |row| row.get(0)))
            .ok()
    }

    fn is_writer(&self) -> bool {
        self.role != super::Role::Reader
    }
}
