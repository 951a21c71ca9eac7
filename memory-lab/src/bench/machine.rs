//! The machine that is measured, and the folder and runtime of a benchmark.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use memory_core::{Error, Result};
use serde::Serialize;
use tempfile::TempDir;
use tokio::runtime::Runtime;

pub(super) fn io(doing: &str, error: std::io::Error) -> Error {
    Error::unavailable(format!("cannot {doing}: {error}")).with_source(error)
}

/// How long a store may take to close before its files are removed.
pub(super) const CLOSING: Duration = Duration::from_secs(60);

/// A folder for the benchmark's files, removed when the value is dropped: after the stores that were dropped before it are
/// closed, which may still write access counts.
pub(super) struct Folder(TempDir);

impl Folder {
    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = memory_sqlite::wait_until_closed(CLOSING);
    }
}

pub(super) fn folder(parent: PathBuf) -> Result<Folder> {
    let dir = tempfile::Builder::new().prefix("memory-bench-").tempdir_in(parent).map_err(|error| {
        io("create a folder for the benchmark's files; choose another place with --dir", error)
    })?;
    Ok(Folder(dir))
}

/// A runtime with two workers, and a flag that Ctrl-C sets.
pub(super) fn runtime() -> Result<(Runtime, Arc<AtomicBool>)> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| io("start a runtime", error))?;
    let stop = Arc::new(AtomicBool::new(false));
    let interrupted = Arc::clone(&stop);
    runtime.spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            interrupted.store(true, Ordering::Relaxed);
        }
    });
    Ok((runtime, stop))
}

/// An error once the user has stopped the run.
pub(super) fn goes_on(stop: &AtomicBool) -> Result<()> {
    if stop.load(Ordering::Relaxed) {
        return Err(Error::unavailable("stopped before the end; its files were removed"));
    }
    Ok(())
}

/// What is known about the machine.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Machine {
    pub(super) cores: usize,
    /// Model of the processor.
    pub(super) model: Option<String>,
    /// Type of the file system that holds the files.
    pub(super) file_system: Option<String>,
    /// If the data is on a server: its version and its durability settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<String>,
}

impl Machine {
    pub(super) fn of(dir: &Path) -> Self {
        let model = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        });
        let file_system = std::fs::read_to_string("/proc/self/mountinfo").ok().and_then(|mounts| {
            let dir = dir.canonicalize().ok()?;
            file_system(&mounts, &dir)
        });
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { cores, model, file_system, server: None }
    }

    /// This machine, with the data on a server.
    pub(super) fn with_server(server: String) -> Self {
        Self { file_system: None, server: Some(server), ..Self::of(Path::new("/")) }
    }

    /// Whether the file system is in memory, so that a sync does nothing.
    pub(super) fn is_in_memory(&self) -> bool {
        matches!(self.file_system.as_deref(), Some("tmpfs" | "ramfs"))
    }
}

/// Mean number of runnable processes over the last minute, if the system reports it.
pub(super) fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

/// Memory of this process that is in use, if the system reports it (Linux).
pub(super) fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = text.lines().find(|line| line.starts_with("Private_Dirty:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
}

/// Processor time of the threads that exist now, if the system reports it (Linux, in nanoseconds).
pub(super) fn cpu_time() -> Option<Duration> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?;
    let mut nanos = 0_u64;
    for thread in threads {
        // The file of a thread that has ended is gone; both sides lose its time alike.
        let Ok(text) = std::fs::read_to_string(thread.ok()?.path().join("schedstat")) else { continue };
        nanos += text.split_whitespace().next()?.parse::<u64>().ok()?;
    }
    Some(Duration::from_nanos(nanos))
}

/// The type of the file system mounted deepest above `dir`. Format of the list: proc_pid_mountinfo(5).
fn file_system(mounts: &str, dir: &Path) -> Option<String> {
    mounts
        .lines()
        .filter_map(|line| {
            let (mount, kind) = line.split_once(" - ")?;
            let point = mount.split(' ').nth(4)?;
            dir.starts_with(point).then_some((point.len(), kind.split(' ').next()?))
        })
        .max_by_key(|(length, _)| *length)
        .map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_mount_decides() {
        let mounts = "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                      30 22 0:25 / /dev/shm rw - tmpfs tmpfs rw\n\
                      31 22 0:26 / /data rw - xfs /dev/vdb rw\n";
        for (dir, kind) in
            [("/dev/shm/x", "tmpfs"), ("/dev/shmx", "ext4"), ("/data", "xfs"), ("/home", "ext4")]
        {
            assert_eq!(file_system(mounts, Path::new(dir)).as_deref(), Some(kind), "{dir}");
        }
    }
}
