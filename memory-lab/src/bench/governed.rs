//! `memory-lab bench governed`: a promotion by rules among many open issues, on embedded SQLite or another store.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use memory::Memory;
use memory::governed::{
    self, Actor, Note, NoteSource, Outcome, PromotionPipeline, Review, Space, Trust, WorkingMemory,
};
use memory_core::{EraseTarget, Error, Provider as _, Result, TenantId};
use memory_server::terminal::note;
use tokio::runtime::Runtime;

use super::machine::{Folder, Machine, folder, goes_on, runtime};
use super::measure::{Rounds, Sample, interleave};
use super::options::chosen;
use super::report::{Row, Unit, write_head_of, write_rows};

#[derive(Clone, Debug, clap::Args)]
pub(super) struct GovernedArgs {
    /// Open issues of the space
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = clap::value_parser!(u32).range(4..=10_000))]
    issues: u32,
    /// Interleaved rounds of one promotion each; figures are their medians
    #[arg(long, value_name = "N", default_value_t = 201, value_parser = clap::value_parser!(u32).range(1..=10_001))]
    rounds: u32,
    /// Rows whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Folder for the temporary files, which are removed afterwards [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Measure in this store instead, under a tenant of its own that is erased afterwards
    #[arg(long, value_name = "URL", conflicts_with = "dir")]
    url: Option<String>,
}

/// What one row measures: the promotion of a note that ends an issue. The floor promotes one that refers to no row, a
/// measurement, in the same space.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    /// The note names the issue.
    Named,
    /// Its words fit many issues, and it is deferred.
    Vague,
}

struct Plan {
    name: &'static str,
    work: Work,
    /// Upper limit of the ratio.
    target: f64,
}

const PLANS: [Plan; 2] = [
    Plan { name: "promote_named", work: Work::Named, target: 3.0 },
    Plan { name: "promote_vague", work: Work::Vague, target: 3.0 },
];

/// Upper limit of a promotion in microseconds.
const MOST: f64 = 5_000.0;

pub(super) fn run(args: &GovernedArgs, json: bool, out: &mut (dyn Write + Send)) -> Result<()> {
    let plans = chosen(&PLANS, |plan| plan.name, args.only.as_deref())?;
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let machine = match &args.url {
        Some(url) => {
            Machine::with_server(url.split_once(':').map_or("another store", |(kind, _)| kind).to_owned())
        }
        None => Machine::of(&parent),
    };
    let issues = usize::try_from(args.issues).unwrap_or(usize::MAX);
    if !json {
        let what = format!("{issues} open issues");
        write_head_of(
            out,
            &machine,
            &what,
            &parent.display().to_string(),
            "a measurement, in the same space",
        )?;
    }
    let bench = Bench::load(issues, parent, args.url.as_deref())?;
    write_rows(out, json, &plans, |plan| {
        let measured = bench.measure(plan.work, args.rounds)?;
        let row = Row::new(plan.name, Unit::MicrosPerOperation, plan.target, &measured, issues, &machine);
        Ok(row.within(Some(MOST)))
    })
}

struct Bench {
    issues: usize,
    runtime: Runtime,
    stop: Arc<AtomicBool>,
    notes: WorkingMemory,
    pipeline: PromotionPipeline,
    review: Review,
    writer: Actor,
    memory: Memory,
    tenant: TenantId,
    _dir: Folder,
}

impl Drop for Bench {
    fn drop(&mut self) {
        let target = EraseTarget::Tenant(self.tenant.clone());
        if let Err(error) = self.runtime.block_on(self.memory.erase(&target)) {
            note(&format!("the tenant {} of the benchmark could not be erased: {error}", self.tenant));
        }
    }
}

impl Bench {
    fn load(issues: usize, parent: PathBuf, url: Option<&str>) -> Result<Self> {
        let dir = folder(parent)?;
        let (runtime, stop) = runtime()?;
        let file = format!("sqlite:{}", dir.path().join("memory.db").display());
        let tenant: TenantId = format!("bench-{}", std::process::id()).parse()?;
        let (memory, space): (Memory, Space) = runtime.block_on(async {
            let memory = memory::open(url.unwrap_or(&file)).await?;
            let space = governed::open(&memory, &tenant, governed::DEFAULT_SPACE).await?;
            Ok::<_, Error>((memory, space))
        })?;
        let writer = Actor { agent: "ada".to_owned(), run: "bench".to_owned(), trust: Trust::Agent };
        let (notes, pipeline) = (WorkingMemory::new(&space), governed::pipeline(&space));
        let review = Review::new(governed::queue(&space));
        let bench =
            Self { issues, runtime, stop, notes, pipeline, review, writer, memory, tenant, _dir: dir };
        for at in 0..issues {
            bench.promote(&bench.note(&opening(at))?)?;
        }
        Ok(bench)
    }

    fn measure(&self, work: Work, rounds: u32) -> Result<Rounds> {
        let (mut ended, mut measured) = (0, 0);
        interleave(
            rounds,
            || {
                let at = ended % self.issues;
                ended += 1;
                let text = match work {
                    Work::Named => format!("{} is resolved", id_of(at)),
                    Work::Vague => format!("the earlier failure of a worker is fixed, try {ended}"),
                };
                let (sample, outcomes) = self.sample(&text)?;
                match (work, outcomes.as_slice()) {
                    (Work::Named, [Outcome::Committed { .. }]) => {
                        // As many are open as before.
                        self.promote(&self.note(&opening(self.issues + ended))?)?;
                        Ok(sample)
                    }
                    (Work::Named, [Outcome::NoOp { .. }]) => Ok(sample),
                    (Work::Vague, [Outcome::Deferred { pending_id, .. }]) => {
                        // Else the floor would try it again.
                        let person = Actor { trust: Trust::Person, ..self.writer.clone() };
                        self.runtime.block_on(self.review.reject(pending_id, "measured", &person))?;
                        Ok(sample)
                    }
                    _ => Err(Error::internal(format!("`{text}` became {outcomes:?}"))),
                }
            },
            || {
                measured += 1;
                Ok(self.sample(&format!("result: recall = {measured}"))?.0)
            },
        )
    }

    /// Promotes a note with this text, and measures that alone.
    fn sample(&self, text: &str) -> Result<(Sample, Vec<Outcome>)> {
        goes_on(&self.stop)?;
        let note = self.note(text)?;
        let mut outcomes = Vec::new();
        let sample = Sample::of(|| {
            outcomes = self.promote(&note)?;
            Ok(1)
        })?;
        Ok((sample, outcomes))
    }

    fn note(&self, text: &str) -> Result<Note> {
        self.runtime.block_on(self.notes.note(&self.writer, NoteSource::Agent, text, None))
    }

    fn promote(&self, note: &Note) -> Result<Vec<Outcome>> {
        let promotion = self.runtime.block_on(self.pipeline.promote_note(&note.id))?;
        promotion
            .map(|promotion| promotion.outcomes)
            .ok_or_else(|| Error::internal("a note was not promoted"))
    }
}

fn id_of(at: usize) -> String {
    format!("worker_{at}")
}

/// A note that opens an issue with a title and a description of their own.
fn opening(at: usize) -> String {
    format!(
        "issue {}: worker {at} of pool {} fails after a restart\nSeen since build {} on host {}, with code {}.",
        id_of(at),
        at % 17,
        at % 23,
        at % 31,
        at * 7
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_measured_on_both_sides_and_the_files_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let args =
            GovernedArgs { issues: 4, rounds: 1, only: None, dir: Some(dir.path().to_owned()), url: None };
        let mut out = Vec::new();
        std::thread::scope(|threads| threads.spawn(|| run(&args, true, &mut out).unwrap()).join().unwrap());
        let rows: Vec<serde_json::Value> =
            String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
        assert_eq!(names, PLANS.map(|plan| plan.name));
        assert!(rows.iter().all(|row| row["floor"].as_f64().unwrap() > 0.0), "{rows:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
