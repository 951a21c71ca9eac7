//! `export`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use memory::Access;
use memory::snapshot::NewFile;
use memory_core::RecordStream;
use serde_json::json;

use crate::import::{EXPORT_FORMAT, EXPORT_VERSION, Header};
use crate::terminal::{Context, Exit, Failure, Out, Progress, Stop, counted};

#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    /// The file to write, readable by its owner only; it appears once it is complete [default, and with `-`: standard output]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long, requires = "out")]
    overwrite: bool,
}

pub(crate) async fn run(context: &Context, args: &ExportArgs, out: &mut Out) -> Result<Exit, Failure> {
    let opened = context.open(Access::Read).await?;
    let scope = opened.scope();
    let stream = opened.backend("export_scope")?.export_scope(scope).await?;
    let header =
        Header { format: EXPORT_FORMAT.to_owned(), version: EXPORT_VERSION, scope: Some(scope.clone()) };
    let stop = context.stop();
    let path = args.out.as_deref().filter(|path| *path != Path::new("-"));
    let mut progress = Progress::new(context.is_quiet() || path.is_none());
    let Some(path) = path else {
        out.document(&header)?;
        let written = copy(stream, &mut progress, &stop, |line| {
            let to = out.writer();
            to.write_all(line.as_bytes()).and_then(|()| to.write_all(b"\n")).map_err(Failure::Output)
        })
        .await?;
        return Ok(if written.is_some() { Exit::Ok } else { Exit::Interrupted });
    };
    let failed = |error| Failure::File(format!("{} cannot be written", path.display()), error);
    let refused = |error| Failure::unwritten(path, error);
    let mut file = NewFile::begin(path, &opened.settings.file_options(args.overwrite)?).map_err(refused)?;
    serde_json::to_writer(&mut file, &header)
        .map_err(std::io::Error::from)
        .and_then(|()| file.write_all(b"\n"))
        .map_err(failed)?;
    let written = copy(stream, &mut progress, &stop, |line| {
        file.write_all(line.as_bytes()).and_then(|()| file.write_all(b"\n")).map_err(failed)
    })
    .await?;
    progress.finish();
    let Some(records) = written else {
        // Dropping the file removes it.
        return Ok(Exit::Interrupted);
    };
    file.finish().map_err(refused)?;
    let file = path.display().to_string();
    out.tell(&json!({ "file": file, "records": records }), |out| {
        out.line(format!("{} of {scope} written to {file}", counted(records, "entry")))
    })?;
    Ok(Exit::Ok)
}

/// Writes every record; returns their number, or `None` if interrupted.
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
        progress.update(records, || counted(records, "entry"));
    }
    Ok(Some(records))
}
