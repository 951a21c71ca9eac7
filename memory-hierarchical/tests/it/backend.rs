//! Which backend is chosen: flag, environment, files.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use memory_core::ErrorKind;
use memory_hierarchical::backend::{
    BackendChoice, ChosenBy, Environment, Paths, resolve_backend, resolve_transfer_backend,
};

use crate::support::agent;

fn environment(variables: &[(&str, &str)]) -> Environment {
    let of = |name: &str| {
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
    };
    Environment::of(of)
}

fn at_home(home: &Path) -> Environment {
    environment(&[("HOME", home.to_str().unwrap())])
}

const BACKEND: &str = "AMPLIHACK_MEMORY_BACKEND";

#[test]
fn three_tokens_are_known_in_exact_case() {
    assert_eq!(BackendChoice::parse("sqlite").unwrap(), (BackendChoice::Sqlite, None));
    assert_eq!(BackendChoice::parse("graph-db").unwrap(), (BackendChoice::GraphDb, None));
    let (backend, warning) = BackendChoice::parse("kuzu").unwrap();
    assert!(backend == BackendChoice::GraphDb && warning.unwrap().contains("graph-db"));
    for token in ["", "KUZU", "Graph-DB", "SQLite", "graph_db", " sqlite", "postgres"] {
        let refused = BackendChoice::parse(token).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{token}");
        assert_eq!(refused.details()["value"], token);
        assert_eq!(refused.details()["allowed"][1], "graph-db");
    }
}

#[test]
fn the_flag_beats_the_variable_which_beats_the_files() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join(".amplihack")).unwrap();
    fs::write(home.path().join(".amplihack/memory_graph.db"), "").unwrap();
    let set = environment(&[("HOME", home.path().to_str().unwrap()), (BACKEND, "sqlite")]);
    let flag = resolve_backend(Some("graph-db"), &set).unwrap();
    assert_eq!((flag.backend, flag.by), (BackendChoice::GraphDb, ChosenBy::Flag));
    let variable = resolve_backend(None, &set).unwrap();
    assert_eq!((variable.backend, variable.by), (BackendChoice::Sqlite, ChosenBy::Variable));
    let found = resolve_backend(None, &at_home(home.path())).unwrap();
    assert_eq!(found.backend, BackendChoice::GraphDb);
    let empty = environment(&[("HOME", home.path().to_str().unwrap()), (BACKEND, "")]);
    assert_eq!(resolve_backend(None, &empty).unwrap(), found);
}

#[test]
fn a_variable_that_names_no_backend_is_an_error_and_for_a_transfer_a_warning() {
    let set = environment(&[("HOME", "/home/ada"), (BACKEND, "redis")]);
    let refused = resolve_backend(None, &set).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert_eq!(refused.details()["value"], "redis");
    let transfer = resolve_transfer_backend(&set).unwrap();
    assert_eq!((transfer.backend, transfer.by), (BackendChoice::GraphDb, ChosenBy::Fallback));
    assert_eq!(transfer.warnings.len(), 1);
    assert!(transfer.warnings[0].contains(BACKEND));
}

#[test]
fn without_a_home_there_is_no_guess() {
    for variables in [&[][..], &[("HOME", "")], &[("HOME", "relative")]] {
        let refused = resolve_backend(None, &environment(variables)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert!(resolve_transfer_backend(&environment(variables)).is_err());
    }
    assert!(resolve_backend(Some("sqlite"), &environment(&[])).is_ok());
}

#[test]
fn files_of_the_graph_engine_are_found_wherever_it_keeps_them() {
    for path in [
        "memory_graph.db",
        "memory_kuzu.db",
        "hierarchical_memory/ada/graph_db",
        "hierarchical_memory/ada/kuzu_db",
        "hierarchical_memory/bob",
    ] {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(".amplihack").join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "LBUG and more").unwrap();
        let found = resolve_backend(None, &at_home(home.path())).unwrap();
        assert_eq!(found.by, ChosenBy::Detected { path: file });
    }
    for path in ["memory.db", "hierarchical_memory/ada.db", "hierarchical_memory/ada/other"] {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(".amplihack").join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "SQLite format 3").unwrap();
        let found = resolve_backend(None, &at_home(home.path())).unwrap();
        assert_eq!((found.backend, found.by), (BackendChoice::Sqlite, ChosenBy::Default));
    }
}

#[test]
fn symbolic_links_do_not_count() {
    let elsewhere = tempfile::tempdir().unwrap();
    fs::create_dir_all(elsewhere.path().join("ada/graph_db/older")).unwrap();
    fs::write(elsewhere.path().join("file"), "LBUG").unwrap();
    // The link below `.amplihack`, and its target.
    for (link, to) in [
        ("memory_graph.db", "file"),
        ("memory_graph.db", "missing"),
        ("hierarchical_memory", "."),
        ("hierarchical_memory/ada", "ada"),
        ("hierarchical_memory/bob", "file"),
        ("hierarchical_memory/ada/graph_db", "missing"),
    ] {
        let home = tempfile::tempdir().unwrap();
        let link = home.path().join(".amplihack").join(link);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(elsewhere.path().join(to), &link).unwrap();
        assert_eq!(resolve_backend(None, &at_home(home.path())).unwrap().by, ChosenBy::Default, "{link:?}");
    }
}

#[test]
fn a_link_met_first_does_not_hide_a_graph() {
    let home = tempfile::tempdir().unwrap();
    let graphs = home.path().join(".amplihack/hierarchical_memory");
    fs::create_dir_all(graphs.join("zoe/graph_db/older")).unwrap();
    symlink("/nowhere", graphs.join("ada")).unwrap();
    assert_eq!(resolve_backend(None, &at_home(home.path())).unwrap().backend, BackendChoice::GraphDb);
}

#[test]
fn paths_are_those_of_the_original() {
    let home = tempfile::tempdir().unwrap();
    let paths = Paths::of(&at_home(home.path())).unwrap();
    let root = home.path().join(".amplihack");
    assert_eq!(paths.sessions(), root.join("memory.db"));
    assert_eq!(paths.graph_sessions(), root.join("memory_graph.db"));
    let ada = agent("ada");
    assert_eq!(paths.sqlite_graph(&ada, None), root.join("hierarchical_memory/ada.db"));
    assert_eq!(paths.sqlite_graph(&ada, Some(Path::new("/tmp/x"))), Path::new("/tmp/x/ada.db"));
    let folder = root.join("hierarchical_memory/ada");
    assert_eq!(paths.engine_graph(&ada), folder.join("graph_db"));
    fs::create_dir_all(folder.join("graph_db")).unwrap();
    fs::write(folder.join("kuzu_db"), "LBUG").unwrap();
    assert_eq!(paths.engine_graph(&ada), folder.join("kuzu_db"), "an empty folder is no graph");
    assert_eq!(paths.installation(None).unwrap(), [folder.join("kuzu_db")]);
    fs::write(folder.join("graph_db/older"), "").unwrap();
    assert_eq!(paths.engine_graph(&ada), folder.join("graph_db"));
}

#[test]
fn the_newer_path_variable_wins_and_must_be_absolute() {
    let (graph, kuzu) = ("AMPLIHACK_GRAPH_DB_PATH", "AMPLIHACK_KUZU_DB_PATH");
    let path = |variables: &[(&str, &str)]| environment(variables).graph_path();
    assert_eq!(path(&[(graph, "/a"), (kuzu, "/b")]).unwrap().unwrap(), Path::new("/a"));
    assert_eq!(path(&[(graph, ""), (kuzu, "/b")]).unwrap().unwrap(), Path::new("/b"));
    assert_eq!(path(&[]).unwrap(), None);
    for bad in ["relative", "/a/../b", "/proc/x", "/sys", "/dev/null"] {
        assert_eq!(
            path(&[(graph, bad), (kuzu, "/b")]).unwrap_err().kind(),
            ErrorKind::InvalidArgument,
            "{bad}"
        );
    }
}

#[test]
fn the_graph_engine_is_refused_with_what_to_do() {
    assert!(BackendChoice::Sqlite.require_served().is_ok());
    let refused = BackendChoice::GraphDb.require_served().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.message().contains("import"));
}
