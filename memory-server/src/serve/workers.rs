//! SQL in worker processes, if configured: this program again, as `memory sql-worker`.

use std::ffi::OsString;

use clap::Args;
use memory::workers::{WorkerOptions, limit_memory, serve};
use memory::{Access, Config, Memory};
use memory_core::{Error, Result};

use crate::terminal::{Context, Exit, Failure};

#[derive(Args, Debug)]
pub(crate) struct SqlWorkerArgs {
    /// Limit on this process's address space, in bytes
    #[arg(long, value_name = "BYTES")]
    memory_bytes: Option<u64>,
}

/// Serves the parent process over standard input and output until the input ends.
pub(crate) async fn run(context: &Context, args: &SqlWorkerArgs) -> Result<Exit, Failure> {
    if let Some(bytes) = args.memory_bytes {
        limit_memory(bytes)?;
    }
    serve(context.open(Access::Create).await?.memory).await?;
    Ok(Exit::Ok)
}

/// Refuses worker processes for an in-memory store, which only one process can have.
pub(crate) fn refuse_in_memory(config: &Config, shown_url: &str) -> Result<()> {
    let sql = config.file().sql;
    if sql.enabled && sql.workers > 0 && shown_url.starts_with("sqlite::memory:") {
        return Err(Error::invalid(
            "a database in memory belongs to one process; name a file, or leave `workers` out of [sql]",
        ));
    }
    Ok(())
}

/// The memory to serve, with its SQL in worker processes if `[sql] workers` says so.
pub(crate) fn with_workers(
    memory: Memory,
    config: &Config,
    context: &Context,
    backend: Option<&str>,
) -> Result<Memory> {
    let sql = config.file().sql;
    if !sql.enabled || sql.workers == 0 {
        return Ok(memory);
    }
    let shown = match backend {
        Some(name) => config.backend_url(name)?.to_string(),
        None => context.settings()?.shown_url()?,
    };
    refuse_in_memory(config, &shown)?;
    let program = std::env::current_exe()
        .map_err(|error| Error::unavailable("the file of this program was not found").with_source(error))?;
    let mut arguments: Vec<OsString> = vec!["sql-worker".into(), "--config".into(), config.origin().into()];
    if let Some(bytes) = sql.worker_memory_bytes {
        arguments.extend(["--memory-bytes".into(), bytes.to_string().into()]);
    }
    if let Some(embedder) = context.global().embedder.as_ref().filter(|name| !name.is_empty()) {
        arguments.extend(["--embedder".into(), embedder.into()]);
    }
    match (backend, context.explicit_url()) {
        (Some(name), _) => arguments.extend(["--backend".into(), name.into()]),
        (None, Some(url)) => arguments.extend(["--url".into(), url.into()]),
        (None, None) => {}
    }
    memory.with_sql_workers(WorkerOptions::new(program, arguments).with_processes(sql.workers))
}
