//! Running one statement.

use std::time::Instant;

use memory_core::sql::Rows;
use memory_core::{Error, Result};
use memory_sql::errors;
use memory_validator::Mode;
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::{Batch, ErrorCode, StatementStatus};

use super::authorizer::{Denied, Phase, is_shadow};
use super::connection::{KEPT_BYTES, MAX_PAGES, Sandbox};
use super::inline::history::{Seen, contains};
use super::limits::heap::{self, Meter, Refused};
use super::limits::interrupt::{Interrupt, Interrupted};
use super::lock::lock;
use super::statement::{Ran, Statement};
use super::value::{self, Argument};
use super::{describe, refusal};
use crate::error::{code, engine};
use crate::file::open::Role;

/// Peak memory of this process's last statement, even if it failed.
#[cfg(feature = "lab")]
pub(crate) static LAST_PEAK: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
/// Minimum number of pages that a statement which frees space may use above the quota.
const RESERVE_PAGES: u64 = 64;

/// A compiled statement, ready to run.
pub(super) struct Compiled<'conn> {
    pub(super) program: rusqlite::Statement<'conn>,
    /// Whether it may be kept prepared.
    pub(super) plain: bool,
    pub(super) writes_rows: bool,
    names_virtual: bool,
    /// The relations that it reads; `None` if it also reads through a view.
    pub(super) relations: Option<Vec<String>>,
}

impl Sandbox {
    /// Runs an agent's statement.
    ///
    /// If it fails, the caller must roll back the savepoint or transaction around it. `OR ROLLBACK` may have ended
    /// the transaction: see [`Sandbox::in_transaction`].
    /// Fails with `statement_refused`, `read_only`, `timeout`, `too_large`, `quota_exceeded`; `invalid_argument` for
    /// what the engine refuses. `details.layer` names the layer that refused.
    pub(crate) fn run(&mut self, statement: &Statement<'_>) -> Result<Ran> {
        if statement.sql.contains('\0') {
            return Err(refusal::nul());
        }
        self.resolve_anew().map_err(engine)?;
        self.bound_pages(statement.frees)?;
        let over = self.over_quota(statement)?;
        *lock(&self.interrupt) = Interrupt {
            deadline: self.layers.deadline.then_some(statement.deadline),
            cancel: statement.cancel.clone(),
            log: self.log.clone(),
            interrupted: None,
        };
        let meter = Meter::begin(
            self.layers.heap.then_some(self.config.heap_bytes),
            self.layers.deadline.then_some((statement.deadline, statement.cancel)),
        );
        let ran = self.compile_and_step(statement);
        let (peak_bytes, refused) = (meter.peak(), meter.refused());
        drop(meter);
        #[cfg(feature = "lab")]
        LAST_PEAK.store(peak_bytes, std::sync::atomic::Ordering::Release);
        self.watch().enter(Phase::Closed);
        let interrupted = std::mem::take(&mut *lock(&self.interrupt)).interrupted;
        self.peak_bytes = peak_bytes;
        match ran {
            Ok(ran) => match over {
                Some(before) if self.usage()? > before => {
                    Err(errors::quota_exceeded(self.quota.unwrap_or(before)))
                }
                _ => Ok(Ran { peak_bytes, ..ran }),
            },
            Err(failed) => Err(self.explain(failed, interrupted, refused)),
        }
    }

    fn explain(&self, failed: Failed, interrupted: Option<Interrupted>, refused: Option<Refused>) -> Error {
        let error = match failed {
            Failed::Told(error) => return error,
            Failed::Engine(error) => error,
        };
        match refused {
            Some(Refused::Deadline) => return errors::timeout(),
            Some(Refused::Cancelled) => return errors::cancelled(),
            Some(Refused::Budget | Refused::System) | None => {}
        }
        match (code(&error), interrupted) {
            (Some(ErrorCode::OperationInterrupted), Some(Interrupted::Deadline)) => return errors::timeout(),
            (Some(ErrorCode::OperationInterrupted), Some(Interrupted::LogFull)) => {
                return refusal::log_full();
            }
            (Some(ErrorCode::OperationInterrupted), _) => return errors::cancelled(),
            (Some(ErrorCode::OutOfMemory), _) => {
                return match refused {
                    Some(Refused::Budget) => refusal::heap(self.config.heap_bytes),
                    // Nothing refused memory: the engine says the same of a program with too many steps.
                    None if !heap::is_process_limited() => refusal::program().with_source(error),
                    // The process has reached its limit, not this statement.
                    _ => engine(error).with_detail("layer", "heap"),
                };
            }
            _ => {}
        }
        // Some of the engine's errors hide that the authorizer denied something.
        let denied = self.watch().take_denied();
        match denied {
            Some(denied) => refusal::denied(&denied).with_source(error),
            None => self.by_the_engine(&error).unwrap_or_else(|| refusal::statement(error, self.quota)),
        }
    }

    fn by_the_engine(&self, error: &rusqlite::Error) -> Option<Error> {
        let watch = self.watch();
        refusal::by_the_engine(error, |before, name| {
            if before.contains("function") {
                watch.knows_function(name)
            } else if before.contains("table") {
                watch.knows_relation(name.rsplit('.').next().unwrap_or(name))
            } else {
                false
            }
        })
    }

    fn compile_and_step(&mut self, statement: &Statement<'_>) -> Result<Ran, Failed> {
        let seen_as = self.seen.get(statement.sql).map(|seen| seen.mode);
        if seen_as == Some(statement.mode) && !self.may_roll_back(statement.mode)? {
            self.watch().begin(Phase::Compiling(statement.mode));
            let began = Instant::now();
            let mut kept = self.conn.prepare_cached(statement.sql)?;
            kept.reset_status(StatementStatus::VmStep);
            self.watch().enter(Phase::Running(statement.mode));
            let ran = self.step(&mut kept, statement, true)?;
            let steps = kept.get_status(StatementStatus::VmStep);
            drop(kept);
            self.measured(statement, steps, began.elapsed());
            return Ok(ran);
        }
        let Compiled { mut program, plain, writes_rows, names_virtual, relations } =
            self.compile(statement)?;
        let tables = if names_virtual { self.of_kind("table")? } else { Vec::new() };
        self.watch().enter(Phase::Running(statement.mode));
        let ran = self.step(&mut program, statement, writes_rows)?;
        let steps = program.get_status(StatementStatus::VmStep);
        drop(program);
        if tables.iter().any(|table| is_shadow(table)) {
            self.judge_taken(&tables)?;
        }
        // One text is kept in one mode: what an agent may do differs.
        if seen_as.is_none_or(|mode| mode == statement.mode) && plain && statement.sql.len() <= KEPT_BYTES {
            self.learn_tables(relations.as_deref(), steps);
            self.keep(statement.sql, Seen::of(statement, relations));
        }
        Ok(ran)
    }

    /// Remembers a statement, to keep it prepared if it is repeated.
    pub(super) fn keep(&mut self, sql: &str, seen: Seen) {
        if self.seen.len() >= 4 * self.kept {
            self.seen.clear();
        }
        self.seen.insert(sql.into(), seen);
    }

    /// Compiles exactly one statement.
    fn compile(&self, statement: &Statement<'_>) -> Result<Compiled<'_>, Failed> {
        self.compile_as(statement, Phase::Compiling(statement.mode))
    }

    /// Like [`Sandbox::compile`], in this phase.
    pub(super) fn compile_as(&self, statement: &Statement<'_>, phase: Phase) -> Result<Compiled<'_>, Failed> {
        self.watch().begin(phase);
        let mut batch = Batch::new(&self.conn, statement.sql);
        let mut first = batch.next()?;
        if self.watch().needs_second_look() {
            self.watch().begin_again(phase);
            batch = Batch::new(&self.conn, statement.sql);
            first = batch.next()?;
        }
        let finished = self.watch().finish();
        let Some(program) = first else { return Err(refusal::empty().into()) };
        finished.map_err(|denied| refusal::denied(&denied))?;
        let (plain, writes_rows, names_virtual, suspects, relations) = {
            let mut watch = self.watch();
            let suspects = watch.take_suspects();
            let plain = watch.is_plain() && suspects.is_empty();
            let names_virtual = watch.names_virtual();
            let told = (plain, watch.writes_rows(), names_virtual, suspects, watch.take_compiled().flatten());
            watch.enter(Phase::Closed);
            told
        };
        if !matches!(batch.next(), Ok(None)) {
            return Err(refusal::several().into());
        }
        self.judge_suspects(&suspects)?;
        if statement.mode == Mode::Exec && self.layers.config && !program.readonly() {
            self.judge_rollback(statement)?;
        }
        Ok(Compiled { program, plain, writes_rows, names_virtual, relations })
    }

    /// Refuses access to the shadow tables of virtual tables.
    fn judge_suspects(&self, suspects: &[String]) -> Result<(), Failed> {
        if !self.layers.authorizer {
            return Ok(());
        }
        for name in suspects {
            self.watch().enter(Phase::Trusted);
            let shadow = describe::is_shadow(&self.conn, name);
            self.watch().enter(Phase::Closed);
            if shadow? {
                let denied = Denied { construct: name.clone(), writes: false };
                return Err(refusal::denied(&denied).into());
            }
        }
        Ok(())
    }

    /// Refuses a statement that made one of these tables a shadow table: it could not be written any more.
    fn judge_taken(&self, tables: &[String]) -> Result<(), Failed> {
        let shadows = self.of_kind("shadow")?;
        match tables.iter().find(|table| shadows.contains(table)) {
            Some(taken) => Err(refusal::taken(taken).into()),
            None => Ok(()),
        }
    }

    fn of_kind(&self, kind: &str) -> Result<Vec<String>, Failed> {
        self.watch().enter(Phase::Trusted);
        let found = describe::of_kind(&self.conn, kind);
        self.watch().enter(Phase::Closed);
        Ok(found?)
    }

    fn may_roll_back(&self, mode: Mode) -> Result<bool, Failed> {
        Ok(mode == Mode::Exec && self.layers.config && self.schema_rolls_back()?)
    }

    /// Refuses a statement that would roll the transaction back on a conflict. If the word occurs in the statement
    /// or the schema, the compiled program is checked.
    fn judge_rollback(&self, statement: &Statement<'_>) -> Result<(), Failed> {
        if !contains(statement.sql, b"rollback") && !self.schema_rolls_back()? {
            return Ok(());
        }
        let sql = format!("EXPLAIN {}", statement.sql);
        self.watch().enter(Phase::Compiling(Mode::Exec));
        let compiled = Batch::new(&self.conn, &sql).next();
        self.watch().enter(Phase::Running(Mode::Exec));
        // A statement that cannot be explained, such as EXPLAIN itself, changes nothing.
        let Ok(Some(mut explained)) = compiled else { return Ok(()) };
        let mut rows = explained.raw_query();
        while let Some(row) = rows.next()? {
            let at = match row.get_ref(1)?.as_str().unwrap_or_default() {
                "Halt" | "HaltIfNull" => 3,
                "VUpdate" => 6,
                _ => continue,
            };
            let action = row.get_ref(at)?.as_i64().unwrap_or_default();
            if action & OE_MASK == OE_ROLLBACK {
                return Err(refusal::rolls_back().into());
            }
        }
        Ok(())
    }

    /// Whether a table or trigger has the word ROLLBACK in its definition.
    fn schema_rolls_back(&self) -> Result<bool, Failed> {
        let ask = |sql: &str| {
            self.watch().enter(Phase::Trusted);
            let number = self
                .conn
                .prepare_cached(sql)
                .and_then(|mut statement| statement.query_row([], |row| row.get::<_, i64>(0)));
            self.watch().enter(Phase::Closed);
            number
        };
        let version = ask("PRAGMA schema_version")?;
        if let Some((known, rolls_back)) = self.rollback_words.get()
            && known == version
        {
            return Ok(rolls_back);
        }
        let sql = "SELECT EXISTS (SELECT 1 FROM main.sqlite_schema WHERE sql LIKE '%rollback%')";
        let rolls_back = ask(sql)? != 0;
        self.rollback_words.set(Some((version, rolls_back)));
        Ok(rolls_back)
    }

    /// Runs a compiled statement. The phase says who may compile during that.
    pub(super) fn step(
        &self,
        compiled: &mut rusqlite::Statement<'_>,
        statement: &Statement<'_>,
        writes_rows: bool,
    ) -> Result<Ran, Failed> {
        if statement.mode == Mode::Query && self.layers.readonly && !compiled.readonly() {
            return Err(errors::writes().into());
        }
        bind(compiled, statement)?;
        let writes = !compiled.readonly();
        let width = compiled.column_count();
        let explains = compiled.is_explain() != 0;
        let columns: Vec<String> = compiled.column_names().map(str::to_owned).collect();
        let mut left = statement.max_bytes;
        let mut result = Rows::default();
        {
            let mut rows = compiled.raw_query();
            while let Some(row) = rows.next()? {
                if result.truncated {
                    continue;
                }
                let mut bytes = 0_usize;
                for at in 0..width {
                    bytes = bytes.saturating_add(value::size(row.get_ref(at)?));
                }
                if result.rows.len() >= statement.max_rows || bytes > left {
                    result.truncated = true;
                    // A statement that writes must run to its end; one that only reads can stop here.
                    if writes { continue } else { break }
                }
                left -= bytes;
                let mut values = Vec::with_capacity(width);
                for (at, column) in columns.iter().enumerate() {
                    let value = value::read(row.get_ref(at)?, column)?;
                    values.push(if explains { value::without_address(value) } else { value });
                }
                result.rows.push(values);
            }
        }
        result.columns = columns;
        let rows_affected = if writes && writes_rows { self.conn.changes() } else { 0 };
        Ok(Ran { rows: (width > 0).then_some(result), rows_affected, peak_bytes: 0 })
    }

    /// The number of bytes the statement must not exceed if the file is larger than the quota. Such a file has free
    /// pages, which `max_page_count` does not limit. `None` if that limit is enough.
    fn over_quota(&self, statement: &Statement<'_>) -> Result<Option<u64>> {
        let Some(quota) = self.quota else { return Ok(None) };
        let bounded = self.layers.quota && self.role == Role::Writer && matches!(statement.mode, Mode::Exec);
        if !bounded || self.file_bytes()? <= quota {
            return Ok(None);
        }
        // A statement that frees space may need a few pages for it, and gives back more.
        let reserve = if statement.frees { RESERVE_PAGES.saturating_mul(self.page_bytes()?) } else { 0 };
        Ok(Some(self.usage()?.max(quota).saturating_add(reserve)))
    }

    /// Sets the page limit of the database for this statement.
    fn bound_pages(&mut self, frees: bool) -> Result<()> {
        let pages = match self.quota {
            Some(quota) if self.layers.quota => {
                let pages = (quota / self.page_bytes()?).clamp(1, MAX_PAGES);
                let reserve = if frees { RESERVE_PAGES.max(pages / 16) } else { 0 };
                pages.saturating_add(reserve).min(MAX_PAGES)
            }
            _ => MAX_PAGES,
        };
        if pages != self.max_pages && self.role == Role::Writer {
            self.trusted(|conn| {
                conn.prepare(&format!("PRAGMA max_page_count = {pages}"))?.query_row([], |_| Ok(()))
            })
            .map_err(engine)?;
            self.max_pages = pages;
        }
        Ok(())
    }
}

/// SQLite's code for "roll back" among its conflict resolutions.
const OE_ROLLBACK: i64 = 1;
const OE_MASK: i64 = 0x0f;

/// Why a statement failed.
#[derive(Debug)]
pub(super) enum Failed {
    Engine(rusqlite::Error),
    Told(Error),
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Self::Engine(error)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Told(error)
    }
}

/// Binds the arguments by position. To SQLite `$2` is a name; to us it is a parameter with a number.
fn bind(compiled: &mut rusqlite::Statement<'_>, statement: &Statement<'_>) -> Result<(), Failed> {
    let mut most = 0;
    for at in 1..=compiled.parameter_count() {
        let index = match compiled.parameter_name(at) {
            None => at,
            Some(name) => match name.get(1..).map(str::parse::<usize>) {
                Some(Ok(number)) if number > 0 && !name.starts_with(':') && !name.starts_with('@') => number,
                _ => {
                    return Err(Error::invalid(format!(
                        "the parameter `{name}` is named; arguments are positional: write ?, ?1 or $1"
                    ))
                    .into());
                }
            },
        };
        most = most.max(index);
        let argument = statement.args.get(index - 1).ok_or_else(|| missing(index, statement.args.len()))?;
        compiled.raw_bind_parameter(at, Argument::new(argument)?)?;
    }
    if most < statement.args.len() {
        return Err(missing(most, statement.args.len()).into());
    }
    Ok(())
}

fn missing(wanted: usize, given: usize) -> Error {
    Error::invalid(format!("the statement has {wanted} parameters, but {given} arguments were given"))
        .with_detail("parameters", wanted)
        .with_detail("arguments", given)
}
