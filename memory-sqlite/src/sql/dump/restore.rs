//! Restores a dump in one transaction, with an agent's rights.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_core::sql::{DumpStream, RestoreMode, RestoreOptions, RestoreOutcome, SqlValue};
use memory_core::{Error, Result, Scope, Timestamp};
use memory_sql::{
    DumpReader, Engine as _, Table, WriteLock, errors, is_about_object, longest_line, quote_identifier,
};
use memory_validator::{Mode, StatementKind};

use super::format::{Cell, Kind, Line, Setting};
use crate::lifecycle::tombstones;
use crate::sandbox::{Cancel, Sandbox, Statement};
use crate::sql::connections::{Conn, WRITTEN, is_busy};
use crate::sql::engine::Engine;

/// Bytes and lines per step.
const STEP_BYTES: usize = 1 << 20;
const STEP_LINES: usize = 1_000;

/// The settings of a full-text index, by FTS5's names.
const SETTINGS: [&str; 9] = [
    "automerge",
    "crisismerge",
    "deletemerge",
    "hashsize",
    "insttoken",
    "pgsz",
    "rank",
    "secure-delete",
    "usermerge",
];

/// A restore in progress. Dropping it rolls everything back.
struct Restoring {
    conn: Conn,
    guard: WriteLock,
    reader: DumpReader,
    /// The table that rows belong to; `None` if it was skipped.
    table: Option<Table>,
    /// Full-text indexes to rebuild once the views exist.
    rebuilds: BTreeSet<String>,
}

impl Engine {
    pub(crate) async fn restore(
        self: &Arc<Self>,
        scope: &Scope,
        mut dump: DumpStream,
        options: RestoreOptions,
    ) -> Result<RestoreOutcome> {
        let RestoreOptions { mode, taken_at, quota_bytes, .. } = options;
        self.wake()?;
        let (engine, of) = (Arc::clone(self), scope.clone());
        // Checked first, so that no folder is created for a forgotten scope.
        if self.workers.run(self.deadline(None), move || engine.is_forgotten(&of, taken_at)).await?? {
            return Ok(forgotten());
        }
        self.used(scope, true).await?;
        let in_flight = self.in_flight.begin();
        let mut restoring = self.begin_restore(scope, mode, quota_bytes).await?;
        let longest = longest_line(self.config.value_bytes);
        let mut whole = false;
        while !whole {
            let (lines, ended) = self.next_lines(&mut dump, longest).await?;
            whole = ended;
            let (engine, cancel) = (Arc::clone(self), in_flight.cancel.clone());
            let work = move || {
                let done = lines.iter().try_for_each(|line| engine.apply(&mut restoring, line, &cancel));
                (restoring, done)
            };
            let (back, done) = self.workers.run(self.deadline(None), work).await?;
            done?;
            restoring = back;
        }
        let engine = Arc::clone(self);
        self.workers.run(self.deadline(None), move || engine.finish(restoring, taken_at)).await?
    }

    /// Whether a copy taken at this time is older than the scope's tombstone.
    fn is_forgotten(&self, scope: &Scope, taken_at: Option<Timestamp>) -> Result<bool> {
        let Some(taken_at) = taken_at else { return Ok(false) };
        let found = match self.store.connect()? {
            Some(connection) => tombstones::is_forgotten(&connection, scope, None, taken_at),
            None => {
                let connection = self.store.writer.connection("a read");
                tombstones::is_forgotten(&connection, scope, None, taken_at)
            }
        };
        found.map_err(crate::error::engine)
    }

    async fn begin_restore(
        self: &Arc<Self>,
        scope: &Scope,
        mode: RestoreMode,
        quota: Option<u64>,
    ) -> Result<Restoring> {
        let deadline = self.deadline(None);
        let state = self.pool.scope(scope);
        let mut guard = Some(self.lock(&state, deadline).await?);
        let mut times = 0;
        loop {
            let Some(held) = guard.take() else { return Err(Error::internal("a lock was lost")) };
            let (engine, state) = (Arc::clone(self), Arc::clone(&state));
            let work = move || match engine.begin_write(&state, deadline) {
                Ok(conn) => engine.prepare(conn, held, mode, quota).map(Ok),
                Err(error) if is_busy(&error) => Ok(Err(held)),
                Err(error) => Err(error),
            };
            match self.workers.run(deadline, work).await?? {
                Ok(restoring) => return Ok(restoring),
                Err(held) => guard = Some(held),
            }
            self.pause(&mut times, deadline).await?;
        }
    }

    fn prepare(
        &self,
        mut conn: Conn,
        guard: WriteLock,
        mode: RestoreMode,
        quota: Option<u64>,
    ) -> Result<Restoring> {
        conn.pass();
        let cleared = match mode {
            _ if conn.sandbox.schema()?.is_empty() => Ok(()),
            RestoreMode::Replace => conn.sandbox.clear(),
            RestoreMode::IntoEmpty => Err(errors::not_empty()),
        };
        if let Err(error) = cleared {
            conn.sandbox.rollback()?;
            self.pool.rest(conn);
            return Err(error);
        }
        // A table may refer to one that is created later or was dropped.
        conn.sandbox.enforce_foreign_keys(false)?;
        conn.sandbox.set_quota(quota.or(self.config.quota_bytes));
        Ok(Restoring { conn, guard, reader: DumpReader::new(mode), table: None, rebuilds: BTreeSet::new() })
    }

    /// The next lines, and whether they are the last.
    async fn next_lines(&self, dump: &mut DumpStream, longest: usize) -> Result<(Vec<Vec<u8>>, bool)> {
        let (mut lines, mut bytes) = (Vec::new(), 0);
        while bytes < STEP_BYTES && lines.len() < STEP_LINES {
            let patience = Instant::now() + Duration::from_millis(self.store.config.export_idle_ms);
            let next = self.until(patience, poll_fn(|context| dump.as_mut().poll_next(context))).await;
            match next {
                Some(Some(line)) => {
                    let line = line?;
                    if line.len() > longest {
                        return Err(Error::too_large("line of a dump", line.len(), longest, "bytes"));
                    }
                    bytes += line.len();
                    lines.push(line);
                }
                Some(None) => return Ok((lines, true)),
                None => {
                    return Err(errors::dump_stalled());
                }
            }
        }
        Ok((lines, false))
    }

    fn apply(&self, restoring: &mut Restoring, line: &[u8], cancel: &Cancel) -> Result<()> {
        let Some(line) = restoring.reader.read(line)? else { return Ok(()) };
        match line {
            Line::MemorySqlDump(_) => Ok(()),
            Line::End(_) => self.rebuild(restoring, cancel),
            Line::Table(table) => {
                let kinds = [StatementKind::CreateTable, StatementKind::CreateVirtualTable];
                let made = self.define(restoring, "table", &table.name, &table.sql, &kinds, cancel)?;
                if made {
                    restoring.reader.outcome.tables += 1;
                }
                restoring.table = made.then_some(table);
                Ok(())
            }
            Line::Row(cells) => self.row(restoring, cells, cancel),
            Line::Sequence(sequence) => {
                if !restoring.conn.sandbox.set_sequence(&sequence.table, sequence.value)? {
                    let table = &sequence.table;
                    restoring
                        .reader
                        .skip(format!("sequence {table}: no table of that name uses AUTOINCREMENT"));
                }
                Ok(())
            }
            Line::Object(object) => {
                let kind = match object.kind {
                    Kind::Index => StatementKind::CreateIndex,
                    Kind::View => StatementKind::CreateView,
                    Kind::Trigger => StatementKind::CreateTrigger,
                };
                let word = object.kind.name();
                self.define(restoring, word, &object.name, &object.sql, &[kind], cancel).map(drop)
            }
            Line::Setting(setting) => self.set_up(restoring, setting, cancel),
            Line::Rebuild(table) => {
                if restoring.conn.sandbox.layout(&table)?.kind == "virtual" {
                    restoring.rebuilds.insert(table);
                } else {
                    restoring.reader.skip(format!("index of table {table}: it is not a full-text index"));
                }
                Ok(())
            }
            Line::Analyze(_) => {
                self.rebuild(restoring, cancel)?;
                match self.run_restoring(restoring, "ANALYZE", &[], cancel) {
                    Ok(()) => Ok(()),
                    Err(error) => restoring.skip_refused("statistics", "", error),
                }
            }
            Line::Skipped(reason) => {
                restoring.reader.skip(reason);
                Ok(())
            }
        }
    }

    /// Creates an object if an agent may run its text and the text creates such an object; returns whether it did.
    fn define(
        &self,
        restoring: &mut Restoring,
        word: &str,
        name: &str,
        sql: &str,
        kinds: &[StatementKind],
        cancel: &Cancel,
    ) -> Result<bool> {
        let judged = self.verdicts.judge_on(&restoring.conn.sandbox, sql, Mode::Exec, self.stages());
        let made = match judged {
            Ok(judged) if kinds.contains(&judged.kind) => {
                restoring.conn.sandbox.undoing(|sandbox| self.run_in(sandbox, sql, &[], cancel))
            }
            Ok(_) => Err(Error::statement_refused("its text creates something else")),
            Err(error) => Err(error),
        };
        match made {
            Ok(()) => Ok(true),
            Err(error) => restoring.skip_refused(word, name, error).map(|()| false),
        }
    }

    /// Rebuilds the full-text indexes over other tables and views.
    fn rebuild(&self, restoring: &mut Restoring, cancel: &Cancel) -> Result<()> {
        for table in std::mem::take(&mut restoring.rebuilds) {
            let name = quote_identifier(&table);
            let sql = format!("INSERT INTO main.{name} ({name}) VALUES ('rebuild')");
            self.run_restoring(restoring, &sql, &[], cancel)
                .or_else(|error| restoring.skip_refused("index of table", &table, error))?;
        }
        Ok(())
    }

    /// Changes a setting of a full-text index, as an agent's own statement would.
    fn set_up(&self, restoring: &mut Restoring, setting: Setting, cancel: &Cancel) -> Result<()> {
        let Setting { table, name, value } = setting;
        let quoted = quote_identifier(&table);
        let (text, value) = value.bound();
        let sql = format!("INSERT INTO main.{quoted} ({quoted}, rank) VALUES (?, {text})");
        // Other names are commands, which change the index.
        let done = if !SETTINGS.iter().any(|known| known.eq_ignore_ascii_case(&name)) {
            Err(Error::statement_refused(format!("{name} is not a setting of a full-text index")))
        } else if restoring.conn.sandbox.layout(&table)?.kind != "virtual" {
            Err(Error::statement_refused("it is not a full-text index"))
        } else {
            self.run_restoring(restoring, &sql, &[SqlValue::Text(name), value], cancel)
        };
        done.or_else(|error| restoring.skip_refused("setting of table", &table, error))
    }

    fn row(&self, restoring: &mut Restoring, cells: Vec<Cell>, cancel: &Cancel) -> Result<()> {
        let Some(table) = &restoring.table else { return restoring.reader.leave_out_row() };
        if table.columns.is_empty() || cells.len() != table.columns.len() {
            return Err(Error::invalid(
                "a row of the dump does not have as many values as its table has columns; nothing was restored",
            ));
        }
        let (mut values, mut args) = (String::new(), Vec::with_capacity(cells.len()));
        for (at, cell) in cells.into_iter().enumerate() {
            values.push_str(if at == 0 { "" } else { ", " });
            let (text, value) = cell.bound();
            values.push_str(text);
            args.push(value);
        }
        let columns =
            table.columns.iter().map(|column| quote_identifier(column)).collect::<Vec<_>>().join(", ");
        let sql = format!("INSERT INTO main.{} ({columns}) VALUES ({values})", quote_identifier(&table.name));
        self.run_restoring(restoring, &sql, &args, cancel)?;
        restoring.reader.outcome.rows += 1;
        Ok(())
    }

    fn run_restoring(
        &self,
        restoring: &mut Restoring,
        sql: &str,
        args: &[SqlValue],
        cancel: &Cancel,
    ) -> Result<()> {
        self.run_in(&mut restoring.conn.sandbox, sql, args, cancel)
    }

    fn run_in(&self, sandbox: &mut Sandbox, sql: &str, args: &[SqlValue], cancel: &Cancel) -> Result<()> {
        sandbox
            .run(&Statement {
                sql,
                args,
                mode: Mode::Exec,
                deadline: self.deadline(None),
                max_rows: 1,
                max_bytes: 1,
                frees: false,
                cancel,
            })
            .map(drop)
    }

    fn finish(
        self: &Arc<Self>,
        mut restoring: Restoring,
        taken_at: Option<Timestamp>,
    ) -> Result<RestoreOutcome> {
        restoring.reader.check_ended()?;
        restoring.conn.sandbox.enforce_foreign_keys(true)?;
        // Any later forget waits for this transaction, and removes what it restored.
        let scope = restoring.conn.state.scope.clone();
        if self.is_forgotten(&scope, taken_at)? {
            restoring.conn.sandbox.rollback()?;
            self.pool.rest(restoring.conn);
            return Ok(forgotten());
        }
        restoring.conn.sandbox.set_user_version(WRITTEN)?;
        restoring.conn.sandbox.commit()?;
        let Restoring { conn, guard, reader, .. } = restoring;
        self.wrote(conn, guard);
        Ok(reader.into_outcome())
    }
}

fn forgotten() -> RestoreOutcome {
    let mut outcome = RestoreOutcome::default();
    outcome.forgotten = true;
    outcome
}

impl Restoring {
    /// Skips an object that is refused; any other error ends the restore.
    fn skip_refused(&mut self, word: &str, name: &str, error: Error) -> Result<()> {
        if is_about_object(&error) && self.conn.sandbox.in_transaction() {
            self.reader.skip(format!("{word} {name}: {}", error.message()));
            Ok(())
        } else {
            Err(error)
        }
    }
}
