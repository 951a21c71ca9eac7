//! Dumps a scope's database as a stream of lines, from one snapshot.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use memory_core::sql::DumpStream;
use memory_core::{Error, Result, Scope};
use memory_sql::{Counts, DumpLine as _, Header, MOST_SKIPPED, Table, encode_line, quote_identifier};

use super::format::{Cell, Kind, Line, Object, Sequence, Setting};
use crate::commit::pipe::{Pipe, Reader};
use crate::error::overloaded;
use crate::sandbox::{Cancel, Content, Layout, Sandbox, SchemaObject, content, has_made};
use crate::sql::connections::{Conn, WRITTEN, is_busy};
use crate::sql::engine::Engine;

const STACK_BYTES: usize = 8 << 20;

/// The output; `line` returns false when the reader wants no more.
struct Out<'a> {
    engine: &'a Engine,
    pipe: &'a Pipe<Vec<u8>>,
}

impl Out<'_> {
    fn line(&self, line: &Line) -> Result<bool> {
        let line = encode_line(line)?;
        let patience = Duration::from_millis(self.engine.store.config.export_idle_ms);
        Ok(self.pipe.push(line.len(), Ok(line), patience, || self.engine.is_closed()))
    }
}

/// Ends the stream even if its thread panics.
struct Ending(Arc<Engine>, Arc<Pipe<Vec<u8>>>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.dumps.fetch_sub(1, Ordering::Relaxed);
        self.1.end();
    }
}

impl Engine {
    /// Reads one snapshot on its own thread, since the caller may read slowly.
    pub(crate) async fn dump(self: &Arc<Self>, scope: &Scope) -> Result<DumpStream> {
        self.wake()?;
        let begun = self.dumps.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |under_way| {
            (under_way < self.config.dumps).then_some(under_way + 1)
        });
        begun.map_err(|_| overloaded("dumps"))?;
        let pipe = Arc::new(Pipe::default());
        let ending = Ending(Arc::clone(self), Arc::clone(&pipe));
        self.settled(scope).await?;
        let deadline = self.deadline(None);
        // The snapshot is taken during this call, not when the thread starts.
        let snapshot = self.snapshot(scope, deadline).await?;
        std::thread::Builder::new()
            .name("memory-sqlite-dump".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let Ending(engine, pipe) = &ending;
                let out = Out { engine, pipe };
                let sent = match snapshot {
                    Some(conn) => engine.send(conn, &out),
                    None => begin(&out).and_then(|more| end(&out, more, Counts::default())),
                };
                if let Err(error) = sent {
                    pipe.push(0, Err(error), Duration::ZERO, || true);
                }
            })
            .map_err(|error| {
                Error::unavailable("no thread can be started for the dump; try again").with_source(error)
            })?;
        Ok(Box::pin(Reader::new(pipe)))
    }

    /// A connection with a read snapshot; `None` if there is no database.
    async fn snapshot(self: &Arc<Self>, scope: &Scope, deadline: Instant) -> Result<Option<Conn>> {
        let state = self.pool.scope(scope);
        let mut times = 0;
        loop {
            let (engine, state) = (Arc::clone(self), Arc::clone(&state));
            let work = move || {
                let Some(mut conn) = engine.pool.reader(&state, engine.layers(&state.scope), deadline)?
                else {
                    return Ok(None);
                };
                conn.pass();
                conn.sandbox.begin_snapshot()?;
                // The first read takes the snapshot.
                Ok((conn.sandbox.user_version()? == WRITTEN).then_some(conn))
            };
            match self.workers.run(deadline, work).await? {
                Err(error) if is_busy(&error) => self.pause(&mut times, deadline).await?,
                done => return done,
            }
        }
    }

    fn send(&self, mut conn: Conn, out: &Out<'_>) -> Result<()> {
        let cancel = self.in_flight.begin();
        let sent = everything(&mut conn.sandbox, out, &cancel.cancel).and_then(|()| conn.check_read());
        if conn.sandbox.rollback().is_ok() {
            self.pool.rest(conn);
        }
        sent
    }
}

fn begin(out: &Out<'_>) -> Result<bool> {
    out.line(&Line::MemorySqlDump(Header::of(Line::DIALECT)))
}

fn end(out: &Out<'_>, more: bool, counts: Counts) -> Result<()> {
    if more {
        out.line(&Line::End(counts))?;
    }
    Ok(())
}

fn everything(sandbox: &mut Sandbox, out: &Out<'_>, cancel: &Cancel) -> Result<()> {
    let (mut counts, mut skipped) = (Counts::default(), 0);
    if !begin(out)? {
        return Ok(());
    }
    let made = sandbox.schema()?;
    for table in made.iter().filter(|made| made.kind == "table") {
        let Some(sql) = &table.sql else { continue };
        let layout = sandbox.layout(&table.name)?;
        // A table that a virtual table merely claims by name has rows of its own.
        if layout.kind == "shadow" && made.iter().any(|other| other.has_made(&table.name)) {
            continue;
        }
        counts.tables += 1;
        let content = content_of(&layout, sql);
        let rows = rows_of(&table.name, &layout, content);
        let columns = rows.as_ref().map(|rows| rows.columns.clone()).unwrap_or_default();
        if !out.line(&Line::Table(Table { name: table.name.clone(), sql: sql.clone(), columns }))? {
            return Ok(());
        }
        if let Some(rows) = rows
            && !send_rows(sandbox, &rows, out, cancel, &mut counts)?
        {
            return Ok(());
        }
        if content == Content::Nowhere && skipped < MOST_SKIPPED {
            skipped += 1;
            let reason =
                "the rows of a full-text index without content cannot be read back; index them again";
            if !out.line(&Line::Skipped(format!("table {}: {reason}", table.name)))? {
                return Ok(());
            }
        }
    }
    for (table, value) in sandbox.sequences()? {
        if !out.line(&Line::Sequence(Sequence { table, value }))? {
            return Ok(());
        }
    }
    for table in made.iter().filter(|made| made.kind == "table") {
        for (name, value) in sandbox.full_text_settings(&table.name)? {
            let value = Cell::of((&value).into());
            if !out.line(&Line::Setting(Setting { table: table.name.clone(), name, value }))? {
                return Ok(());
            }
        }
    }
    for table in made.iter().filter(|made| made.kind == "table") {
        let Some(sql) = &table.sql else { continue };
        if content_of(&sandbox.layout(&table.name)?, sql) == Content::Elsewhere
            && !out.line(&Line::Rebuild(table.name.clone()))?
        {
            return Ok(());
        }
    }
    // Triggers come last, so that restoring rows fires none.
    for kind in [Kind::Index, Kind::View, Kind::Trigger] {
        for object in made.iter().filter(|made| made.kind == kind.name()) {
            let Some(sql) = &object.sql else { continue };
            let object = Object { kind, name: object.name.clone(), sql: sql.clone() };
            if !out.line(&Line::Object(object))? {
                return Ok(());
            }
        }
    }
    if sandbox.is_analyzed()? && !out.line(&Line::Analyze(true))? {
        return Ok(());
    }
    end(out, true, counts)
}

/// How a table's rows are read and written again.
struct RowSource {
    sql: String,
    columns: Vec<String>,
}

impl SchemaObject {
    fn has_made(&self, table: &str) -> bool {
        self.kind == "table" && self.sql.as_deref().is_some_and(|sql| has_made(&self.name, sql, table))
    }
}

fn content_of(layout: &Layout, sql: &str) -> Content {
    if layout.kind == "virtual" { content(sql) } else { Content::Own }
}

/// `None` if it stores no rows.
fn rows_of(table: &str, layout: &Layout, content: Content) -> Option<RowSource> {
    if content != Content::Own || layout.stored.is_empty() {
        return None;
    }
    let hidden_by = |name: &str| layout.all.iter().any(|column| column.eq_ignore_ascii_case(name));
    // If columns of all three names hide the rowid, no statement can see it either.
    let rowid =
        ["rowid", "_rowid_", "oid"].into_iter().find(|name| !layout.without_rowid && !hidden_by(name));
    // A virtual table's rowid is not necessarily indexed.
    let columns: Vec<String> =
        rowid.map(str::to_owned).into_iter().chain(layout.stored.iter().cloned()).collect();
    let list = columns.iter().map(|column| quote_identifier(column)).collect::<Vec<_>>().join(", ");
    Some(RowSource { sql: format!("SELECT {list} FROM main.{}", quote_identifier(table)), columns })
}

fn send_rows(
    sandbox: &mut Sandbox,
    rows: &RowSource,
    out: &Out<'_>,
    cancel: &Cancel,
    counts: &mut Counts,
) -> Result<bool> {
    let mut more = true;
    let width = rows.columns.len();
    sandbox.each(&rows.sql, cancel, |row| {
        let mut cells = Vec::with_capacity(width);
        for at in 0..width {
            cells.push(Cell::of(row.get_ref(at).map_err(crate::error::engine)?));
        }
        counts.rows += 1;
        more = out.line(&Line::Row(cells))?;
        Ok(more)
    })?;
    Ok(more)
}
