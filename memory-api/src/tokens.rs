//! The file of tokens: JSON Lines that are only ever appended, so that several processes may write, and what was
//! allowed at any time can be read later.

use std::collections::BTreeMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use memory_core::{Error, ErrorKind, Result, Timestamp};
use serde::{Deserialize, Serialize};

use crate::token::{Token, is_id};

/// Longest file, in bytes: about 30,000 tokens.
const MAX_BYTES: u64 = 16 << 20;

/// How long servers take the file to be unchanged: checking it costs about a tenth of reading an entry.
pub const STANDS: Duration = Duration::from_millis(50);

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Created(Box<Token>),
    Revoked { id: Arc<str>, at: Timestamp },
}

/// A token and its state.
#[derive(Clone, Debug)]
pub struct Known {
    /// What is kept of it.
    pub token: Token,
    /// When it was revoked, if it was.
    pub revoked_at: Option<Timestamp>,
}

/// What the file looked like when it was read; if it looks different, it must be read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    bytes: u64,
    modified: Option<SystemTime>,
}

impl Look {
    /// A missing file.
    const NONE: Self = Self { bytes: 0, modified: None };

    fn of(metadata: &Metadata) -> Self {
        Self { bytes: metadata.len(), modified: metadata.modified().ok() }
    }
}

/// The file.
#[derive(Clone, Debug)]
pub struct TokenFile {
    path: PathBuf,
}

impl TokenFile {
    /// The file at this path, which need not exist yet.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// What the file looks like now.
    ///
    /// # Errors
    /// `unavailable` if it cannot be checked.
    pub(crate) fn look(&self) -> Result<Look> {
        match std::fs::metadata(&self.path) {
            Ok(metadata) => Ok(Look::of(&metadata)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Look::NONE),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Every token by its id. A missing file has none.
    ///
    /// # Errors
    /// `corrupt` for a line that cannot be read, since it could be a revocation; `forbidden` if others may read or
    /// write the file; `unavailable`.
    pub fn read(&self) -> Result<(Look, BTreeMap<Arc<str>, Known>)> {
        match File::open(&self.path) {
            Ok(mut file) => self.read_from(&mut file),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok((Look::NONE, BTreeMap::new())),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Appends a token. Creates the file if it is missing, but not its folder.
    ///
    /// # Errors
    /// `invalid_argument` if its name looks like an id; `conflict` if a valid token has the same name; otherwise those
    /// of [`TokenFile::read`].
    pub fn create(&self, token: Token, now: Timestamp) -> Result<()> {
        if is_id(&token.name) {
            let words = "the name looks like the id of a token, and would be taken for one; use another name";
            return Err(Error::invalid(words));
        }
        self.append(|known| {
            let taken = known.values().any(|known| {
                known.token.name == token.name && known.revoked_at.is_none() && !known.token.is_expired(now)
            });
            if taken {
                return Err(Error::new(
                    ErrorKind::Conflict,
                    format!(
                        "a token named `{}` is in force; revoke it first, or use another name",
                        token.name
                    ),
                )
                .with_retry(memory_core::Retry::Never));
            }
            Ok(Line::Created(Box::new(token)))
        })
    }

    /// Revokes a token by its id, or if no token has this id, by the name of a valid one. Returns its id.
    ///
    /// # Errors
    /// `not_found`; otherwise as [`TokenFile::read`].
    pub fn revoke(&self, which: &str, now: Timestamp) -> Result<Arc<str>> {
        let unknown = || {
            let what = format!("no token in force is called `{which}`; `memory token list` shows them");
            Error::new(ErrorKind::NotFound, what)
        };
        if !self.path.exists() {
            return Err(unknown());
        }
        let mut revoked = None;
        self.append(|known| {
            let named = |known: &&Known| known.token.name == which && !known.token.is_expired(now);
            let mut standing = known.values().filter(|known| known.revoked_at.is_none());
            let found = match known.get(which) {
                Some(known) => Some(known).filter(|known| known.revoked_at.is_none()),
                None => standing.find(named),
            };
            let id = found.map(|known| Arc::clone(&known.token.id)).ok_or_else(unknown)?;
            revoked = Some(Arc::clone(&id));
            Ok(Line::Revoked { id, at: now })
        })?;
        revoked.ok_or_else(|| Error::internal("a revoked token has no id"))
    }

    /// Appends one line in one write, keeping other processes out.
    fn append(&self, line: impl FnOnce(&BTreeMap<Arc<str>, Known>) -> Result<Line>) -> Result<()> {
        let failed = |error| self.failed(error);
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&self.path).map_err(failed)?;
        file.lock().map_err(failed)?;
        let text = self.text_of(&mut file)?;
        let known = self.known(whole(&text))?;
        let line = serde_json::to_string(&line(&known)?)
            .map_err(|error| Error::internal("a token cannot be serialized").with_source(error))?;
        let before = u64::try_from(whole(&text).len()).unwrap_or(u64::MAX);
        file.set_len(before).map_err(failed)?;
        let feed = if matches!(whole(&text), [.., b'\n'] | []) { "" } else { "\n" };
        file.write_all(format!("{feed}{line}\n").as_bytes()).and_then(|()| file.sync_all()).map_err(|error| {
            // A full disk may have stored part of the line.
            let _ = file.set_len(before);
            failed(error)
        })
    }

    fn read_from(&self, file: &mut File) -> Result<(Look, BTreeMap<Arc<str>, Known>)> {
        let look = Look::of(&file.metadata().map_err(|error| self.failed(error))?);
        let text = self.text_of(file)?;
        Ok((look, self.known(whole(&text))?))
    }

    fn text_of(&self, file: &mut File) -> Result<Vec<u8>> {
        let failed = |error| self.failed(error);
        #[cfg(unix)]
        if std::os::unix::fs::PermissionsExt::mode(&file.metadata().map_err(failed)?.permissions()) & 0o077
            != 0
        {
            return Err(Error::new(
                ErrorKind::Forbidden,
                format!(
                    "others may read or write the file of tokens {0}; run `chmod 600 {0}`",
                    self.path.display()
                ),
            ));
        }
        let mut text = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(failed)?;
        if u64::try_from(text.len()).unwrap_or(u64::MAX) > MAX_BYTES {
            return Err(self.damaged("it is over 16 MiB"));
        }
        Ok(text)
    }

    fn known(&self, text: &[u8]) -> Result<BTreeMap<Arc<str>, Known>> {
        let mut known = BTreeMap::new();
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let line = serde_json::from_slice(line)
                .map_err(|error| self.damaged("a line is no event of a token").with_source(error))?;
            match line {
                Line::Created(token) => {
                    known.insert(Arc::clone(&token.id), Known { token: *token, revoked_at: None });
                }
                Line::Revoked { id, at } => {
                    if let Some(known) = known.get_mut(&id) {
                        known.revoked_at = Some(at);
                    }
                }
            }
        }
        Ok(known)
    }

    fn failed(&self, error: std::io::Error) -> Error {
        Error::new(
            ErrorKind::Unavailable,
            format!("the file of tokens {} cannot be used; see the cause", self.path.display()),
        )
        .with_source(error)
    }

    fn damaged(&self, why: &str) -> Error {
        Error::new(
            ErrorKind::Corrupt,
            format!("the file of tokens {} is damaged: {why}; correct it by hand", self.path.display()),
        )
    }
}

/// The text without an incomplete last line: that write was never acknowledged.
fn whole(text: &[u8]) -> &[u8] {
    let last = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |feed| feed + 1);
    let (whole, cut) = text.split_at(last);
    if serde_json::from_slice::<Line>(cut).is_ok() { text } else { whole }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Grant;

    #[test]
    fn an_id_revokes_its_own_token_whatever_others_are_called() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::new(folder.path().join("tokens"));
        let made = |name: &str| Token::make(name.to_owned(), Grant::default(), Timestamp::EPOCH).unwrap().1;
        let (first, mut second) = (made("first"), made("second"));
        let id = Arc::clone(&first.id);
        file.create(first, Timestamp::EPOCH).unwrap();
        assert_eq!(file.create(made(&id), Timestamp::EPOCH).unwrap_err().kind(), ErrorKind::InvalidArgument);
        // An earlier version allowed this name. It sorts first.
        (second.name, second.id) = (id.to_string(), "t-000000000000".into());
        file.append(|_| Ok(Line::Created(Box::new(second)))).unwrap();
        assert_eq!(file.revoke(&id, Timestamp::EPOCH).unwrap(), id);
        assert_eq!(file.revoke(&id, Timestamp::EPOCH).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_damaged_file_or_one_that_others_may_read_holds_no_token() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::new(folder.path().join("tokens"));
        let (_, token) = Token::make("ci".to_owned(), Grant::default(), Timestamp::EPOCH).unwrap();
        file.create(token, Timestamp::EPOCH).unwrap();
        assert_eq!(file.read().unwrap().1.len(), 1);
        let before = file.look().unwrap();
        file.revoke("ci", Timestamp::EPOCH).unwrap();
        assert_ne!(file.look().unwrap(), before);
        assert!(file.read().unwrap().1.values().all(|known| known.revoked_at.is_some()));
        let text = std::fs::read_to_string(&file.path).unwrap();
        for damaged in [text.replace("revoked", "forgotten"), format!("{text}x\n")] {
            std::fs::write(&file.path, damaged).unwrap();
            assert_eq!(file.read().unwrap_err().kind(), ErrorKind::Corrupt);
            assert!(file.revoke("ci", Timestamp::EPOCH).is_err());
        }
        // Cut off by a full disk or a kill: an acknowledged revocation stays, and nobody is locked out.
        for (cut, revoked) in [(text.len() - 1, true), (text.len() - 5, false)] {
            std::fs::write(&file.path, &text[..cut]).unwrap();
            let known = file.read().unwrap().1;
            assert_eq!((known.len(), known.values().all(|known| known.revoked_at.is_some())), (1, revoked));
            assert_eq!(file.revoke("ci", Timestamp::EPOCH).is_ok(), !revoked);
            assert!(file.read().unwrap().1.values().all(|known| known.revoked_at.is_some()));
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::write(&file.path, text).unwrap();
            std::fs::set_permissions(&file.path, std::fs::Permissions::from_mode(0o640)).unwrap();
            assert_eq!(file.read().unwrap_err().kind(), ErrorKind::Forbidden);
        }
    }
}
