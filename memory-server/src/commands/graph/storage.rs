//! `--storage-path`: a folder with the original program's databases, in place of the store.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use memory::hierarchical::transfer::{Graph, Mode, import as import_graph, read_raw_db};
use memory::hierarchical::{self, Agent};
use memory_core::{Error, ErrorKind, Retry};

use super::transfer::{ExportArgs, ImportArgs, at, read, tell, write, write_database};
use crate::terminal::{Context, Exit, Failure, Out, create_private_folder};

/// Most bytes of an agent's name in a file name.
const MAX_NAME: usize = 255 - ".db.bak".len();

/// How often to check whether another import has ended, and the pause in between: ten minutes in all.
const LOCK_ATTEMPTS: u32 = 12_000;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// The database of an agent's graph in a folder.
fn database(folder: Option<&PathBuf>, agent: &Agent) -> Result<PathBuf, Failure> {
    let folder = folder.map_or_else(PathBuf::new, Clone::clone);
    if folder.exists() && !folder.is_dir() {
        return Err(Failure::invalid(format!(
            "{} is no folder; name the folder in which {agent}.db is",
            folder.display()
        )));
    }
    Ok(folder.join(format!("{agent}.db")))
}

pub(super) fn export(context: &Context, args: &ExportArgs, out: &mut Out) -> Result<Exit, Failure> {
    let agent = args.agent()?;
    let path = database(args.storage_path.as_ref(), &agent)?;
    let graph = read_raw_db(&path, &agent).map_err(|error| at(&path, error))?;
    let mut options = context.settings()?.file_options(true)?;
    options.own.extend(["", "-wal", "-shm", "-journal"].map(|ending| {
        let mut name = path.clone().into_os_string();
        name.push(ending);
        PathBuf::from(name)
    }));
    write(&agent, &graph, args, &options, out)
}

/// The agent's graph in the database that is about to be replaced. The database must hold nothing else.
fn there(path: &Path, agent: &Agent) -> Result<Graph, Failure> {
    if std::fs::symlink_metadata(path).is_err() {
        return Ok(Graph::default());
    }
    read_raw_db(path, agent).map_err(|error| match error.kind() {
        ErrorKind::Corrupt | ErrorKind::Unsupported => Error::new(
            ErrorKind::Conflict,
            format!(
                "{} is not a graph of `{agent}` alone, so it is not replaced: move it elsewhere, or name another folder",
                path.display()
            ),
        )
        .with_retry(Retry::Never)
        .with_source(error)
        .into(),
        _ => error.into(),
    })
}

/// The graphs are merged in an in-memory store, so that merging works as it does there.
pub(super) async fn import(context: &Context, args: &ImportArgs, out: &mut Out) -> Result<Exit, Failure> {
    let agent = args.agent()?;
    if agent.as_str().len() > MAX_NAME {
        return Err(Failure::invalid(format!(
            "the name of an agent whose database is in a folder has at most {MAX_NAME} bytes, so that AGENT.db.bak is a file's \
             name; leave --storage-path out"
        )));
    }
    let path = database(args.storage_path.as_ref(), &agent)?;
    let settings = context.settings()?;
    let graph = read(&agent, args)?;
    // Held from before the database is read until the new one is in place; otherwise another import would be lost.
    let _lock = match &args.storage_path {
        Some(folder) => {
            create_private_folder(folder)?;
            lock(folder).await?
        }
        None => None,
    };
    let memory = memory::open("sqlite::memory:").await?;
    let graphs = hierarchical::open(&memory, &settings.tenant).await?;
    let there = there(&path, &agent)?;
    if args.mode() == Mode::Merge {
        import_graph(&*graphs, &agent, there, Mode::Replace).await?;
    }
    let imported = import_graph(&*graphs, &agent, graph, args.mode()).await?;
    let graph = Graph::read(&*graphs, &agent).await?;
    write_database(&path, &agent, &graph, &settings.file_options(true)?)?;
    tell(&imported, args, out)
}

/// Waits for other imports into a folder. If folders cannot be opened as files, it does not wait.
async fn lock(folder: &Path) -> Result<Option<File>, Failure> {
    if cfg!(not(unix)) {
        return Ok(None);
    }
    let failed = |error| Failure::File(format!("{} cannot be locked", folder.display()), error);
    let file = File::open(folder).map_err(failed)?;
    for _ in 0..LOCK_ATTEMPTS {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_PAUSE).await,
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
    Err(Error::unavailable("another import into the folder takes too long; try again later").into())
}
