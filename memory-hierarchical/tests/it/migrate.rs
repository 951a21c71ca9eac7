//! Importing the original's databases: every row is accounted for.

use std::path::Path;

use memory_core::ErrorKind;
use memory_hierarchical::migrate::{Layout, Migrated, Source};
use memory_hierarchical::transfer::{Graph, Why, write_raw_db};
use memory_hierarchical::{Agent, EntryQuery, Sessions};

use crate::support::{World, agent, derives, episodic, on_both_stores, semantic, supersedes, tenant};
use crate::transfer::{graph_of, multiset, shared};

async fn sessions(world: &World) -> Sessions {
    let (clock, ids) = (world.clock.clone(), world.ids.clone());
    Sessions::open(world.provider(), &tenant(), clock, ids).await.unwrap()
}

async fn migrated(world: &World, file: &Path, agent: Option<&Agent>) -> Migrated {
    let source = Source::read(file, agent).unwrap();
    source.store(&*world.graphs, &sessions(world).await).await.unwrap()
}

/// Rows, stored, skipped and refused, for each table.
fn counts(migrated: &Migrated) -> Vec<[u64; 4]> {
    migrated.tables.iter().map(|table| [table.rows, table.stored, table.skipped, table.refused]).collect()
}

/// Table, reason and number of the refused rows.
fn refused(migrated: &Migrated) -> Vec<(&'static str, Why, u64)> {
    migrated.refusals.iter().map(|refusal| (refusal.table, refusal.why, refusal.count)).collect()
}

fn all(rows: &[u64]) -> Vec<[u64; 4]> {
    rows.iter().map(|rows| [*rows, *rows, 0, 0]).collect()
}

on_both_stores! {
    async fn a_graph_is_migrated_as_the_original_exports_it(world) {
        let (Some(file), Some(exported)) =
            (shared("hierarchical/my-agent.db"), graph_of("json/my-agent.export.json")) else { return };
        let first = migrated(&world, &file, None).await;
        assert_eq!((first.layout, counts(&first)), (Layout::Graph, all(&[4, 2, 1, 2, 1, 1])));
        let held = Graph::read(&*world.graphs, &agent("my-agent")).await.unwrap();
        assert_eq!(multiset(&held), multiset(&exported));
        let again = migrated(&world, &file, None).await;
        assert_eq!(counts(&again), [4, 2, 1, 2, 1, 1].map(|rows| [rows, 0, rows, 0]));
    }

    async fn a_large_graph_is_migrated_whole(world) {
        let Some(file) = shared("hierarchical/bulk-agent.db") else { return };
        let report = migrated(&world, &file, None).await;
        let mut expected = all(&[1_000, 500, 1_500, 900, 80, 60]);
        // Two edges duplicate one between the same memories.
        expected[2] = [1_500, 1_498, 0, 2];
        assert_eq!(counts(&report), expected);
        assert_eq!(refused(&report), [("similar_to_edges", Why::Repeated, 2)]);
    }

    async fn sessions_and_learnings_are_migrated(world) {
        let Some(file) = shared("flat/memory.db") else { return };
        let report = migrated(&world, &file, None).await;
        assert_eq!((report.layout, counts(&report)), (Layout::Entries, all(&[2, 3, 4])));
        let kept = sessions(&world).await.entries(&EntryQuery::default()).await.unwrap();
        let first = kept.iter().find(|entry| entry.id.starts_with("mem-3a88e932")).unwrap();
        assert_eq!((first.created_at.as_str(), first.importance), ("2026-11-21T20:08:12.280445121+00:00", Some(5)));
        assert_eq!(first.metadata["task"], "fix uploader");
        let again = migrated(&world, &file, None).await;
        assert_eq!(counts(&again), [2, 3, 4].map(|rows| [rows, 0, rows, 0]));
        let analyzer = migrated(&world, &file, Some(&agent("analyzer"))).await;
        assert!(analyzer.refusals.iter().all(|refusal| refusal.why == Why::Foreign) && analyzer.refused() > 0);
    }

    async fn the_other_flat_layouts_are_migrated(world) {
        for (name, layout, rows) in [
            ("flat/memorydatabase_variant.db", Layout::EntriesReal, &[1, 1, 4][..]),
            ("flat/sqlitebackend_fts_variant.db", Layout::Memories, &[3]),
            ("flat/agent_kv.db", Layout::KeyValue, &[1, 2]),
        ] {
            let Some(file) = shared(name) else { return };
            let before = std::fs::read(&file).unwrap();
            let report = migrated(&world, &file, None).await;
            assert_eq!((report.layout, counts(&report)), (layout, all(rows)), "{name}: {:?}", report.refusals);
            let again = migrated(&world, &file, None).await;
            assert_eq!(again.tables.iter().map(|table| table.stored).sum::<u64>(), 0, "{name}");
            assert_eq!(std::fs::read(&file).unwrap(), before, "{name} is untouched");
        }
        let listed = sessions(&world).await.list().await.unwrap();
        assert_eq!(listed.iter().map(|session| session.entries).sum::<u64>(), 9);
    }

    async fn copies_of_a_learning_are_named(world) {
        let Some(file) = shared("flat/memory_dedup_race.db") else { return };
        for stored in [6, 0] {
            let report = migrated(&world, &file, None).await;
            assert_eq!(counts(&report)[2], [20, stored, 6 - stored, 14]);
            assert_eq!(refused(&report), [("memory_entries", Why::Repeated, 14)]);
        }
    }
}

on_both_stores! {
    async fn orphans_foreign_rows_and_doubled_edges_are_counted_and_named(world) {
        let (Some(orphans), Some(foreign), Some(doubled)) = (
            shared("hierarchical/ag.orphan-edges.db"),
            shared("hierarchical/other-agent.foreign-rows.db"),
            shared("hierarchical/my-agent.merged-twice.db"),
        ) else { return };
        let report = migrated(&world, &orphans, Some(&agent("ag"))).await;
        assert_eq!(counts(&report)[2], [4, 1, 0, 3]);
        assert_eq!(refused(&report), [("similar_to_edges", Why::Orphan, 3)]);
        assert!(report.refusals[0].first[0].contains("nope → nada"), "{report:?}");
        let report = migrated(&world, &foreign, Some(&agent("other-agent"))).await;
        assert_eq!(report.refused(), 11);
        assert!(report.refusals[0].first[0].contains("of the agent `my-agent`"), "{report:?}");
        assert!(Graph::read(&*world.graphs, &agent("other-agent")).await.is_err(), "it gets no graph");
        let report = migrated(&world, &doubled, Some(&agent("my-agent"))).await;
        assert_eq!(counts(&report)[2..], [[2, 1, 0, 1], [4, 2, 0, 2], [2, 1, 0, 1], [2, 1, 0, 1]]);
    }
}

on_both_stores! {
    /// Ten entries that expire around 2026-11-21T20:09:45Z, each spelled differently.
    async fn an_expiry_means_the_same_whatever_its_spelling(world) {
        let Some(file) = shared("flat/memory_expiry_probe.db") else { return };
        let report = migrated(&world, &file, None).await;
        assert_eq!((report.layout, counts(&report)[2]), (Layout::Entries, [14, 12, 0, 2]));
        assert_eq!(refused(&report), [("memory_entries", Why::Malformed, 2)], "`never`, and an empty text");
        let told: Vec<&str> = report.refusals[0].first.iter().map(String::as_str).collect();
        assert!(told.iter().all(|what| what.contains("set it to NULL")), "{told:?}");
        let sessions = sessions(&world).await;
        for (now, live) in [
            ("2026-11-19T20:09:45Z", &["past-1h-rfc3339", "past-1h-space", "past-2d-rfc3339", "past-1h-offset+14", "past-epoch-secs",
                "future-1h-rfc3339", "future-1h-offset-12", "future-epoch-secs"][..]),
            ("2026-11-21T20:09:45Z", &["future-1h-rfc3339", "future-1h-offset-12", "future-epoch-secs"]),
            ("2026-11-21T21:09:45.589Z", &["future-epoch-secs"]),
            ("2026-11-22T20:09:45Z", &[]),
        ] {
            world.clock.set(now);
            let found = sessions.entries(&EntryQuery::default().in_session("sx")).await.unwrap();
            let mut found: Vec<&str> = found.iter().map(|entry| entry.id.as_str()).collect();
            let mut live = live.to_vec();
            found.sort_unstable();
            live.sort_unstable();
            assert_eq!(found, live, "at {now}");
            let listed = sessions.list().await.unwrap();
            let of_sx = listed.iter().find(|session| session.session_id == "sx").unwrap();
            assert_eq!(of_sx.entries, u64::try_from(live.len()).unwrap(), "at {now}");
        }
    }
}

/// A database with learnings of `ada` in one session, each with its id, content and end, in file order.
fn learnings(folder: &Path, name: &str, entries: &[(&str, &str, Option<&str>)]) -> std::path::PathBuf {
    let path = folder.join(name);
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch(
        "CREATE TABLE memory_entries (id TEXT, session_id TEXT, agent_id TEXT, memory_type TEXT, title TEXT, content TEXT, \
         content_hash TEXT, metadata TEXT DEFAULT '{}', tags TEXT, importance INTEGER, created_at TEXT, accessed_at TEXT, \
         expires_at TEXT, parent_id TEXT); \
         CREATE TABLE sessions (session_id TEXT, created_at TEXT, last_accessed TEXT, metadata TEXT); \
         CREATE TABLE session_agents (session_id TEXT, agent_id TEXT, first_used TEXT, last_used TEXT); \
         INSERT INTO sessions VALUES ('s', '2026-01-01T00:00:00Z', '2026-01-01T00:00:00Z', '{}');",
    )
    .unwrap();
    for (id, content, expires) in entries {
        file.execute(
            "INSERT INTO memory_entries (id, session_id, agent_id, memory_type, title, content, created_at, accessed_at, \
             expires_at) VALUES (?1, 's', 'ada', 'learning', 't', ?2, '2026-01-01T00:00:00Z', '2026-01-01T00:00:00Z', ?3)",
            rusqlite::params![id, content, expires],
        )
        .unwrap();
    }
    path
}

on_both_stores! {
    /// Regression: it kept out a live one with the same content, from the same file or the next one.
    async fn a_learning_that_has_expired_suppresses_none(world) {
        let folder = tempfile::tempdir().unwrap();
        let over = Some("2026-02-01T00:00:00Z");
        let file = learnings(folder.path(), "a.db", &[("old", "one", over), ("new", "one", None)]);
        let soon = learnings(folder.path(), "b.db", &[("soon", "two", Some("2030-01-01T00:00:00Z"))]);
        let next = learnings(folder.path(), "c.db", &[("next", "two", None)]);
        for stored in [2, 0] {
            assert_eq!(counts(&migrated(&world, &file, None).await)[2], [2, stored, 2 - stored, 0]);
        }
        assert_eq!(counts(&migrated(&world, &soon, None).await)[2], [1, 1, 0, 0]);
        world.clock.set("2030-01-01T00:00:00Z");
        assert_eq!(counts(&migrated(&world, &next, None).await)[2], [1, 1, 0, 0]);
        let live = sessions(&world).await.entries(&EntryQuery::default()).await.unwrap();
        let ids: Vec<&str> = live.iter().map(|entry| entry.id.as_str()).collect();
        assert_eq!(ids, ["new", "next"]);
    }

    /// Regression: such rows counted as skipped.
    async fn an_id_that_says_something_else_is_refused_as_taken(world) {
        let folder = tempfile::tempdir().unwrap();
        let first = learnings(folder.path(), "a.db", &[("m", "one", None)]);
        let other = learnings(folder.path(), "b.db", &[("m", "two", None), ("n", "three", None)]);
        migrated(&world, &first, None).await;
        for stored in [1, 0] {
            let report = migrated(&world, &other, None).await;
            assert_eq!(counts(&report)[2], [2, stored, 1 - stored, 1]);
            assert_eq!(refused(&report), [("memory_entries", Why::Taken, 1)]);
            assert_eq!(report.refusals[0].first, ["m"]);
        }

        let graph = |content: &str| {
            let mut graph = Graph { semantic: vec![semantic("a"), semantic("b")], ..Graph::default() };
            graph.semantic[0].content = content.to_owned();
            let path = folder.path().join("ada.db");
            std::fs::write(&path, write_raw_db(&agent("ada"), &graph).unwrap()).unwrap();
            path
        };
        migrated(&world, &graph("one"), None).await;
        let report = migrated(&world, &graph("two"), None).await;
        assert_eq!(counts(&report)[0], [2, 0, 1, 1]);
        assert_eq!(refused(&report), [("semantic_memories", Why::Taken, 1)]);
        let held = Graph::read(&*world.graphs, &agent("ada")).await.unwrap();
        assert_eq!(held.semantic[0].content, "one");
    }

    /// Sessions of two projects share a name, and their rows the same numbers.
    async fn keys_of_two_files_are_both_kept(world) {
        let folder = tempfile::tempdir().unwrap();
        let file = |value: &str| {
            let path = folder.path().join(format!("{value}.db"));
            let file = rusqlite::Connection::open(&path).unwrap();
            file.execute_batch(&format!(
                "CREATE TABLE agent_sessions (id TEXT, agent_name TEXT, created_at TEXT, last_accessed TEXT, metadata TEXT); \
                 CREATE TABLE agent_memories (id INTEGER, session_id TEXT, memory_key TEXT, memory_value TEXT, memory_type TEXT, \
                 created_at TEXT, accessed_count INTEGER); \
                 INSERT INTO agent_sessions VALUES ('default', 'ada', '2026-01-01 00:00:00', '2026-01-01 00:00:00', NULL); \
                 INSERT INTO agent_memories VALUES (1, 'default', 'k', '{value}', 'markdown', '2026-01-01 00:00:00', 3);"
            ))
            .unwrap();
            path
        };
        for (value, stored) in [("one", 1), ("two", 1), ("one-", 1), ("one", 0)] {
            let path = if stored == 0 { folder.path().join("one.db") } else { file(value) };
            assert_eq!(counts(&migrated(&world, &path, None).await)[1], [1, stored, 1 - stored, 0], "{value}");
        }
        // What was derived from rows is refused with them, once.
        let report = migrated(&world, &folder.path().join("one.db"), Some(&agent("bob"))).await;
        assert_eq!(refused(&report), [("agent_memories", Why::Foreign, 1), ("agent_sessions", Why::Foreign, 1)]);
    }

    async fn a_foreign_memory_takes_no_id_and_circles_are_refused_alone(world) {
        let folder = tempfile::tempdir().unwrap();
        let mut graph = Graph { semantic: ["a", "b", "c", "d", "x"].map(semantic).into(), ..Graph::default() };
        for (newer, older) in [("b", "c"), ("a", "b"), ("b", "a"), ("c", "d"), ("d", "c")] {
            graph.push(supersedes(newer, older));
        }
        graph.episodic.push(episodic("e"));
        graph.push(derives("a", "e"));
        let path = folder.path().join("ada.db");
        std::fs::write(&path, write_raw_db(&agent("ada"), &graph).unwrap()).unwrap();
        let file = rusqlite::Connection::open(&path).unwrap();
        file.execute_batch(
            "UPDATE semantic_memories SET agent_id = 'bob' WHERE memory_id = 'x'; \
             UPDATE episodic_memories SET memory_id = 'x'; UPDATE derives_from_edges SET target_id = 'x'; \
             UPDATE semantic_memories SET metadata = '{\"n\": 123456789012345678901}' WHERE memory_id = 'd'",
        )
        .unwrap();
        let report = migrated(&world, &path, None).await;
        // An integer of more than 64 bits would read back as another number.
        assert_eq!(counts(&report)[..4], [[5, 3, 0, 2], [1, 1, 0, 0], [0; 4], [1, 1, 0, 0]]);
        assert_eq!(counts(&report)[4], [5, 1, 0, 4]);
        assert!(report.refusals.iter().any(|refusal| refusal.why == Why::Malformed && refusal.first[0].contains("64 bits")));
        let held = Graph::read(&*world.graphs, &agent("ada")).await.unwrap();
        assert_eq!(held.supersedes.len(), 1);
        assert_eq!((&*held.supersedes[0].source_id, &*held.supersedes[0].target_id), ("b", "c"));
    }
}

#[test]
fn an_installation_is_found_where_the_original_keeps_it_and_links_are_passed_over() {
    use memory_hierarchical::backend::{Environment, Paths};
    let home = tempfile::tempdir().unwrap();
    // A variable may not name a file in /dev, where temporary files may be.
    let project = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let named = project.path().join("graph_db");
    let environment = Environment::of(|name| match name {
        "HOME" => Some(home.path().into()),
        "AMPLIHACK_GRAPH_DB_PATH" => Some(named.clone().into()),
        _ => None,
    });
    let paths = Paths::of(&environment).unwrap();
    let none = paths.installation(None).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::NotFound);
    let put = |path: std::path::PathBuf, content: &str| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    };
    std::fs::create_dir_all(paths.graphs().join("folder.db")).unwrap();
    for name in ["b.db", "a.db", "a.db-wal", "a.db.bak", "notes.txt", "d/notes.txt", "e/kuzu_db"] {
        put(paths.graphs().join(name), "");
    }
    for name in ["c", "e/graph_db"] {
        put(paths.graphs().join(name), "LBUG and more");
    }
    std::os::unix::fs::symlink(paths.graphs().join("a.db"), paths.graphs().join("link.db")).unwrap();
    let graphs = ["a.db", "b.db", "c", "e/graph_db"].map(|name| paths.graphs().join(name));
    assert_eq!(paths.installation(None).unwrap(), graphs);
    let older = put(paths.root().join("memory_kuzu.db"), "LBUG");
    assert_eq!(paths.installation(None).unwrap(), [&[older][..], &graphs].concat());
    let sessions = [
        put(paths.sessions(), ""),
        put(named.clone(), "LBUG"),
        put(paths.root().join("memory_graph.db"), "LBUG"),
    ];
    assert_eq!(paths.installation(None).unwrap(), [&sessions[..], &graphs].concat());
    let other = tempfile::tempdir().unwrap();
    let graphs = [put(other.path().join("ada/kuzu_db"), "LBUG"), put(other.path().join("z.db"), "")];
    assert_eq!(paths.installation(Some(other.path())).unwrap(), graphs);
}

#[test]
fn files_of_a_graph_engine_are_recognised() {
    for name in ["graph/hierarchical_my-agent.lbug-v40", "graph/memory_graph.lbug-v40.db"] {
        let Some(file) = shared(name) else { return };
        let error = Source::read(&file, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains("export the graph as JSON"), "{error}");
    }
}
