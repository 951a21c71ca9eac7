//! `memory-lab bench search`: vector, filtered, hybrid and text search, compared with an exhaustive search and this
//! machine's memory bandwidth.

mod floor;
pub(super) mod options;
mod row;
mod store;
pub(crate) mod table;
pub(crate) mod vectors;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use memory_core::{Error, Result, SearchMode};
use memory_server::terminal::Progress;
use tokio::runtime::Runtime;

use self::options::SearchArgs;
use self::row::{Figures, Row, Target, write_foot, write_head};
use self::store::{SearchKind, Store};
use self::table::Table;
use self::vectors::Vectors;
use super::machine::{CLOSING, Folder, Machine, folder, goes_on, resident_bytes, runtime};
use super::measure::median;
use super::options::chosen;

/// Passes over all numbers in a round, for the floor.
const FLOOR_PASSES: usize = 5;
/// Searches under way together, and passes over all queries in a round of theirs.
const TOGETHER: usize = 8;
const TOGETHER_PASSES: usize = 4;

/// What one row measures.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    /// The first search after opening; the floor reads the stored vectors through SQLite.
    First(SearchMode),
    /// Memory that the first search takes per vector; the floor is the vector itself.
    Memory,
    /// A search; the floor reads every number once.
    Search(SearchKind),
    /// Eight searches of the scope under way together; the floor is the same searches one after another.
    Together(SearchKind),
}

struct Plan {
    name: &'static str,
    work: Work,
    target: fn(vectors: usize, dimensions: usize) -> Target,
}

const PLANS: [Plan; 10] = [
    Plan { name: "first_search", work: Work::First(SearchMode::Vector), target: Target::of_first },
    Plan { name: "first_lexical", work: Work::First(SearchMode::Lexical), target: Target::of_first_lexical },
    Plan { name: "memory_per_vector", work: Work::Memory, target: Target::of_memory },
    Plan { name: "vector", work: search(SearchMode::Vector, 1), target: Target::of_vector },
    Plan { name: "vector_filter_10_percent", work: search(SearchMode::Vector, 10), target: Target::of_tenth },
    Plan {
        name: "vector_filter_1_percent",
        work: search(SearchMode::Vector, 100),
        target: Target::of_hundredth,
    },
    Plan { name: "hybrid", work: search(SearchMode::Hybrid, 1), target: Target::none },
    Plan { name: "lexical", work: search(SearchMode::Lexical, 1), target: Target::of_lexical },
    Plan { name: "vector_8_tasks", work: together(SearchMode::Vector), target: Target::of_together },
    Plan { name: "lexical_8_tasks", work: together(SearchMode::Lexical), target: Target::of_together },
];

const fn search(mode: SearchMode, one_in: usize) -> Work {
    Work::Search(SearchKind { mode, one_in })
}

const fn together(mode: SearchMode) -> Work {
    Work::Together(SearchKind { mode, one_in: 1 })
}

pub(super) fn run(args: &SearchArgs, json: bool, out: &mut (dyn Write + Send)) -> Result<()> {
    let plans = chosen(&PLANS, |plan| plan.name, args.only.as_deref())?;
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let machine = Machine::of(&parent);
    let mut bench = Bench::load(args, parent, json)?;
    if !json {
        write_head(out, &machine, &bench.stored, args)?;
    }
    let mut met = 0;
    for plan in &plans {
        let figures = bench.measure(plan.work, args)?;
        let target = (plan.target)(bench.stored.len(), bench.stored.dimensions);
        let row = Row::new(plan.name, &figures, target, &bench.stored, args, &machine);
        met += usize::from(row.is_met());
        if json { row.write_json(out)? } else { row.write_line(out)? }
    }
    if json { Ok(()) } else { write_foot(out, met, plans.len()) }
}

struct Bench {
    runtime: Runtime,
    stored: Arc<Vectors>,
    asked: Arc<Vectors>,
    /// Open for all rows except those of the first search.
    store: Option<Store>,
    dir: Folder,
    stop: Arc<AtomicBool>,
}

impl Bench {
    fn load(args: &SearchArgs, parent: PathBuf, quiet: bool) -> Result<Self> {
        let dimensions = usize::try_from(args.dimensions).unwrap_or(usize::MAX);
        let queries = usize::try_from(args.queries).unwrap_or(usize::MAX);
        let (stored, asked) = match &args.file {
            Some(file) => Vectors::read(file, queries, dimensions)?,
            None => {
                let count = args.vectors.unwrap_or(if args.quick { 20_000 } else { 100_000 });
                Vectors::clustered(
                    usize::try_from(count).unwrap_or(usize::MAX),
                    queries,
                    dimensions,
                    args.seed,
                )
            }
        };
        let dir = folder(parent)?;
        let (runtime, stop) = runtime()?;
        let bench =
            Self { runtime, stored: Arc::new(stored), asked: Arc::new(asked), store: None, dir, stop };
        let mut progress = Progress::new(quiet);
        progress.set_length(bench.stored.len() as u64);
        let store = bench.open()?;
        let loaded = bench.runtime.block_on(store.load(bench.stored.len(), |entries| {
            progress.update(entries as u64, || format!("{entries} vectors stored"));
            bench.goes_on()
        }));
        progress.finish();
        loaded?;
        Ok(bench)
    }

    fn open(&self) -> Result<Store> {
        let table = Table::new(Arc::clone(&self.stored), Arc::clone(&self.asked));
        self.runtime.block_on(Store::open(self.dir.path(), table))
    }

    fn goes_on(&self) -> Result<()> {
        goes_on(&self.stop)
    }

    fn measure(&mut self, work: Work, args: &SearchArgs) -> Result<Figures> {
        match work {
            Work::First(mode) => self.measure_first(work, mode, args),
            Work::Memory => self.measure_first(work, SearchMode::Vector, args),
            Work::Search(kind) => self.measure_search(kind, args),
            Work::Together(kind) => self.measure_together(kind, args),
        }
    }

    /// Reopens the store for each round. The texts were searched before, so that their index is stored.
    fn measure_first(&mut self, work: Work, mode: SearchMode, args: &SearchArgs) -> Result<Figures> {
        let kind = SearchKind { mode, one_in: 1 };
        self.store = None;
        let table = if mode == SearchMode::Lexical { "text_segment" } else { "vector" };
        if mode == SearchMode::Lexical {
            let store = self.open()?;
            self.runtime.block_on(store.search(kind, 0, 10))?;
            drop(store);
            if !memory_sqlite::wait_until_closed(CLOSING) {
                return Err(Error::internal("the store took too long to close"));
            }
        }
        let mut figures = Figures::default();
        for _ in 0..args.rounds {
            self.goes_on()?;
            let started = Instant::now();
            floor::read_blobs(&store::file(self.dir.path()), table)?;
            let blobs = micros(started);
            let store = self.open()?;
            let before = resident_bytes();
            let started = Instant::now();
            self.runtime.block_on(store.search(kind, 0, 10))?;
            let first = micros(started);
            let (ours, floor) = match work {
                Work::Memory => {
                    let grown =
                        resident_bytes().zip(before).map(|(after, before)| after.saturating_sub(before));
                    let Some(grown) = grown else {
                        return Err(Error::unsupported("memory_per_vector", "this system"));
                    };
                    (each(grown, self.stored.len()), each(4 * self.stored.dimensions as u64, 1))
                }
                _ => (first, blobs),
            };
            figures.add_round(vec![ours], floor);
        }
        Ok(figures)
    }

    fn searched(&mut self) -> Result<Store> {
        match &self.store {
            Some(store) => Ok(store.clone()),
            None => Ok(self.store.insert(self.open()?).clone()),
        }
    }

    fn measure_search(&mut self, kind: SearchKind, args: &SearchArgs) -> Result<Figures> {
        let store = self.searched()?;
        let top_k = usize::try_from(args.top_k).unwrap_or(usize::MAX);
        let mut figures = Figures::default();
        // The first round is discarded: it loads what later ones keep in memory.
        for round in 0..=args.rounds {
            self.goes_on()?;
            let floor: Vec<f64> = (0..FLOOR_PASSES)
                .map(|_| {
                    let started = Instant::now();
                    floor::read_all(&self.stored);
                    micros(started)
                })
                .collect();
            let mut times = Vec::with_capacity(self.asked.len());
            for query in 0..self.asked.len() {
                let started = Instant::now();
                let hits = self.runtime.block_on(store.search(kind, query, top_k))?;
                times.push(micros(started));
                if round == 0 && kind.mode == SearchMode::Vector {
                    self.goes_on()?;
                    let truth =
                        floor::nearest(&self.stored, self.asked.row(query), top_k, |row| kind.passes(row));
                    figures.found += truth.iter().filter(|number| hits.contains(number)).count();
                    figures.sought += truth.len();
                }
            }
            if round > 0 {
                figures.add_round(times, median(floor));
            }
        }
        Ok(figures)
    }

    /// The time of a search is that of all, divided by their number; the percentile is of single ones.
    fn measure_together(&mut self, kind: SearchKind, args: &SearchArgs) -> Result<Figures> {
        let store = self.searched()?;
        let top_k = usize::try_from(args.top_k).unwrap_or(usize::MAX);
        let asked = self.asked.len();
        let searches = TOGETHER_PASSES * asked;
        let mut figures = Figures::default();
        for round in 0..=args.rounds {
            let pass = |tasks: usize| -> Result<(f64, Vec<f64>)> {
                self.goes_on()?;
                let next = Arc::new(AtomicUsize::new(0));
                let started = Instant::now();
                let tasks: Vec<_> = (0..tasks)
                    .map(|_| {
                        let (store, next) = (store.clone(), Arc::clone(&next));
                        self.runtime.spawn(async move {
                            let mut times = Vec::new();
                            loop {
                                let query = next.fetch_add(1, Ordering::Relaxed);
                                if query >= searches {
                                    return Ok::<_, Error>(times);
                                }
                                let started = Instant::now();
                                store.search(kind, query % asked, top_k).await?;
                                times.push(micros(started));
                            }
                        })
                    })
                    .collect();
                let mut times = Vec::with_capacity(searches);
                for task in tasks {
                    let ended = self.runtime.block_on(task);
                    let broken = |error| Error::internal("a task of the benchmark ended").with_source(error);
                    times.append(&mut ended.map_err(broken)??);
                }
                let each = micros(started) / f64::from(u32::try_from(searches).unwrap_or(u32::MAX));
                Ok((each, times))
            };
            let (alone, _) = pass(1)?;
            let (together, times) = pass(TOGETHER)?;
            if round > 0 {
                figures.add_mean(together, times, alone);
            }
        }
        Ok(figures)
    }
}

fn micros(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1e6
}

#[allow(clippy::cast_precision_loss, reason = "bytes far below 2^53")]
fn each(bytes: u64, of: usize) -> f64 {
    bytes as f64 / of.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(dir: &std::path::Path) -> SearchArgs {
        SearchArgs {
            vectors: Some(1_000),
            dimensions: 16,
            file: None,
            queries: 5,
            top_k: 10,
            rounds: 5,
            seed: 1,
            quick: false,
            only: None,
            dir: Some(dir.to_owned()),
        }
    }

    fn rows(args: &SearchArgs) -> Vec<serde_json::Value> {
        let mut out = Vec::new();
        run(args, true, &mut out).unwrap();
        String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn every_row_is_measured_a_small_store_is_searched_exactly_and_the_files_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let rows = rows(&args(dir.path()));
        let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
        assert_eq!(names, PLANS.map(|plan| plan.name));
        for row in &rows {
            let figure = |name: &str| row[name].as_f64().unwrap();
            assert!(figure("ours") > 0.0 || row["name"] == "memory_per_vector", "{row}");
            assert!(figure("floor") > 0.0, "{row}");
            let name = row["name"].as_str().unwrap();
            if name.starts_with("vector") && !name.ends_with("_tasks") {
                assert!((figure("recall") - 1.0).abs() < 1e-9, "{row}");
            }
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn vectors_of_a_file_are_searched_by_its_last_ones() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("v.f32");
        let (stored, _) = Vectors::clustered(1_005, 1, 16, 2);
        let bytes: Vec<u8> = stored.numbers().iter().flat_map(|x| x.to_le_bytes()).collect();
        std::fs::write(&file, bytes).unwrap();
        let args = SearchArgs {
            vectors: None,
            file: Some(file),
            only: Some("vector_filter_1_percent".to_owned()),
            ..args(dir.path())
        };
        let rows = rows(&args);
        assert_eq!((rows.len(), &rows[0]["vectors"], &rows[0]["source"]), (1, &1_000.into(), &"file".into()));
        assert!((rows[0]["recall"].as_f64().unwrap() - 1.0).abs() < 1e-9);
    }
}
