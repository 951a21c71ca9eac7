//! `memory bench drift`: what the drift guard costs a writer, beside the same writer without it and beside raw SQLite.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use memory::Memory;
use memory::drift::DriftSession;
use memory_core::{
    Backend, BulkOptions, DriftPolicy, Error, GetOptions, Json, Key, NewEntry, Result, Scope, SetOptions,
};

use super::KvArgs;
use super::floor::Floor;
use super::machine::{Machine, folder, runtime};
use super::measure::{Sample, Slice, interleave};
use super::ours::{self, repeat};
use super::report::{Row, Unit, write_foot, write_head};
use super::workload::{BATCH, Random, Work, Workload};

/// Calls between two looks at the clock.
const STRIDE: u32 = 8;

/// Who does the work of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// SQLite by hand.
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

/// The product with one session, which has read what it writes.
struct Ours {
    memory: Memory,
    session: DriftSession,
    scope: Scope,
    workload: Arc<Workload>,
}

impl Ours {
    async fn begin(memory: &Memory, policy: DriftPolicy, workload: &Arc<Workload>) -> Result<Arc<Self>> {
        let session = DriftSession::new(policy).with_remembered(workload.keys.len());
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
        // Without a policy it is the backend itself; nothing but the policy differs between the sides.
        let mut done = 0;
        while slice.goes_on()? {
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

pub(super) fn run(args: &KvArgs, json: bool, out: &mut (dyn Write + Send)) -> Result<()> {
    let (keys, seconds) = if args.quick { (10_000, 0.7) } else { (10_000, 3.0) };
    let keys = usize::try_from(args.keys.unwrap_or(keys)).unwrap_or(usize::MAX);
    let slice = Duration::from_secs_f64(args.seconds.unwrap_or(seconds) / f64::from(args.rounds));
    let wanted = args.only.as_deref().unwrap_or_default();
    let plans: Vec<&Plan> = PLANS.iter().filter(|plan| plan.name.contains(wanted)).collect();
    if plans.is_empty() {
        let names: Vec<&str> = PLANS.iter().map(|plan| plan.name).collect();
        return Err(Error::invalid(format!(
            "no row is named like {wanted:?}; there are {}",
            names.join(", ")
        )));
    }
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let workload = Arc::new(Workload::new(keys));
    let keys = workload.keys.len();
    let machine = Machine::of(&parent);
    if !json {
        write_head(out, &machine, keys, &parent.display().to_string())?;
    }
    let dir = folder(parent)?;
    let (runtime, stop) = runtime()?;
    let mut floor = Floor::create(&dir.path().join("floor.db"), Arc::clone(&workload))?;
    let file = ours::file(dir.path());
    let url = ours::url(&file, "normal")?;
    runtime.block_on(async { Ours::load(&memory::open(&url).await?, &workload).await })?;
    let mut met = 0;
    for plan in &plans {
        let memory = runtime.block_on(memory::open(&url))?;
        if plan.others {
            commit_as_another(&file)?;
        }
        let ours = runtime.block_on(Ours::begin(&memory, plan.ours, &workload))?;
        let mut seed = 0;
        let mut product = |ours: &Arc<Ours>| {
            seed += 1;
            Sample::of(|| runtime.block_on(spawn(ours, plan.work, seed << 32, slice, &stop)))
        };
        let rounds = match plan.floor {
            Side::Raw => interleave(
                args.rounds,
                || product(&ours),
                || Sample::of(|| repeat(plan.work, Slice::lasting(slice, &stop), || floor.run(plan.work))),
            )?,
            Side::Product(policy) => {
                // In a file of its own: a session must not find writes that it has not seen.
                let other_url = ours::url(&ours::file(&dir.path().join(plan.name)), "normal")?;
                let other = runtime.block_on(async {
                    let other = memory::open(&other_url).await?;
                    Ours::load(&other, &workload).await?;
                    Ours::begin(&other, policy, &workload).await
                })?;
                let product = std::cell::RefCell::new(product);
                interleave(args.rounds, || (product.borrow_mut())(&ours), || (product.borrow_mut())(&other))?
            }
        };
        let row = Row::new(plan.name, Unit::MicrosPerOperation, plan.target, &rounds, keys, &machine);
        met += usize::from(row.met());
        if json { row.write_json(out)? } else { row.write_line(out)? }
    }
    if json { Ok(()) } else { write_foot(out, met, plans.len()) }
}

/// A commit of another connection, to a table that is nobody's entries.
fn commit_as_another(file: &std::path::Path) -> Result<()> {
    rusqlite::Connection::open(file)
        .and_then(|foreign| foreign.execute_batch("UPDATE sequence SET last = last"))
        .map_err(|error| Error::internal("another connection could not commit").with_source(error))
}

/// On a worker of the runtime, as a task of a server would be.
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
    task.await
        .map_err(|error| Error::internal("a task of the benchmark stopped by a bug").with_source(error))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_measured_and_no_session_refuses_its_own_writes() {
        let dir = tempfile::tempdir().unwrap();
        let args = KvArgs {
            keys: Some(1_000),
            seconds: Some(0.05),
            rounds: 5,
            quick: false,
            only: None,
            dir: Some(dir.path().to_owned()),
        };
        let mut out = Vec::new();
        std::thread::spawn(move || run(&args, true, &mut out).map(|()| out)).join().unwrap().unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
