//! `memory-lab bench drift`: what the drift guard costs a writer, compared with the same writer without it and with the raw
//! engine.

mod engine;
mod postgres;
mod sqlite;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use memory::Memory;
use memory::drift::DriftSession;
use memory_core::{
    Backend, BulkOptions, DriftPolicy, Error, GetOptions, Json, Key, NewEntry, Result, Scope, SetOptions,
};

use self::engine::Engine;
use self::postgres::Postgres;
use self::sqlite::Sqlite;
use super::machine::runtime;
use super::measure::{Sample, Slice, interleave};
use super::options::{DriftArgs, chosen};
use super::report::{Row, Unit, write_head, write_rows};
use super::workload::{BATCH, Random, Work, Workload};

/// Calls between two reads of the clock.
const STRIDE: u32 = 8;

/// What one side measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// The engine by hand.
    Raw,
    /// The product with this policy.
    Product(DriftPolicy),
}

/// One line of the report.
struct Plan {
    name: &'static str,
    work: Work,
    ours: DriftPolicy,
    floor: Side,
    /// Whether another connection has committed since the store was opened.
    others: bool,
    target: f64,
}

const UNGUARDED: Side = Side::Product(DriftPolicy::Off);

const PLANS: [Plan; 6] = [
    plan("set_unguarded_beside_raw", Work::Set, DriftPolicy::Off, Side::Raw, 1.5),
    plan("set_row_beside_raw", Work::Set, DriftPolicy::Row, Side::Raw, 2.4),
    plan("set_row_beside_unguarded", Work::Set, DriftPolicy::Row, UNGUARDED, 1.6),
    plan("set_strict_beside_unguarded", Work::Set, DriftPolicy::Strict, UNGUARDED, 1.6),
    plan("get_row_beside_unguarded", Work::Get, DriftPolicy::Row, UNGUARDED, 1.6),
    Plan {
        others: true,
        ..plan("set_row_after_others_committed", Work::Set, DriftPolicy::Row, UNGUARDED, 1.6)
    },
];

const fn plan(name: &'static str, work: Work, ours: DriftPolicy, floor: Side, target: f64) -> Plan {
    Plan { name, work, ours, floor, others: false, target }
}

/// The product with one session, which has read the entries that it writes.
struct Ours {
    memory: Memory,
    session: DriftSession,
    scope: Scope,
    workload: Arc<Workload>,
}

impl Ours {
    async fn begin(memory: &Memory, policy: DriftPolicy, workload: &Arc<Workload>) -> Result<Arc<Self>> {
        let session = DriftSession::new(policy).with_capacity(workload.keys.len());
        let ours = Self {
            memory: memory.clone(),
            session,
            scope: Scope::agent("bench", "drift")?,
            workload: Arc::clone(workload),
        };
        let guarded = ours.session.guard(ours.backend()?);
        for keys in ours.workload.keys.chunks(BATCH) {
            let keys = keys.iter().map(Key::new).collect::<Result<Vec<_>>>()?;
            guarded.get_many(&ours.scope, &keys, GetOptions::uncounted()).await?;
        }
        Ok(Arc::new(ours))
    }

    fn backend(&self) -> Result<&dyn Backend> {
        self.memory.backend().ok_or_else(|| Error::unsupported("set", self.memory.name()))
    }

    async fn load(memory: &Memory, workload: &Workload) -> Result<()> {
        let backend = memory.backend().ok_or_else(|| Error::unsupported("set", memory.name()))?;
        let (scope, mut random) = (Scope::agent("bench", "drift")?, Random::new(1));
        for keys in workload.keys.chunks(BATCH) {
            let item = |key| Ok(NewEntry::new(Key::new(key)?, Json::parse(random.pick(&workload.values))?));
            let items = keys.iter().map(item).collect::<Result<_>>()?;
            backend.bulk_insert(&scope, items, BulkOptions::default()).await?;
        }
        Ok(())
    }

    async fn run(&self, work: Work, mut random: Random, slice: Slice<'_>) -> Result<u64> {
        let guarded = self.session.guard(self.backend()?);
        // Without a policy this is the backend itself; only the policy differs between the sides.
        let mut done = 0;
        while slice.goes_on(done)? {
            for _ in 0..STRIDE {
                let key = Key::new(random.pick(&self.workload.keys))?;
                if work == Work::Get {
                    guarded.get(&self.scope, &key, GetOptions::default()).await?;
                } else {
                    let value = Json::parse(random.pick(&self.workload.values))?;
                    guarded.set(&self.scope, &key, value, SetOptions::default()).await?;
                }
                done += 1;
            }
        }
        Ok(done)
    }
}

/// Name of the store that the rows are measured in.
const STORE: &str = "product";

pub(super) fn run(args: &DriftArgs, json: bool, out: &mut (dyn Write + Send)) -> Result<()> {
    let DriftArgs { kv: args, postgres } = args;
    let (keys, seconds) = if args.quick { (10_000, 0.7) } else { (10_000, 3.0) };
    let keys = usize::try_from(args.keys.unwrap_or(keys)).unwrap_or(usize::MAX);
    let slice = Duration::from_secs_f64(args.seconds.unwrap_or(seconds) / f64::from(args.rounds));
    let plans = chosen(&PLANS, |plan| plan.name, args.only.as_deref())?;
    let workload = Arc::new(Workload::new(keys));
    let keys = workload.keys.len();
    let (runtime, stop) = runtime()?;
    let mut engine: Box<dyn Engine + '_> = match postgres {
        None => {
            let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
            Box::new(Sqlite::new(parent, &workload, &stop)?)
        }
        Some(url) => Box::new(Postgres::new(url.as_deref(), &workload, &runtime, &stop)?),
    };
    let machine = engine.machine();
    if !json {
        write_head(out, &machine, keys, &engine.location())?;
    }
    let url = engine.store(STORE)?;
    runtime.block_on(async { Ours::load(&memory::open(&url).await?, &workload).await })?;
    write_rows(out, json, &plans, |plan| {
        let memory = runtime.block_on(memory::open(&url))?;
        if plan.others {
            engine.others_commit(STORE)?;
        }
        let ours = runtime.block_on(Ours::begin(&memory, plan.ours, &workload))?;
        let seed = std::cell::Cell::new(0);
        let next = || {
            seed.set(seed.get() + 1);
            seed.get() << 32
        };
        let product =
            |ours: &Arc<Ours>| Sample::of(|| runtime.block_on(spawn(ours, plan.work, next(), slice, &stop)));
        let rounds = match plan.floor {
            Side::Raw => {
                interleave(args.rounds, || product(&ours), || Sample::of(|| engine.overwrite(next(), slice)))?
            }
            Side::Product(policy) => {
                // Each side has its own store, so that a session finds no writes that it has not seen.
                let other_url = engine.store(plan.name)?;
                let other = runtime.block_on(async {
                    let other = memory::open(&other_url).await?;
                    Ours::load(&other, &workload).await?;
                    Ours::begin(&other, policy, &workload).await
                })?;
                interleave(args.rounds, || product(&ours), || product(&other))?
            }
        };
        Ok(Row::new(plan.name, Unit::MicrosPerOperation, plan.target, &rounds, keys, &machine))
    })
}

/// Runs on a worker of the runtime, as a task of a server would.
async fn spawn(
    ours: &Arc<Ours>,
    work: Work,
    seed: u64,
    slice: Duration,
    stop: &Arc<AtomicBool>,
) -> Result<u64> {
    let (ours, stop) = (Arc::clone(ours), Arc::clone(stop));
    let task =
        tokio::spawn(async move { ours.run(work, Random::new(seed), Slice::lasting(slice, &stop)).await });
    task.await.map_err(|error| Error::internal("a task of the benchmark panicked").with_source(error))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::options::KvArgs;

    fn rows(dir: &std::path::Path, postgres: Option<Option<String>>) -> Vec<serde_json::Value> {
        let kv = KvArgs {
            keys: Some(1_000),
            seconds: Some(0.05),
            rounds: 5,
            quick: false,
            only: None,
            dir: Some(dir.to_owned()),
        };
        let args = DriftArgs { kv, postgres };
        let mut out = Vec::new();
        let out =
            std::thread::spawn(move || run(&args, true, &mut out).map(|()| out)).join().unwrap().unwrap();
        String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn are_all_rows(rows: &[serde_json::Value]) {
        let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
        assert_eq!(names, PLANS.map(|plan| plan.name));
        for row in rows {
            assert!(row["ours"].as_f64().unwrap() > 0.0 && row["floor"].as_f64().unwrap() > 0.0, "{row}");
        }
    }

    #[test]
    fn every_row_is_measured_and_no_session_refuses_its_own_writes() {
        let dir = tempfile::tempdir().unwrap();
        are_all_rows(&rows(dir.path(), None));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn every_row_is_measured_on_a_server_and_its_databases_are_dropped() {
        let Ok(url) = std::env::var(postgres::SERVER) else {
            println!("skipped: no server; `cargo xtask test` starts one, or set {}", postgres::SERVER);
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        let rows = rows(dir.path(), Some(Some(url.clone())));
        are_all_rows(&rows);
        assert!(rows[0]["server"].as_str().unwrap().starts_with("PostgreSQL "), "{}", rows[0]);
        let (runtime, _) = runtime().unwrap();
        let left = postgres::databases(&runtime, &url, &format!("memory_bench_{}", std::process::id()));
        assert_eq!(left.unwrap(), 0);
    }
}
