//! `bench`: the product compared with the engine below it, measured in one run on one machine.

mod drift;
mod floor;
mod governed;
mod graph;
mod http;
mod kv;
mod machine;
mod measure;
mod options;
mod ours;
mod recall;
mod report;
pub(crate) mod search;
mod sql;
pub(crate) mod workload;

use std::io::Write;

use memory_core::{Error, Result};

use self::options::{DriftArgs, KvArgs};

/// Measure this machine: the product compared with the engine below it, in the same run.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: Bench,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Bench {
    /// Key/value operations on embedded SQLite.
    Kv(KvArgs),
    /// Writes with the drift guard, compared with writes without it and with the raw engine: SQLite, or a PostgreSQL server.
    Drift(DriftArgs),
    /// Reading an entry over HTTP on loopback, compared with a bare handler that reads raw SQLite.
    Http(KvArgs),
    /// Vector, hybrid and text search on embedded SQLite, compared with an exhaustive search and the memory bandwidth.
    Search(search::options::SearchArgs),
    /// Recalling from one long conversation on embedded SQLite, compared with the store's own text search.
    Recall(recall::RecallArgs),
    /// Graphs of agents on embedded SQLite: files in and out, and recall by words and along edges.
    Graph(graph::GraphArgs),
    /// Shared state on embedded SQLite: promotions by rules among many open issues.
    Governed(governed::GovernedArgs),
    /// SQL on embedded SQLite: statements through validator and sandbox, and many scopes.
    Sql(sql::SqlArgs),
}

/// Runs a benchmark and writes its report to `out`: a table, or one JSON object per line. Blocks until
/// it is done. If the user presses Ctrl-C or the reader of `out` goes away, it stops and removes its files. May be called
/// from any thread, even one of a runtime.
pub(crate) fn run(args: &BenchArgs, json: bool, out: &mut (dyn Write + Send)) -> Result<()> {
    // On a new thread, because the benchmark's runtime must not start inside another.
    std::thread::scope(|threads| {
        let bench =
            std::thread::Builder::new().name("bench".to_owned()).spawn_scoped(threads, || match &args.what {
                Bench::Kv(kv) => kv::run(kv, json, out),
                Bench::Drift(args) => drift::run(args, json, out),
                Bench::Http(args) => http::run(args, json, out),
                Bench::Search(search) => search::run(search, json, out),
                Bench::Recall(args) => recall::run(args, json, out),
                Bench::Graph(args) => graph::run(args, json, out),
                Bench::Governed(args) => governed::run(args, json, out),
                Bench::Sql(sql) => sql::run(sql, json, out),
            });
        match bench.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(Err(error))) if is_broken_pipe(&error) => Ok(()),
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(Error::internal("the benchmark panicked, which is a bug; please report it")),
            Err(error) => Err(machine::io("start a thread", error)),
        }
    })
}

/// A broken pipe can only be the output, whose reader may close it.
fn is_broken_pipe(error: &Error) -> bool {
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<std::io::Error>())
        .is_some_and(|source| source.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(dir: &std::path::Path, only: &str) -> BenchArgs {
        let only = Some(only.to_owned());
        let dir = Some(dir.to_owned());
        BenchArgs {
            what: Bench::Kv(KvArgs {
                keys: Some(1_000),
                seconds: Some(0.05),
                rounds: 5,
                quick: false,
                only,
                dir,
            }),
        }
    }

    #[test]
    fn every_row_is_measured_on_both_sides_and_the_files_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let mut out = Vec::new();
        run(&args(dir.path(), ""), true, &mut out).unwrap();
        let rows: Vec<serde_json::Value> =
            String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
        assert_eq!(
            names,
            [
                "get_1_task",
                "get_64_tasks",
                "get_many_100",
                "list_100",
                "increment",
                "set_normal_1_task",
                "bulk_insert_1000",
                "set_durable_64_tasks"
            ]
        );
        for row in &rows {
            let figure = |name: &str| row[name].as_f64().unwrap();
            assert!(figure("ours") > 0.0 && figure("floor") > 0.0, "{row}");
            assert!((figure("ratio") - figure("ours") / figure("floor")).abs() < 1e-6, "{row}");
            assert_eq!(row["rounds"], 5);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_unknown_row_is_refused_with_the_names_there_are() {
        let dir = tempfile::tempdir().unwrap();
        let error = run(&args(dir.path(), "nonsense"), true, &mut Vec::new()).unwrap_err();
        assert!(error.message().contains("set_durable_64_tasks"), "{}", error.message());
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = run(&args(std::path::Path::new("/nonexistent"), ""), true, &mut Vec::new()).unwrap_err();
        assert!(error.message().contains("--dir"), "{}", error.message());
    }

    #[test]
    fn a_reader_that_goes_away_ends_it_without_a_failure() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let dir = tempfile::tempdir().unwrap();
        run(&args(dir.path(), "get_1"), true, &mut Closed).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn it_runs_inside_another_runtime() {
        let dir = tempfile::tempdir().unwrap();
        let mut out = Vec::new();
        run(&args(dir.path(), "get_1"), false, &mut out).unwrap();
        let table = String::from_utf8(out).unwrap();
        assert!(table.contains("get_1_task") && table.contains("cores"), "{table}");
    }
}
