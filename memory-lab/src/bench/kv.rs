//! `memory-lab bench kv`: the rows, and their order.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use memory_core::{Error, Result};
use tokio::runtime::Runtime;

use super::floor::Floor;
use super::machine::{Folder, Machine, folder, runtime};
use super::measure::{Sample, Slice, interleave};
use super::options::{KvArgs, chosen};
use super::ours::{self, Ours};
use super::report::{Row, Unit, write_head, write_rows};
use super::workload::{Random, Work, Workload};

/// One line of the report.
struct Plan {
    name: &'static str,
    work: Work,
    tasks: u64,
    durable: bool,
    unit: Unit,
    /// The project's target for the ratio to the floor.
    target: f64,
}

/// Reads come before writes, so that they see the file as it was loaded.
const PLANS: [Plan; 8] = [
    plan("get_1_task", Work::Get, 1, Unit::MicrosPerOperation, 1.5),
    plan("get_64_tasks", Work::Get, 64, Unit::OperationsPerSecond, 0.75),
    plan("get_many_100", Work::GetMany, 1, Unit::MicrosPerOperation, 1.5),
    plan("list_100", Work::List, 1, Unit::MicrosPerOperation, 1.6),
    plan("increment", Work::Increment, 1, Unit::MicrosPerOperation, 1.5),
    plan("set_normal_1_task", Work::Set, 1, Unit::MicrosPerOperation, 1.5),
    plan("bulk_insert_1000", Work::Bulk, 1, Unit::MicrosPerOperation, 1.6),
    Plan { durable: true, ..plan("set_durable_64_tasks", Work::Set, 64, Unit::OperationsPerSecond, 4.5) },
];

const fn plan(name: &'static str, work: Work, tasks: u64, unit: Unit, target: f64) -> Plan {
    Plan { name, work, tasks, durable: false, unit, target }
}

/// The product is closed and reopened between phases. This changes its durability and flushes access counts, which reads
/// leave to be written later, so that no row pays for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Load,
    Reads,
    Writes { durable: bool },
}

impl Phase {
    fn of(plan: &Plan) -> Self {
        if plan.work.is_read() { Self::Reads } else { Self::Writes { durable: plan.durable } }
    }
}

/// Both sides, loaded with the same entries.
struct Bench {
    runtime: Runtime,
    ours: Option<Ours>,
    /// The phase that `ours` was opened for.
    phase: Phase,
    floor: Floor,
    workload: Arc<Workload>,
    dir: Folder,
    stop: Arc<AtomicBool>,
}

pub(super) fn run(args: &KvArgs, json: bool, out: &mut (dyn Write + Send)) -> Result<()> {
    let (keys, seconds) = if args.quick { (10_000, 0.7) } else { (100_000, 3.0) };
    let keys = usize::try_from(args.keys.unwrap_or(keys)).unwrap_or(usize::MAX);
    let slice = Duration::from_secs_f64(args.seconds.unwrap_or(seconds) / f64::from(args.rounds));
    let plans = chosen(&PLANS, |plan| plan.name, args.only.as_deref())?;

    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let workload = Arc::new(Workload::new(keys));
    let keys = workload.keys.len();
    let machine = Machine::of(&parent);
    if !json {
        write_head(out, &machine, keys, &parent.display().to_string())?;
    }
    let mut bench = Bench::load(parent, workload)?;
    write_rows(out, json, &plans, |plan| {
        let rounds = bench.measure(plan, args.rounds, slice)?;
        Ok(Row::new(plan.name, plan.unit, plan.target, &rounds, keys, &machine))
    })
}

impl Bench {
    fn load(parent: PathBuf, workload: Arc<Workload>) -> Result<Self> {
        let dir = folder(parent)?;
        let (runtime, stop) = runtime()?;
        let url = ours::url(&ours::file(dir.path()), "normal")?;
        let ours = runtime.block_on(Ours::open(&url, Arc::clone(&workload)))?;
        runtime.block_on(ours.load())?;
        let floor = Floor::create(&dir.path().join("floor.db"), Arc::clone(&workload))?;
        Ok(Self { runtime, ours: Some(ours), phase: Phase::Load, floor, workload, dir, stop })
    }

    fn measure(&mut self, plan: &Plan, rounds: u32, slice: Duration) -> Result<super::measure::Rounds> {
        let ours = self.ours(Phase::of(plan))?;
        let Self { runtime, floor, stop, .. } = self;
        floor.set_durable(plan.durable)?;
        let mut seed = 0;
        let ours = || {
            seed += plan.tasks;
            let sample = Sample::of(|| runtime.block_on(spread(&ours, plan, seed, slice, stop)))?;
            if plan.work == Work::Bulk {
                runtime.block_on(ours.clear_bulk())?;
            }
            Ok(sample)
        };
        let floor = || {
            let sample =
                Sample::of(|| ours::repeat(plan.work, Slice::lasting(slice, stop), || floor.run(plan.work)))?;
            if plan.work == Work::Bulk {
                floor.clear_bulk()?;
            }
            Ok(sample)
        };
        interleave(rounds, ours, floor)
    }

    /// The product, opened for a phase.
    fn ours(&mut self, phase: Phase) -> Result<Ours> {
        if self.phase != phase {
            if let Some(ours) = self.ours.take() {
                self.runtime.block_on(ours.close())?;
            }
            self.phase = phase;
        }
        if let Some(ours) = &self.ours {
            return Ok(ours.clone());
        }
        let durability = if phase == (Phase::Writes { durable: true }) { "full" } else { "normal" };
        let url = ours::url(&ours::file(self.dir.path()), durability)?;
        let ours = self.runtime.block_on(Ours::open(&url, Arc::clone(&self.workload)))?;
        self.ours = Some(ours.clone());
        Ok(ours)
    }
}

/// Runs the row's tasks on the runtime's workers until the slice ends; returns the operations of all of them.
async fn spread(ours: &Ours, plan: &Plan, seed: u64, slice: Duration, stop: &Arc<AtomicBool>) -> Result<u64> {
    let work = plan.work;
    let tasks: Vec<_> = (0..plan.tasks)
        .map(|task| {
            let (ours, stop, random) = (ours.clone(), Arc::clone(stop), Random::new((seed + task) << 32));
            tokio::spawn(async move { ours.run(work, random, Slice::lasting(slice, &stop)).await })
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
