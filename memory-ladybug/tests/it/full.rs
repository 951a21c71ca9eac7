//! A disk that is full.

use std::path::Path;
use std::process::Command;

use memory_core::ErrorKind;
use memory_hierarchical::transfer::{Graph, Mode, import};
use memory_ladybug::LadybugGraphs;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::{agent, semantic};
use crate::transfer::files::multiset;

const FOLDER: &str = "MEMORY_LADYBUG_SMALL";

fn graph(word: &str) -> Graph {
    let semantic = (0..600).map(|at| semantic(&format!("{word}-{at}"))).collect();
    let mut graph = Graph { semantic, ..Graph::default() };
    graph.semantic[0].content = format!("{word} ").repeat(20_000);
    graph
}

/// From now on no file may grow beyond so many bytes; `None`: as far as it likes.
fn limit(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: bytes.or(maximum), maximum }).unwrap();
}

async fn held(graphs: &LadybugGraphs) -> Vec<String> {
    multiset(&Graph::read(graphs, &agent("ada")).await.unwrap())
}

/// Not a test of its own: it does nothing without its variable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_process_without_room() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let (folder, ada) = (Path::new(&folder), agent("ada"));
    let (mut refused, mut unknown) = (0, 0);
    // The last of them leave room for some of the pages that are new, and for those of the indexes.
    for extra in [0, 64, 256, 288, 320, 352, 384].map(|kibibytes: u64| kibibytes << 10) {
        let folder = folder.join(extra.to_string());
        let graphs = LadybugGraphs::new(folder.clone(), None);
        import(&graphs, &ada, graph("old"), Mode::Replace).await.unwrap();
        let before = held(&graphs).await;
        limit(Some(std::fs::metadata(folder.join("ada/graph_db")).unwrap().len() + extra));
        let merged = import(&graphs, &ada, graph("new"), Mode::Merge).await;
        limit(None);
        let now = held(&graphs).await;
        match merged.map_err(|error| error.kind()) {
            Ok(_) => assert_eq!(now.len(), 1_200),
            Err(ErrorKind::OutcomeUnknown) => {
                unknown += 1;
                assert!(now == before || now.len() == 1_200, "{} rows", now.len());
            }
            Err(kind) => {
                refused += 1;
                assert!(now == before, "{kind:?}: {} rows", now.len());
            }
        }
        // There is room again, for these handles and for others.
        import(&graphs, &ada, graph("new"), Mode::Merge).await.unwrap();
        drop(graphs);
        assert_eq!(held(&LadybugGraphs::new(folder, None)).await.len(), 1_200);
    }
    println!("{refused} refused, {unknown} of unknown outcome");
    assert!(refused + unknown > 0);
}

#[test]
fn a_write_on_a_full_disk_is_whole_or_not_there_and_the_next_one_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    // Without the trap, the system ends a process that writes beyond its limit.
    let mut child = Command::new("sh");
    child.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(std::env::current_exe().unwrap());
    child.args(["full::the_process_without_room", "--exact", "--nocapture"]).env(FOLDER, folder.path());
    let said = child.output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout);
    assert!(said.status.success(), "{text}{}", String::from_utf8_lossy(&said.stderr));
    println!("{text}");
}
