//! `graph export`, `graph import`, `graph migrate` and `graph clean`.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use memory::hierarchical::migrate::Source;
use memory::hierarchical::transfer::{
    Graph, MAX_BYTES, Mode, Tables, read_json, read_raw_db, write_json, write_raw_db,
};
use memory::hierarchical::{self, Agent};
use memory::snapshot::NewFile;
use memory::system::SystemClock;
use memory_core::{Clock as _, Error};
use serde_json::json;

use super::Graphs;
use crate::terminal::{Exit, Failure, Out, bytes, note, word};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// JSON of format 1.1
    Json,
    /// A database file of the original's layout
    #[value(alias = "kuzu")]
    RawDb,
}

#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    /// Whose graph
    #[arg(value_name = "AGENT")]
    of: String,
    /// The file to write, readable by its owner only; one that exists is replaced, a database is kept as FILE.bak
    file: PathBuf,
    /// How
    #[arg(long, value_enum, default_value = "json")]
    format: Format,
}

pub(super) async fn export(graphs: &Graphs, args: &ExportArgs, out: &mut Out) -> Result<Exit, Failure> {
    let agent = Agent::new(&args.of)?;
    let graph = Graph::read(&*graphs.graphs, &agent).await?;
    let options = graphs.opened.settings.file_options(true)?;
    let refused = |error| Failure::unwritten(&args.file, error);
    let mut file = NewFile::begin(&args.file, &options).map_err(refused)?;
    let size = match args.format {
        Format::Json => write_json(&agent, &graph, SystemClock.now(), &mut file)?,
        Format::RawDb => {
            let database = write_raw_db(&agent, &graph)?;
            file.write_all(&database).map_err(|error| unwritten(&args.file, error))?;
            keep(graphs, &args.file)?;
            u64::try_from(database.len()).unwrap_or(u64::MAX)
        }
    };
    file.finish().map_err(refused)?;
    let path = args.file.display().to_string();
    let counts = graph.counts();
    let format = if args.format == Format::Json { "json" } else { "raw-db" };
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

fn unwritten(path: &Path, error: std::io::Error) -> Failure {
    Failure::File(format!("{} cannot be written", path.display()), error)
}

/// Copies the database that is about to be replaced to `FILE.bak`.
fn keep(graphs: &Graphs, path: &Path) -> Result<(), Failure> {
    if std::fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".bak");
    let kept = PathBuf::from(name);
    let refused = |error| Failure::unwritten(&kept, error);
    let mut file = NewFile::begin(&kept, &graphs.opened.settings.file_options(true)?).map_err(refused)?;
    File::open(path)
        .and_then(|mut from| std::io::copy(&mut from, &mut file))
        .map_err(|error| unwritten(&kept, error))?;
    file.finish().map_err(refused)
}

#[derive(Args, Debug)]
pub(crate) struct ImportArgs {
    /// Whose graph it becomes, whatever the file says
    #[arg(value_name = "AGENT")]
    of: String,
    /// The file to read
    file: PathBuf,
    /// What it is
    #[arg(long, value_enum, default_value = "json")]
    format: Format,
    /// Keep the graph that is there, and add what it does not have
    #[arg(long)]
    merge: bool,
}

pub(super) async fn import(graphs: &Graphs, args: &ImportArgs, out: &mut Out) -> Result<Exit, Failure> {
    let agent = Agent::new(&args.of)?;
    let graph = match args.format {
        Format::RawDb if args.merge => {
            return Err(Failure::invalid("a database file cannot be merged; export it as JSON for --merge"));
        }
        Format::RawDb => read_raw_db(&args.file, &agent)?,
        Format::Json => {
            let mut file = File::open(&args.file)
                .map_err(|error| Failure::File(format!("{} cannot be read", args.file.display()), error))?;
            read_json(&mut file, MAX_BYTES)?.graph
        }
    };
    let mode = if args.merge { Mode::Merge } else { Mode::Replace };
    let imported = hierarchical::transfer::import(&*graphs.graphs, &agent, graph, mode).await?;
    out.tell(&imported, |out| {
        let rows = imported
            .tables
            .named()
            .map(|(table, rows)| [table.to_owned(), rows.imported.to_string(), rows.skipped.to_string()]);
        out.table(["TABLE", "IMPORTED", "SKIPPED"], &rows)
    })?;
    Ok(Exit::Ok)
}

#[derive(Args, Debug)]
pub(crate) struct MigrateArgs {
    /// The database; it is only read. What its layout is, its columns tell
    path: PathBuf,
    /// Take this agent's rows only [default: of a graph, the agent that the file is named after; else all]
    #[arg(long = "only", value_name = "AGENT")]
    only: Option<String>,
}

pub(super) async fn migrate(graphs: &Graphs, args: &MigrateArgs, out: &mut Out) -> Result<Exit, Failure> {
    let only = args.only.as_ref().map(Agent::new).transpose()?;
    let source = source(&args.path, only.as_ref()).await?;
    let opened = &graphs.opened;
    let sessions = hierarchical::sessions(&opened.memory, &opened.settings.tenant).await?;
    let migrated = source.store(&*graphs.target()?, &sessions).await?;
    out.tell(&migrated, |out| {
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
            let what = format!("of {} refused: {}", refusal.table, word(&refusal.why));
            out.named(&what, refusal.count, &refusal.first, Clone::clone)
        })
    })?;
    let is_empty = migrated.tables.iter().all(|table| table.stored + table.skipped == 0);
    if args.only.is_none()
        && is_empty
        && migrated.refusals.iter().any(|refusal| word(&refusal.why) == "foreign")
    {
        note(
            "memory: the file holds nothing of the agent that it is named after; `--only AGENT` takes another's rows",
        );
    }
    Ok(if migrated.refused() == 0 { Exit::Ok } else { Exit::Partial })
}

/// Reads a database; which kind of file it is, its first bytes tell.
async fn source(path: &Path, only: Option<&Agent>) -> memory_core::Result<Source> {
    #[cfg(feature = "ladybug")]
    if hierarchical::ladybug::is_engine_file(path) {
        return hierarchical::ladybug::read_source(path, only).await;
    }
    Source::read(path, only)
}

#[derive(Args, Debug)]
pub(crate) struct CleanArgs {
    /// The ids of sessions: `*` stands for any characters, `?` for one
    pattern: String,
    /// Remove them; without it they are only listed
    #[arg(long)]
    yes: bool,
}

pub(super) async fn clean(graphs: &Graphs, args: &CleanArgs, out: &mut Out) -> Result<Exit, Failure> {
    if args.pattern.is_empty() {
        return Err(Error::invalid("the pattern is empty; `*` names every session").into());
    }
    let opened = &graphs.opened;
    let sessions = hierarchical::sessions(&opened.memory, &opened.settings.tenant).await?;
    let mut found = sessions.list().await?;
    let pattern: Vec<char> = args.pattern.chars().collect();
    found.retain(|session| matches(&pattern, &session.session_id));
    let ids: Vec<String> = found.iter().map(|session| session.session_id.clone()).collect();
    let removed = if args.yes { sessions.remove(&ids).await? } else { 0 };
    let report = json!({ "dry_run": !args.yes, "sessions": found, "removed": removed });
    out.tell(&report, |out| {
        for session in &found {
            out.line(format!("{}: {} entries", session.session_id, session.entries))?;
        }
        match args.yes {
            true => out.line(format!("{removed} sessions removed")),
            false => out.line(format!("{} sessions would be removed; give --yes", found.len())),
        }
    })?;
    Ok(if found.is_empty() { Exit::Nothing } else { Exit::Ok })
}

/// Whether a text has this pattern, in time that grows with their product.
fn matches(pattern: &[char], text: &str) -> bool {
    let mut reached = vec![false; pattern.len() + 1];
    let star = |reached: &mut [bool]| {
        let mut before = false;
        for (index, at) in reached.iter_mut().enumerate() {
            let follows_star = index.checked_sub(1).and_then(|index| pattern.get(index)) == Some(&'*');
            *at = *at || (before && follows_star);
            before = *at;
        }
    };
    if let Some(first) = reached.first_mut() {
        *first = true;
    }
    star(&mut reached);
    for character in text.chars() {
        let mut next = vec![false; reached.len()];
        for (index, wanted) in pattern.iter().enumerate() {
            if reached.get(index) != Some(&true) {
                continue;
            }
            let place = if *wanted == '*' { index } else { index + 1 };
            if (matches!(*wanted, '*' | '?') || *wanted == character)
                && let Some(at) = next.get_mut(place)
            {
                *at = true;
            }
        }
        star(&mut next);
        reached = next;
    }
    reached.last() == Some(&true)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_pattern_names_whole_ids() {
        for (pattern, text, is) in [
            ("test_*", "test_1", true),
            ("test_*", "a test_1", false),
            ("*", "", true),
            ("", "a", false),
            ("s?ss-*a", "sess-alpha", true),
            ("s?ss-*a", "sess-beta-", false),
            ("*a*b*", "xxaxxbxx", true),
            ("[a]", "a", false),
        ] {
            assert_eq!(matches(&pattern.chars().collect::<Vec<_>>(), text), is, "{pattern} {text}");
        }
    }
}
