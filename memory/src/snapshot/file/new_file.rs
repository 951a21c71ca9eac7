//! A file that appears complete or not at all: a snapshot, an export, a dump.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use memory_core::{Error, Provider, Result};

use super::super::control::Control;
use super::super::write::{SnapshotOptions, SnapshotReport, write};
use super::ledger::{Ledger, LedgerEntry};
use super::place::{Draft, Place, unwritten};

/// Options for writing a file.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FileOptions {
    /// Replace an existing file.
    pub overwrite: bool,
    /// The ledger that records it, if any.
    pub ledger: Option<Ledger>,
    /// The store's own files and folders. Whatever the other options, the file must not be one of them or inside one.
    pub own: Vec<PathBuf>,
    /// Refuse an incomplete snapshot: the file then gets no name.
    pub(crate) is_whole: bool,
    /// Whether the ledger already knows the folder, so that it need not be recorded before the first byte is written.
    pub(crate) is_begun: bool,
}

impl FileOptions {
    memory_core::setters! {
        with_overwrite(overwrite: bool);
        with_ledger(ledger: Option<Ledger>);
        with_own(own: Vec<PathBuf>);
    }
}

/// A temporary file, readable only by its owner, that gets its name once it is complete and on disk
/// ([`finish`](Self::finish)). If dropped before that, it leaves nothing; what a killed process left is removed by the
/// next file with the same name.
///
/// # Behavior
/// - SNP-8: The file appears under its name once it is complete and on disk, readable by its owner only; an existing file is
///   replaced only on request.
pub struct NewFile {
    place: Place,
    overwrite: bool,
    own: Vec<PathBuf>,
    draft: Draft,
    out: BufWriter<File>,
}

impl NewFile {
    /// Creates the temporary file.
    ///
    /// # Errors
    /// `conflict` for an existing file that must not be replaced; `invalid_argument` for a folder, a link, a pipe or
    /// anything else that is not a file, and for a store's own files; `unavailable` if nothing can be written there.
    pub fn begin(path: &Path, options: &FileOptions) -> Result<Self> {
        let place = Place::of(path)?;
        place.check(options.overwrite, &options.own)?;
        place.clean()?;
        let (draft, file) = Draft::create(&place)?;
        let out = BufWriter::with_capacity(1 << 16, file);
        Ok(Self { place, overwrite: options.overwrite, own: options.own.clone(), draft, out })
    }

    fn sync(&mut self) -> Result<()> {
        self.out.flush().and_then(|()| self.out.get_ref().sync_all()).map_err(unwritten(&self.place.path))
    }

    /// Syncs it to disk and gives it its name.
    ///
    /// # Errors
    /// Those of [`begin`](Self::begin): a file that has appeared since is not overwritten unless requested.
    pub fn finish(mut self) -> Result<()> {
        self.sync()?;
        self.place.check(self.overwrite, &self.own)?;
        self.draft.name(&self.place)
    }
}

impl std::fmt::Debug for NewFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewFile").field("path", &self.place.path).finish_non_exhaustive()
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes a snapshot to a file, readable only by its owner, that gets its name once it is complete and on disk.
///
/// # Behavior
/// - SNP-8: The file appears under its name once it is complete and on disk, readable by its owner only.
/// - SNP-10: The ledger has a line for the file before the file gets its name.
/// - The content follows the rules of [`write()`].
///
/// # Errors
/// As [`NewFile`] and [`write()`].
pub async fn to_file(
    from: &dyn Provider,
    path: &Path,
    options: &SnapshotOptions,
    file_options: &FileOptions,
    control: &Control,
) -> Result<SnapshotReport> {
    let place = Place::of(path)?;
    place.check(file_options.overwrite, &file_options.own)?;
    let begun = file_options.ledger.as_ref().filter(|_| !file_options.is_begun);
    if let Some(ledger) = begun {
        // Lets a concurrent forget, or one after this process has died, know where to look.
        ledger.note(&LedgerEntry::begun(&place.absolute()?, options))?;
    }
    let written = to_place(from, path, options, file_options, control).await;
    if let (Some(ledger), Err(_)) = (begun, &written) {
        ledger.drop_begun(&place.absolute()?)?;
    }
    written
}

async fn to_place(
    from: &dyn Provider,
    path: &Path,
    options: &SnapshotOptions,
    file_options: &FileOptions,
    control: &Control,
) -> Result<SnapshotReport> {
    let mut file = NewFile::begin(path, file_options)?;
    let report = write(from, &mut file, options, control).await?;
    if file_options.is_whole && !report.is_complete() {
        return Err(Error::unavailable(
            "its snapshot would be incomplete; run `memory snapshot` on it to see what is left out",
        ));
    }
    file.sync()?;
    if let Some(ledger) = &file_options.ledger {
        ledger.note(&LedgerEntry::new(&file.place.absolute()?, &report, options))?;
    }
    file.finish()?;
    Ok(report)
}
