//! `memory-lab bench http`: a get through everything that `memory serve --http` does, compared with a bare handler that reads a
//! prepared statement of raw SQLite. Both serve in this process, on loopback, to the same client.

use std::cell::Cell;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use memory_core::{Error, Result};
use rusqlite::{Connection, OptionalExtension as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use super::machine::{Machine, folder, io, runtime};
use super::measure::{Sample, Slice, interleave};
use super::options::{KvArgs, chosen};
use super::ours::{self, Ours};
use super::report::{Row, Unit, write_head_of, write_rows};
use super::workload::{Random, Workload};

/// What the ratios are to.
const FLOOR: &str = "a bare axum handler, one connection to raw SQLite with a prepared statement";
/// Largest reply that the client reads.
const MAX_REPLY: usize = 64 << 10;

struct Plan {
    name: &'static str,
    connections: u64,
    unit: Unit,
    target: f64,
}

const PLANS: [Plan; 2] = [
    Plan { name: "http_get_1_connection", connections: 1, unit: Unit::MicrosPerOperation, target: 1.6 },
    Plan { name: "http_get_64_connections", connections: 64, unit: Unit::OperationsPerSecond, target: 0.7 },
];

/// A server, and what a request to it looks like around a key.
#[derive(Clone)]
struct Side {
    address: SocketAddr,
    path: &'static str,
    headers: String,
}

pub(super) fn run(args: &KvArgs, json: bool, out: &mut (dyn Write + Send)) -> Result<()> {
    let (keys, seconds) = if args.quick { (10_000, 0.7) } else { (100_000, 3.0) };
    let keys = usize::try_from(args.keys.unwrap_or(keys)).unwrap_or(usize::MAX);
    let slice = Duration::from_secs_f64(args.seconds.unwrap_or(seconds) / f64::from(args.rounds));
    let plans = chosen(&PLANS, |plan| plan.name, args.only.as_deref())?;
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let machine = Machine::of(&parent);
    if !json {
        let what = format!("{keys} entries of 200 bytes, read over loopback with keep-alive");
        write_head_of(out, &machine, &what, &parent.display().to_string(), FLOOR)?;
    }
    let dir = folder(parent)?;
    let workload = Arc::new(Workload::new(keys));
    let (runtime, stop) = runtime()?;
    let (ours, _tokens) = runtime.block_on(product(dir.path(), &workload))?;
    let floor = bare(&runtime, &dir.path().join("floor.db"), &workload)?;
    write_rows(out, json, &plans, |plan| {
        let seed = Cell::new(0);
        let read = |side: &Side| {
            seed.set(seed.get() + plan.connections);
            Sample::of(|| {
                runtime.block_on(spread(side, plan.connections, seed.get(), &workload, slice, &stop))
            })
        };
        let rounds = interleave(args.rounds, || read(&ours), || read(&floor))?;
        Ok(Row::new(plan.name, plan.unit, plan.target, &rounds, keys, &machine))
    })
}

/// The product, with every entry, and the folder of its token.
async fn product(dir: &std::path::Path, workload: &Arc<Workload>) -> Result<(Side, tempfile::TempDir)> {
    let url = ours::url(&ours::file(dir), "normal")?;
    Ours::open(&url, Arc::clone(workload)).await?.load().await?;
    let memory = memory::open(&url).await?;
    let (served, token, tokens) = memory_server::http::guarded(memory)?;
    let headers = format!("Authorization: Bearer {token}\r\n");
    let (listener, address) = bound().await?;
    tokio::spawn(served.serve(listener));
    Ok((Side { address, path: "/v1/tenants/bench/agent/kv/entries/", headers }, tokens))
}

/// The floor, with every entry.
fn bare(runtime: &Runtime, file: &std::path::Path, workload: &Workload) -> Result<Side> {
    let raw = |error: rusqlite::Error| Error::internal("the floor failed").with_source(error);
    let mut connection = Connection::open(file).map_err(raw)?;
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
             CREATE TABLE entries(key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;",
        )
        .map_err(raw)?;
    let load = connection.transaction().map_err(raw)?;
    let mut random = Random::new(1);
    for key in &workload.keys {
        load.execute("INSERT INTO entries VALUES(?1, ?2)", (key, random.pick(&workload.values)))
            .map_err(raw)?;
    }
    load.commit().map_err(raw)?;
    let router =
        Router::new().route("/entries/{key}", get(read)).with_state(Arc::new(Mutex::new(connection)));
    let address = runtime.block_on(listening(router))?;
    Ok(Side { address, path: "/entries/", headers: String::new() })
}

async fn read(
    State(connection): State<Arc<Mutex<Connection>>>,
    Path(key): Path<String>,
) -> std::result::Result<String, StatusCode> {
    let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
    let mut statement = connection
        .prepare_cached("SELECT value FROM entries WHERE key = ?1")
        .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    let value = statement.query_row([key], |row| row.get(0)).optional();
    value.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?.ok_or(StatusCode::NOT_FOUND)
}

async fn bound() -> Result<(TcpListener, SocketAddr)> {
    let failed = |error| io("listen on loopback", error);
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// Serves on loopback until the runtime ends.
async fn listening(router: Router) -> Result<SocketAddr> {
    let (listener, address) = bound().await?;
    tokio::spawn(async move {
        use axum::serve::ListenerExt as _;
        let listener = listener.tap_io(|stream| {
            let _ = stream.set_nodelay(true);
        });
        let _ = axum::serve(listener, router).await;
    });
    Ok(address)
}

/// Reads keys over so many connections until the slice ends; returns how many were read.
async fn spread(
    side: &Side,
    connections: u64,
    seed: u64,
    workload: &Arc<Workload>,
    slice: Duration,
    stop: &Arc<AtomicBool>,
) -> Result<u64> {
    let tasks: Vec<_> = (0..connections)
        .map(|connection| {
            let (side, workload, stop) = (side.clone(), Arc::clone(workload), Arc::clone(stop));
            tokio::spawn(async move {
                let mut random = Random::new((seed + connection) << 32);
                let mut stream =
                    TcpStream::connect(side.address).await.map_err(|error| io("connect", error))?;
                stream.set_nodelay(true).map_err(|error| io("connect", error))?;
                let (slice, mut done, mut buffer) = (Slice::lasting(slice, &stop), 0, Vec::new());
                while slice.goes_on(done)? {
                    once(&side, random.pick(&workload.keys), &mut stream, &mut buffer).await?;
                    done += 1;
                }
                Ok::<u64, Error>(done)
            })
        })
        .collect();
    let mut done = 0;
    for task in tasks {
        done += task
            .await
            .map_err(|error| Error::internal("a task of the benchmark panicked").with_source(error))??;
    }
    Ok(done)
}

/// One request, and its whole reply.
async fn once(side: &Side, key: &str, stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<()> {
    let failed = |error| io("ask over loopback", error);
    let Side { path, headers, .. } = side;
    let key = key.replace('/', "%2F");
    let request = format!("GET {path}{key} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.map_err(failed)?;
    buffer.clear();
    loop {
        if stream.read_buf(buffer).await.map_err(failed)? == 0 || buffer.len() > MAX_REPLY {
            return Err(refused(buffer));
        }
        let Some(head) = buffer.windows(4).position(|end| end == b"\r\n\r\n") else { continue };
        let text = String::from_utf8_lossy(buffer.get(..head).unwrap_or_default()).to_ascii_lowercase();
        let length =
            text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        let whole = length.is_some_and(|length| buffer.len() == head + 4 + length);
        match text.starts_with("http/1.1 200") {
            true if whole => return Ok(()),
            true if length.is_some() => {}
            _ => return Err(refused(buffer)),
        }
    }
}

fn refused(reply: &[u8]) -> Error {
    let text: String = String::from_utf8_lossy(reply).chars().take(300).collect();
    Error::internal(format!("a get over HTTP was not answered with an entry: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_are_read_over_one_and_many_connections() {
        let dir = tempfile::tempdir().unwrap();
        let args = KvArgs {
            keys: Some(1_000),
            seconds: Some(0.05),
            rounds: 5,
            quick: true,
            only: None,
            dir: Some(dir.path().to_owned()),
        };
        let mut out = Vec::new();
        run(&args, true, &mut out).unwrap();
        let rows: Vec<serde_json::Value> =
            String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
        assert_eq!(names, PLANS.map(|plan| plan.name));
        assert!(rows.iter().all(|row| row["ours"].as_f64().unwrap() > 0.0), "{rows:?}");
    }
}
