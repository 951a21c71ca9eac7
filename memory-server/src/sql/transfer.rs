//! Whole databases: dump, restore, drop.

use std::io::{BufRead, BufReader, Read as _, Write};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use memory::snapshot::NewFile;
use memory_core::sql::{DumpStream, RestoreOptions, SqlFacet};
use memory_core::{Error, Result};
use serde::Serialize;

use crate::terminal::{Exit, Failure, Opened, Out, Stop, bytes, counted, note};

/// How many omissions of a dump are named.
const MAX_NAMED: usize = 100;
/// Longest line of a dump, in bytes.
const MAX_LINE: u64 = 1 << 30;

fn facet<'a>(opened: &'a Opened, operation: &str) -> Result<&'a dyn SqlFacet> {
    opened.memory.sql().ok_or_else(|| Error::unsupported(operation, opened.memory.name()))
}

/// Writes the database to standard output, or to a file that appears once it is complete.
pub(super) async fn dump(
    opened: &Opened,
    (path, overwrite): (&Path, bool),
    stop: Stop,
    out: &mut Out,
) -> std::result::Result<Exit, Failure> {
    #[derive(Serialize)]
    struct Report {
        file: String,
        bytes: u64,
        /// What a dump cannot contain.
        skipped: Vec<String>,
    }
    let stream = facet(opened, "dump")?.dump(opened.scope()).await?;
    if path == Path::new("-") {
        let Some((_, skipped)) = copy(stream, out.writer(), &stop).await? else {
            return Ok(Exit::Interrupted);
        };
        return Ok(told(&skipped));
    }
    let refused = |error| Failure::unwritten(path, error);
    let mut file = NewFile::begin(path, &opened.settings.file_options(overwrite)?).map_err(refused)?;
    let Some((written, skipped)) = copy(stream, &mut file, &stop).await? else {
        return Ok(Exit::Interrupted);
    };
    file.finish().map_err(refused)?;
    if out.is_json() {
        let file = path.display().to_string();
        out.document(&Report { file, bytes: written, skipped: skipped.clone() })?;
    } else {
        let scope = opened.scope();
        out.line(format!("the database of {scope} written to {}: {}", path.display(), bytes(written)))?;
    }
    Ok(told(&skipped))
}

/// Names what a dump does not contain.
fn told(skipped: &[String]) -> Exit {
    skipped.iter().for_each(|what| note(&format!("not in the dump: {what}")));
    if skipped.is_empty() { Exit::Ok } else { Exit::Partial }
}

/// What a line of a dump says it does not contain.
fn skipped_in(line: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Skipped {
        skipped: String,
    }
    line.starts_with(b"{\"skipped\":")
        .then(|| serde_json::from_slice::<Skipped>(line).ok())?
        .map(|line| line.skipped)
}

/// Writes every line. Returns how many bytes, and what is not contained, or `None` if interrupted.
async fn copy(
    mut stream: DumpStream,
    to: &mut (impl Write + Send + ?Sized),
    stop: &Stop,
) -> std::result::Result<Option<(u64, Vec<String>)>, Failure> {
    let (mut written, mut skipped) = (0_u64, Vec::new());
    while let Some(line) = std::future::poll_fn(|context| stream.as_mut().poll_next(context)).await {
        let mut line = line?;
        if skipped.len() < MAX_NAMED {
            skipped.extend(skipped_in(&line));
        }
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        to.write_all(&line).map_err(Failure::Output)?;
        written = written.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
        if stop.is_asked() {
            return Ok(None);
        }
    }
    to.flush().map_err(Failure::Output)?;
    Ok(Some((written, skipped)))
}

/// Opens a dump; `-` is standard input.
pub(super) fn reader(
    context: &crate::terminal::Context,
    path: &Path,
) -> std::result::Result<Box<dyn BufRead + Send>, Failure> {
    let failed = |error| Failure::File(format!("{} cannot be read", path.display()), error);
    Ok(if path == Path::new("-") {
        Box::new(BufReader::new(context.stdin()?))
    } else {
        Box::new(BufReader::new(std::fs::File::open(path).map_err(failed)?))
    })
}

/// Restores a dump into the scope, completely or not at all.
pub(super) async fn restore(
    opened: &Opened,
    reader: Box<dyn BufRead + Send>,
    options: RestoreOptions,
    out: &mut Out,
) -> std::result::Result<Exit, Failure> {
    let lines = Box::pin(Lines { reader, ended: false });
    let restored = facet(opened, "restore")?.restore(opened.scope(), lines, options).await?;
    if out.is_json() {
        out.document(&restored)?;
    } else {
        let (tables, rows) = (counted(restored.tables, "table"), counted(restored.rows, "row"));
        out.line(format!("{tables} and {rows} restored"))?;
        for skipped in &restored.skipped {
            out.line(format!("left out: {skipped}"))?;
        }
    }
    Ok(if restored.skipped.is_empty() { Exit::Ok } else { Exit::Partial })
}

/// Deletes the scope's database.
pub(super) async fn drop_database(opened: &Opened, out: &mut Out) -> std::result::Result<Exit, Failure> {
    #[derive(Serialize)]
    struct Report {
        dropped: bool,
    }
    let dropped = facet(opened, "drop_sql_scope")?.drop_sql_scope(opened.scope()).await?;
    if out.is_json() {
        out.document(&Report { dropped })?;
    } else if dropped {
        out.line(format!("the SQL database of {} was deleted", opened.scope()))?;
    } else {
        out.line(format!("{} had no SQL database", opened.scope()))?;
    }
    Ok(Exit::Ok)
}

/// Lines of a file, of limited length.
struct Lines {
    reader: Box<dyn BufRead + Send>,
    ended: bool,
}

impl Stream for Lines {
    type Item = Result<Vec<u8>>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let mut line = Vec::new();
        let read = (&mut self.reader).take(MAX_LINE).read_until(b'\n', &mut line);
        let item = match read {
            Ok(0) => None,
            Ok(_) if line.last() == Some(&b'\n') => {
                line.pop();
                Some(Ok(line))
            }
            Ok(read) if u64::try_from(read).is_ok_and(|read| read == MAX_LINE) => {
                Some(Err(Error::invalid("a line is too long for a dump; this is not one")))
            }
            Ok(_) => Some(Ok(line)),
            Err(error) => {
                Some(Err(Error::unavailable("the rest of the dump cannot be read").with_source(error)))
            }
        };
        self.ended = !matches!(item, Some(Ok(_)));
        Poll::Ready(item)
    }
}
