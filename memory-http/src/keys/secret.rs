//! The source of a secret: an environment variable or a file, never the configuration itself.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use memory_core::{Error, Result, Secret};

/// Largest secret, in bytes.
pub const MAX_SECRET_BYTES: usize = 16 * 1024;
/// Longest name of a variable, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// The source of a secret. `Debug` and `Display` name the source, never the content; a variable's name only if it
/// consists of capitals, digits and `_`, since it may be a secret put in the wrong field.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecretSource {
    /// The environment variable of this name.
    Env(String),
    /// A file that contains nothing else; surrounding white space is ignored.
    File(PathBuf),
}

impl SecretSource {
    /// Loads the secret.
    ///
    /// # Errors
    /// `unauthenticated` if it is missing or empty; `invalid_argument` if a header cannot carry it, or the file is not
    /// a regular one; `too_large` over [`MAX_SECRET_BYTES`].
    pub fn load(&self) -> Result<Secret> {
        let text = match self {
            Self::Env(name) if !is_variable(name) => {
                return Err(Error::invalid(
                    "the name of the environment variable with the secret is none; write the name, not the secret",
                ));
            }
            Self::Env(name) => std::env::var(name).map_err(|error| match error {
                std::env::VarError::NotPresent => {
                    Error::unauthenticated(format!("{self} is not set; set it to the secret"))
                }
                std::env::VarError::NotUnicode(_) => self.unfit("is not UTF-8"),
            })?,
            Self::File(path) => self.read(path)?,
        };
        let secret = text.trim();
        if secret.len() > MAX_SECRET_BYTES {
            return Err(Error::too_large("secret", secret.len(), MAX_SECRET_BYTES, "bytes"));
        }
        if secret.is_empty() {
            return Err(Error::unauthenticated(format!("{self} is empty; put the secret there")));
        }
        if !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(self.unfit("holds more than one word of printable ASCII"));
        }
        Ok(Secret::new(secret))
    }

    fn read(&self, path: &PathBuf) -> Result<String> {
        let failed = |error: std::io::Error| {
            Error::unauthenticated(format!("{self} cannot be read; check that it exists and is readable"))
                .with_source(error)
        };
        // Opening a pipe would block, so check the kind first.
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            return Err(self.unfit("is not a regular file"));
        }
        let mut text = String::new();
        let limit = u64::try_from(MAX_SECRET_BYTES).unwrap_or(u64::MAX).saturating_add(1);
        match File::open(path).map_err(failed)?.take(limit).read_to_string(&mut text) {
            Ok(_) if text.len() > MAX_SECRET_BYTES => {
                Err(Error::too_large("secret file", text.len(), MAX_SECRET_BYTES, "bytes"))
            }
            Ok(_) => Ok(text),
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => Err(self.unfit("is not UTF-8")),
            Err(error) => Err(failed(error)),
        }
    }

    fn unfit(&self, why: &str) -> Error {
        Error::invalid(format!("{self} {why}; put the secret alone there"))
    }
}

/// Whether a shell could set a variable with this name.
fn is_variable(name: &str) -> bool {
    name.len() <= MAX_NAME_BYTES
        && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether it looks like a variable's name rather than a key.
fn is_showable(name: &str) -> bool {
    is_variable(name) && !name.bytes().any(|byte| byte.is_ascii_lowercase())
}

impl std::fmt::Debug for SecretSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SecretSource({self})")
    }
}

impl std::fmt::Display for SecretSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Env(name) if is_showable(name) => write!(f, "the environment variable `{name}`"),
            Self::Env(_) => f.write_str("the environment variable that the configuration names"),
            Self::File(path) => write!(f, "the secret file `{}`", path.display()),
        }
    }
}
