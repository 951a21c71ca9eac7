//! A process killed while it imports, merges or migrates leaves the graph of before or after, and doing it again completes it. From
//! the moment that it was told that the graph is stored, it is that of after.
//!
//! `MEMORY_KILL_ROUNDS` sets the number of kills, a third for each: 12 by default.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use memory_conformance::random::Random;
use memory_core::ErrorKind;
use memory_hierarchical::transfer::{Graph, Mode, import};
use memory_ladybug::{LadybugGraphs, read_source};

use crate::support::{agent, derives, episodic, semantic, similar};
use crate::transfer::files::multiset;
use crate::transfer::sessions;

/// What the child does, and where.
const WORK: &str = "MEMORY_LADYBUG_WORK";
const FOLDER: &str = "MEMORY_LADYBUG_FOLDER";
/// More than an import gives to the store at a time.
const NODES: usize = 600;

fn rounds() -> u64 {
    let given = std::env::var("MEMORY_KILL_ROUNDS").ok().and_then(|rounds| rounds.parse::<u64>().ok());
    given.unwrap_or(12).div_ceil(3)
}

fn graph(word: &str) -> Graph {
    let id = |at: usize| format!("{word}-{at}");
    let mut graph = Graph::default();
    for at in 0..NODES {
        graph.semantic.push(semantic(&id(at)));
        graph.episodic.push(episodic(&format!("e-{}", id(at))));
        graph.push(similar(&id(at), &id((at * 7 + 1) % NODES)));
        graph.push(derives(&id(at), &format!("e-{}", id(at))));
    }
    // The engine's log holds a damaged record of it.
    graph.semantic[NODES / 2].content = format!("{word} ").repeat(5_000);
    graph
}

fn graphs(folder: &Path) -> LadybugGraphs {
    LadybugGraphs::new(folder.join("graphs"), None)
}

async fn work(name: &str, folder: &Path) -> LadybugGraphs {
    let (graphs, ada) = (graphs(folder), agent("ada"));
    match name {
        "migrate" => {
            let source = read_source(&folder.join("from/ada/graph_db"), None).await.unwrap();
            let migrated = source.store(&graphs, &sessions().await).await.unwrap();
            assert_eq!(migrated.refused(), 0, "{migrated:?}");
        }
        "merge" => drop(import(&graphs, &ada, graph("new"), Mode::Merge).await.unwrap()),
        _ => drop(import(&graphs, &ada, graph("new"), Mode::Replace).await.unwrap()),
    }
    graphs
}

/// What the child makes once its work is acknowledged.
fn done(folder: &Path) -> PathBuf {
    folder.join("done")
}

/// Not a test of its own: it does nothing without its variables.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_process_that_is_killed() {
    let (Ok(name), Ok(folder)) = (std::env::var(WORK), std::env::var(FOLDER)) else { return };
    let folder = Path::new(&folder);
    let _open = work(&name, folder).await;
    std::fs::write(done(folder), "").unwrap();
    // Until it is killed.
    tokio::time::sleep(Duration::from_secs(600)).await;
}

fn spawn(name: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["kill::the_process_that_is_killed", "--exact", "--test-threads=1"])
        .env(WORK, name)
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The rows of the agent's graph; `None`: there is none.
async fn held(folder: &Path) -> Option<Vec<String>> {
    match Graph::read(&graphs(folder), &agent("ada")).await {
        Ok(graph) => Some(multiset(&graph)),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}");
            None
        }
    }
}

async fn survives(name: &str, after: Graph, seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let (folder, ada, after) = (folder.path(), agent("ada"), Some(multiset(&after)));
    let from = LadybugGraphs::new(folder.join("from"), None);
    import(&from, &ada, graph("old"), Mode::Replace).await.unwrap();
    drop(from);
    let source = std::fs::read(folder.join("from/ada/graph_db")).unwrap();
    let (mut random, mut whole_run, mut cut) = (Random::new(seed), None, 0);
    for round in 0..=rounds() {
        let _ = std::fs::remove_dir_all(folder.join("graphs"));
        let _ = std::fs::remove_file(done(folder));
        if name != "migrate" {
            import(&graphs(folder), &ada, graph("old"), Mode::Replace).await.unwrap();
        }
        let (before, begun) = (held(folder).await, Instant::now());
        let mut child = spawn(name, folder);
        // The first one is killed when it is done, and says how long that takes.
        let end = match whole_run {
            Some(micros) => Duration::from_micros(random.below(micros * 11 / 10)),
            None => Duration::from_secs(600),
        };
        while begun.elapsed() < end && (whole_run.is_some() || !done(folder).exists()) {
            assert!(child.try_wait().unwrap().is_none(), "{name} failed");
            tokio::time::sleep((end - begun.elapsed().min(end)).min(Duration::from_millis(1))).await;
        }
        let took = u64::try_from(begun.elapsed().as_micros()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let (now, is_done) = (held(folder).await, done(folder).exists());
        assert!(now == after || (now == before && !is_done), "round {round}: half a {name}, done: {is_done}");
        if whole_run.is_none() {
            assert!(is_done, "{name} takes too long");
            whole_run = Some(took);
            continue;
        }
        cut += u64::from(!is_done);
        drop(work(name, folder).await);
        assert!(held(folder).await == after, "round {round}: {name} again");
        assert!(
            std::fs::read(folder.join("from/ada/graph_db")).unwrap() == source,
            "round {round}: the source"
        );
    }
    println!("{cut} of {} runs of {name} were killed in the middle", rounds());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_import_leaves_the_graph_of_before_or_after() {
    survives("replace", graph("new"), 21).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_merge_leaves_the_graph_of_before_or_after() {
    let (mut both, new) = (graph("old"), graph("new"));
    both.semantic.extend(new.semantic);
    both.episodic.extend(new.episodic);
    both.similar_to.extend(new.similar_to);
    both.derives_from.extend(new.derives_from);
    survives("merge", both, 22).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_migration_leaves_a_whole_graph_and_its_source() {
    survives("migrate", graph("old"), 23).await;
}

/// The log's record that the engine's shadow pages are complete.
const CHECKPOINT: &[u8] = b"\xfe\xce\xd9\x57\xc9\x7a\x7a\x23\x9a";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_killed_within_its_checkpoint_has_stored_everything() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (log, after) = (folder.join("graphs/ada/graph_db.wal"), Some(multiset(&graph("new"))));
    let is_pending = || std::fs::read(&log).is_ok_and(|log| log.ends_with(CHECKPOINT));
    for _ in 0..50 {
        let _ = std::fs::remove_dir_all(folder.join("graphs"));
        let _ = std::fs::remove_file(done(folder));
        import(&graphs(folder), &agent("ada"), graph("old"), Mode::Replace).await.unwrap();
        let mut child = spawn("replace", folder);
        while !is_pending() && !done(folder).exists() {
            assert!(child.try_wait().unwrap().is_none(), "the import failed");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if is_pending() {
            assert!(held(folder).await == after);
            return;
        }
    }
    panic!("no checkpoint was cut off");
}
