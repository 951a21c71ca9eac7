//! The history of typed lines, kept for next time.

use std::path::{Path, PathBuf};

use memory_core::{Error, Result};

use super::output::note;
use super::settings::{create_private_folder, state_folder};

/// How many lines a history keeps; the newest ones.
pub(super) const MAX_LINES: usize = 1_000;
/// The largest file that is read.
const MAX_BYTES: u64 = 4 << 20;

/// Words that suggest a secret. Better too many: a line that was not kept can be typed again.
const SECRET: &[&str] =
    &["token", "passw", "passphrase", "secret", "credential", "bearer", "api_key", "api-key", "apikey"];

/// A file of the user's that nobody else can read.
pub(crate) struct History {
    file: PathBuf,
}

impl History {
    /// The history with this name; `None` if it cannot be kept, after saying why.
    pub(crate) fn open(name: &str) -> Option<Self> {
        let opened =
            state_folder().ok_or_else(|| Error::invalid("there is no home folder")).and_then(|folder| {
                create_private_folder(&folder)?;
                let file = folder.join(name);
                private(&file)?;
                Ok(Self { file })
            });
        opened.map_err(|why| note(&format!("memory: what you type is not kept: {why}"))).ok()
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }
}

/// Creates the file if necessary, and refuses one that cannot be a history.
fn private(file: &Path) -> Result<()> {
    let failed = |error| Error::invalid(format!("{} cannot be written", file.display())).with_source(error);
    let mut options = std::fs::OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // Do not block on something like a pipe.
        options.mode(0o600).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    let about = options.open(file).and_then(|file| file.metadata()).map_err(failed)?;
    if !about.is_file() || about.len() > MAX_BYTES {
        return Err(Error::invalid(format!(
            "{} is not a file of at most {} MiB; move it away",
            file.display(),
            MAX_BYTES >> 20
        )));
    }
    Ok(())
}

/// Whether a line may be kept: it shows no sign of a secret, such as a password in a URL.
pub(super) fn may_keep(line: &str) -> bool {
    let lower = line.to_lowercase();
    let in_url = lower.split("://").skip(1).any(|rest| {
        let authority = rest.split(['/', '?', '#', ' ', '\'', '"']).next().unwrap_or_default();
        authority.contains('@')
    });
    !in_url && !SECRET.iter().any(|word| lower.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_secrets_are_not_kept() {
        for secret in [
            "get x --url postgres://ada:geheim@db/memory",
            "list --url 'postgres://ada@db/memory'",
            "token create laptop --agent claude",
            "set login '{\"Password\":\"x\"}'",
            "add 'my API_KEY is 7'",
            "add hello --credential key=env:KEY",
        ] {
            assert!(!may_keep(secret), "{secret}");
        }
        for plain in ["set greeting '\"hello\"'", "add 'mail ada@example.org'", "list --url sqlite:a.db"] {
            assert!(may_keep(plain), "{plain}");
        }
    }
}
