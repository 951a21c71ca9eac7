//! Restores a dump in one transaction, as the scope's role; each definition is checked like an agent's.

use std::future::poll_fn;
use std::sync::Arc;

use memory_core::sql::{DumpStream, RestoreMode, RestoreOptions, RestoreOutcome};
use memory_core::{Error, ErrorKind, Result, Scope};
use memory_sql::{DumpReader, Table, is_about_object, longest_line, quote_identifier};
use memory_validator::{Mode, StatementKind};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::types::Type;

use crate::sql::dump::format::{Line, Sequence, TABLES};
use crate::sql::engine::Engine;
use crate::sql::errors;
use crate::sql::pool::{Leased, ScopeState};
use crate::sql::protocol::deadline::{COMMIT_PATIENCE, limits};
use crate::sql::protocol::exchange::{Answer, Exchange, never, run_own};
use crate::sql::protocol::results::Sink;
use crate::sql::statement::verdicts::Judged;

/// Rows per statement, and their values.
const STEP_ROWS: usize = 200;
const STEP_VALUES: usize = 20_000;
const STEP_BYTES: usize = 1 << 20;
/// A schema's own objects, not parts of others, in the order to drop them: relations before the types of their columns.
/// Also whether dumps leave them out.
const THERE: &str = "\
    SELECT what, name, is_in_no_dump FROM ( \
        SELECT 0 AS turn, CASE relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'f' THEN 'FOREIGN TABLE' \
            ELSE 'TABLE' END AS what, quote_ident(relname) AS name, \
            relkind IN ('p', 'f') OR EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid) AS is_in_no_dump \
        FROM pg_class c WHERE relnamespace = to_regnamespace($1) AND relkind IN ('r', 'p', 'v', 'm', 'f') \
        UNION ALL SELECT 1, 'SEQUENCE', quote_ident(relname), false FROM pg_class c \
        WHERE relnamespace = to_regnamespace($1) AND relkind = 'S' AND NOT EXISTS (SELECT FROM pg_depend d \
            WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i')) \
        UNION ALL SELECT 2, CASE typtype WHEN 'd' THEN 'DOMAIN' ELSE 'TYPE' END, quote_ident(typname), false FROM pg_type t \
        WHERE typnamespace = to_regnamespace($1) AND (typtype IN ('d', 'e', 'r') OR typtype = 'c' AND EXISTS \
            (SELECT FROM pg_class c WHERE c.oid = t.typrelid AND c.relkind = 'c'))) o \
    ORDER BY turn, name";

#[derive(Default)]
struct Progress {
    reader: DumpReader,
    /// The table that rows belong to; `None` if it could not be created.
    table: Option<Table>,
    /// Rows waiting to be sent.
    rows: Vec<Vec<Option<String>>>,
    bytes: usize,
}

impl Engine {
    pub(crate) async fn restore(
        self: &Arc<Self>,
        scope: &Scope,
        mut dump: DumpStream,
        options: RestoreOptions,
    ) -> Result<RestoreOutcome> {
        self.wake()?;
        let state = self.pool.scope(scope);
        let deadline = self.deadline(None);
        let guard = self.lock(&state, deadline).await?;
        let mut leased = self.entered(&state, deadline).await?;
        let restored = self.restore_into(&mut leased, &mut dump, options).await;
        match restored {
            Ok(outcome) => {
                self.pool.retire(leased);
                drop(guard);
                Ok(outcome)
            }
            Err(error) => {
                // Its transaction ends with it.
                leased.session.ask_to_end();
                self.pool.retire(leased);
                drop(guard);
                Err(error)
            }
        }
    }

    /// A session in a write transaction.
    async fn entered(self: &Arc<Self>, state: &Arc<ScopeState>, deadline: Instant) -> Result<Leased> {
        const TRIES: u32 = 4;
        let mut tries = 0;
        loop {
            let mut leased = self.session(state, deadline).await?;
            if let Err(error) = self.admit(state, leased.session.generation).await {
                self.pool.rest(leased);
                return Err(error);
            }
            let begin = format!(
                "BEGIN; {}; SELECT mem_sql.enter({}); SET CONSTRAINTS ALL DEFERRED",
                limits(deadline),
                leased.session.generation
            );
            let Err(refused) = run_silent(&mut leased, &begin, deadline).await else { return Ok(leased) };
            state.forget(leased.session.generation);
            leased.session.ask_to_end();
            self.pool.retire(leased);
            tries += 1;
            if tries >= TRIES || !errors::is_of_another_generation(&refused.error) {
                return Err(refused.error);
            }
        }
    }

    async fn restore_into(
        &self,
        leased: &mut Leased,
        dump: &mut DumpStream,
        RestoreOptions { mode, quota_bytes, .. }: RestoreOptions,
    ) -> Result<RestoreOutcome> {
        let schema = leased.state.hex.schema();
        let there = self.admin.look(THERE, &[(&schema, Type::TEXT)]).await?;
        if mode == RestoreMode::IntoEmpty && !there.is_empty() {
            return Err(memory_sql::errors::not_empty());
        }
        if let Some(row) = there.iter().find(|row| row.get(2)) {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "replacing would delete the table {}, which is partitioned, inherited or foreign, so that no dump holds it; copy \
                     its rows into a table of another kind, or drop it",
                    row.get::<_, &str>(1)
                ),
            ));
        }
        for chunk in there.chunks(STEP_ROWS) {
            let deadline = self.deadline(None);
            // Objects that depend on an earlier one are already gone.
            let drops = chunk.iter().map(|row| {
                format!(
                    "DROP {} IF EXISTS {}.{} CASCADE",
                    row.get::<_, &str>(0),
                    schema,
                    row.get::<_, &str>(1)
                )
            });
            let words = std::iter::once(limits(deadline)).chain(drops).collect::<Vec<_>>().join("; ");
            run_silent(leased, &words, deadline).await?;
        }
        let longest = longest_line(self.config.value_bytes);
        let mut progress = Progress { reader: DumpReader::new(mode), ..Progress::default() };
        loop {
            let patience = self.deadline(None);
            let line = match timeout_at(patience, poll_fn(|context| dump.as_mut().poll_next(context))).await {
                Ok(Some(line)) => line?,
                Ok(None) => break,
                Err(_) => {
                    return Err(memory_sql::errors::dump_stalled());
                }
            };
            if line.len() > longest {
                return Err(Error::too_large("line of a dump", line.len(), longest, "bytes"));
            }
            self.apply(leased, &mut progress, &line).await?;
        }
        progress.reader.check_ended()?;
        let quota_bytes = quota_bytes.or(self.config.quota_bytes);
        let quota = quota_bytes.map_or("NULL".to_owned(), |quota| quota.to_string());
        let settle = format!("SELECT mem_sql.redefined(); SELECT mem_sql.settle({quota}, false)");
        match run_silent(leased, &settle, self.deadline(None)).await {
            Err(Refused { state, .. }) if state == errors::QUOTA_EXCEEDED => {
                return Err(errors::quota_exceeded(quota_bytes.unwrap_or_default()));
            }
            done => drop(done?),
        }
        let deadline = Instant::now() + COMMIT_PATIENCE;
        let heard = run_own(&mut leased.session, "COMMIT", deadline, &mut Sink::default())
            .await
            .map_err(|_| errors::outcome_unknown())?;
        if let Some(refused) = heard.fault {
            return Err(errors::statement(&refused));
        }
        if heard.warned {
            return Err(errors::outcome_unknown());
        }
        Ok(progress.reader.into_outcome())
    }

    async fn apply(&self, leased: &mut Leased, progress: &mut Progress, line: &[u8]) -> Result<()> {
        let Some(line) = progress.reader.read(line)? else { return Ok(()) };
        if !matches!(line, Line::Row(_)) {
            self.send_rows(leased, progress).await?;
        }
        match line {
            Line::MemorySqlDump(_) | Line::End(_) => {}
            Line::Object(object) => {
                let (word, kinds) = (object.kind.name(), object.kind.statements());
                self.define(leased, progress, word, &object.name, &object.sql, kinds).await?;
            }
            Line::Table(mut table) => {
                // Earlier versions let agents make such tables.
                if let Some(rest) = table.sql.strip_prefix("CREATE UNLOGGED ") {
                    table.sql = format!("CREATE {rest}");
                }
                let made = self.define(leased, progress, "table", &table.name, &table.sql, TABLES).await?;
                progress.reader.outcome.tables += u64::from(made);
                progress.table = made.then_some(table);
            }
            Line::Row(row) => {
                let Some(table) = &progress.table else { return progress.reader.leave_out_row() };
                if row.len() != table.columns.len() {
                    return Err(Error::invalid(
                        "a row of the dump does not have as many values as its table has columns; nothing was restored",
                    ));
                }
                if row.iter().flatten().any(|value| value.contains('\0')) {
                    return Err(Error::invalid("a row of the dump holds U+0000; nothing was restored"));
                }
                progress.bytes += row.iter().flatten().map(String::len).sum::<usize>();
                progress.rows.push(row);
                let values = progress.rows.len() * table.columns.len().max(1);
                if progress.rows.len() >= STEP_ROWS || values >= STEP_VALUES || progress.bytes >= STEP_BYTES {
                    self.send_rows(leased, progress).await?;
                }
            }
            Line::Owned(owned) => {
                let sql = format!(
                    "ALTER SEQUENCE {} OWNED BY {}.{}",
                    quote_identifier(&owned.sequence),
                    quote_identifier(&owned.table),
                    quote_identifier(&owned.column)
                );
                let done = self.attempt(leased, &sql).await;
                progress.skip_refused("sequence", &owned.sequence, done)?;
            }
            Line::Sequence(sequence) => {
                let Sequence { name, column, value, is_called } = &sequence;
                let sql = match column {
                    Some(column) => {
                        let next = value.saturating_add(i64::from(*is_called));
                        let (table, column) = (quote_identifier(name), quote_identifier(column));
                        format!("ALTER TABLE {table} ALTER COLUMN {column} RESTART WITH {next}")
                    }
                    None => {
                        // The name, in a literal within a literal.
                        let name = quote_identifier(name).replace('\'', "''").replace('\\', "\\\\");
                        format!("SELECT setval(E'{name}', {value}, {is_called})")
                    }
                };
                let done = self.attempt(leased, &sql).await;
                progress.skip_refused("sequence", &sequence.name, done)?;
            }
            Line::Skipped(reason) => progress.reader.skip(reason),
        }
        Ok(())
    }

    /// Creates an object if an agent may run its text and the text creates such an object; returns whether it did.
    async fn define(
        &self,
        leased: &mut Leased,
        progress: &mut Progress,
        word: &str,
        name: &str,
        sql: &str,
        kinds: &[StatementKind],
    ) -> Result<bool> {
        let own = leased.state.hex.schema();
        let done = match self.judge_definition(&own, sql, kinds).await {
            Ok(judged) => self.attempt(leased, &judged.text).await,
            Err(error) => Err(error),
        };
        progress.skip_refused(word, name, done)
    }

    /// Whether an agent may run a text that creates one of these.
    pub(in crate::sql) async fn judge_definition(
        &self,
        own: &str,
        sql: &str,
        kinds: &[StatementKind],
    ) -> Result<Judged> {
        let judged = self.verdicts.judge_in(own, sql, Mode::Exec, self.stages()).await?;
        if kinds.contains(&judged.kind) && judged.arguments == 0 {
            Ok(judged)
        } else {
            Err(Error::statement_refused("its text creates something else"))
        }
    }

    /// Runs one statement in a savepoint, by the extended protocol.
    async fn attempt(&self, leased: &mut Leased, sql: &str) -> Result<()> {
        let deadline = self.deadline(None);
        run_silent(leased, &format!("SAVEPOINT mem_q; {}", limits(deadline)), deadline).await?;
        let session = &mut leased.session;
        session.parse(sql, &[]);
        session.bind(&[]);
        session.execute(0);
        session.sync();
        let heard = receive(leased, deadline).await?;
        match heard.fault {
            None => run_silent(leased, "RELEASE SAVEPOINT mem_q", deadline).await.map_err(Error::from),
            Some(refused) => {
                run_silent(leased, "ROLLBACK TO SAVEPOINT mem_q; RELEASE SAVEPOINT mem_q", deadline).await?;
                Err(errors::statement(&refused))
            }
        }
    }

    async fn send_rows(&self, leased: &mut Leased, progress: &mut Progress) -> Result<()> {
        let rows = std::mem::take(&mut progress.rows);
        progress.bytes = 0;
        let Some(table) = progress.table.as_ref().filter(|_| !rows.is_empty()) else { return Ok(()) };
        let deadline = self.deadline(None);
        let name = quote_identifier(&table.name);
        let session = &mut leased.session;
        if table.columns.is_empty() {
            session.parse(&format!("INSERT INTO {name} SELECT FROM generate_series(1, {})", rows.len()), &[]);
            session.bind(&[]);
        } else {
            let columns: Vec<String> = table.columns.iter().map(|column| quote_identifier(column)).collect();
            let width = columns.len();
            let tuples: Vec<String> = (0..rows.len())
                .map(|at| {
                    let places: Vec<String> =
                        (1..=width).map(|place| format!("${}", at * width + place)).collect();
                    format!("({})", places.join(", "))
                })
                .collect();
            let sql = format!(
                "INSERT INTO {name} ({}) OVERRIDING SYSTEM VALUE VALUES {}",
                columns.join(", "),
                tuples.join(", ")
            );
            session.parse(&sql, &[]);
            let values: Vec<Option<Vec<u8>>> = rows
                .iter()
                .flatten()
                .map(|value| value.as_ref().map(|text| text.clone().into_bytes()))
                .collect();
            session.bind(&values);
        }
        session.execute(0);
        session.sync();
        let heard = receive(leased, deadline).await?;
        if let Some(refused) = heard.fault {
            return Err(errors::statement(&refused));
        }
        progress.reader.outcome.rows += u64::try_from(rows.len()).unwrap_or_default();
        Ok(())
    }
}

impl Progress {
    /// Skips an object that is refused; any other error ends the restore. Returns whether it was created.
    fn skip_refused(&mut self, word: &str, name: &str, done: Result<()>) -> Result<bool> {
        match done {
            Ok(()) => Ok(true),
            Err(error) if is_about_object(&error) => {
                self.reader.skip(format!("{word} {name}: {}", error.message()));
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// The engine's error about the runtime's own statement.
struct Refused {
    state: String,
    error: Error,
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        refused.error
    }
}

async fn run_silent(leased: &mut Leased, words: &str, deadline: Instant) -> std::result::Result<(), Refused> {
    leased.session.query(words);
    match receive(leased, deadline).await {
        Ok(Answer { fault: Some(refused), .. }) => {
            Err(Refused { error: errors::statement(&refused), state: refused.state })
        }
        Ok(_) => Ok(()),
        Err(error) => Err(Refused { state: String::new(), error }),
    }
}

async fn receive(leased: &mut Leased, deadline: Instant) -> Result<Answer> {
    let mut exchange = Exchange::new(&mut leased.session, never(), deadline);
    exchange.send().await.map_err(errors::broken)?;
    exchange.receive(&mut Sink::default()).await.map_err(errors::broken)
}
