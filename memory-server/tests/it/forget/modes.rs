//! No file written by the store is more readable than the store.

#![cfg(unix)]

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::support::seed::files;

/// Files and folders that anyone but the owner may read, write or enter.
fn open_to_others(home: &std::path::Path) -> Vec<String> {
    fn walk(folder: &std::path::Path, found: &mut Vec<String>) {
        for item in std::fs::read_dir(folder).unwrap() {
            let path = item.unwrap().path();
            let mode = std::fs::symlink_metadata(&path).unwrap().permissions().mode();
            if mode & 0o077 != 0 {
                found.push(format!("{} {mode:o}", path.display()));
            }
            if path.is_dir() {
                walk(&path, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(home, &mut found);
    found
}

/// Runs the command in a shell with this umask.
fn masked(home: &std::path::Path, mask: &str, line: &str) {
    let script = format!("umask {mask}; exec \"$0\" {line}");
    let output = Command::new("sh")
        .args(["-c", &script, crate::PROGRAM])
        .current_dir(home)
        .env("HOME", home)
        .env_remove("MEMORY_URL")
        .env_remove("MEMORY_TENANT")
        .env_remove("MEMORY_CONFIG")
        .env_remove("XDG_DATA_HOME")
        .output()
        .unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn written_files_are_private_whatever_the_umask() {
    for mask in ["000", "022"] {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path();
        let config = "[backends.main]\nurl = \"sqlite:data/store.db\"\n[default]\nbackend = \"main\"\n\
             [audit]\nfile = \"data/audit.jsonl\"\n";
        std::fs::write(home.join("memory.toml"), config).unwrap();
        masked(home, mask, "set tea '\"oolong\"' --tenant acme --user ada");
        masked(home, mask, "set tea '\"oolong\"' --tenant acme --user ben");
        masked(home, mask, "sql --tenant acme --user ada 'CREATE TABLE t (a)'");
        masked(home, mask, "snapshot data/all.snapshot -q");
        masked(home, mask, "set tea '\"green\"' --tenant acme --user ada");
        masked(home, mask, "snapshot data/one.snapshot --tenant acme --user ada -q");
        masked(home, mask, "forget --yes --tenant acme --user ben -q");
        masked(home, mask, "restore data/all.snapshot --on-existing replace -q");
        let data = home.join("data");
        assert!(files(&data).len() >= 6, "{:?}", files(&data));
        assert_eq!(open_to_others(&data), Vec::<String>::new(), "umask {mask}");
    }
}
