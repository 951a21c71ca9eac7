//! A temporary folder in memory: tests write thousands of small databases, and a disk costs a third of their processor time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, process};

/// A file system in memory, on Linux.
const MEMORY: &str = "/dev/shm";
const PREFIX: &str = "memory-tests-";
/// What must be free, in KiB. The tests use a fraction of it.
const FREE: u64 = 8 * 1024 * 1024;

/// Removed with the value.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// `None` where `TMPDIR` says which folder to use, or memory is short.
    pub(crate) fn prepare() -> Option<Self> {
        if std::env::var_os("TMPDIR").is_some() || !has_room() {
            return None;
        }
        sweep();
        let scratch = Self(Path::new(MEMORY).join(format!("{PREFIX}{}", std::process::id())));
        fs::create_dir(&scratch.0).ok()?;
        // Programs that tests write are run from there too.
        scratch.runs_programs().is_ok().then_some(scratch)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    #[cfg(unix)]
    fn runs_programs(&self) -> Result<()> {
        use std::os::unix::fs::PermissionsExt as _;

        let program = self.0.join("program");
        fs::write(&program, "#!/bin/sh\n")?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700))?;
        process::capture(&mut Command::new(&program))?;
        Ok(fs::remove_file(program)?)
    }

    #[cfg(not(unix))]
    fn runs_programs(&self) -> Result<()> {
        Err("only on Linux".into())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn has_room() -> bool {
    let df = process::capture(Command::new("df").args(["-Pk", MEMORY])).unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    free_of_df(&df) >= FREE && free_of_meminfo(&memory) >= FREE
}

/// The fourth column of the last line.
fn free_of_df(printed: &str) -> u64 {
    let line = printed.lines().last().unwrap_or_default();
    line.split_whitespace().nth(3).and_then(|column| column.parse().ok()).unwrap_or(0)
}

fn free_of_meminfo(file: &str) -> u64 {
    let line = file.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|column| column.parse().ok()).unwrap_or(0)
}

/// Removes what runs that were killed have left.
fn sweep() {
    for entry in fs::read_dir(MEMORY).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_free_is_read_from_what_the_system_prints() {
        let df = "Filesystem 1024-blocks Used Available Capacity Mounted on\ntmpfs 100 40 60 40% /dev/shm\n";
        assert_eq!((free_of_df(df), free_of_df("df: no such file")), (60, 0));
        assert_eq!((free_of_meminfo("MemTotal: 9 kB\nMemAvailable:  7 kB\n"), free_of_meminfo("")), (7, 0));
    }
}
