//! The product, as a user calls it: opened by URL, through `Checked` and trait objects.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use memory::Memory;
use memory_core::sql::{SqlFacet, SqlValue, StatementOptions};
use memory_core::{Error, Result, RunContext, Scope};
use memory_sqlite::lab::engine_bytes;
use memory_validator::{Dialect, Mode, Policy, STACK_BYTES, Validator, Verdict};

use super::floor::each;
use super::work::{HANDLES, ROWS, SELECT, ScopeChoice, Work, analytic, insert};
use crate::bench::machine::{goes_on, io};
use crate::bench::measure::Slice;
use crate::bench::ours::url;

/// Calls between two reads of the clock.
const STRIDE: u64 = 8;
/// The store's name in its folder.
const FILE: &str = "memory.db";
/// Scopes that are filled concurrently.
const TOGETHER: usize = 16;

pub(super) struct Ours {
    memory: Memory,
    run: RunContext,
    scopes: Vec<Scope>,
    files: Vec<PathBuf>,
}

impl Ours {
    /// Opens a store and fills each scope.
    pub(super) async fn open(dir: &Path, scopes: usize, stop: &Arc<AtomicBool>) -> Result<Self> {
        let memory = connect(dir).await?;
        let run = run()?;
        let scopes: Vec<Scope> = (0..scopes).map(scope).collect::<Result<_>>()?;
        for some in scopes.chunks(TOGETHER) {
            goes_on(stop)?;
            let tasks: Vec<_> = some
                .iter()
                .map(|scope| tokio::spawn(fill(memory.clone(), run.clone(), scope.clone())))
                .collect();
            for task in tasks {
                task.await.map_err(|error| {
                    Error::internal("a task of the benchmark panicked").with_source(error)
                })??;
            }
        }
        let mut files = Vec::new();
        databases(&dir.join(format!("{FILE}.sql")), &mut files)?;
        if files.len() != scopes.len() {
            return Err(Error::internal("the number of database files is not the number of scopes"));
        }
        files.sort();
        Ok(Self { memory, run, scopes, files })
    }

    /// The database files, in any order.
    pub(super) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Bytes that the engine holds per idle connection, in a filled store.
    pub(super) async fn memory(dir: &Path, handles: usize) -> Result<f64> {
        let memory = connect(dir).await?;
        let facet = memory.sql().ok_or_else(|| Error::unsupported("query", memory.name()))?;
        let run = run()?;
        let mut before = 0;
        // The first one allocates what all of them share.
        for number in 0..handles {
            facet
                .query(&run, &scope(number)?, SELECT, &[SqlValue::Int(1)], StatementOptions::default())
                .await?;
            if number == 0 {
                before = engine_bytes();
            }
        }
        Ok(each(engine_bytes().saturating_sub(before), handles.saturating_sub(1)))
    }

    fn facet(&self) -> Result<&dyn SqlFacet> {
        self.memory.sql().ok_or_else(|| Error::unsupported("query", self.memory.name()))
    }

    /// Repeats `work` until the slice ends; returns how often.
    pub(super) async fn repeat(
        &self,
        work: Work,
        scopes: &mut ScopeChoice,
        count: &mut u64,
        slice: Slice<'_>,
    ) -> Result<u64> {
        let facet = self.facet()?;
        let mut done = 0;
        while slice.goes_on(done)? {
            for _ in 0..STRIDE {
                *count += 1;
                let scope_number = if work.is_over_scopes() { scopes.next_scope(work) } else { 0 };
                let scope =
                    self.scopes.get(scope_number).ok_or_else(|| Error::internal("there is no such scope"))?;
                let id = i64::try_from(*count % ROWS as u64).unwrap_or_default();
                let options = StatementOptions::default();
                let rows = if work == Work::New {
                    let sql = format!("SELECT name, score FROM people WHERE id = {id} AND {count} > 0");
                    facet.query(&self.run, scope, &sql, &[], options).await?
                } else {
                    facet.query(&self.run, scope, SELECT, &[SqlValue::Int(id)], options).await?
                };
                if rows.rows.len() != 1 {
                    return Err(Error::internal("a row is missing; the figures would be meaningless"));
                }
                done += 1;
            }
        }
        Ok(done)
    }
}

async fn connect(dir: &Path) -> Result<Memory> {
    let url = url(&dir.join(FILE), "normal")?;
    memory::open(&format!("{url}&sql.handles={HANDLES}&sql.max_descriptors={}", HANDLES * 3)).await
}

fn run() -> Result<RunContext> {
    Ok(RunContext::new("bench".parse()?, "bench".parse()?, "run".parse()?))
}

fn scope(number: usize) -> Result<Scope> {
    Scope::user("bench", &format!("{number:07}"))
}

async fn fill(memory: Memory, run: RunContext, scope: Scope) -> Result<()> {
    let facet = memory.sql().ok_or_else(|| Error::unsupported("exec", memory.name()))?;
    let fill = format!(
        "INSERT INTO people WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {}) \
         SELECT i, 'somebody ' || i, i * 0.5, 'DE', '2024-01-05' FROM n",
        ROWS - 1
    );
    for sql in [
        "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, score REAL, country TEXT, joined TEXT)",
        &fill,
    ] {
        facet.exec(&run, &scope, sql, &[], StatementOptions::default()).await?;
    }
    Ok(())
}

fn databases(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder).map_err(|error| io("read the folder of databases", error))? {
        let path = entry.map_err(|error| io("read the folder of databases", error))?.path();
        if path.is_dir() {
            databases(&path, files)?;
        } else if path.file_name().is_some_and(|name| name == "data.db") {
            files.push(path);
        }
    }
    Ok(())
}

/// Validates a statement repeatedly, on a thread with the stack that this needs.
pub(super) fn validate(work: Work, slice: Slice<'_>) -> Result<u64> {
    let sql = if work == Work::Insert { insert() } else { analytic() };
    let decide = || {
        let policy = Policy::new(Dialect::Sqlite);
        let mut done = 0;
        while slice.goes_on(done)? {
            if let Verdict::Refused(refusal) =
                Validator::check_here(&sql, Dialect::Sqlite, Mode::Exec, &policy)
            {
                return Err(Error::internal(format!("the statement is refused: {refusal}")));
            }
            done += 1;
        }
        Ok(done)
    };
    std::thread::scope(|threads| {
        let thread = std::thread::Builder::new().stack_size(2 * STACK_BYTES).spawn_scoped(threads, decide);
        match thread.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(done)) => done,
            Ok(Err(_)) => Err(Error::internal("the benchmark panicked, which is a bug; please report it")),
            Err(error) => Err(io("start a thread", error)),
        }
    })
}
