//! `export`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use memory_core::RecordStream;
use serde::Serialize;
use tempfile::NamedTempFile;

use super::Context;
use crate::failure::{Exit, Failure};
use crate::import::{EXPORT_FORMAT, EXPORT_VERSION, Header};
use crate::output::Out;
use crate::progress::{Progress, Stop};

/// Options of `export`.
#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    /// The file to write, readable by its owner only; it appears when it is complete [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Serialize)]
struct Report {
    file: String,
    records: u64,
}

/// `memory export`.
pub(crate) async fn run(context: &Context, args: &ExportArgs, out: &mut Out) -> Result<Exit, Failure> {
    let opened = context.open().await?;
    let scope = opened.scope();
    let stream = opened.backend("export_scope")?.export_scope(scope).await?;
    let header =
        Header { format: EXPORT_FORMAT.to_owned(), version: EXPORT_VERSION, scope: Some(scope.clone()) };
    let stop = Stop::listen();
    let mut progress = Progress::new(context.is_quiet() || args.out.is_none());
    let Some(path) = &args.out else {
        out.document(&header)?;
        let written = copy(stream, &mut progress, &stop, |line| {
            let to = out.writer();
            to.write_all(line.as_bytes()).and_then(|()| to.write_all(b"\n")).map_err(Failure::Output)
        })
        .await?;
        return Ok(if written.is_some() { Exit::Ok } else { Exit::Interrupted });
    };
    let failed = |error| Failure::File(format!("{} cannot be written", path.display()), error);
    let mut file = io::BufWriter::new(temporary(path).map_err(failed)?);
    write_line(&mut file, &header).map_err(failed)?;
    let written = copy(stream, &mut progress, &stop, |line| {
        file.write_all(line.as_bytes()).and_then(|()| file.write_all(b"\n")).map_err(failed)
    })
    .await?;
    progress.finish();
    let Some(records) = written else {
        // The temporary file goes away with its handle.
        return Ok(Exit::Interrupted);
    };
    let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
    file.as_file().sync_all().map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    if out.is_json() {
        out.document(&Report { file: path.display().to_string(), records })?;
    } else {
        out.line(format!("{records} entries of {scope} written to {}", path.display()))?;
    }
    Ok(Exit::Ok)
}

/// A file of mode 0600 in the folder of `path`, so that it can be renamed over it.
fn temporary(path: &Path) -> io::Result<NamedTempFile> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if path.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder; name a file in it"));
    }
    tempfile::Builder::new().prefix(".memory-export-").tempfile_in(folder)
}

fn write_line(file: &mut impl Write, document: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *file, document)?;
    file.write_all(b"\n")
}

/// Hands every record on; how many they were, or `None` where the user asked to stop.
async fn copy(
    mut stream: RecordStream,
    progress: &mut Progress,
    stop: &Stop,
    mut write: impl FnMut(&str) -> Result<(), Failure> + Send,
) -> Result<Option<u64>, Failure> {
    let mut records = 0;
    while let Some(record) = std::future::poll_fn(|context| stream.as_mut().poll_next(context)).await {
        write(&record?.to_line()?)?;
        records += 1;
        if stop.is_asked() {
            return Ok(None);
        }
        progress.update(records, || format!("{records} entries"));
    }
    Ok(Some(records))
}
