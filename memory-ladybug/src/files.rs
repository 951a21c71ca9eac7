//! Which file an agent's graph is in.

use std::fs::{self, File, OpenOptions};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use memory_core::{Error, ErrorKind, Result};
use memory_hierarchical::Agent;

/// How a file of the engine begins.
const MAGIC: &[u8; 4] = b"LBUG";
/// The name of a graph's file in the folder of its agent.
const GRAPH: &str = "graph_db";
/// Its older name.
const LEGACY: &str = "kuzu_db";
/// Most entries of a folder that are looked at.
const MAX_ENTRIES: usize = 10_000;

/// Where graphs are.
#[derive(Clone, Debug)]
pub(crate) struct Folders {
    /// Ours: `<agent>/graph_db`.
    pub(crate) own: PathBuf,
    /// The original program's, which are only read: `<agent>/graph_db`, `<agent>/kuzu_db`, or `<agent>` itself.
    pub(crate) original: Option<PathBuf>,
}

/// The file of an agent's graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Own(PathBuf),
    Original(PathBuf),
}

impl Folders {
    /// The agent's file: ours, else the original's.
    pub(crate) fn find(&self, agent: &Agent) -> Result<Option<Found>> {
        let own = self.own_file(agent);
        if is_there(&self.own, &own)? {
            return Ok(Some(Found::Own(own)));
        }
        let Some(root) = &self.original else { return Ok(None) };
        let folder = root.join(agent.as_str());
        if !is_there(root, &folder)? {
            return Ok(None);
        }
        if folder.is_file() {
            return Ok(Some(Found::Original(folder)));
        }
        for name in [GRAPH, LEGACY] {
            let path = folder.join(name);
            let is_empty = || fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_none());
            if is_there(root, &path)? && !is_empty() {
                return Ok(Some(Found::Original(path)));
            }
        }
        Ok(None)
    }

    pub(crate) fn own_file(&self, agent: &Agent) -> PathBuf {
        self.own.join(agent.as_str()).join(GRAPH)
    }

    /// Every agent that has a file, by name.
    pub(crate) fn agents(&self) -> Result<Vec<Agent>> {
        let mut agents = Vec::new();
        for root in [Some(&self.own), self.original.as_ref()].into_iter().flatten() {
            let Ok(entries) = fs::read_dir(root) else { continue };
            for entry in entries.take(MAX_ENTRIES).flatten() {
                if let Some(Ok(agent)) = entry.file_name().to_str().map(Agent::new)
                    && !entry.file_type().is_ok_and(|kind| kind.is_symlink())
                    && self.find(&agent)?.is_some()
                {
                    agents.push(agent);
                }
            }
        }
        agents.sort();
        agents.dedup();
        Ok(agents)
    }

    /// Creates the agent's file, empty: the engine makes it a graph. The folder and the file are the owner's only, so that what
    /// the engine puts beside the file is too.
    pub(crate) fn create(&self, agent: &Agent) -> Result<PathBuf> {
        let path = self.own_file(agent);
        let mut folders = fs::DirBuilder::new();
        folders.recursive(true);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
            folders.mode(0o700);
            options.mode(0o600);
        }
        let made = folders.create(self.own.join(agent.as_str())).and_then(|()| match options.open(&path) {
            // Another process was quicker.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            made => made.map(drop),
        });
        made.map_err(|error| {
            unread("the agent's graph cannot be created; check its folder and the disk", error)
        })?;
        Ok(path)
    }
}

pub(crate) fn unread(message: &'static str, error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, message).with_source(error)
}

/// Whether a file or folder is there; a symbolic link in the place of `root`, or on the way from there, is refused.
fn is_there(root: &Path, path: &Path) -> Result<bool> {
    let base = root.parent().unwrap_or(root);
    let Ok(rest) = path.strip_prefix(base) else { return Ok(false) };
    let mut at = base.to_owned();
    for part in rest.components() {
        at.push(part);
        match fs::symlink_metadata(&at) {
            Ok(metadata) if metadata.file_type().is_symlink() => {
                return Err(link());
            }
            Ok(_) => {}
            Err(_) => return Ok(false),
        }
    }
    Ok(true)
}

/// Whether an ordinary file, no symbolic link, begins as one of the engine's.
#[must_use]
pub fn is_engine_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file()) && begins_as_engine_file(path)
}

fn begins_as_engine_file(path: &Path) -> bool {
    let mut begin = [0; MAGIC.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok() && begin == *MAGIC
}

/// Refuses a symbolic link, which opening the file would follow.
pub(crate) fn refuse_link(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_symlink() => Err(link()),
        _ => Ok(()),
    }
}

fn link() -> Error {
    Error::invalid("the path of an agent's graph is a symbolic link; give the file itself")
}

/// Refuses what is no file of the engine, before the engine sees it. Not for a file that is open in this process: closing
/// it here would end the engine's lock on it.
pub(crate) fn check(path: &Path, may_be_empty: bool) -> Result<()> {
    let is_empty = || fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() == 0);
    if (may_be_empty && is_empty()) || is_engine_file(path) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Corrupt,
        "the agent's graph is no file of the graph engine; a folder of an older Kuzu must be exported by the program that wrote it",
    ))
}
