//! The files that a `memory.toml` names. A file that something writes must not serve another purpose.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use memory_core::{Error, Result};

use super::Config;
use super::sections::file::FallbackWrites;
use crate::url::BackendUrl;

impl Config {
    /// The file of `[audit]`.
    #[must_use]
    pub fn audit_file(&self) -> Option<PathBuf> {
        self.file().audit.file.as_ref().map(|file| self.beside(file))
    }

    fn beside(&self, file: &Path) -> PathBuf {
        self.origin().parent().unwrap_or_else(|| Path::new("")).join(file)
    }

    /// Refuses an audit file or a journal that is used for something else, however its path is spelled.
    pub(super) fn check_files(&self) -> Result<()> {
        let audit = self.audit_file().map(|file| ("`file` under [audit]".to_owned(), file));
        let mut written: Vec<(String, PathBuf)> = audit.into_iter().collect();
        for (name, section) in &self.file().backends {
            if section.fallback.is_some() && section.fallback_writes == Some(FallbackWrites::Journal) {
                let file = self.journal_file(name, section);
                written.push((format!("`fallback_journal` of [backends.{name}]"), file));
            }
        }
        if written.is_empty() {
            return Ok(());
        }
        let mut taken = BTreeMap::from([(place(self.origin()), "the configuration itself".to_owned())]);
        taken.insert(place(&self.tokens_file()), "the file of tokens".to_owned());
        #[cfg(feature = "sqlite")]
        if self.file().definitions.is_some() {
            taken.insert(place(&self.definitions_file()?), "the file of definitions".to_owned());
        }
        #[cfg(feature = "sqlite")]
        for (name, section) in self.file().backends.iter().filter(|(_, of)| of.url.scheme() == "sqlite") {
            // Errors in a URL are reported elsewhere.
            let own = crate::backends::sqlite::own_files(&section.url, self.base_dir().as_deref());
            let whose = |file: PathBuf| (place(&file), format!("a file of [backends.{name}]"));
            taken.extend(own.unwrap_or_default().into_iter().map(whose));
        }
        for (what, file) in written {
            if let Some(other) = taken.insert(place(&file), what.clone()) {
                return Err(Error::invalid(format!(
                    "{what} names {}, which is {other}; name another file",
                    file.display()
                )));
            }
        }
        Ok(())
    }

    /// Whether two URLs refer to the same store, however they are spelled.
    pub(super) fn is_same_store(&self, one: &BackendUrl, other: &BackendUrl) -> bool {
        #[cfg(feature = "sqlite")]
        if one.scheme() == "sqlite" && other.scheme() == "sqlite" {
            let base = self.base_dir();
            let file = |url| crate::backends::sqlite::file(url, base.as_deref()).ok().flatten();
            let (first, second) = (file(one).as_deref().map(place), file(other).as_deref().map(place));
            return one == other || (first.is_some() && first == second);
        }
        one.identity() == other.identity()
    }
}

/// A path in a normalised spelling.
fn place(path: &Path) -> PathBuf {
    real(path).unwrap_or_else(|| path.to_path_buf())
}

/// A path with its links resolved as far as it exists. `None` if not even its folders can be read.
pub(crate) fn real(path: &Path) -> Option<PathBuf> {
    let mut rest = Vec::new();
    let mut there = path;
    loop {
        match there.canonicalize() {
            Ok(found) => return Some(rest.iter().rev().fold(found, |path, name| path.join(name))),
            // A dangling link would lead to its target once that exists.
            Err(_) if there.is_symlink() => return None,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                rest.push(there.file_name()?);
                there = match there.parent()? {
                    empty if empty.as_os_str().is_empty() => Path::new("."),
                    parent => parent,
                };
            }
            Err(_) => return None,
        }
    }
}
