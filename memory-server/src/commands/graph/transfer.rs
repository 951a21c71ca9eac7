//! `graph export`, `graph import` and `graph migrate`.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use memory::hierarchical::backend::Paths;
use memory::hierarchical::migrate::{Migrated, Source};
use memory::hierarchical::transfer::{
    Graph, Imported, MAX_BYTES, Mode, Tables, Why, hold_raw_db, read_json, read_raw_db_rows, write_json,
    write_raw_db,
};
use memory::hierarchical::{self, Agent};
use memory::snapshot::{FileOptions, NewFile};
use memory::system::SystemClock;
use memory_core::{Clock as _, Error, ErrorKind};
use serde_json::json;

use super::{Graphs, environment, hinted, originals};
use crate::terminal::{Exit, Failure, Out, bytes, note, word};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// JSON of format 1.1
    Json,
    /// A database file of the original's layout
    #[value(alias = "kuzu")]
    RawDb,
}

impl Format {
    const fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::RawDb => "raw-db",
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    /// Whose graph
    #[arg(value_name = "AGENT")]
    of: String,
    /// The file to write, readable by its owner only; one that exists is replaced, a database is kept as FILE.bak (`-`:
    /// standard output, of JSON)
    file: PathBuf,
    /// How
    #[arg(long, value_enum, default_value = "json")]
    format: Format,
    /// A folder with the original's databases: AGENT.db there is read, and not the store
    #[arg(long, value_name = "FOLDER")]
    pub(super) storage_path: Option<PathBuf>,
}

impl ExportArgs {
    pub(super) fn agent(&self) -> memory_core::Result<Agent> {
        Agent::new(&self.of)
    }
}

pub(super) async fn export(graphs: &Graphs, args: &ExportArgs, out: &mut Out) -> Result<Exit, Failure> {
    let agent = args.agent()?;
    let has_other = || originals().contains(&agent);
    let graph = Graph::read(&*graphs.graphs, &agent).await.map_err(|error| hinted(error, has_other))?;
    write(&agent, &graph, args, &graphs.opened.settings.file_options(true)?, out)
}

/// Writes a graph to the file.
pub(super) fn write(
    agent: &Agent,
    graph: &Graph,
    args: &ExportArgs,
    options: &FileOptions,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let refused = |error| Failure::unwritten(&args.file, error);
    let is_stream = args.file == Path::new("-");
    let size = match args.format {
        Format::Json if is_stream => {
            write_json(agent, graph, SystemClock.now(), out.writer())?;
            return Ok(Exit::Ok);
        }
        Format::RawDb if is_stream => {
            return Err(Failure::invalid("a database is written to a file; `-` is for JSON"));
        }
        Format::Json => {
            let mut file = NewFile::begin(&args.file, options).map_err(refused)?;
            let size = write_json(agent, graph, SystemClock.now(), &mut file)?;
            file.finish().map_err(refused)?;
            size
        }
        Format::RawDb => write_database(&args.file, agent, graph, options)?,
    };
    let path = args.file.display().to_string();
    let counts = graph.counts();
    let format = args.format.name();
    let report =
        json!({ "agent": agent, "format": format, "file": path, "bytes": size, "statistics": counts });
    out.tell(&report, |out| {
        out.line(format!("the graph of {agent} written to {path}: {}", bytes(size)))?;
        Tables::<u64>::from(counts)
            .named()
            .into_iter()
            .try_for_each(|(table, count)| out.line(format!("  {table}: {count}")))
    })?;
    Ok(Exit::Ok)
}

fn unreadable(path: &Path, error: std::io::Error) -> Failure {
    Failure::File(format!("{} cannot be read", path.display()), error)
}

fn unwritten(path: &Path, error: std::io::Error) -> Failure {
    Failure::File(format!("{} cannot be written", path.display()), error)
}

/// Writes a graph as a database and keeps the previous one. Returns its size.
pub(super) fn write_database(
    path: &Path,
    agent: &Agent,
    graph: &Graph,
    options: &FileOptions,
) -> Result<u64, Failure> {
    let refused = |error| Failure::unwritten(path, error);
    let mut file = NewFile::begin(path, options).map_err(refused)?;
    let database = write_raw_db(agent, graph)?;
    file.write_all(&database).map_err(|error| unwritten(path, error))?;
    let held = hold_raw_db(path)?;
    let kept = keep(path, options)?;
    file.finish().map_err(refused)?;
    // Closing the files releases their locks.
    drop((kept, held));
    Ok(u64::try_from(database.len()).unwrap_or(u64::MAX))
}

/// Copies the database that is about to be replaced to `FILE.bak`. Returns the original, opened.
fn keep(path: &Path, options: &FileOptions) -> Result<Option<File>, Failure> {
    if std::fs::symlink_metadata(path).is_err() {
        return Ok(None);
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".bak");
    let kept = PathBuf::from(name);
    let refused = |error| Failure::unwritten(&kept, error);
    let mut file = NewFile::begin(&kept, options).map_err(refused)?;
    let mut from = File::open(path).map_err(|error| unreadable(path, error))?;
    std::io::copy(&mut from, &mut file).map_err(|error| unwritten(&kept, error))?;
    file.finish().map_err(refused)?;
    Ok(Some(from))
}

#[derive(Args, Debug)]
pub(crate) struct ImportArgs {
    /// Whose graph it becomes, whatever the file says
    #[arg(value_name = "AGENT")]
    of: String,
    /// The file to read (`-`: standard input, of JSON)
    file: PathBuf,
    /// What it is
    #[arg(long, value_enum, default_value = "json")]
    format: Format,
    /// Keep the graph that is there, and add what it does not have
    #[arg(long)]
    merge: bool,
    /// A folder with the original's databases: AGENT.db there is written, and not the store. The one that is there is kept as
    /// AGENT.db.bak
    #[arg(long, value_name = "FOLDER")]
    pub(super) storage_path: Option<PathBuf>,
}

impl ImportArgs {
    pub(super) fn agent(&self) -> memory_core::Result<Agent> {
        Agent::new(&self.of)
    }

    pub(super) const fn mode(&self) -> Mode {
        if self.merge { Mode::Merge } else { Mode::Replace }
    }
}

/// Reads the file.
pub(super) fn read(agent: &Agent, args: &ImportArgs) -> Result<Graph, Failure> {
    Ok(match args.format {
        Format::RawDb if args.merge => {
            return Err(Failure::invalid("a database file cannot be merged; export it as JSON for --merge"));
        }
        Format::RawDb if args.file == Path::new("-") => {
            return Err(Failure::invalid("a database is read from a file; `-` is for JSON"));
        }
        Format::RawDb => read_raw_db_rows(&args.file, agent).map_err(|error| at(&args.file, error))?,
        Format::Json if args.file == Path::new("-") => {
            read_json(&mut std::io::stdin().lock(), MAX_BYTES)?.graph
        }
        Format::Json => {
            let mut file = File::open(&args.file).map_err(|error| unreadable(&args.file, error))?;
            if file.metadata().is_ok_and(|found| found.is_dir()) {
                return Err(unreadable(&args.file, std::io::ErrorKind::IsADirectory.into()));
            }
            if is_database(&mut file) {
                return Err(Failure::invalid(format!(
                    "{} is a SQLite database; add --format raw-db",
                    args.file.display()
                )));
            }
            read_json(&mut file, MAX_BYTES)?.graph
        }
    })
}

/// Whether a file starts like SQLite's. Anything but a regular file is not read.
fn is_database(file: &mut File) -> bool {
    let mut beginning = [0; 16];
    let is_file = file.metadata().is_ok_and(|found| found.is_file());
    let is_database =
        is_file && file.read_exact(&mut beginning).is_ok() && beginning == *b"SQLite format 3\0";
    is_file && file.rewind().is_ok() && is_database
}

/// Adds the name of a missing file to its error.
pub(super) fn at(path: &Path, error: Error) -> Error {
    if error.kind() != ErrorKind::NotFound {
        return error;
    }
    Error::not_found(format!("{} is not there; check the path", path.display()))
}

pub(super) async fn import(graphs: &Graphs, args: &ImportArgs, out: &mut Out) -> Result<Exit, Failure> {
    let agent = args.agent()?;
    let graph = read(&agent, args)?;
    tell(&hierarchical::transfer::import(&*graphs.graphs, &agent, graph, args.mode()).await?, args, out)
}

/// Reports what an import did.
pub(super) fn tell(imported: &Imported, args: &ImportArgs, out: &mut Out) -> Result<Exit, Failure> {
    #[derive(serde::Serialize)]
    struct Report<'a> {
        format: &'static str,
        file: String,
        /// `None` if it has no size, like a pipe.
        bytes: Option<u64>,
        #[serde(flatten)]
        imported: &'a Imported,
    }
    let found = std::fs::metadata(&args.file).ok().filter(std::fs::Metadata::is_file);
    let report = Report {
        format: args.format.name(),
        file: args.file.display().to_string(),
        bytes: found.map(|file| file.len()),
        imported,
    };
    let refused = imported.tables.named().iter().map(|(_, rows)| rows.errors).sum();
    out.tell(&report, |out| {
        let rows = imported.tables.named().map(|(table, rows)| {
            [table.to_owned(), rows.imported.to_string(), rows.skipped.to_string(), rows.errors.to_string()]
        });
        out.table(["TABLE", "IMPORTED", "SKIPPED", "REFUSED"], &rows)?;
        let what = "refused, since the graph has others with these ids";
        out.named(what, refused, &imported.taken, Clone::clone)
    })?;
    Ok(if refused == 0 { Exit::Ok } else { Exit::Partial })
}

#[derive(Args, Debug)]
pub(crate) struct MigrateArgs {
    /// The database; it is only read. What its layout is, its columns tell [default: all of ~/.amplihack]
    path: Option<PathBuf>,
    /// The folder with the databases of graphs, in place of ~/.amplihack
    #[arg(long, value_name = "FOLDER", conflicts_with = "path")]
    storage_path: Option<PathBuf>,
    /// Take this agent's rows only [default: of a graph, the agent that the file is named after; else all]
    #[arg(long = "only", value_name = "AGENT")]
    only: Option<String>,
}

pub(super) async fn migrate(graphs: &Graphs, args: &MigrateArgs, out: &mut Out) -> Result<Exit, Failure> {
    let only = args.only.as_ref().map(Agent::new).transpose()?;
    let opened = &graphs.opened;
    let sessions = hierarchical::sessions(&opened.memory, &opened.settings.tenant).await?;
    if let Some(path) = &args.path {
        let read = source(path, only.as_ref()).await.map_err(|error| at(path, error))?;
        let migrated = read.store(&*graphs.target()?, &sessions).await?;
        out.tell(&migrated, |out| lines(&migrated, out))?;
        hint(&[&migrated], only.as_ref());
        return Ok(exit(&[&migrated]));
    }
    // A problem in one file does not keep the others from being migrated.
    let mut all = Vec::new();
    for path in Paths::of(&environment())?.installation(args.storage_path.as_deref())? {
        let failed = |error: Error| {
            let message = format!("{}: {}", path.display(), error.message());
            error.retold(message)
        };
        let migrated = match source(&path, only.as_ref()).await {
            Ok(source) => Ok(source.store(&*graphs.target()?, &sessions).await.map_err(failed)?),
            Err(error) => Err(error),
        };
        all.push((path, migrated));
    }
    let reports: Vec<&Migrated> = all.iter().filter_map(|(_, migrated)| migrated.as_ref().ok()).collect();
    let told = |(path, migrated): &(PathBuf, Result<Migrated, Error>)| match migrated {
        Ok(migrated) => json!({ "path": path, "migrated": migrated }),
        Err(error) => {
            json!({ "path": path, "error": { "code": error.kind().code(), "message": error.message() } })
        }
    };
    let document: Vec<_> = all.iter().map(told).collect();
    out.tell(&document, |out| {
        all.iter().try_for_each(|(path, migrated)| match migrated {
            Ok(migrated) => {
                out.line(path.display().to_string())?;
                lines(migrated, out)
            }
            Err(error) => out.line(format!("{}: nothing taken over: {}", path.display(), error.message())),
        })
    })?;
    hint(&reports, only.as_ref());
    Ok(if reports.len() < all.len() { Exit::Partial } else { exit(&reports) })
}

/// What became of one database's rows.
fn lines(migrated: &Migrated, out: &mut Out) -> Result<(), Failure> {
    let numbers = |table: &hierarchical::migrate::TableReport| {
        [
            table.table.to_owned(),
            table.rows.to_string(),
            table.stored.to_string(),
            table.skipped.to_string(),
            table.refused.to_string(),
        ]
    };
    let rows: Vec<[String; 5]> = migrated.tables.iter().map(numbers).collect();
    out.table(["TABLE", "ROWS", "STORED", "SKIPPED", "REFUSED"], &rows)?;
    migrated.refusals.iter().try_for_each(|refusal| {
        let what = format!("of {} refused: {}{}", refusal.table, word(&refusal.why), meaning(refusal.why));
        out.named(&what, refusal.count, &refusal.first, Clone::clone)
    })
}

/// What a reason for a refusal means.
const fn meaning(why: Why) -> &'static str {
    match why {
        Why::Foreign => " (of another agent)",
        Why::Orphan => " (its memory or session is missing)",
        Why::Repeated => " (an earlier row joins the same memories or is the same learning, and is kept)",
        Why::Circle => " (of a cycle of memories that supersede each other)",
        Why::Taken => " (its id belongs to another memory or entry)",
        _ => "",
    }
}

/// Says how to take over another agent's rows, if a file has nothing else.
fn hint(all: &[&Migrated], only: Option<&Agent>) {
    let has_others_alone = |migrated: &&Migrated| {
        migrated.tables.iter().all(|table| table.stored + table.skipped == 0)
            && migrated.refusals.iter().any(|refusal| word(&refusal.why) == "foreign")
    };
    if only.is_none() && all.iter().any(has_others_alone) {
        note(
            "memory: the file holds nothing of the agent that it is named after; `--only AGENT` takes another's rows",
        );
    }
}

fn exit(all: &[&Migrated]) -> Exit {
    if all.iter().all(|migrated| migrated.refused() == 0) { Exit::Ok } else { Exit::Partial }
}

/// Reads a database. Its first bytes tell its kind.
async fn source(path: &Path, only: Option<&Agent>) -> memory_core::Result<Source> {
    #[cfg(feature = "ladybug")]
    if hierarchical::ladybug::is_engine_file(path) {
        return hierarchical::ladybug::read_source(path, only).await;
    }
    Source::read(path, only)
}
