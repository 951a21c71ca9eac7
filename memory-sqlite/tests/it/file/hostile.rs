//! Files are checked before they are touched: opening succeeds, or fails with a typed error and the same bytes as
//! before.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::embedders::Directions;
use crate::support::files::{beside, contents, folder, integrity, place, raw};
use crate::support::{Store, TestClock, fast, skip};
use memory_conformance::random::Random;
use memory_core::{Error, ErrorKind, Result};

/// A closed database of ours with some hundred entries, which is one file.
fn database(path: &Path) {
    let store = open(path).unwrap();
    store.bulk((0..300).map(|n| (format!("entry/{n:03}"), word(n)))).unwrap();
    store.close();
    assert!(!beside(path, "-wal").exists(), "a closed database is one file");
}

fn open(path: &Path) -> Result<Store> {
    Store::embedding(Some(path), fast(), TestClock::new(), Arc::new(Directions::new(16)))
}

fn word(n: usize) -> String {
    format!("\"word{n} {}\"", "x".repeat(n % 97 * 8))
}

/// Opens what must be refused, and checks that the message says what to do and nothing changed.
fn refused(path: &Path) -> Error {
    refused_with(path, Duration::from_millis(200))
}

fn refused_with(path: &Path, patience: Duration) -> Error {
    let folder = path.parent().unwrap();
    let before = contents(folder);
    let began = Instant::now();
    let error = Store::open(path, fast().with_busy_timeout(patience)).unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(30), "refusing took {:?}", began.elapsed());
    let after = contents(folder);
    assert!(before.keys().eq(after.keys()), "files came or went: {:?} → {:?}", before.keys(), after.keys());
    assert!(before == after, "refusing changed a file");
    assert_ne!(error.kind(), ErrorKind::Internal, "{error:?}");
    assert!(error.message().contains(';'), "the message does not say what to do: {error}");
    error
}

/// Opens a file that may be usable. If it opens, every read succeeds or fails with a typed error.
fn survives(path: &Path, what: &str) -> bool {
    let before = fs::read(path).unwrap();
    let store = match open(path) {
        Ok(store) => store,
        Err(error) => {
            assert_ne!(error.kind(), ErrorKind::Internal, "{what}: {error:?}");
            assert_eq!(fs::read(path).unwrap(), before, "{what}: refused and changed");
            assert!(!beside(path, "-wal").exists() && !beside(path, "-shm").exists(), "{what}: files left");
            return false;
        }
    };
    let typed = |error: Error| assert_ne!(error.kind(), ErrorKind::Internal, "{what}: {error:?}");
    for n in (0..300).step_by(7) {
        store.entry(&format!("entry/{n:03}")).map(drop).unwrap_or_else(typed);
    }
    store.keys("").map(drop).unwrap_or_else(typed);
    store.find("word7").map(drop).unwrap_or_else(typed);
    store.near("word7", 20).map(drop).unwrap_or_else(typed);
    store.try_set("entry/new", "1").map(drop).unwrap_or_else(typed);
    store.delete("entry/007").map(drop).unwrap_or_else(typed);
    true
}

#[test]
fn random_bytes_are_refused() {
    let folder = folder();
    let mut random = Random::named("random bytes");
    for length in [1, 15, 16, 99, 100, 101, 511, 512, 4_096, 65_537] {
        let path = folder.path().join("memory.db");
        let bytes: Vec<u8> = (0..length).map(|_| random.bits().to_le_bytes()[0]).collect();
        fs::write(&path, bytes).unwrap();
        assert_eq!(refused(&path).kind(), ErrorKind::Corrupt, "{length} bytes");
    }
}

#[test]
fn a_valid_header_before_garbage_is_refused() {
    let (folder, path) = place();
    database(&path);
    let mut random = Random::named("garbage");
    for kept in [100, 108, 512, 1_000] {
        let mut bytes = fs::read(&path).unwrap();
        for byte in bytes.iter_mut().skip(kept) {
            *byte = random.bits().to_le_bytes()[0];
        }
        let broken = folder.path().join(format!("broken{kept}.db"));
        fs::write(&broken, bytes).unwrap();
        assert_eq!(refused(&broken).kind(), ErrorKind::Corrupt, "{kept} bytes kept");
    }
}

#[test]
fn a_file_cut_off_anywhere_is_refused_or_read_as_far_as_it_goes() {
    let (folder, path) = place();
    database(&path);
    let bytes = fs::read(&path).unwrap();
    let page = 4_096;
    let boundaries = (1..bytes.len() / page).map(|n| n * page);
    let inside =
        (0..bytes.len() / page).flat_map(|n| [n * page + 1, n * page + page / 2, n * page + page - 1]);
    let mut opened = 0;
    for length in boundaries.chain(inside).filter(|length| *length < bytes.len()) {
        let cut = folder.path().join(format!("cut{length}.db"));
        fs::write(&cut, &bytes[..length]).unwrap();
        if survives(&cut, &format!("cut off at {length} of {}", bytes.len())) {
            opened += 1;
        } else {
            fs::remove_file(&cut).unwrap();
        }
    }
    assert!(opened <= 3, "{opened} files opened though whole pages are missing");
}

#[test]
fn a_damaged_byte_anywhere_ends_in_an_answer_or_a_typed_error() {
    let (folder, path) = place();
    database(&path);
    let bytes = fs::read(&path).unwrap();
    let mut random = Random::named("damage");
    for round in 0..100 {
        let mut damaged = bytes.clone();
        // Prefer the headers of pages, which matter most.
        let at = match round % 3 {
            0 => random.index(100),
            1 => random.index(bytes.len() / 4_096) * 4_096 + random.index(16),
            _ => random.index(bytes.len()),
        };
        damaged[at] ^= 1 << random.below(8);
        let file = folder.path().join(format!("damaged{round}.db"));
        fs::write(&file, damaged).unwrap();
        survives(&file, &format!("byte {at} damaged"));
    }
}

#[test]
fn an_empty_file_becomes_a_database() {
    let (_folder, path) = place();
    fs::write(&path, b"").unwrap();
    let store = Store::open(&path, fast()).unwrap();
    store.set("a", "1");
    store.close();
    assert_eq!(Store::open(&path, fast()).unwrap().text("a").as_deref(), Some("1"));
}

#[test]
fn a_folder_is_refused() {
    let (_folder, path) = place();
    fs::create_dir(&path).unwrap();
    assert_eq!(refused(&path).kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_path_that_names_no_file_is_refused() {
    for path in ["", "/", ".", "..", "a/.."] {
        let error = Store::open(Path::new(path), fast()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{path:?}: {error}");
    }
    let error = Store::open(Path::new("with\0nul"), fast()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(error.retry(), memory_core::Retry::Never);
}

#[test]
fn a_path_through_a_file_is_refused() {
    let folder = folder();
    fs::write(folder.path().join("file"), b"text").unwrap();
    let before = contents(folder.path());
    let error = Store::open(&folder.path().join("file/memory.db"), fast()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(contents(folder.path()), before);
}

#[test]
fn missing_folders_are_created() {
    let folder = folder();
    let path = folder.path().join("one/two/three/memory.db");
    let store = Store::open(&path, fast()).unwrap();
    store.set("a", "1");
    store.close();
    assert!(path.is_file());
}

#[test]
fn names_that_mean_something_to_sqlite_are_just_names() {
    let folder = folder();
    for name in ["file:x?mode=memory", ":memory:", "x?cache=shared", "a%20b.db", "naïve.db", "new\nline", " "]
    {
        let path = folder.path().join(name);
        let store = Store::open(&path, fast()).unwrap_or_else(|error| panic!("{name:?}: {error}"));
        store.set("name", "1");
        store.close();
        assert!(path.is_file(), "{name:?} is not the file's name");
        assert_eq!(Store::open(&path, fast()).unwrap().text("name").as_deref(), Some("1"), "{name:?}");
    }
}

#[test]
fn another_programs_database_is_refused() {
    let folder = folder();
    for (name, sql) in [
        ("application.db", "PRAGMA application_id = 252006674; CREATE TABLE t (a); INSERT INTO t VALUES (1)"),
        ("plain.db", "CREATE TABLE t (a); INSERT INTO t VALUES (1)"),
        ("wal.db", "PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1)"),
        ("no_tables.db", "PRAGMA user_version = 3; CREATE TABLE t (a); DROP TABLE t"),
        ("version_zero.db", "PRAGMA application_id = 1298492737; CREATE TABLE t (a)"),
        (
            "version_below.db",
            "PRAGMA application_id = 1298492737; PRAGMA user_version = -1; CREATE TABLE t (a)",
        ),
    ] {
        let path = folder.path().join(name);
        crate::support::files::raw_or_new(&path).execute_batch(sql).unwrap();
        assert_eq!(refused(&path).kind(), ErrorKind::Corrupt, "{name}");
    }
}

#[test]
fn a_newer_database_is_refused_and_the_versions_are_named() {
    let (_folder, path) = place();
    database(&path);
    let known = raw(&path).query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0)).unwrap();
    for newer in [known + 1, known + 1_000, i64::from(i32::MAX)] {
        raw(&path).execute_batch(&format!("PRAGMA user_version = {newer}")).unwrap();
        let error = refused(&path);
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert_eq!(error.details().get("file_version"), Some(&newer.into()));
        assert_eq!(error.details().get("supported_version"), Some(&known.into()));
        assert!(error.message().contains("newer"), "{error}");
    }
    raw(&path).execute_batch(&format!("PRAGMA user_version = {known}")).unwrap();
    assert_eq!(Store::open(&path, fast()).unwrap().text("entry/007"), Some(word(7)));
}

#[test]
fn a_database_with_a_schema_that_is_not_ours_is_refused() {
    let folder = folder();
    for (name, sql) in [
        ("trigger", "CREATE TRIGGER spy AFTER INSERT ON entry BEGIN DELETE FROM entry; END"),
        ("view", "CREATE VIEW v AS SELECT * FROM entry"),
        ("table", "CREATE TABLE extra (a)"),
        ("index", "CREATE INDEX extra ON entry (size)"),
        ("missing", "DROP TABLE garbage"),
        ("column", "ALTER TABLE scope ADD COLUMN extra INTEGER"),
    ] {
        let path = folder.path().join(format!("{name}.db"));
        database(&path);
        raw(&path).execute_batch(sql).unwrap();
        assert_eq!(refused(&path).kind(), ErrorKind::Corrupt, "{name}");
    }
}

#[test]
fn a_log_of_garbage_beside_the_database_changes_no_result() {
    let (_folder, path) = place();
    database(&path);
    let mut random = Random::named("log");
    fs::write(beside(&path, "-wal"), (0..50_000).map(|_| random.bits().to_le_bytes()[0]).collect::<Vec<_>>())
        .unwrap();
    fs::write(beside(&path, "-shm"), vec![0x5a; 32_768]).unwrap();
    let store = Store::open(&path, fast()).unwrap();
    for n in 0..300 {
        assert_eq!(store.text(&format!("entry/{n:03}")), Some(word(n)));
    }
    store.set("after", "1");
    store.close();
    assert_eq!(integrity(&path), "ok");
}

#[test]
fn a_journal_beside_another_programs_database_is_not_played_back() {
    let folder = folder();
    let (path, hot) = (folder.path().join("other.db"), folder.path().join("hot.db"));
    let other = crate::support::files::raw_or_new(&path);
    other.execute_batch("PRAGMA application_id = 7; CREATE TABLE t (a); PRAGMA cache_size = 1").unwrap();
    other
        .execute_batch(
            "BEGIN; INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50) \
             SELECT randomblob(3000) FROM n",
        )
        .unwrap();
    // As a crash leaves them: the file with half a transaction, and the journal to roll it back.
    fs::copy(&path, &hot).unwrap();
    fs::copy(beside(&path, "-journal"), beside(&hot, "-journal")).unwrap();
    assert_eq!(refused(&hot).kind(), ErrorKind::Corrupt);
}

#[test]
fn a_database_locked_by_another_connection_is_refused_in_time_and_opens_after() {
    let (_folder, path) = place();
    database(&path);
    let other = raw(&path);
    other
        .execute_batch(
            "PRAGMA journal_mode = DELETE; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT",
        )
        .unwrap();
    let error = refused_with(&path, Duration::from_millis(300));
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.retry().is_retryable());
    drop(other);
    assert_eq!(Store::open(&path, fast()).unwrap().text("entry/007"), Some(word(7)));
}

/// Writes to a file without a name are lost with the process, so health must report it.
#[cfg(unix)]
#[test]
fn health_reports_a_database_deleted_or_replaced_while_open() {
    use memory_core::{HealthStatus, Provider as _};

    let (folder, path) = place();
    let store = Store::open(&path, fast()).unwrap();
    let status = || crate::support::block_on(store.kv.health()).unwrap().status;
    assert_eq!(status(), HealthStatus::Ok);
    fs::rename(&path, folder.path().join("elsewhere.db")).unwrap();
    assert_eq!(status(), HealthStatus::Down);
    fs::write(&path, b"").unwrap();
    assert_eq!(status(), HealthStatus::Down);
    fs::rename(folder.path().join("elsewhere.db"), &path).unwrap();
    assert_eq!(status(), HealthStatus::Ok);
}

#[test]
fn health_reports_a_file_that_is_overwritten_while_open() {
    use memory_core::{HealthStatus, Provider as _};

    let (_folder, path) = place();
    database(&path);
    let store = Store::open(&path, fast()).unwrap();
    let status = || crate::support::block_on(store.kv.health()).unwrap().status;
    assert_eq!(status(), HealthStatus::Ok);
    let whole = fs::read(&path).unwrap();
    let mut damaged = whole.clone();
    damaged[4_096..].fill(0xff);
    fs::write(&path, damaged).unwrap();
    assert_eq!(store.entry("entry/007").unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(status(), HealthStatus::Down);
    fs::write(&path, whole).unwrap();
    assert_eq!(status(), HealthStatus::Ok);
}

#[cfg(unix)]
mod unix {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use super::*;
    use crate::support::child::{self, Child};

    #[test]
    fn a_symbolic_link_is_refused_whatever_it_points_to() {
        let folder = folder();
        let target = folder.path().join("target.db");
        database(&target);
        let link = folder.path().join("link.db");
        symlink(&target, &link).unwrap();
        assert_eq!(refused(&link).kind(), ErrorKind::InvalidArgument);
        let dangling = folder.path().join("dangling.db");
        symlink(folder.path().join("nothing"), &dangling).unwrap();
        assert_eq!(refused(&dangling).kind(), ErrorKind::InvalidArgument);
    }

    #[test]
    fn a_folder_reached_through_a_link_is_an_ordinary_folder() {
        let folder = folder();
        fs::create_dir(folder.path().join("real")).unwrap();
        symlink(folder.path().join("real"), folder.path().join("link")).unwrap();
        let store = Store::open(&folder.path().join("link/memory.db"), fast()).unwrap();
        store.set("a", "1");
        store.close();
        assert!(folder.path().join("real/memory.db").is_file());
    }

    #[test]
    fn a_name_that_is_not_unicode_is_just_a_name() {
        let folder = folder();
        let path = folder.path().join(OsStr::from_bytes(b"\xff\xfe.db"));
        match Store::open(&path, fast()) {
            Ok(store) => {
                store.set("a", "1");
                store.close();
                assert!(path.is_file());
            }
            // Some file systems refuse such names.
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}"),
        }
    }

    #[test]
    fn a_pipe_is_refused_at_once() {
        let folder = folder();
        let path = folder.path().join("pipe");
        if !Command::new("mkfifo").arg(&path).status().is_ok_and(|status| status.success()) {
            return skip("a_pipe_is_refused_at_once", "mkfifo cannot be run");
        }
        assert_eq!(refused(&path).kind(), ErrorKind::InvalidArgument);
    }

    /// The superuser may write read-only files, so in that case the attempt is made by another user.
    fn open_as_a_user(test: &str, folder: &Path, path: &Path) -> Option<String> {
        let mut command = child::command(test, "open");
        command.env("DATABASE", path);
        let probe = folder.join("probe");
        fs::write(&probe, b"").unwrap();
        fs::set_permissions(&probe, fs::Permissions::from_mode(0o400)).unwrap();
        if fs::OpenOptions::new().write(true).open(&probe).is_ok() {
            const NOBODY: u32 = 65_534;
            command.uid(NOBODY).gid(NOBODY);
            for path in [folder, path] {
                chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
            let mut check = Command::new("test");
            check.arg("-x").arg(std::env::current_exe().unwrap()).uid(NOBODY).gid(NOBODY);
            if !check.status().is_ok_and(|status| status.success()) {
                skip(test, "the test runs as the superuser, and an ordinary user cannot reach its binary");
                return None;
            }
        }
        fs::remove_file(&probe).unwrap();
        let mut said = Child::start(&mut command).finish();
        assert_eq!(said.len(), 1, "{said:?}");
        said.pop()
    }

    fn open_and_tell() {
        let path = child::given("DATABASE");
        match Store::open(Path::new(&path), fast()) {
            Ok(_) => child::say("opened"),
            Err(error) => child::say(error.kind().code()),
        }
    }

    #[test]
    fn a_file_that_may_not_be_written_or_not_even_read_is_refused() {
        if child::role().is_some() {
            return open_and_tell();
        }
        for (mode, refusal) in [(0o400, "read_only"), (0o000, "unavailable")] {
            let (folder, path) = place();
            database(&path);
            let before = fs::read(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let Some(answer) = open_as_a_user(child::this_test!(), folder.path(), &path) else { return };
            assert_eq!(answer, refusal);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            let after = contents(folder.path());
            assert!(after.len() == 1 && after[&path] == before, "refusing changed a file");
        }
    }

    #[test]
    fn a_database_in_a_read_only_folder_is_refused() {
        if child::role().is_some() {
            return open_and_tell();
        }
        let folder = folder();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let path = inner.join("memory.db");
        database(&path);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o500)).unwrap();
        let before = contents(folder.path());
        let test = child::this_test!();
        chown_tree(&inner);
        if let Some(answer) = open_as_a_user(test, folder.path(), &path) {
            assert!(["read_only", "unavailable"].contains(&answer.as_str()), "{answer}");
            assert_eq!(contents(folder.path()), before);
        }
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o700)).unwrap();
    }

    /// If the superuser runs the tests, the other user must be able to enter.
    fn chown_tree(folder: &Path) {
        let _ = chown(folder, Some(65_534), Some(65_534));
    }
}
