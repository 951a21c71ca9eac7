//! Detects changes outside the scope that a statement was given.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use memory_core::sql::{Rows, SqlValue};
use memory_core::{Error, Result};

/// Placed where no statement may read it.
pub(super) const SECRET: &str = "a-neighbour-s-secret-c41e7f";

/// Limits on the depth of folders and the number of files examined.
const MAX_DEPTH: usize = 4;
const MAX_FILES: usize = 100_000;
/// Only the beginning of a longer file is read.
const READ_BYTES: usize = 1 << 20;

/// A file's metadata and, for watched files, its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint {
    is_file: bool,
    /// The inode, which changes if the file is replaced. 0 on systems without inodes.
    inode: u64,
    /// Length, time and contents; `None` for folders and databases, which the runtime itself writes.
    contents: Option<(u64, Option<SystemTime>, Vec<u8>)>,
}

/// Everything watched, by path.
pub(super) type Snapshot = BTreeMap<PathBuf, Fingerprint>;

/// The places to watch.
#[derive(Debug)]
pub(super) struct Outside {
    /// The working directory while statements run, so that relative paths resolve here.
    canary: PathBuf,
    /// The folder of the scopes' databases.
    root: PathBuf,
}

impl Outside {
    /// Creates a folder of bait files and makes it the working directory.
    ///
    /// # Errors
    /// `unavailable` if the folder cannot be written or entered.
    pub(super) fn prepare(canary: &Path, root: PathBuf) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::unavailable(format!("the folder to watch cannot be prepared: {error}")).with_source(error)
        };
        std::fs::create_dir_all(canary).map_err(failed)?;
        std::fs::write(canary.join("canary.txt"), SECRET).map_err(failed)?;
        memory_sqlite::prepare_process();
        let bait = rusqlite::Connection::open(canary.join("canary.db")).and_then(|database| {
            database.execute_batch(&format!(
                "PRAGMA journal_mode=DELETE; CREATE TABLE secrets(s); INSERT INTO secrets VALUES('{SECRET}');"
            ))
        });
        bait.map_err(|error| {
            Error::unavailable("the database to watch cannot be created").with_source(error)
        })?;
        std::env::set_current_dir(canary).map_err(failed)?;
        Ok(Self { canary: canary.to_path_buf(), root })
    }

    /// Records the state of the working directory, the databases of other scopes, and the paths that the statement names.
    pub(super) fn snapshot(&self, own: &Path, named: &[PathBuf]) -> Snapshot {
        let mut snapshot = Snapshot::new();
        walk(&self.canary, 0, true, None, &mut snapshot);
        walk(&self.root, 0, false, Some(own), &mut snapshot);
        for path in named {
            if let Some(fingerprint) = fingerprint(path, true) {
                snapshot.insert(path.clone(), fingerprint);
            }
        }
        snapshot
    }

    /// The changes between two snapshots, as text. A file that appeared at a named path is removed, so
    /// that the next statement starts from the same state.
    pub(super) fn changes(&self, before: &Snapshot, after: &Snapshot, named: &[PathBuf]) -> Vec<String> {
        let mut changes = Vec::new();
        for (path, fingerprint) in after {
            match before.get(path) {
                None => {
                    changes.push(format!("{} appeared", path.display()));
                    if fingerprint.is_file && (named.contains(path) || path.starts_with(&self.canary)) {
                        let _ = std::fs::remove_file(path);
                    }
                }
                Some(was) if was != fingerprint => changes.push(format!("{} changed", path.display())),
                Some(_) => {}
            }
        }
        changes.extend(
            before
                .keys()
                .filter(|path| !after.contains_key(*path))
                .map(|path| format!("{} disappeared", path.display())),
        );
        changes
    }
}

fn walk(folder: &Path, depth: usize, contents: bool, own: Option<&Path>, snapshot: &mut Snapshot) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if snapshot.len() >= MAX_FILES || own == Some(path.as_path()) {
            continue;
        }
        // Readers and checkpoints create and remove the write-ahead log of an open database.
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if !contents && (name.ends_with("-wal") || name.ends_with("-shm")) {
            continue;
        }
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        // The folder above the scope's own is created with the tenant's first scope.
        let is_above = own.is_some_and(|own| own.starts_with(&path));
        if !is_above && let Some(fingerprint) = fingerprint(&path, contents && !is_folder) {
            snapshot.insert(path.clone(), fingerprint);
        }
        if is_folder && depth < MAX_DEPTH {
            walk(&path, depth + 1, contents, own, snapshot);
        }
    }
}

/// `None` if there is no such file.
fn fingerprint(path: &Path, contents: bool) -> Option<Fingerprint> {
    let about = std::fs::symlink_metadata(path).ok()?;
    let is_file = about.is_file();
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&about);
    #[cfg(not(unix))]
    let inode = 0;
    let contents = (contents && is_file).then(|| (about.len(), about.modified().ok(), beginning(path)));
    Some(Fingerprint { is_file, inode, contents })
}

fn beginning(path: &Path) -> Vec<u8> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    if let Ok(file) = std::fs::File::open(path) {
        let _ = file.take(READ_BYTES as u64).read_to_end(&mut bytes);
    }
    bytes
}

/// Files that a statement's texts could name, and the files that SQLite would put beside them. Virtual files
/// (`/proc`) change by themselves and are left out.
pub(super) fn named_paths(sql: &str, args: &[SqlValue]) -> Vec<PathBuf> {
    const MOST: usize = 64;
    const LONGEST: usize = 1_024;
    let mut texts: Vec<&str> = Vec::new();
    for quote in ['\'', '"', '`'] {
        texts.extend(sql.split(quote).filter(|text| text.len() <= LONGEST).take(4 * MOST));
    }
    texts.extend(args.iter().filter_map(|arg| match arg {
        SqlValue::Text(text) => Some(text.as_str()),
        _ => None,
    }));
    let mut paths = Vec::new();
    for text in texts {
        let path = text.trim().trim_start_matches("file:").trim_start_matches("//localhost");
        let path = path.split(['?', '#']).next().unwrap_or_default().replace("%2F", "/").replace("%2f", "/");
        let looks_like_one = path.contains('/') && !path.contains(['\0', '\n', ' ', '*', '(']);
        let made_up = ["/proc", "/sys", "/dev"].iter().any(|root| path.starts_with(root));
        if looks_like_one && !made_up && paths.len() < MOST {
            for beside in ["", "-journal", "-wal", "-shm"] {
                paths.push(PathBuf::from(format!("{path}{beside}")));
            }
        }
    }
    paths.sort();
    paths.dedup();
    paths
}

/// Whether rows contain the secret.
pub(super) fn shows_secret(rows: &Rows) -> bool {
    let holds = |bytes: &[u8]| bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
    rows.rows.iter().flatten().any(|value| match value {
        SqlValue::Text(text) => holds(text.as_bytes()),
        SqlValue::Blob(bytes) => holds(bytes),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_a_statement_names_are_found() {
        let found = |sql: &str| named_paths(sql, &[]);
        for (sql, path) in [
            ("ATTACH '/tmp/evil.db' AS x", "/tmp/evil.db"),
            ("ATTACH 'file:/tmp/evil.db?mode=rwc' AS x", "/tmp/evil.db"),
            ("ATTACH \"file://localhost/tmp/evil.db\" AS x", "/tmp/evil.db"),
            ("VACUUM INTO '../up.db'", "../up.db"),
            ("SELECT 'it''s', writefile('/tmp/w', 1)", "/tmp/w"),
        ] {
            assert!(found(sql).contains(&PathBuf::from(path)), "{sql}");
        }
        assert!(found("ATTACH 'file:/proc/self/environ' AS x; SELECT 1/2").is_empty());
        let args = [SqlValue::Text("/tmp/out.db".into())];
        assert!(named_paths("VACUUM INTO ?", &args).contains(&PathBuf::from("/tmp/out.db-wal")));
    }

    #[test]
    fn every_change_of_a_watched_file_is_reported_and_new_files_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (root, canary) = (folder.path().join("root"), folder.path().join("canary"));
        for place in [root.join("t/own"), root.join("t/other"), canary.clone()] {
            std::fs::create_dir_all(place).unwrap();
        }
        std::fs::write(canary.join("canary.txt"), "as it was").unwrap();
        std::fs::write(root.join("t/other/data.db"), "x").unwrap();
        let outside = Outside { canary: canary.clone(), root: root.clone() };
        let (own, named) = (root.join("t/own"), vec![folder.path().join("evil.db")]);
        let before = outside.snapshot(&own, &named);
        std::fs::write(own.join("data.db"), "one's own").unwrap();
        assert!(outside.changes(&before, &outside.snapshot(&own, &named), &named).is_empty());
        std::fs::write(&named[0], "").unwrap();
        std::fs::write(canary.join("canary.txt"), "otherwise").unwrap();
        std::fs::remove_file(root.join("t/other/data.db")).unwrap();
        let changes = outside.changes(&before, &outside.snapshot(&own, &named), &named).join(", ");
        for what in ["evil.db appeared", "canary.txt changed", "data.db disappeared"] {
            assert!(changes.contains(what), "{changes}");
        }
        assert!(!named[0].exists());
    }
}
