//! `memory-lab bench graph`: the graphs of two agents on embedded SQLite, one with five edges a memory and one of which all
//! edges meet in one memory: files in and out, and recall by words and along edges.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use memory::hierarchical::transfer::{Graph, MAX_BYTES, Mode, import, read_json, write_json, write_raw_db};
use memory::hierarchical::{
    Agent, AgentMemory, DEFAULT_MEMORY_BYTES, Direction, Edge, EdgeKind, GraphRecall, RecallOptions,
    Semantic, SimilarTo, SqlGraphs, memory_of,
};
use memory_core::{Error, Result, Timestamp};
use tokio::runtime::Runtime;

use super::machine::{Folder, Machine, folder, goes_on, io, runtime};
use super::measure::{Rounds, Sample, interleave};
use super::options::chosen;
use super::report::{Row, Unit, write_head_of, write_rows};

#[derive(Clone, Debug, clap::Args)]
pub(super) struct GraphArgs {
    /// Memories of an agent, with five times as many edges [default: 100000, with --quick 2000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    memories: Option<u32>,
    /// Interleaved rounds of one recall each; figures are their medians. Whole graphs are measured in three at most [default: 201,
    /// with --quick 21]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_001))]
    rounds: Option<u32>,
    /// Small graphs and few rounds: for a quick look, not for figures to publish
    #[arg(long)]
    quick: bool,
    /// Rows whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Folder for the temporary files, which are removed afterwards [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Rounds in which a whole graph is read or written.
const WHOLE: u32 = 3;
/// Edges that begin at each memory.
const DEGREE: usize = 5;

/// What one row measures.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    /// A JSON file in the place of a graph; the floor fills the original's six tables in memory, through raw rusqlite.
    Replace,
    /// The same file once more, which the graph has; the floor replaces.
    Merge,
    /// A graph into a JSON file; the floor replaces.
    Export,
    /// The first recall, which reads the graph; the floor reads it as a whole.
    First,
    /// A recall that walks two steps; the floor finds by words alone.
    Recall,
    /// A recall after another memory and edge were stored; the floor is one with nothing new.
    AfterWrite,
    /// A recall at a memory where all edges meet; the floor is one of the other graph.
    Hub,
    /// A hundred neighbours of that memory; the floor is a recall at it.
    Neighbours,
}

struct Plan {
    name: &'static str,
    work: Work,
    /// Upper limit of the ratio.
    target: f64,
    /// Upper limit in microseconds.
    most: Option<f64>,
}

const fn plan(name: &'static str, work: Work, target: f64, most: Option<f64>) -> Plan {
    Plan { name, work, target, most }
}

const PLANS: [Plan; 8] = [
    plan("replace", Work::Replace, 6.0, Some(60e6)),
    plan("merge_what_is_there", Work::Merge, 1.0, None),
    plan("export", Work::Export, 1.0, None),
    plan("first_recall", Work::First, 2.0, None),
    plan("recall_2_steps", Work::Recall, 3.0, Some(20_000.0)),
    plan("recall_after_write", Work::AfterWrite, 2.0, None),
    plan("recall_at_hub", Work::Hub, 2.0, None),
    plan("neighbours_of_hub", Work::Neighbours, 100.0, Some(2e6)),
];

pub(super) fn run(args: &GraphArgs, json: bool, out: &mut (dyn Write + Send)) -> Result<()> {
    let (memories, rounds) = if args.quick { (2_000, 21) } else { (100_000, 201) };
    let memories = usize::try_from(args.memories.unwrap_or(memories)).unwrap_or(usize::MAX);
    let rounds = args.rounds.unwrap_or(rounds);
    let plans = chosen(&PLANS, |plan| plan.name, args.only.as_deref())?;
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let machine = Machine::of(&parent);
    if !json {
        let what = format!("{memories} memories and {} edges of an agent", memories * DEGREE);
        write_head_of(out, &machine, &what, &parent.display().to_string(), "see docs/benchmarks.md")?;
    }
    let bench = Bench::load(memories, parent)?;
    write_rows(out, json, &plans, |plan| {
        let measured = bench.measure(plan.work, rounds)?;
        let row = Row::new(plan.name, Unit::MicrosPerOperation, plan.target, &measured, memories, &machine);
        Ok(row.within(plan.most))
    })
}

struct Bench {
    memories: usize,
    runtime: Runtime,
    stop: Arc<AtomicBool>,
    graphs: Arc<SqlGraphs>,
    ada: Agent,
    hub: AgentMemory,
    /// The graph of `ada` as JSON.
    file: PathBuf,
    dir: Folder,
}

impl Bench {
    fn load(memories: usize, parent: PathBuf) -> Result<Self> {
        let dir = folder(parent)?;
        let (runtime, stop) = runtime()?;
        let url = format!("sqlite:{}", dir.path().join("memory.db").display());
        let (ada, bob) = (Agent::new("ada")?, Agent::new("bob")?);
        let graphs = runtime.block_on(async {
            let memory = memory::open(&url).await?;
            let graphs = memory::hierarchical::open(&memory, &"bench".parse()?).await?;
            import(&*graphs, &ada, spread(memories), Mode::Replace).await?;
            import(&*graphs, &bob, star(memories), Mode::Replace).await?;
            Ok::<_, Error>(graphs)
        })?;
        let hub = memory_of(graphs.clone(), bob);
        let file = dir.path().join("ada.json");
        let bench = Self { memories, runtime, stop, graphs, ada, hub, file, dir };
        bench.export(&bench.file)?;
        Ok(bench)
    }

    fn measure(&self, work: Work, rounds: u32) -> Result<Rounds> {
        let whole = rounds.min(WHOLE);
        let (warm, cold) = (self.recaller(), || self.recaller());
        let options = RecallOptions::default();
        let (mut asked, mut other) = (0, 0);
        match work {
            Work::Replace => interleave(
                whole,
                || self.one(|| self.import(Mode::Replace)),
                || self.one(|| write_raw_db(&self.ada, &self.read_file()?).map(drop)),
            ),
            Work::Merge => interleave(
                whole,
                || self.one(|| self.import(Mode::Merge)),
                || self.one(|| self.import(Mode::Replace)),
            ),
            Work::Export => interleave(
                whole,
                || self.one(|| self.export(&self.dir.path().join("export.json"))),
                || self.one(|| self.import(Mode::Replace)),
            ),
            Work::First => interleave(
                whole,
                || self.one(|| self.ask(&cold(), &self.ada, 0, &options)),
                || self.one(|| self.runtime.block_on(Graph::read(&*self.graphs, &self.ada)).map(drop)),
            ),
            Work::Recall => {
                let words = RecallOptions::default().with_steps(0);
                interleave(
                    rounds,
                    || self.next(&mut asked, |at| self.ask(&warm, &self.ada, at, &options)),
                    || self.next(&mut other, |at| self.ask(&warm, &self.ada, at, &words)),
                )
            }
            Work::AfterWrite => interleave(
                rounds,
                || {
                    self.write(asked)?;
                    self.next(&mut asked, |at| self.ask(&warm, &self.ada, at, &options))
                },
                || self.next(&mut other, |at| self.ask(&warm, &self.ada, at, &options)),
            ),
            Work::Hub => interleave(
                rounds,
                || self.one(|| self.find(&warm, self.hub.agent(), "hub", &options)),
                || self.next(&mut other, |at| self.ask(&warm, &self.ada, at, &options)),
            ),
            Work::Neighbours => {
                let neighbours = || {
                    let found = self.hub.neighbours("hub", Direction::Both, &EdgeKind::ALL, 100);
                    self.runtime.block_on(found).map(drop)
                };
                interleave(
                    whole,
                    || self.one(neighbours),
                    || self.one(|| self.find(&warm, self.hub.agent(), "hub", &options)),
                )
            }
        }
    }

    fn one(&self, work: impl FnOnce() -> Result<()>) -> Result<Sample> {
        goes_on(&self.stop)?;
        Sample::of(|| work().map(|()| 1))
    }

    /// Both sides ask the same questions in the same order.
    fn next(&self, asked: &mut usize, work: impl FnOnce(usize) -> Result<()>) -> Result<Sample> {
        let question = *asked;
        *asked += 1;
        self.one(|| work(question))
    }

    fn recaller(&self) -> GraphRecall {
        GraphRecall::new(self.graphs.clone(), DEFAULT_MEMORY_BYTES)
    }

    fn ask(&self, recall: &GraphRecall, agent: &Agent, at: usize, options: &RecallOptions) -> Result<()> {
        // Of a memory that is there, so that a small graph answers too.
        let words = words(at.wrapping_mul(7_919) % self.memories);
        let question = words.split(' ').take(5).collect::<Vec<_>>().join(" ");
        self.find(recall, agent, &question, options)
    }

    fn find(
        &self,
        recall: &GraphRecall,
        agent: &Agent,
        question: &str,
        options: &RecallOptions,
    ) -> Result<()> {
        let hits = self.runtime.block_on(recall.recall(agent, question, options))?.hits;
        if hits.is_empty() { Err(Error::internal("a recall found nothing")) } else { Ok(()) }
    }

    fn read_file(&self) -> Result<Graph> {
        let mut file = File::open(&self.file).map_err(|error| io("read the benchmark's file", error))?;
        Ok(read_json(&mut file, MAX_BYTES)?.graph)
    }

    fn import(&self, mode: Mode) -> Result<()> {
        let graph = self.read_file()?;
        self.runtime.block_on(import(&*self.graphs, &self.ada, graph, mode)).map(drop)
    }

    fn export(&self, to: &std::path::Path) -> Result<()> {
        let graph = self.runtime.block_on(Graph::read(&*self.graphs, &self.ada))?;
        let file = File::create(to).map_err(|error| io("write the benchmark's file", error))?;
        let mut file = BufWriter::new(file);
        write_json(&self.ada, &graph, Timestamp::EPOCH, &mut file)?;
        file.flush().map_err(|error| io("write the benchmark's file", error))
    }

    /// Stores a memory and an edge from it.
    fn write(&self, at: usize) -> Result<()> {
        let mut more = Graph::default();
        let id = format!("new-{at}");
        more.push(similar(id.clone(), id_of(at)));
        more.semantic.push(memory_with(id, words(self.memories + at)));
        self.runtime.block_on(import(&*self.graphs, &self.ada, more, Mode::Merge)).map(drop)
    }
}

fn id_of(at: usize) -> String {
    format!("n{at:07}")
}

fn memory_with(id: String, content: String) -> Semantic {
    let created_at = "2026-01-31T09:30:00.000Z".to_owned();
    Semantic { memory_id: id, created_at, ..Semantic::new("concept", content) }
}

fn similar(source_id: String, target_id: String) -> Edge {
    let metadata = serde_json::Value::Object(serde_json::Map::new());
    Edge::SimilarTo(SimilarTo { source_id, target_id, weight: 0.7, metadata })
}

/// Memories of 40 words with five edges each.
fn spread(memories: usize) -> Graph {
    let mut graph = Graph::default();
    graph.semantic.extend((0..memories).map(|at| memory_with(id_of(at), words(at))));
    for at in 0..memories * DEGREE {
        // The targets of a memory differ, and so do their distances.
        let target = (at / DEGREE + at.wrapping_mul(7_919)) % memories;
        graph.push(similar(id_of(at / DEGREE), id_of(target)));
    }
    graph
}

/// A memory at which the edges of all others end.
fn star(memories: usize) -> Graph {
    let mut graph = Graph::default();
    graph.semantic.push(memory_with("hub".to_owned(), "the hub".to_owned()));
    for at in 0..memories {
        graph.semantic.push(memory_with(id_of(at), "a spoke".to_owned()));
        graph.push(similar(id_of(at), "hub".to_owned()));
    }
    graph
}

/// 40 words of a vocabulary of 20,000, some of them frequent.
fn words(at: usize) -> String {
    let mut state = at as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % 20_000
    };
    let words: Vec<String> = (0..40).map(|_| format!("w{}", next().min(next()))).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_measured_on_both_sides_and_the_files_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (memories, rounds, dir_of) = (Some(100), Some(1), Some(dir.path().to_owned()));
        let args = GraphArgs { memories, rounds, quick: true, only: None, dir: dir_of };
        let mut out = Vec::new();
        std::thread::scope(|threads| threads.spawn(|| run(&args, true, &mut out).unwrap()).join().unwrap());
        let rows: Vec<serde_json::Value> =
            String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
        assert_eq!(names, PLANS.map(|plan| plan.name));
        assert!(
            rows.iter().all(|row| row["floor"].as_f64().unwrap() > 0.0 && row["keys"] == 100),
            "{rows:?}"
        );
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
