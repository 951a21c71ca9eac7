//! Stores that the user may only read.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::json;

use crate::serve::client::Place;
use crate::support::user::{Ran, User};

/// A command run as a user to whom permissions apply.
fn bound(folder: &Path, arguments: &[&str]) -> Option<Ran> {
    let mut command = match fs::metadata(folder).unwrap().uid() {
        0 => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(crate::PROGRAM);
            command
        }
        _ => Command::new(crate::PROGRAM),
    };
    command.args(arguments).current_dir("/").env_clear().env("HOME", "/nonexistent");
    let Output { status, stdout, stderr } = match command.output() {
        Ok(output) if output.status.code() != Some(127) => output,
        _ => {
            println!(
                "skipped: permissions do not bind this user, and `setpriv` cannot run the program as another"
            );
            return None;
        }
    };
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Some(Ran { code: status.code(), stdout: text(stdout), stderr: text(stderr) })
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        folder.read_dir().unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_file_or_folder_that_may_only_be_read_is_read_and_left_as_it_is() {
    let user = User::new();
    let folder = user.home().join("a #1? b%20");
    fs::create_dir(&folder).unwrap();
    let file = folder.join("m.db");
    let url = format!("sqlite:{}/a %231%3F b%2520/m.db", user.home().display());
    user.ok(&["set", "tea", "\"oolong\"", "--url", &url]);
    allow(user.home(), 0o755);
    for (of_folder, of_file) in [(0o555, 0o444), (0o777, 0o444), (0o555, 0o666)] {
        allow(&folder, of_folder);
        allow(&file, of_file);
        let before = fs::read(&file).unwrap();
        let read = |arguments: &[&str]| bound(user.home(), &[arguments, &["--url", &url]].concat());
        let Some(got) = read(&["get", "tea"]) else { return };
        assert_eq!((got.code, got.stdout.as_str(), got.stderr.as_str()), (Some(0), "\"oolong\"\n", ""));
        for arguments in [
            &["list"][..],
            &["search", "oolong"],
            &["export"],
            &["scopes"],
            &["stats"],
            &["describe"],
            &["drift", "status"],
        ] {
            let ran = read(arguments).unwrap();
            assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{arguments:?}: {ran:?}");
        }
        let doctor = read(&["doctor", "--offline"]).unwrap();
        // Others may write to the last one.
        assert_eq!(doctor.code, Some(if of_file == 0o666 { 8 } else { 0 }), "{doctor:?}");
        assert!(doctor.stdout.contains("is read-only for you"), "{doctor:?}");
        assert!(doctor.stdout.contains("ok    integrity"), "{doctor:?}");
        assert!(read(&["list"]).unwrap().stdout.contains("oolong"));
        assert!(read(&["export"]).unwrap().stdout.contains("oolong"));
        assert!(read(&["search", "oolong"]).unwrap().stdout.contains("tea"));
        assert_eq!(read(&["get", "coffee"]).unwrap().code, Some(1));
        if of_folder == 0o555 || of_file == 0o444 {
            let refused = read(&["set", "tea", "1", "--json"]).unwrap();
            assert!(
                matches!(refused.code, Some(3 | 5)) && refused.stderr.contains("\"error\""),
                "{refused:?}"
            );
        }
        assert_eq!(names(&folder), ["m.db"], "{of_folder:o} {of_file:o}");
        assert_eq!(fs::read(&file).unwrap(), before);
    }
}

#[test]
fn a_log_is_read_with_the_writers_index_and_refused_without_one() {
    let place = Place::new();
    allow(place.path(), 0o755);
    let mut client = place.connect();
    client.ok(json!({"op": "set", "key": "k", "value": 1}));
    drop(client.close());
    allow(&place.database(), 0o644);
    let mut client = place.connect();
    client.ok(json!({"op": "set", "key": "k", "value": 2}));
    let url = format!("sqlite:{}", place.database().display());
    let get = |url: &str| bound(place.path(), &["get", "k", "--agent", "claude", "--url", url]);
    let Some(got) = get(&url) else { return };
    assert_eq!((got.code, got.stdout.as_str()), (Some(0), "2\n"), "{got:?}");
    let copy = place.path().join("copy");
    fs::create_dir(&copy).unwrap();
    for name in ["memory.db", "memory.db-wal"] {
        fs::copy(place.path().join(name), copy.join(name)).unwrap();
    }
    let refused = get(&format!("sqlite:{}", copy.join("memory.db").display())).unwrap();
    assert!(refused.code == Some(3) && refused.stderr.contains("-wal"), "{refused:?}");
    assert_eq!(names(&copy), ["memory.db", "memory.db-wal"]);
    drop(client.close());
}

/// Every file below a folder, with its content, and every folder.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    for path in folder.read_dir().unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            found.extend(tree(&path));
            found.insert(path, None);
        } else {
            let content = fs::read(&path).unwrap();
            found.insert(path, Some(content));
        }
    }
    found
}

#[test]
fn shared_state_graphs_and_tables_are_read_where_nothing_may_be_written() {
    let user = User::new();
    let folder = user.home().join("kept");
    fs::create_dir(&folder).unwrap();
    let url = format!("sqlite:{}/m.db", folder.display());
    for arguments in [
        &["note", "issue disk_full: no space left on the build host"][..],
        &["note", "the old outage is resolved"],
        &["promote"],
        &["graph", "remember", "the deploy fails", "--id", "d1", "--agent", "ada"],
        &["sql", "CREATE TABLE plan (day TEXT)"],
        &["sql", "INSERT INTO plan VALUES ('friday')"],
    ] {
        user.ok(&[arguments, &["--url", &url]].concat());
    }
    allow(user.home(), 0o755);
    for path in tree(&folder).into_keys() {
        allow(&path, if path.is_dir() { 0o555 } else { 0o444 });
    }
    allow(&folder, 0o555);
    let before = tree(&folder);
    let read = |arguments: &[&str]| bound(user.home(), &[arguments, &["--url", &url]].concat());
    for (arguments, said) in [
        (&["shared"][..], "disk_full"),
        (&["why", "disk_full"], "no space left"),
        (&["pending"], ""),
        (&["verify"], "1 event verified"),
        (&["graph", "show", "d1", "--agent", "ada"], "the deploy fails"),
        (&["graph", "tree"], "the deploy fails"),
        (&["graph", "stats", "--agent", "ada"], "1 semantic"),
        (&["graph", "recall", "deploy", "--agent", "ada"], "d1"),
        (&["graph", "export", "ada", "-"], "the deploy fails"),
        (&["graph", "backend"], "sqlite"),
        (&["sql", "SELECT day FROM plan"], "friday"),
    ] {
        let Some(ran) = read(arguments) else { return };
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        assert!(ran.stdout.contains(said), "{arguments:?}: {ran:?}");
    }
    assert_eq!(read(&["graph", "clean", "*"]).unwrap().code, Some(1), "there are no sessions");
    for arguments in [
        &["note", "task t: done"][..],
        &["promote"],
        &["rebuild"],
        &["graph", "remember", "more", "--agent", "ada"],
        &["sql", "INSERT INTO plan VALUES ('monday')"],
    ] {
        let refused = read(&[arguments, &["--json"]].concat()).unwrap();
        assert_eq!(refused.code, Some(3), "{arguments:?}: {refused:?}");
        assert!(refused.stderr.contains("\"read_only\""), "{arguments:?}: {refused:?}");
    }
    assert!(tree(&folder) == before);
}
