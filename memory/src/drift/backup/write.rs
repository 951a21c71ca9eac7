//! A scope as JSON, streamed.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use memory_core::{Backend, DriftToken, Error, Record, Result, Scope, Timestamp};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::super::blocking::run_blocking;
use super::error::io_error;
use super::file::Folder;
use super::format::{FORMAT, Occasion};
use crate::hex::hex;
use crate::stream::next;

const UNWRITTEN: &str = "a backup cannot be written";

/// The first line, without its closing part.
#[derive(Serialize)]
struct Header<'a> {
    format: &'a str,
    timestamp: Timestamp,
    generation_observed: Option<DriftToken>,
    generation_actual: Option<DriftToken>,
    generation_snapshot: DriftToken,
    scope: &'a Scope,
    #[serde(skip_serializing_if = "Option::is_none")]
    database: Option<&'a str>,
}

/// Removes a temporary file that was not renamed.
struct Unfinished(Option<PathBuf>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(path) = self.0.take() {
            drop(fs::remove_file(path));
        }
    }
}

/// A backup being written entry by entry.
struct Draft<W> {
    out: W,
    hash: Sha256,
    count: u64,
}

impl<W: Write> Draft<W> {
    fn begin(mut out: W, scope: &Scope, occasion: &Occasion) -> Result<Self> {
        out.write_all(header(scope, occasion, None)?.as_bytes()).map_err(io_error(UNWRITTEN))?;
        Ok(Self { out, hash: Sha256::new(), count: 0 })
    }

    fn add(&mut self, record: &Record) -> Result<()> {
        let mut line = if self.count == 0 { String::from("\n") } else { String::from(",\n") };
        line.push_str(&json(record)?);
        self.hash.update(line.as_bytes());
        self.count += 1;
        self.out.write_all(line.as_bytes()).map_err(io_error(UNWRITTEN))
    }

    fn end(mut self) -> Result<W> {
        let footer = footer(self.count, &hex(self.hash));
        self.out.write_all(footer.as_bytes()).map_err(io_error(UNWRITTEN))?;
        Ok(self.out)
    }
}

/// Writes a scope's entries.
pub(super) async fn write(
    backend: &dyn Backend,
    scope: &Scope,
    folder: &Folder,
    occasion: &Occasion,
) -> Result<PathBuf> {
    let (path, file) = folder.open_temporary()?;
    let mut unfinished = Unfinished(Some(path.clone()));
    let mut draft = Draft::begin(BufWriter::with_capacity(64 << 10, file), scope, occasion)?;
    let mut records = backend.export_scope(scope).await?;
    while let Some(record) = next(&mut records).await {
        draft.add(&record?)?;
    }
    let file = draft.end()?.into_inner().map_err(|error| io_error(UNWRITTEN)(error.into_error()))?;
    unfinished.0 = None;
    let (folder, at) = (folder.clone(), occasion.timestamp);
    run_blocking(move || {
        let _unfinished = Unfinished(Some(path.clone()));
        file.sync_all().map_err(io_error("a backup cannot be synced"))?;
        folder.publish(at, &[(&path, "json")], |_| Ok(()))
    })
    .await
}

/// The text of a backup that holds these entries.
pub(super) fn text_of(scope: &Scope, occasion: &Occasion, records: &[Record]) -> Result<Vec<u8>> {
    let mut draft = Draft::begin(Vec::new(), scope, occasion)?;
    for record in records {
        draft.add(record)?;
    }
    draft.end()
}

/// Writes the text for a database, and names both files.
#[cfg(feature = "sqlite")]
pub(super) fn publish_database(
    scope: &Scope,
    folder: &Folder,
    occasion: &Occasion,
    database: &std::path::Path,
    count: u64,
) -> Result<PathBuf> {
    let failed = io_error(UNWRITTEN);
    let mut hash = Sha256::new();
    std::io::copy(&mut fs::File::open(database).map_err(&failed)?, &mut Hashing(&mut hash))
        .map_err(&failed)?;
    let sum = hex(hash);
    let path = folder.temporary();
    let _unfinished = (Unfinished(Some(path.clone())), Unfinished(Some(database.to_owned())));
    folder.publish(occasion.timestamp, &[(database, "db"), (&path, "json")], |stem| {
        drop(fs::remove_file(&path));
        let mut file = crate::private::create_new(&path).map_err(&failed)?;
        let text = header(scope, occasion, Some(&format!("{stem}.db")))? + &footer(count, &sum);
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(&failed)
    })
}

fn header(scope: &Scope, occasion: &Occasion, database: Option<&str>) -> Result<String> {
    let Occasion { timestamp, observed, actual, snapshot } = *occasion;
    let mut line = json(&Header {
        format: FORMAT,
        timestamp,
        generation_observed: observed,
        generation_actual: actual,
        generation_snapshot: snapshot,
        scope,
        database,
    })?;
    line.pop();
    line.push_str(",\"entries\":[");
    Ok(line)
}

fn footer(count: u64, sha256: &str) -> String {
    format!("\n],\"count\":{count},\"sha256\":\"{sha256}\"}}\n")
}

fn json<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Error::internal("a backup could not be written as JSON").with_source(error))
}

/// A checksum as a writer.
#[cfg(feature = "sqlite")]
pub(super) struct Hashing<'a>(pub(super) &'a mut Sha256);

#[cfg(feature = "sqlite")]
impl Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
