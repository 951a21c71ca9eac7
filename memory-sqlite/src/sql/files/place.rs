//! The path of one scope's database.

use std::fs;
use std::io::ErrorKind as IoErrorKind;
use std::path::{Path, PathBuf};

use memory_core::Result;

use super::folders::strange;
use crate::error::file;
use crate::file::location::FileId;

pub(super) const DATABASE: &str = "data.db";

/// The paths of one scope's database, which need not exist.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    folder: PathBuf,
    database: PathBuf,
}

impl Place {
    pub(super) fn in_folder(folder: PathBuf) -> Self {
        Self { database: folder.join(DATABASE), folder }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn database(&self) -> &Path {
        &self.database
    }

    /// The identity of the file that now has this name.
    pub(crate) fn file(&self) -> Option<FileId> {
        FileId::of(&self.database)
    }

    /// Whether there is a file that may be a database. An empty file is not one yet.
    pub(crate) fn is_made(&self) -> Result<bool> {
        for folder in [self.folder.parent(), Some(self.folder.as_path())].into_iter().flatten() {
            match fs::symlink_metadata(folder) {
                Ok(found) if found.is_dir() => {}
                Ok(_) => return Err(strange("a folder of SQL databases")),
                Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(false),
                Err(error) if error.kind() == IoErrorKind::NotADirectory => {
                    return Err(strange("the folder of SQL databases"));
                }
                Err(error) => return Err(file(error)),
            }
        }
        match fs::symlink_metadata(&self.database) {
            Ok(found) if found.is_file() => Ok(found.len() > 0),
            Ok(_) => Err(strange("a scope's database file")),
            Err(error) if error.kind() == IoErrorKind::NotFound => Ok(false),
            Err(error) => Err(file(error)),
        }
    }

    /// Bytes of the database's file.
    pub(crate) fn file_bytes(&self) -> u64 {
        fs::symlink_metadata(&self.database).map_or(0, |found| found.len())
    }

    /// Bytes of the database on disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.file_bytes().saturating_add(self.log_bytes())
    }

    /// Whether anything was ever committed, judged by size: a new database has one page.
    pub(crate) fn seems_written(&self) -> Result<bool> {
        Ok(self.is_made()? && (self.file_bytes() > 4_096 || self.log_bytes() > 0))
    }

    /// Whether there is anything to remove.
    pub(crate) fn is_there(&self) -> Result<bool> {
        self.is_made()?;
        Ok(fs::symlink_metadata(&self.folder).is_ok())
    }

    /// Bytes of the write-ahead log.
    pub(crate) fn log_bytes(&self) -> u64 {
        let mut log = self.database.as_os_str().to_owned();
        log.push("-wal");
        fs::symlink_metadata(PathBuf::from(log)).map_or(0, |log| log.len())
    }
}
