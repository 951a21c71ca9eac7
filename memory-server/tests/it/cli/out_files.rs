//! Files that commands write: `export --out`, `sql --dump` and `snapshot`.

use crate::support::user::User;

/// Each command that writes a file, without the file's name.
const WRITERS: [&[&str]; 3] = [&["export", "--out"], &["sql", "--dump"], &["snapshot"]];

fn with<'a>(writer: &[&'a str], name: &'a str) -> Vec<&'a str> {
    [writer, &[name]].concat()
}

/// A store `a.db` with an entry and a database.
fn filled() -> User {
    let user = User::new();
    user.ok(&["set", "tea", "1", "--url", "sqlite:a.db"]);
    user.ok(&["sql", "CREATE TABLE t (n INTEGER)", "--url", "sqlite:a.db"]);
    user
}

#[test]
fn an_existing_file_is_replaced_only_on_request() {
    let user = filled();
    for writer in WRITERS {
        user.file("kept", "precious");
        let error =
            user.refused(&[&with(writer, "kept")[..], &["--url", "sqlite:a.db"]].concat(), 4, "conflict");
        assert!(error["message"].as_str().unwrap().contains("--overwrite"), "{error}");
        assert_eq!(std::fs::read(user.home().join("kept")).unwrap(), b"precious");
        user.ok(&[&with(writer, "kept")[..], &["--overwrite", "--url", "sqlite:a.db"]].concat());
        assert_ne!(std::fs::read(user.home().join("kept")).unwrap(), b"precious");
    }
}

#[test]
#[cfg(unix)]
fn only_regular_files_are_ever_replaced() {
    let user = filled();
    user.file("target", "precious");
    std::os::unix::fs::symlink("target", user.home().join("link")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(user.home().join("pipe")).status().unwrap();
    assert!(made.success());
    std::fs::create_dir(user.home().join("folder")).unwrap();
    for writer in WRITERS {
        for name in ["link", "pipe", "folder"] {
            for overwrite in [&[][..], &["--overwrite"]] {
                let arguments = [&with(writer, name)[..], overwrite, &["--url", "sqlite:a.db"]].concat();
                user.refused(&arguments, 3, "invalid_argument");
            }
        }
    }
    assert!(user.home().join("link").symlink_metadata().unwrap().is_symlink());
    assert_eq!(std::fs::read(user.home().join("target")).unwrap(), b"precious");
}

#[test]
fn the_stores_own_files_are_never_replaced() {
    let user = filled();
    let elsewhere = user.home().join("elsewhere");
    #[cfg(unix)]
    std::os::unix::fs::symlink(user.home(), &elsewhere).unwrap();
    #[cfg(not(unix))]
    std::fs::create_dir(&elsewhere).unwrap();
    let mut names = vec!["a.db", "./a.db", "a.db-wal", "a.db-shm", "a.db.snapshots", "a.db.sql/new"];
    if cfg!(unix) {
        names.push("elsewhere/a.db");
    }
    for writer in WRITERS {
        for name in &names {
            for overwrite in [&[][..], &["--overwrite"]] {
                let arguments = [&with(writer, name)[..], overwrite, &["--url", "sqlite:a.db"]].concat();
                let error = user.refused(&arguments, 3, "invalid_argument");
                assert!(error["message"].as_str().unwrap().contains("own files"), "{name}: {error}");
            }
        }
    }
    assert_eq!(user.ok(&["get", "tea", "--url", "sqlite:a.db"]), "1\n");
}

#[test]
fn leftovers_of_a_killed_export_are_removed_by_the_next_one() {
    let user = filled();
    let left = user.file(".out.0123456789abcdef0123456789abcdef.part", "half");
    user.ok(&["export", "--out", "out", "--url", "sqlite:a.db"]);
    assert!(!left.exists());
    assert_eq!(user.ok(&["export", "--out", "-", "--url", "sqlite:a.db"]).lines().count(), 2);
    user.refused(&["export", "--out", "missing/out", "--url", "sqlite:a.db"], 74, "not_found");
}
