//! Streams a scope's database as lines, from one snapshot: the administrator reads definitions and the scope's own role
//! reads rows. Nothing defined by an agent runs with the administrator's rights.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use memory_core::sql::DumpStream;
use memory_core::{Error, Result, Scope};
use memory_sql::{Counts, DumpLine as _, Header, Table, encode_line, is_about_object, quote_identifier};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_postgres::IsolationLevel;
use tokio_postgres::types::Type;

use crate::sql::dump::definitions::{Defined, in_order};
use crate::sql::dump::format::{Kind, Line, Object, Owned, Sequence, TABLES};
use crate::sql::engine::Engine;
use crate::sql::errors;
use crate::sql::pool::{Leased, ScopeState};
use crate::sql::protocol::exchange::{Exchange, never, run_own};
use crate::sql::protocol::results::Sink;

const DEFINITIONS: &str = include_str!("definitions.sql");

/// Rows per request.
const STEP_ROWS: i32 = 100;
/// Bytes of rows in memory at a time; a longer row ends the dump.
const STEP_BYTES: usize = 1 << 30;
/// Lines waiting for the reader.
const WAITING: usize = 8;

impl Engine {
    pub(crate) async fn dump(self: &Arc<Self>, scope: &Scope) -> Result<DumpStream> {
        self.wake()?;
        let state = self.pool.scope(scope);
        let (sender, receiver) = mpsc::channel(WAITING);
        let (engine, opened) = (Arc::clone(self), tokio::sync::oneshot::channel());
        let (ready, is_ready) = opened;
        tokio::spawn(async move {
            if let Err(error) = engine.write_dump(&state, &sender, ready).await {
                let _ = sender.send(Err(error)).await;
            }
        });
        // The snapshot is taken before this returns; if that failed, the first item says why.
        let _ = is_ready.await;
        Ok(Box::pin(Lines { receiver, chunk: Vec::new().into_iter() }))
    }

    async fn write_dump(
        self: &Arc<Self>,
        state: &Arc<ScopeState>,
        sender: &mpsc::Sender<Result<Vec<Vec<u8>>>>,
        ready: tokio::sync::oneshot::Sender<()>,
    ) -> Result<()> {
        let mut out = Out { sender, lines: Vec::new(), bytes: 0 };
        out.line(&Line::MemorySqlDump(Header::of(Line::DIALECT))).await?;
        let mut counts = Counts::default();
        if let Some((mut leased, defined)) = self.begin_dump(state).await? {
            drop(ready);
            let dumped = self.dump_all(&mut leased, &mut out, &mut counts, defined).await;
            // Whatever happened, the session's transaction ends with it.
            self.pool.retire(leased);
            dumped?;
        }
        out.line(&Line::End(counts)).await?;
        out.flush().await
    }

    /// A session on a snapshot of the scope's database, and the definitions there; `None` if there is no database.
    async fn begin_dump(self: &Arc<Self>, state: &Arc<ScopeState>) -> Result<Option<(Leased, Vec<Defined>)>> {
        const TRIES: u32 = 4;
        let mut tries = 0;
        loop {
            self.settled(state).await?;
            let there = self
                .admin
                .look(
                    "SELECT written FROM mem_sql.scopes WHERE hex = $1",
                    &[(&state.hex.as_str(), Type::TEXT)],
                )
                .await?;
            if !there.first().is_some_and(|row| row.get(0)) {
                return Ok(None);
            }
            let mut leased = self.session(state, self.deadline(None)).await?;
            match self.definitions(state, &mut leased).await {
                Ok(defined) => return Ok(Some((leased, defined))),
                Err(error) => {
                    state.forget(leased.session.generation);
                    self.pool.retire(leased);
                    tries += 1;
                    // The session belonged to a dropped database, or to one waiting for a decision.
                    if tries >= TRIES || !errors::is_of_another_generation(&error) {
                        return Err(error);
                    }
                }
            }
        }
    }

    async fn dump_all(
        &self,
        leased: &mut Leased,
        out: &mut Out<'_>,
        counts: &mut Counts,
        defined: Vec<Defined>,
    ) -> Result<()> {
        let own = leased.state.hex.schema();
        let mut left_out = HashSet::new();
        for one in defined {
            let text = one.text.clone().unwrap_or_default();
            let refused = self.unrestorable(&own, &one, &left_out).await;
            match (one.kind.as_str(), Kind::of(&one.kind)) {
                (_, Some(kind)) => {
                    out.line(&Line::Object(Object { kind, name: one.name, sql: text })).await?;
                }
                ("owned", _) => {
                    let mut columns = one.columns.into_iter();
                    if let (Some(table), Some(column)) = (columns.next(), columns.next()) {
                        out.line(&Line::Owned(Owned { sequence: one.name, table, column })).await?;
                    }
                }
                ("value", _) => {
                    let sql = format!("SELECT last_value, is_called FROM {}", quote_identifier(&text));
                    let rows = ask(leased, &sql, self.deadline(None)).await?;
                    if let Some([Some(value), Some(is_called)]) = rows.first().map(Vec::as_slice) {
                        let mut value = value.parse::<i64>().unwrap_or_default();
                        let mut is_called = is_called == "t";
                        let column = one.columns.into_iter().next();
                        if column.is_some() && std::mem::take(&mut is_called) {
                            value = value.saturating_add(1);
                        }
                        out.line(&Line::Sequence(Sequence { name: one.name, column, value, is_called }))
                            .await?;
                    }
                }
                ("table", _) => {
                    counts.tables += 1;
                    let table = Table { name: one.name, sql: text, columns: one.columns };
                    out.line(&Line::Table(table.clone())).await?;
                    self.rows(leased, out, counts, &table).await?;
                }
                _ => out.line(&Line::Skipped(format!("{}: {text}", one.name))).await?,
            }
            if let Some(reason) = refused {
                left_out.extend(one.id);
                out.line(&Line::Skipped(reason)).await?;
            }
        }
        Ok(())
    }

    /// Why a restore will skip an object that an agent could not create, in a restore's own words.
    async fn unrestorable(&self, own: &str, one: &Defined, left_out: &HashSet<String>) -> Option<String> {
        let (word, kinds) = match Kind::of(&one.kind) {
            Some(kind) => (kind.name(), kind.statements()),
            None if one.kind == "table" => ("table", TABLES),
            None => return None,
        };
        let text = one.text.as_deref().unwrap_or_default();
        if let Err(error) = self.judge_definition(own, text, kinds).await
            && is_about_object(&error)
        {
            return Some(format!("{word} {}: {}", one.name, error.message()));
        }
        let lacks = one.needs.iter().any(|id| left_out.contains(id));
        lacks.then(|| format!("{word} {}: it depends on something that is left out", one.name))
    }

    /// Reads the definitions, and opens the session's transaction on the same snapshot.
    async fn definitions(&self, state: &Arc<ScopeState>, leased: &mut Leased) -> Result<Vec<Defined>> {
        let schema = state.hex.schema();
        let mut path = vec![schema.clone(), "mem_ext".to_owned()];
        path.extend(self.found.vector.iter().map(|schema| quote_identifier(schema)));
        path.extend(self.config.shared.iter().cloned());
        let mut connection = self.admin.connections.take().await?;
        let transaction = connection.transaction(IsolationLevel::RepeatableRead, true).await?;
        transaction.batch(&format!("SET LOCAL search_path = {}", path.join(", "))).await?;
        let rows = transaction.query("SELECT pg_catalog.pg_export_snapshot()", &[]).await?;
        let snapshot: String = rows.first().map(|row| row.get(0)).unwrap_or_default();
        let begin = format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT '{snapshot}'; \
             SET LOCAL synchronize_seqscans = off; SET LOCAL statement_timeout = 0; \
             SELECT mem_sql.look({})",
            leased.session.generation
        );
        ask(leased, &begin, self.deadline(None)).await?;
        let tables = transaction
            .query(
                "SELECT relname::text FROM pg_catalog.pg_class WHERE relnamespace = pg_catalog.to_regnamespace($1) \
                 AND relkind = 'r'",
                &[(&schema, Type::TEXT)],
            )
            .await?;
        if !tables.is_empty() {
            // Nobody may change them until their rows are read.
            let names: Vec<String> =
                tables.iter().map(|row| quote_identifier(row.get::<_, &str>(0))).collect();
            let lock = format!(
                "SET LOCAL lock_timeout = {}; LOCK TABLE {} IN ACCESS SHARE MODE",
                self.config.statement_timeout_ms,
                names.join(", ")
            );
            ask(leased, &lock, self.deadline(None)).await?;
        }
        let rows = transaction.query(DEFINITIONS, &[(&schema, Type::TEXT)]).await?;
        transaction.rollback().await;
        Ok(in_order(rows.iter().map(Defined::of).collect()))
    }

    async fn rows(
        &self,
        leased: &mut Leased,
        out: &mut Out<'_>,
        counts: &mut Counts,
        table: &Table,
    ) -> Result<()> {
        let columns: Vec<String> = table.columns.iter().map(|column| quote_identifier(column)).collect();
        let sql = format!("SELECT {} FROM ONLY {}", columns.join(", "), quote_identifier(&table.name));
        let session = &mut leased.session;
        session.parse(&sql, &[]);
        session.bind(&[]);
        session.execute(STEP_ROWS);
        session.sync();
        loop {
            let mut exchange = Exchange::new(&mut leased.session, never(), self.deadline(None));
            exchange.send().await.map_err(errors::broken)?;
            let mut sink = Sink::raw(STEP_BYTES);
            let heard = exchange.receive(&mut sink).await.map_err(errors::broken)?;
            if let Some(refused) = heard.fault {
                return Err(errors::statement(&refused));
            }
            if sink.is_full() {
                return Err(Error::internal("a row is too long to dump"));
            }
            let rows = sink.into_raw();
            let goes_on = heard.suspended;
            for row in rows {
                counts.rows += 1;
                out.line(&Line::Row(row)).await?;
            }
            if !goes_on {
                return Ok(());
            }
            leased.session.execute(STEP_ROWS);
            leased.session.sync();
        }
    }
}

/// Runs the runtime's own statements; returns the rows of the first that returns any.
async fn ask(leased: &mut Leased, sql: &str, deadline: Instant) -> Result<Vec<Vec<Option<String>>>> {
    let mut sink = Sink::raw(1 << 20);
    let heard = run_own(&mut leased.session, sql, deadline, &mut sink).await.map_err(errors::broken)?;
    match heard.fault {
        Some(refused) => Err(errors::statement(&refused)),
        None => Ok(sink.into_raw()),
    }
}

/// Lines being sent, several at a time.
struct Out<'s> {
    sender: &'s mpsc::Sender<Result<Vec<Vec<u8>>>>,
    lines: Vec<Vec<u8>>,
    bytes: usize,
}

impl Out<'_> {
    async fn line(&mut self, line: &Line) -> Result<()> {
        let line = encode_line(line)?;
        self.bytes += line.len();
        self.lines.push(line);
        if self.bytes > 64 << 10 || self.lines.len() >= 256 { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<()> {
        self.bytes = 0;
        let lines = std::mem::take(&mut self.lines);
        // If the reader is gone, there is nothing to do.
        self.sender.send(Ok(lines)).await.map_err(|_| errors::cancelled())
    }
}

/// The stream of a dump's lines.
struct Lines {
    receiver: mpsc::Receiver<Result<Vec<Vec<u8>>>>,
    chunk: std::vec::IntoIter<Vec<u8>>,
}

impl Stream for Lines {
    type Item = Result<Vec<u8>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(line) = self.chunk.next() {
                return Poll::Ready(Some(Ok(line)));
            }
            match self.receiver.poll_recv(cx) {
                Poll::Ready(Some(Ok(chunk))) => self.chunk = chunk.into_iter(),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
