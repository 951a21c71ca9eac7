//! Where the token file is.

use std::path::PathBuf;

use memory::Config;
use memory_core::{Error, Result};

use crate::terminal::data_folder;

/// Its default name.
const NAME: &str = "memory.tokens.jsonl";

/// The file to use: the one named, or the configuration's, or without a configuration one in the user's data folder.
///
/// # Errors
/// `invalid_argument` without any of them.
pub(crate) fn tokens_file(named: Option<PathBuf>, config: Option<&Config>) -> Result<PathBuf> {
    named
        .or_else(|| config.map(Config::tokens_file))
        .or_else(|| data_folder().map(|folder| folder.join(NAME)))
        .ok_or_else(|| Error::invalid("there is no home folder to keep tokens in; give --tokens FILE"))
}
