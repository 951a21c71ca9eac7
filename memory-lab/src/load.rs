//! `memory-lab load`: requests at a steady rate, whether the store keeps up or not. The time of a request counts from when it was
//! due, so that waiting for a free client counts too.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use memory::Memory;
use memory_core::{
    BulkOptions, Error, GetOptions, Json, Key, NewEntry, Provider as _, Result, Scope, SetOptions,
};
use memory_server::terminal::{Context, Exit, Failure, Out};
use serde::Serialize;
use tokio::time::{Instant, sleep_until, timeout};

/// Most requests of a run.
const MOST: u64 = 2_000_000;
/// How long one request may take, and how long the run may last beyond its time.
const PATIENCE: Duration = Duration::from_secs(30);
/// Entries that are written at a time beforehand.
const BATCH: usize = 500;

/// Options of `load`.
#[derive(Args, Debug)]
pub(crate) struct LoadArgs {
    /// Requests a second
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    /// For how long requests are due
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    seconds: u32,
    /// Clients, each with one request at a time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1_024))]
    clients: u16,
    /// How many of 100 requests write an entry; the others read one
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u8).range(0..=100))]
    writes: u8,
    /// Entries, which are written first
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    keys: u32,
    /// Bytes of a value
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    bytes: u32,
}

/// What came of it.
#[derive(Debug, Serialize)]
struct Report {
    store: String,
    rate: u32,
    clients: u16,
    writes: u8,
    /// Requests that were due.
    due: u64,
    /// Requests that were answered as they should be.
    done: u64,
    /// Requests for which no client was free in time.
    not_sent: u64,
    seconds: f64,
    /// Of the requests that were done.
    done_per_second: f64,
    /// Since they were due; none if none was done.
    latency_ms: Option<Latency>,
    /// Refused or failed requests, by code.
    errors: BTreeMap<&'static str, u64>,
    build: &'static str,
}

#[derive(Debug, Serialize)]
struct Latency {
    p50: f64,
    p90: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

impl Latency {
    fn of(mut micros: Vec<u64>) -> Option<Self> {
        micros.sort_unstable();
        let at = |share: usize| {
            // The smallest that at least this share, in thousandths, does not exceed.
            let place = micros.len().saturating_mul(share).div_ceil(1_000).saturating_sub(1);
            micros.get(place).map(|micros| Duration::from_micros(*micros).as_secs_f64() * 1e3)
        };
        Some(Self { p50: at(500)?, p90: at(900)?, p99: at(990)?, p999: at(999)?, max: at(1_000)? })
    }
}

/// What every client needs.
struct Load {
    memory: Memory,
    scope: Scope,
    keys: u64,
    value: Json,
    writes: u64,
    begun: Instant,
    gap: Duration,
    due: u64,
    next: AtomicU64,
}

/// What one client saw.
#[derive(Default)]
struct Seen {
    micros: Vec<u64>,
    errors: BTreeMap<&'static str, u64>,
    sent: u64,
}

/// `memory-lab load`.
pub(crate) async fn run(
    context: &Context,
    args: &LoadArgs,
    out: &mut Out,
) -> std::result::Result<Exit, Failure> {
    let due = u64::from(args.rate) * u64::from(args.seconds);
    if due > MOST {
        return Err(Error::too_large(
            "load",
            usize::try_from(due).unwrap_or(usize::MAX),
            2_000_000,
            "requests",
        )
        .into());
    }
    let (store, scope) = context.store()?;
    let name = store.url.to_string();
    let memory = match &store.base_dir {
        Some(folder) => store.registry.with_base_dir(folder),
        None => store.registry,
    }
    .open_url(&store.url)
    .await?;
    let bytes = usize::try_from(args.bytes).unwrap_or(usize::MAX).saturating_sub(2);
    let mut load = Load {
        memory,
        scope,
        keys: args.keys.into(),
        value: Json::parse(format!("\"{}\"", "x".repeat(bytes)))?,
        writes: args.writes.into(),
        begun: Instant::now(),
        gap: Duration::from_secs(1) / args.rate,
        due,
        next: AtomicU64::new(0),
    };
    load.fill().await?;
    load.begun = Instant::now();
    let load = Arc::new(load);
    let clients: Vec<_> = (0..args.clients).map(|_| tokio::spawn(client(Arc::clone(&load)))).collect();
    let mut all = Seen::default();
    for client in clients {
        let seen = client.await.map_err(|error| Error::internal("a client panicked").with_source(error))?;
        all.micros.extend(seen.micros);
        all.sent += seen.sent;
        for (code, count) in seen.errors {
            *all.errors.entry(code).or_default() += count;
        }
    }
    let seconds = load.begun.elapsed().as_secs_f64();
    let done = u64::try_from(all.micros.len()).unwrap_or(u64::MAX);
    let report = Report {
        store: name,
        rate: args.rate,
        clients: args.clients,
        writes: args.writes,
        due,
        done,
        not_sent: due - all.sent,
        seconds,
        done_per_second: f64::from(u32::try_from(done).unwrap_or(u32::MAX)) / seconds,
        latency_ms: Latency::of(all.micros),
        errors: all.errors,
        build: if cfg!(debug_assertions) { "debug" } else { "release" },
    };
    if out.is_json() {
        out.document(&report)?;
    } else {
        tell(&report, out)?;
    }
    Ok(if report.done == report.due { Exit::Ok } else { Exit::Failed })
}

fn tell(report: &Report, out: &mut Out) -> std::result::Result<(), Failure> {
    out.line(format!(
        "{} of {} requests in {:.1} s, {:.0} a second ({} asked for), {} clients, {} % writes, {} build",
        report.done,
        report.due,
        report.seconds,
        report.done_per_second,
        report.rate,
        report.clients,
        report.writes,
        report.build
    ))?;
    if let Some(Latency { p50, p90, p99, p999, max }) = &report.latency_ms {
        out.line(format!(
            "ms since due: p50 {p50:.1}, p90 {p90:.1}, p99 {p99:.1}, p99.9 {p999:.1}, max {max:.1}"
        ))?;
    }
    for (code, count) in &report.errors {
        out.line(format!("{code}: {count}"))?;
    }
    match report.not_sent {
        0 => Ok(()),
        count => out.line(format!("not sent, since no client was free in time: {count}")),
    }
}

async fn client(load: Arc<Load>) -> Seen {
    let mut seen = Seen::default();
    let end = load.begun + load.gap * u32::try_from(load.due).unwrap_or(u32::MAX) + PATIENCE;
    loop {
        let number = load.next.fetch_add(1, Ordering::Relaxed);
        if number >= load.due || Instant::now() > end {
            return seen;
        }
        let due = load.begun + load.gap * u32::try_from(number).unwrap_or(u32::MAX);
        sleep_until(due).await;
        seen.sent += 1;
        let ended = timeout(PATIENCE, load.once(number))
            .await
            .unwrap_or_else(|_| Err(Error::timeout("the request took too long")));
        match ended {
            Ok(()) => seen.micros.push(u64::try_from(due.elapsed().as_micros()).unwrap_or(u64::MAX)),
            Err(error) => *seen.errors.entry(error.kind().code()).or_default() += 1,
        }
    }
}

impl Load {
    fn key(&self, number: u64) -> Result<Key> {
        // Neighbours in time are no neighbours in the store.
        Key::new(format!("load/{:06}", number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % self.keys))
    }

    /// Writes every entry.
    async fn fill(&self) -> Result<()> {
        let store = self.memory.backend().ok_or_else(|| Error::unsupported("set", self.memory.name()))?;
        let keys: Vec<String> = (0..self.keys).map(|number| format!("load/{number:06}")).collect();
        for keys in keys.chunks(BATCH) {
            let entries = keys
                .iter()
                .map(|key| Ok(NewEntry::new(Key::new(key)?, self.value.clone())))
                .collect::<Result<_>>()?;
            store.bulk_insert(&self.scope, entries, BulkOptions::default()).await?;
        }
        Ok(())
    }

    /// The request of that number.
    async fn once(&self, number: u64) -> Result<()> {
        let store = self.memory.backend().ok_or_else(|| Error::unsupported("set", self.memory.name()))?;
        let key = self.key(number)?;
        if number.wrapping_mul(37) % 100 < self.writes {
            return store.set(&self.scope, &key, self.value.clone(), SetOptions::default()).await.map(drop);
        }
        match store.get(&self.scope, &key, GetOptions::default()).await? {
            Some(_) => Ok(()),
            None => Err(Error::not_found("an entry that was written is gone")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_smallest_that_enough_do_not_exceed() {
        let latency = Latency::of((1..=1_000).map(|n| n * 1_000).collect()).unwrap();
        let figures = [latency.p50, latency.p90, latency.p99, latency.p999, latency.max];
        for (figure, expected) in figures.into_iter().zip([500.0, 900.0, 990.0, 999.0, 1_000.0]) {
            assert!((figure - expected).abs() < 1e-9, "{figure} {expected}");
        }
        assert!(Latency::of(Vec::new()).is_none());
    }
}
