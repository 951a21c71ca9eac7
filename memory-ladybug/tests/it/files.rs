//! Files of graphs: their permissions, links, damage, and several who use one.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use memory_core::ErrorKind;
use memory_hierarchical::GraphStore as _;

use crate::support::{World, agent, logged, semantic, similar};
use crate::transfer::files::{multiset, stored};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_committed_is_there_after_opening_again_and_nothing_else() {
    let (world, ada) = (World::new(), agent("ada"));
    let mut write = world.graphs.write(&ada).await.unwrap();
    write.add_semantic(&[semantic("a"), semantic("b")]).await.unwrap();
    write.add_edges(&[similar("a", "b")]).await.unwrap();
    write.commit().await.unwrap();
    let mut write = world.graphs.write(&ada).await.unwrap();
    write.add_semantic(&[semantic("half")]).await.unwrap();
    drop(write);
    let World { graphs, folder } = world;
    drop(graphs);
    let again = World {
        graphs: std::sync::Arc::new(memory_ladybug::LadybugGraphs::new(folder.path().join("graphs"), None)),
        folder,
    };
    let counts = again.graphs.counts(&ada).await.unwrap();
    assert_eq!((counts.semantic_node_count, counts.similar_to_edge_count), (2, 1));
    assert_eq!(again.graphs.revision(&ada).await.unwrap(), 1);
}

/// A row that no graph of ours has stands for an index key without one, which no statement makes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_the_index_alone_has_is_refused_with_what_to_do() {
    let (world, ada) = (World::new(), agent("ada"));
    let file = world.file("ada");
    let mut write = world.graphs.write(&ada).await.unwrap();
    write.add_semantic(&[semantic("a")]).await.unwrap();
    write.commit().await.unwrap();
    let World { graphs, folder } = world;
    drop(graphs);
    {
        let database =
            lbug::Database::new(&file, lbug::SystemConfig::default().max_db_size(1 << 30)).unwrap();
        let connection = lbug::Connection::new(&database).unwrap();
        connection.query("CREATE (:SemanticMemory {memory_id: 'b', agent_id: 'nobody'})").unwrap();
        connection.query("CHECKPOINT").unwrap();
    }
    let graphs = memory_ladybug::LadybugGraphs::new(folder.path().join("graphs"), None);
    let mut write = graphs.write(&ada).await.unwrap();
    let added = write.add_semantic(&[semantic("b")]).await;
    let ended = match added {
        Ok(_) => write.commit().await,
        Err(error) => Err(error),
    };
    let error = ended.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.message().contains("import the export"), "{error}");
    assert_eq!(graphs.counts(&ada).await.unwrap().semantic_node_count, 1);
}

/// Copies a graph's file with what is beside it: what a kill at this instant would leave.
fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    for ending in ["", ".wal", ".shadow"] {
        let beside = |path: &Path| PathBuf::from(format!("{}{ending}", path.display()));
        if beside(from).exists() {
            fs::copy(beside(from), beside(to)).unwrap();
        }
    }
}

/// A record of the engine's log that is longer than a page is damaged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_a_kill_of_the_process_that_has_it_open() {
    let (world, ada) = (World::new(), agent("ada"));
    let word = |round: usize, at: usize| format!("r{round}-{at}");
    for round in 0..3 {
        let mut nodes: Vec<_> = (0..300).map(|at| semantic(&word(round, at))).collect();
        nodes[7].content = "long ".repeat(20_000);
        let edges: Vec<_> =
            (0..300).map(|at| similar(&word(round, at), &word(round, (at + 1) % 300))).collect();
        let mut write = world.graphs.write(&ada).await.unwrap();
        if round == 2 {
            write.clear().await.unwrap();
        }
        write.add_semantic(&nodes).await.unwrap();
        write.add_edges(&edges).await.unwrap();
        write.commit().await.unwrap();
        let killed = World::new();
        copied(&world.file("ada"), &killed.file("ada"));
        let expected = stored(&*world.graphs, &ada).await;
        assert_eq!(multiset(&stored(&*killed.graphs, &ada).await), multiset(&expected), "round {round}");
        assert_eq!(killed.graphs.revision(&ada).await.unwrap(), world.graphs.revision(&ada).await.unwrap());
    }
}

/// Where the engine that reads such a log crashes: a value goes over the end of a page of it, and is not there as a whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_a_kill_cut_off_is_never_read() {
    let (world, ada) = (World::new(), agent("ada"));
    let mut write = world.graphs.write(&ada).await.unwrap();
    write.add_semantic(&[semantic("a")]).await.unwrap();
    write.commit().await.unwrap();
    let (path, folder) = (world.file("ada"), world.folder.path().join("other"));
    let World { graphs, folder: _kept } = world;
    drop(graphs);
    let rows = (0..100).map(|at| format!("CREATE (:A {{id: 'node {at}', text: 'some text {at}'}})"));
    let table = "CREATE NODE TABLE A(id STRING, text STRING, PRIMARY KEY(id))".to_owned();
    logged(&folder, std::iter::once(table).chain(rows));
    let log = fs::read(folder.with_extension("wal")).unwrap();
    assert!(log.len() > 9_000, "{}", log.len());
    for cut in (4_096..4_140).step_by(2).chain(8_192..8_196) {
        fs::write(path.with_extension("wal"), &log[..cut]).unwrap();
        let graphs =
            memory_ladybug::LadybugGraphs::new(path.parent().unwrap().parent().unwrap().to_owned(), None);
        assert_eq!(graphs.counts(&ada).await.unwrap().semantic_node_count, 1, "{cut} bytes");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_symbolic_link_in_the_place_of_a_log_is_refused() {
    for ending in ["wal", "shadow"] {
        let (world, ada) = (World::new(), agent("ada"));
        let elsewhere = world.folder.path().join("elsewhere");
        fs::write(&elsewhere, "kept").unwrap();
        fs::create_dir_all(world.file("ada").parent().unwrap()).unwrap();
        symlink(&elsewhere, world.file("ada").with_extension(ending)).unwrap();
        let refused = world.graphs.write(&ada).await.err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused:?}");
        assert_eq!(fs::read(&elsewhere).unwrap(), b"kept");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_stores_of_a_process_on_one_folder_lose_nothing() {
    let (world, ada) = (World::new(), agent("ada"));
    let writers = (0..8).map(|at| {
        let (graphs, ada) = (world.others(), ada.clone());
        tokio::spawn(async move {
            let mut write = graphs.write(&ada).await.unwrap();
            write.add_semantic(&[semantic(&format!("n{at}"))]).await.unwrap();
            write.commit().await.unwrap();
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    assert_eq!(world.graphs.counts(&ada).await.unwrap().semantic_node_count, 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_goes_on_after_a_refusal() {
    let (world, ada) = (World::new(), agent("ada"));
    let mut write = world.graphs.write(&ada).await.unwrap();
    write.add_edges(&[similar("a", "b")]).await.unwrap_err();
    write.add_semantic(&[semantic("a"), semantic("b")]).await.unwrap();
    write.add_edges(&[similar("a", "b")]).await.unwrap();
    write.commit().await.unwrap();
    assert_eq!(world.graphs.counts(&ada).await.unwrap().similar_to_edge_count, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_and_folders_are_their_owners_only() {
    let world = World::new();
    world.graphs.write(&agent("ada")).await.unwrap().commit().await.unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let file = world.file("ada");
    assert_eq!(mode(&file), 0o600);
    assert_eq!(mode(file.parent().unwrap()), 0o700);
    assert_eq!(mode(&world.folder.path().join("graphs")), 0o700);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_creates_nothing() {
    let world = World::new();
    assert_eq!(world.graphs.revision(&agent("ada")).await.unwrap(), 0);
    assert!(world.graphs.agents().await.unwrap().is_empty());
    assert!(!world.folder.path().join("graphs").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_symbolic_link_is_refused_and_its_target_untouched() {
    let world = World::new();
    let target = world.folder.path().join("target");
    fs::create_dir(&target).unwrap();
    fs::create_dir(world.folder.path().join("graphs")).unwrap();
    symlink(&target, world.folder.path().join("graphs/ada")).unwrap();
    let refused = world.graphs.write(&agent("ada")).await.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
    let elsewhere = world.folder.path().join("elsewhere");
    fs::write(&elsewhere, "").unwrap();
    fs::create_dir(world.folder.path().join("graphs/bob")).unwrap();
    symlink(&elsewhere, world.file("bob")).unwrap();
    assert_eq!(world.graphs.counts(&agent("bob")).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(fs::read(&elsewhere).unwrap(), b"");
    // In the place of the whole folder.
    fs::remove_dir_all(world.folder.path().join("graphs")).unwrap();
    symlink(&target, world.folder.path().join("graphs")).unwrap();
    assert_eq!(world.graphs.write(&agent("eve")).await.err().unwrap().kind(), ErrorKind::InvalidArgument);
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_graph_is_refused_and_left_alone() {
    let world = World::new();
    let cases: [(&str, &[u8]); 3] =
        [("text", b"something else"), ("begun", b"LBUG"), ("newer", b"LBUG\xff\0\0\0\0\0\0\0 and more")];
    for (name, bytes) in cases {
        fs::create_dir_all(world.file(name).parent().unwrap()).unwrap();
        fs::write(world.file(name), bytes).unwrap();
        let refused = world.graphs.counts(&agent(name)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{name}: {refused:?}");
        assert_eq!(fs::read(world.file(name)).unwrap(), bytes);
    }
}
