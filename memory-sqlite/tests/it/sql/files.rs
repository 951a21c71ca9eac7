//! Where databases are, who may read them, how they end, and how many of them one provider serves.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::support::files::{contents, folder};
use crate::support::sql::Sql;
use crate::support::{agent, fast, quiet};
use memory_core::{ErrorKind, Scope};
use memory_sqlite::SqliteConfig;
use tempfile::TempDir;

fn open() -> (TempDir, Sql) {
    open_with(fast())
}

fn open_with(config: SqliteConfig) -> (TempDir, Sql) {
    let folder = folder();
    let sql = Sql::open(&folder.path().join("memory.db"), config);
    (folder, sql)
}

fn root(folder: &TempDir) -> PathBuf {
    std::fs::canonicalize(folder.path()).unwrap().join("memory.db.sql")
}

/// The only folder of a scope below the root.
fn scope_folder(folder: &TempDir) -> PathBuf {
    let only = |path: &Path| {
        let mut folders: Vec<_> = std::fs::read_dir(path)
            .unwrap()
            .map(|item| item.unwrap().path())
            .filter(|path| path.is_dir())
            .collect();
        assert_eq!(folders.len(), 1, "{folders:?}");
        folders.remove(0)
    };
    only(&only(&root(folder)))
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn folders_and_files_are_private_and_named_by_digests() {
    let (folder, sql) = open();
    sql.exec("CREATE TABLE t (a)");
    let scope = scope_folder(&folder);
    assert_eq!(scope.file_name().unwrap().to_str().unwrap(), sql.scope.digest().to_hex());
    assert_eq!(scope.parent().unwrap().file_name().unwrap().len(), 32);
    for path in [root(&folder), scope.parent().unwrap().to_owned(), scope.clone()] {
        assert_eq!(mode(&path), 0o700, "{path:?}");
    }
    for name in ["scope.json", "data.db", "data.db-wal", "data.db-shm"] {
        assert_eq!(mode(&scope.join(name)), 0o600, "{name}");
    }
    let names = contents(&root(&folder));
    assert!(names.keys().all(|path| !path.to_string_lossy().contains("ada")), "{names:?}");
}

#[test]
fn no_symbolic_link_below_the_root_is_followed() {
    for level in 0..4 {
        let (folder, sql) = open();
        sql.exec("CREATE TABLE t (a)");
        sql.clone().close();
        let scope = scope_folder(&folder);
        let tenant = scope.parent().unwrap();
        let target = match level {
            0 => root(&folder),
            1 => tenant.to_owned(),
            2 => scope.clone(),
            _ => scope.join("data.db"),
        };
        let moved = folder.path().join("elsewhere");
        std::fs::rename(&target, &moved).unwrap();
        symlink(&moved, &target).unwrap();
        let before = contents(folder.path());
        let again = Sql::open(&folder.path().join("memory.db"), fast());
        if level == 0 {
            // The root itself is the operator's, and so is a link there.
            assert_eq!(again.tables(), ["t"]);
            continue;
        }
        assert!(again.try_exec("INSERT INTO t VALUES (1)").is_err(), "level {level}");
        assert!(again.try_query("SELECT * FROM t").is_err(), "level {level}");
        drop(again);
        let after = contents(folder.path());
        let of_scopes =
            |path: &&PathBuf| !path.to_string_lossy().contains("memory.db") && !path.ends_with(".lock");
        assert!(before.keys().filter(of_scopes).eq(after.keys().filter(of_scopes)), "level {level}");
    }
}

#[test]
fn a_folder_that_is_half_made_is_no_database() {
    let (folder, sql) = open();
    sql.exec("CREATE TABLE t (a)");
    sql.at(agent("bob")).exec("CREATE TABLE t (a)");
    let tenant = scope_folder_of(&folder, &sql.scope).parent().unwrap().to_owned();
    std::fs::create_dir(tenant.join("0".repeat(64))).unwrap();
    std::fs::create_dir(tenant.join("something")).unwrap();
    std::fs::write(tenant.join("stray"), "x").unwrap();
    let half = tenant.join(agent("carol").digest().to_hex());
    std::fs::create_dir(&half).unwrap();
    std::fs::write(half.join("data.db"), "").unwrap();
    assert_eq!(sql.scopes(), [agent("ada"), agent("bob")]);
    // A process killed while creating it is followed by one that creates it.
    sql.at(agent("carol")).exec("CREATE TABLE t (a)");
    assert_eq!(sql.scopes().len(), 3);
}

fn scope_folder_of(folder: &TempDir, scope: &Scope) -> PathBuf {
    let tenants = std::fs::read_dir(root(folder)).unwrap().map(|item| item.unwrap().path());
    tenants.map(|tenant| tenant.join(scope.digest().to_hex())).find(|path| path.exists()).unwrap()
}

#[test]
fn a_page_reads_no_folder_that_an_earlier_one_has_read() {
    let (folder, sql) = open();
    for name in ["a", "b"] {
        sql.at(agent(name)).exec("CREATE TABLE t (a)");
    }
    assert_eq!(sql.scopes(), [agent("a"), agent("b")]);
    std::fs::write(scope_folder_of(&folder, &agent("a")).join("scope.json"), "nothing of use").unwrap();
    assert_eq!(sql.scopes(), [agent("a"), agent("b")]);
    // Cached knowledge about a folder does not mean that it is still there.
    assert!(sql.at(agent("b")).drop_scope());
    assert_eq!(sql.scopes(), [agent("a")]);
    // A new provider notices what is wrong with it, and still lists the others.
    sql.at(agent("c")).exec("CREATE TABLE t (a)");
    let anew = Sql::open(&folder.path().join("memory.db"), quiet());
    assert_eq!(anew.scopes(), [agent("c")]);
}

#[test]
fn a_dropped_database_is_gone_and_the_next_statement_makes_a_new_one() {
    let (folder, sql) = open();
    sql.exec("CREATE TABLE t (a)");
    let tx = sql.begin();
    sql.exec_in(&tx, "INSERT INTO t VALUES (1)");
    assert!(sql.drop_scope());
    assert!(!sql.drop_scope());
    assert!(sql.tables().is_empty() && sql.scopes().is_empty() && sql.usage() == 0);
    let error = sql.commit(&tx).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TransactionLost);
    assert!(error.message().contains("dropped"), "{error}");
    let left: Vec<_> =
        contents(&root(&folder)).into_keys().filter(|path| path.ends_with("data.db")).collect();
    assert_eq!(left, Vec::<PathBuf>::new());
    sql.exec("CREATE TABLE u (a)");
    assert_eq!(sql.tables(), ["u"]);
}

#[test]
fn a_damaged_database_is_told_and_can_be_dropped() {
    let (folder, sql) = open();
    sql.exec("CREATE TABLE t (a)");
    sql.clone().close();
    let database = scope_folder(&folder).join("data.db");
    std::fs::write(
        &database,
        "this is no database at all, and long enough to be read as a header: ".repeat(80),
    )
    .unwrap();
    let _ = std::fs::remove_file(scope_folder(&folder).join("data.db-wal"));
    let again = Sql::open(&folder.path().join("memory.db"), fast());
    assert_eq!(again.try_query("SELECT 1").unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(again.try_exec("CREATE TABLE t (a)").unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(again.scopes(), std::slice::from_ref(&again.scope));
    again.drop_scope();
    again.exec("CREATE TABLE t (a)");
    assert_eq!(again.tables(), ["t"]);
}

#[test]
fn the_folder_of_a_database_in_memory_ends_with_it() {
    // Other tests have in-memory databases at the same time: this one's folder is the one with its scope.
    let scope = agent("the-folder-of-a-database-in-memory");
    let folder = || {
        let folders = std::fs::read_dir(std::env::temp_dir()).unwrap().map(|item| item.unwrap().path());
        let ours = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("memory-sqlite-");
        let tenants =
            |path: &PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten().collect::<Vec<_>>();
        let holds = |path: &PathBuf| {
            tenants(path).iter().any(|tenant| tenant.path().join(scope.digest().to_hex()).exists())
        };
        folders.filter(ours).find(holds)
    };
    let sql = Sql::in_memory(fast());
    sql.at(scope.clone()).exec("CREATE TABLE t (a)");
    let mine = folder().unwrap();
    drop(sql);
    assert!(!mine.exists(), "{mine:?}");
    assert_eq!(folder(), None);
}

#[test]
fn two_thousand_scopes_round_robin_stay_within_a_few_descriptors() {
    let mut config = fast();
    config.sql.max_descriptors = Some(48);
    let (_folder, sql) = open_with(config);
    let descriptors = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let before = descriptors();
    let mut most = 0;
    for round in 0..2 {
        for number in 0..2_000 {
            let at = sql.at(agent(&format!("agent-{number}")));
            if round == 0 {
                at.exec("CREATE TABLE t (a)");
            }
            at.exec(&format!("INSERT INTO t VALUES ({number})"));
            if number % 50 == 0 {
                most = most.max(descriptors());
            }
        }
    }
    println!("{before} descriptors before, at most {most} while 2,000 scopes are written in turn");
    // Other tests of this binary have some open too.
    assert!(most < before + 400, "{most}");
    for number in [0, 999, 1_999] {
        assert_eq!(sql.at(agent(&format!("agent-{number}"))).int("SELECT count(*) FROM t"), 2);
    }
}
