//! Short queries that are new, on the caller's thread: compiled there too, and run within the bounds of [`super::repeated`].
//!
//! Compiling is short because the text is, and because it may read nothing but tables that hold their rows themselves: a
//! view brings a text of its own, a virtual table code of its own. Which tables these are is found on a thread, and holds
//! for one version of the schema.

use std::time::Instant;

use memory_validator::Mode;

use super::history::{Seen, may_hide_work};
use super::repeated::{HEAP_BYTES, MOST_STEPS};
use crate::file::open::Role;
use crate::sandbox::authorizer::Phase;
use crate::sandbox::connection::Sandbox;
use crate::sandbox::limits::heap::Meter;
use crate::sandbox::run::Compiled;
use crate::sandbox::statement::{Ran, Statement};

/// Longest text.
const TEXT_BYTES: usize = 512;
/// Tables that are known of one connection.
const TABLES: usize = 64;
/// How many queries are left to threads after as many as these have come to a bound one after the other, as a power of 2.
const MOST_MISSES: u8 = 8;

impl Sandbox {
    /// Whether a query that was not seen before may be tried. The validator has read it: see
    /// [`memory_validator::Validator::check_short`].
    pub(in crate::sandbox) fn may_be_inlined(&mut self, statement: &Statement<'_>) -> bool {
        if statement.mode != Mode::Query || statement.sql.len() > TEXT_BYTES || self.inline.version.is_none()
        {
            return false;
        }
        if self.inline.skips > 0 {
            self.inline.skips -= 1;
            return false;
        }
        !may_hide_work(statement.sql)
    }

    pub(in crate::sandbox) fn step_unseen(
        &mut self,
        statement: &Statement<'_>,
        until: Instant,
    ) -> Option<Ran> {
        if self.schema_version() != self.inline.version {
            self.forget_tables();
            return None;
        }
        let meter = Meter::begin(Some(HEAP_BYTES), Some((until, statement.cancel)));
        // What cannot be compiled reads something that is not known yet, or is an error for a thread to tell.
        let Compiled { mut program, plain, relations, .. } =
            self.compile_as(statement, Phase::CompilingInline).ok()?;
        let relations = relations.filter(|_| plain)?;
        // It stays closed: nothing is compiled while it runs.
        let ran = self.step(&mut program, statement, false);
        drop(program);
        let peak_bytes = meter.peak();
        drop(meter);
        let Ok(ran) = ran else {
            // The engine may have let go of the schema, which it then reads anew with the next statement.
            self.forget_tables();
            self.inline.misses = (self.inline.misses + 1).min(MOST_MISSES);
            self.inline.skips = (1 << self.inline.misses) - 1;
            return None;
        };
        self.inline.misses = 0;
        self.keep(statement.sql, Seen::quick(relations));
        Some(Ran { peak_bytes, ..ran })
    }

    /// Learns from a query that ran on a thread which tables may be read at once.
    pub(in crate::sandbox) fn learn_tables(&mut self, relations: Option<&[String]>, steps: i32) {
        let Some(relations) = relations.filter(|_| steps <= MOST_STEPS && !self.is_writer()) else { return };
        let version = self.schema_version();
        if version != self.inline.version {
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
            self.inline.version = version;
        } else {
            self.forget_tables();
        }
    }

    pub(in crate::sandbox) fn forget_tables(&mut self) {
        self.inline.version = None;
        self.watch().tables().clear();
    }

    pub(in crate::sandbox) fn schema_version(&self) -> Option<i64> {
        self.trusted(|conn| conn.prepare_cached("PRAGMA schema_version")?.query_row([], |row| row.get(0)))
            .ok()
    }

    fn is_writer(&self) -> bool {
        self.role != Role::Reader
    }
}
