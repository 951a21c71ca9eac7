//! `memory-lab bench recall`: recalling from one long conversation on embedded SQLite, compared with the store's own text
//! search of the same entries.

mod store;
mod turns;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use memory_core::{Error, Result};
use memory_server::terminal::Progress;
use tokio::runtime::Runtime;

use self::store::{Kind, Store};
use self::turns::Turns;
use super::machine::{Folder, Machine, folder, goes_on, resident_bytes, runtime};
use super::measure::{Rounds, Sample, Slice, interleave};
use super::options::chosen;
use super::report::{Row, Unit, write_head_of, write_rows};

#[derive(Clone, Debug, clap::Args)]
pub(super) struct RecallArgs {
    /// Turns in one scope [default: 100000, with --quick 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(500..=5_000_000))]
    turns: Option<u32>,
    /// Turns and questions of these dialogues, repeated until there are enough, instead of generated ones; the form is that of
    /// `eval conversations`
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Seconds measured per row, for recalls and for the floor each [default: 7, with --quick 0.7]
    #[arg(long, value_name = "S", value_parser = super::options::seconds)]
    seconds: Option<f64>,
    /// Interleaved rounds; figures are their medians
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(5..=101))]
    rounds: u32,
    /// A short conversation and short rounds: for a quick look, not for figures to publish
    #[arg(long)]
    quick: bool,
    /// Rows whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Folder for the temporary files, which are removed afterwards [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// What one row measures.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    /// Memory that the first recall takes for each turn; the floor is the text of the turn.
    Memory(Kind),
    /// One recall; the floor is a text search.
    Recall(Kind),
    /// Recalls of two tasks; the floor is one task.
    Together,
}

struct Plan {
    name: &'static str,
    work: Work,
    /// Upper limit of bytes, or of the ratio; for two tasks the lower limit of the ratio.
    target: f64,
    /// Upper limit in microseconds.
    most: Option<f64>,
}

/// Those that measure memory come first: nothing has been allocated and freed then that could be used again.
const PLANS: [Plan; 5] = [
    Plan { name: "memory_by_words", work: Work::Memory(Kind::Words), target: 700.0, most: None },
    Plan { name: "memory_by_meaning", work: Work::Memory(Kind::Meaning), target: 1_100.0, most: None },
    Plan { name: "by_words", work: Work::Recall(Kind::Words), target: 10.0, most: Some(15_000.0) },
    Plan { name: "by_meaning", work: Work::Recall(Kind::Meaning), target: 20.0, most: Some(15_000.0) },
    Plan { name: "by_meaning_2_tasks", work: Work::Together, target: 1.6, most: None },
];

pub(super) fn run(args: &RecallArgs, json: bool, out: &mut (dyn Write + Send)) -> Result<()> {
    let (turns, seconds) = if args.quick { (10_000, 0.7) } else { (100_000, 7.0) };
    let turns = usize::try_from(args.turns.unwrap_or(turns)).unwrap_or(usize::MAX);
    let slice = Duration::from_secs_f64(args.seconds.unwrap_or(seconds) / f64::from(args.rounds));
    let plans = chosen(&PLANS, |plan| plan.name, args.only.as_deref())?;
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let machine = Machine::of(&parent);
    let said = match &args.file {
        Some(file) => Turns::of_file(file)?,
        None => Turns::generated(),
    };
    if !json {
        let source =
            args.file.as_ref().map_or("generated".into(), |file| file.to_string_lossy().into_owned());
        let what = format!("{turns} turns in one scope ({source})");
        let floor = "the store's own text search, same entries and run";
        write_head_of(out, &machine, &what, &parent.display().to_string(), floor)?;
    }
    let bench = Bench::load(said, turns, parent, json)?;
    write_rows(out, json, &plans, |plan| {
        let row = match plan.work {
            Work::Memory(kind) => {
                let (ours, floor) = bench.memory(kind)?;
                Row::of_bytes(plan.name, ours, floor, plan.target, turns, &machine)
            }
            Work::Recall(kind) => {
                let rounds = bench.recall(kind, args.rounds, slice)?;
                Row::new(plan.name, Unit::MicrosPerOperation, plan.target, &rounds, turns, &machine)
            }
            Work::Together => {
                let rounds = bench.together(args.rounds, slice)?;
                Row::new(plan.name, Unit::OperationsPerSecond, plan.target, &rounds, turns, &machine)
            }
        };
        Ok(row.within(plan.most))
    })
}

struct Bench {
    runtime: Runtime,
    stop: Arc<AtomicBool>,
    questions: Arc<Vec<String>>,
    /// Bytes of text of the mean turn.
    text: f64,
    turns: usize,
    dir: Folder,
}

impl Bench {
    fn load(said: Turns, turns: usize, parent: PathBuf, quiet: bool) -> Result<Self> {
        let dir = folder(parent)?;
        let (runtime, stop) = runtime()?;
        let mut progress = Progress::new(quiet);
        progress.set_length(turns as u64);
        let loaded = runtime.block_on(async {
            let store = Store::open(dir.path(), Kind::Meaning).await?;
            store
                .load(&said, turns, |stored| {
                    progress.update(stored as u64, || format!("{stored} turns stored"));
                    goes_on(&stop)
                })
                .await
        });
        progress.finish();
        #[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
        let text = loaded? as f64 / turns as f64;
        Ok(Self { runtime, stop, questions: Arc::new(said.questions), text, turns, dir })
    }

    /// A store whose index of the conversation is in memory.
    fn warm(&self, kind: Kind) -> Result<Store> {
        self.runtime.block_on(async {
            let store = Store::open(self.dir.path(), kind).await?;
            store.recall(&self.questions, 0).await?;
            Ok(store)
        })
    }

    /// Bytes that the first recall takes for each turn, and those of its text.
    fn memory(&self, kind: Kind) -> Result<(f64, f64)> {
        let grown = self.runtime.block_on(async {
            let store = Store::open(self.dir.path(), kind).await?;
            // What the engine and the model keep is there before.
            store.list_all().await?;
            store.recall_nothing().await?;
            let before = resident_bytes();
            store.recall(&self.questions, 0).await?;
            Ok::<_, Error>(resident_bytes().zip(before).map(|(after, before)| after.saturating_sub(before)))
        })?;
        let grown = grown.ok_or_else(|| Error::unsupported("the memory of a process", "this system"))?;
        #[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
        let each = grown as f64 / self.turns as f64;
        Ok((each, self.text))
    }

    fn recall(&self, kind: Kind, rounds: u32, slice: Duration) -> Result<Rounds> {
        let store = self.warm(kind)?;
        self.runtime.block_on(store.search(&self.questions, 0))?;
        // Both sides ask the same questions in the same order.
        let (mut ours, mut floor) = (0, 0);
        interleave(
            rounds,
            || self.sample(slice, &mut ours, |question| store.recall(&self.questions, question)),
            || self.sample(slice, &mut floor, |question| store.search(&self.questions, question)),
        )
    }

    fn sample<F: Future<Output = Result<()>>>(
        &self,
        slice: Duration,
        question: &mut usize,
        ask: impl Fn(usize) -> F,
    ) -> Result<Sample> {
        Sample::of(|| {
            let ends = Slice::lasting(slice, &self.stop);
            let mut done = 0;
            while ends.goes_on(done)? {
                self.runtime.block_on(ask(*question))?;
                *question += 1;
                done += 1;
            }
            Ok(done)
        })
    }

    fn together(&self, rounds: u32, slice: Duration) -> Result<Rounds> {
        let store = self.warm(Kind::Meaning)?;
        let tasks = |count: usize| {
            Sample::of(|| {
                let ends = std::time::Instant::now() + slice;
                goes_on(&self.stop)?;
                let tasks: Vec<_> = (0..count)
                    .map(|first| {
                        let (store, questions) = (store.clone(), Arc::clone(&self.questions));
                        self.runtime.spawn(async move {
                            let mut done = 0_u64;
                            let mut asked = first;
                            while done == 0 || std::time::Instant::now() < ends {
                                store.recall(&questions, asked).await?;
                                asked += count;
                                done += 1;
                            }
                            Ok::<_, Error>(done)
                        })
                    })
                    .collect();
                let mut done = 0;
                for task in tasks {
                    let ended = self.runtime.block_on(task);
                    let broken = |error| Error::internal("a task of the benchmark ended").with_source(error);
                    done += ended.map_err(broken)??;
                }
                Ok(done)
            })
        };
        interleave(rounds, || tasks(2), || tasks(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(args: &RecallArgs) -> Vec<serde_json::Value> {
        let mut out = Vec::new();
        std::thread::scope(|threads| threads.spawn(|| run(args, true, &mut out).unwrap()).join().unwrap());
        String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn args(dir: &std::path::Path) -> RecallArgs {
        RecallArgs {
            turns: Some(600),
            file: None,
            seconds: Some(0.05),
            rounds: 5,
            quick: true,
            only: None,
            dir: Some(dir.to_owned()),
        }
    }

    #[test]
    fn every_row_is_measured_on_both_sides_and_the_files_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let rows = rows(&args(dir.path()));
        let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
        assert_eq!(names, PLANS.map(|plan| plan.name));
        for row in &rows {
            let is_memory = row["unit"] == "bytes";
            assert!(row["ours"].as_f64().unwrap() > 0.0 || is_memory, "{row}");
            assert!(row["floor"].as_f64().unwrap() > 0.0, "{row}");
            assert_eq!(row["keys"], 600);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn dialogues_of_a_file_are_repeated_until_there_are_enough() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("d.jsonl");
        let line = r#"{"id": "a", "sessions": [{"turns": [{"text": "I have a red kite"}, {"text": "and a blue one"}]}],
            "questions": [{"text": "Which kite?", "category": "x", "evidence": [[0, 0]]}]}"#;
        std::fs::write(&file, line.replace('\n', " ")).unwrap();
        let only = Some("by_words".to_owned());
        let rows = rows(&RecallArgs { file: Some(file), only, ..args(dir.path()) });
        assert_eq!(rows.len(), 2);
        assert!(rows.iter().all(|row| row["keys"] == 600));
    }
}
