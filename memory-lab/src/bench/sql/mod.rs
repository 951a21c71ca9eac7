//! `memory-lab bench sql`: statements through validator, sandbox and trait, compared with the same statements through raw
//! rusqlite; and many scopes, compared with as many files.

mod floor;
mod ours;
mod work;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use memory_core::Result;
use tokio::runtime::Runtime;

use self::floor::Floor;
use self::ours::Ours;
use self::work::{HANDLES, ROWS, ScopeChoice, Work};
use super::machine::{Folder, Machine, folder, runtime};
use super::measure::{Rounds, Sample, Slice, interleave};
use super::options::chosen;
use super::report::{RAW_SQLITE, Row, Unit, write_head_of, write_rows};

#[derive(Clone, Debug, clap::Args)]
pub(super) struct SqlArgs {
    /// Scopes with a database each [default: 10000, with --quick 1500]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(500..=1_000_000))]
    scopes: Option<u32>,
    /// Seconds measured per row, for the product and for the floor each [default: 3, with --quick 0.7]
    #[arg(long, value_name = "S", value_parser = super::options::seconds)]
    seconds: Option<f64>,
    /// Interleaved rounds; figures are their medians
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(5..=101))]
    rounds: u32,
    /// Fewer scopes and short rounds: for a quick look, not for figures to publish
    #[arg(long)]
    quick: bool,
    /// Rows whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Folder for the temporary files, which are removed afterwards [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

struct Plan {
    name: &'static str,
    work: Work,
    target: f64,
}

/// Those over many scopes come last, so that the others run in a store with a single scope.
const PLANS: [Plan; 8] = [
    Plan { name: "select_repeated", work: Work::Repeated, target: 1.5 },
    Plan { name: "select_new", work: Work::New, target: 3.0 },
    Plan { name: "validate_20_lines", work: Work::Analytic, target: 1.5 },
    Plan { name: "validate_500_rows", work: Work::Insert, target: 1.5 },
    Plan { name: "scopes_hit", work: Work::Hit, target: 2.0 },
    Plan { name: "scopes_miss", work: Work::Miss, target: 1.5 },
    Plan { name: "scopes_skewed", work: Work::Skewed, target: 2.0 },
    Plan { name: "handle_memory", work: Work::Memory, target: 65_536.0 },
];

struct Bench {
    runtime: Runtime,
    stop: Arc<AtomicBool>,
    ours: Arc<Ours>,
    floor: Floor,
    scopes: usize,
    dir: Folder,
}

pub(super) fn run(args: &SqlArgs, json: bool, out: &mut (dyn Write + Send)) -> Result<()> {
    let (scopes, seconds) = if args.quick { (1_500, 0.7) } else { (10_000, 3.0) };
    let scopes = usize::try_from(args.scopes.unwrap_or(scopes)).unwrap_or(usize::MAX);
    let slice = Duration::from_secs_f64(args.seconds.unwrap_or(seconds) / f64::from(args.rounds));
    let plans = chosen(&PLANS, |plan| plan.name, args.only.as_deref())?;
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let machine = Machine::of(&parent);
    let many = plans.iter().any(|plan| plan.work.is_over_scopes());
    let scopes = if many { scopes } else { 1 };
    if !json {
        let what = format!("{scopes} scopes of {ROWS} rows, {HANDLES} connections stay open");
        write_head_of(out, &machine, &what, &parent.display().to_string(), RAW_SQLITE)?;
    }
    let mut bench = Bench::load(parent, scopes)?;
    write_rows(out, json, &plans, |plan| {
        if plan.work == Work::Memory {
            let (ours, floor) = bench.memory()?;
            return Ok(Row::of_bytes(plan.name, ours, floor, plan.target, scopes, &machine));
        }
        let rounds = bench.measure(plan.work, args.rounds, slice)?;
        Ok(Row::new(plan.name, Unit::MicrosPerOperation, plan.target, &rounds, scopes, &machine))
    })
}

impl Bench {
    fn load(parent: PathBuf, scopes: usize) -> Result<Self> {
        let dir = folder(parent)?;
        let (runtime, stop) = runtime()?;
        let ours = Arc::new(runtime.block_on(Ours::open(dir.path(), scopes, &stop))?);
        let floor = Floor::open(ours.files())?;
        Ok(Self { runtime, stop, ours, floor, scopes, dir })
    }

    fn measure(&mut self, work: Work, rounds: u32, slice: Duration) -> Result<Rounds> {
        let Self { runtime, stop, ours, floor, scopes, .. } = self;
        let mut seed = 0;
        let mut scope_choice = || {
            seed += 1;
            ScopeChoice::new(seed, *scopes)
        };
        // Both sides use the same scopes in the same order.
        let (mut of_ours, mut of_floor) = (scope_choice(), scope_choice());
        let mut count = 0_u64;
        let ours = || {
            Sample::of(|| {
                let ends = Slice::lasting(slice, stop);
                match work {
                    Work::Analytic | Work::Insert => ours::validate(work, ends),
                    _ => runtime.block_on(ours.repeat(work, &mut of_ours, &mut count, ends)),
                }
            })
        };
        let floor = || Sample::of(|| floor.repeat(work, &mut of_floor, Slice::lasting(slice, stop)));
        interleave(rounds, ours, floor)
    }

    /// Bytes that SQLite holds for a connection that stays open: ours, and the floor's.
    fn memory(&mut self) -> Result<(f64, f64)> {
        let handles = HANDLES.min(self.scopes);
        let floor = floor::memory(self.ours.files(), handles)?;
        let ours = self.runtime.block_on(Ours::memory(self.dir.path(), handles))?;
        Ok((ours, floor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_measured_on_both_sides() {
        let dir = tempfile::tempdir().unwrap();
        let args = SqlArgs {
            scopes: Some(500),
            seconds: Some(0.05),
            rounds: 5,
            quick: true,
            only: None,
            dir: Some(dir.path().to_owned()),
        };
        let mut out = Vec::new();
        std::thread::scope(|threads| threads.spawn(|| run(&args, true, &mut out).unwrap()).join().unwrap());
        let rows: Vec<serde_json::Value> =
            String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
        assert_eq!(names, PLANS.map(|plan| plan.name));
        for row in &rows {
            assert!(row["ours"].as_f64().unwrap() > 0.0 && row["floor"].as_f64().unwrap() > 0.0, "{row}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
