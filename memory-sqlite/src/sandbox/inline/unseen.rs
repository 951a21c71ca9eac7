//! New short queries on the caller's thread: compiled there too, and run within the limits of [`super::repeated`].
//!
//! Compiling is quick because the text is short and may read only ordinary tables: a view would bring its own text, a
//! virtual table its own code. Which tables are ordinary is learned on a worker, for one schema version.

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

/// Longest text, in bytes.
const TEXT_BYTES: usize = 512;
/// Tables known for one connection.
const TABLES: usize = 64;
/// After n queries in a row that exceeded a limit, 2^n queries go to workers; this is the largest n.
const MAX_MISSES: u8 = 8;

impl Sandbox {
    /// Whether to try a new query inline. The validator has checked it: see
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
        // If it does not compile, it reads something unknown or has an error; a worker will report it.
        let Compiled { mut program, plain, relations, .. } =
            self.compile_as(statement, Phase::CompilingInline).ok()?;
        let relations = relations.filter(|_| plain)?;
        // The phase stays closed: nothing is compiled while it runs.
        let ran = self.step(&mut program, statement, false);
        drop(program);
        let peak_bytes = meter.peak();
        drop(meter);
        let Ok(ran) = ran else {
            // The engine may have dropped the schema; it reads it again with the next statement.
            self.forget_tables();
            self.inline.misses = (self.inline.misses + 1).min(MAX_MISSES);
            self.inline.skips = (1 << self.inline.misses) - 1;
            return None;
        };
        self.inline.misses = 0;
        self.keep(statement.sql, Seen::quick(relations));
        Some(Ran { peak_bytes, ..ran })
    }

    /// Learns from a query that ran on a worker which tables may be read inline.
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
        // The schema may have changed meanwhile.
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
