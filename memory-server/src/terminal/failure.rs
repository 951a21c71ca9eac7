//! How a command ends: exit codes, and the errors behind them.

use std::io;

use memory_core::{Error, ErrorKind};
use serde::Serialize;

/// Exit codes. Stable; listed in `docs/cli.md` and in `memory help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Ok,
    /// The answer is that nothing is there: under that key or id, or in that scope.
    Nothing,
    /// The command line is wrong.
    Usage,
    /// The request was refused: an invalid, oversized or unsupported argument, a name of something that does not exist,
    /// a quota, a permission.
    Refused,
    /// A precondition did not hold.
    Conflict,
    /// The store cannot be reached or is busy; trying again may help.
    Unavailable,
    /// The store or the file is damaged, foreign or of a newer format.
    Corrupt,
    /// Something was left out and is listed; the rest was done.
    Partial,
    /// A check failed or found a difference; or a service failed to process what it accepted, or was not done in time.
    Failed,
    /// Whether it was done is unknown.
    Unknown,
    /// A bug of this program.
    Internal,
    /// A file or the output could not be read or written.
    InputOutput,
    /// Interrupted; acknowledged writes are stored.
    Interrupted,
}

impl Exit {
    pub const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Nothing => 1,
            Self::Usage => 2,
            Self::Refused => 3,
            Self::Conflict => 4,
            Self::Unavailable => 5,
            Self::Corrupt => 6,
            Self::Partial => 7,
            Self::Failed => 8,
            Self::Unknown => 9,
            Self::Internal => 70,
            Self::InputOutput => 74,
            Self::Interrupted => 130,
        }
    }

    fn of(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Conflict | ErrorKind::DriftDetected | ErrorKind::TransactionLost => Self::Conflict,
            ErrorKind::Timeout
            | ErrorKind::RateLimited
            | ErrorKind::Unavailable
            | ErrorKind::TransactionLimit => Self::Unavailable,
            ErrorKind::OutcomeUnknown => Self::Unknown,
            ErrorKind::Corrupt => Self::Corrupt,
            ErrorKind::Internal => Self::Internal,
            _ => Self::Refused,
        }
    }
}

/// The table of exit codes, for `memory help`.
pub const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    nothing there: under that key or id, or in that scope
  2    the command line is wrong
  3    refused: an argument is invalid, too large, unsupported or names what does not exist; a quota, a permission
  4    conflict: a precondition did not hold
  5    unavailable: the store cannot be reached or is busy; try again
  6    corrupt: the store or the file is damaged, foreign or of a newer format
  7    partial: something was left out, and named; the rest was done
  8    a check failed, a difference was found, or a service failed or was not done in time
  9    unknown: it may or may not have been done; look before doing it again
  70   internal: a bug of this program
  74   a file or the output could not be read or written
  130  interrupted; what was acknowledged is stored";

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The memory or the program refused.
    Error(Error),
    /// A file could not be read or written: what, and why.
    File(String, io::Error),
    /// The output could not be written.
    Output(io::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<memory_core::json::JsonError> for Failure {
    fn from(error: memory_core::json::JsonError) -> Self {
        Self::Error(error.into())
    }
}

/// A failure as JSON, in the form of the Memory tool.
#[derive(Serialize)]
struct Body<'a> {
    code: &'a str,
    message: String,
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    details: serde_json::Map<String, serde_json::Value>,
    retryable: bool,
}

impl Failure {
    /// An invalid argument.
    pub fn invalid(message: impl Into<std::borrow::Cow<'static, str>>) -> Self {
        Self::Error(Error::invalid(message))
    }

    /// A failure to write the user's file: I/O errors are about the file, others are refusals.
    pub(crate) fn unwritten(path: &std::path::Path, error: Error) -> Self {
        match std::error::Error::source(&error).and_then(|source| source.downcast_ref::<io::Error>()) {
            Some(cause) if error.kind() == ErrorKind::Unavailable => {
                let cause = io::Error::new(cause.kind(), cause.to_string());
                Self::File(format!("{} cannot be written", path.display()), cause)
            }
            _ => Self::Error(error),
        }
    }

    /// Whether the reader of the output has closed it, which is not a failure.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    pub fn exit(&self) -> Exit {
        match self {
            Self::Error(error) => Exit::of(error.kind()),
            Self::File(_, error) if error.kind() == io::ErrorKind::AlreadyExists => Exit::Conflict,
            Self::File(..) | Self::Output(_) => Exit::InputOutput,
        }
    }

    fn body(&self) -> Body<'_> {
        let (code, details, retryable) = match self {
            Self::Error(error) => {
                (error.kind().code(), error.details().clone(), error.retry().is_retryable())
            }
            Self::File(_, error) if error.kind() == io::ErrorKind::NotFound => {
                ("not_found", serde_json::Map::new(), false)
            }
            Self::File(_, error) if error.kind() == io::ErrorKind::AlreadyExists => {
                ("conflict", serde_json::Map::new(), false)
            }
            Self::File(_, error) if error.kind() == io::ErrorKind::PermissionDenied => {
                ("forbidden", serde_json::Map::new(), false)
            }
            Self::File(..) | Self::Output(_) => ("unavailable", serde_json::Map::new(), false),
        };
        Body { code, message: self.to_string(), details, retryable }
    }

    /// `{"error": {"code", "message", "details", "retryable"}}`.
    pub fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Document<'a> {
            error: Body<'a>,
        }
        serde_json::to_string(&Document { error: self.body() }).unwrap_or_else(|_| {
            r#"{"error":{"code":"internal","message":"the error has no JSON form"}}"#.into()
        })
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Error(error) => {
                write!(f, "{error}")?;
                // Show the cause if it adds anything.
                let mut source = std::error::Error::source(error);
                while let Some(cause) = source {
                    let cause_text = cause.to_string();
                    if !error.message().contains(&cause_text) {
                        write!(f, ": {cause_text}")?;
                    }
                    source = cause.source();
                }
                Ok(())
            }
            Self::File(what, error) => {
                write!(f, "{what}: {error}")?;
                match error.kind() {
                    io::ErrorKind::NotFound => f.write_str("; check the path"),
                    io::ErrorKind::PermissionDenied => {
                        f.write_str("; check the permissions of the file and its folder")
                    }
                    io::ErrorKind::AlreadyExists => f.write_str("; edit it, or name another file"),
                    io::ErrorKind::IsADirectory => f.write_str("; name a file in it"),
                    io::ErrorKind::StorageFull => {
                        f.write_str("; free some space, or name a file on another disk")
                    }
                    _ => Ok(()),
                }
            }
            Self::Output(error) => write!(f, "the output cannot be written: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_read_or_written_says_what_to_do() {
        for (kind, what_to_do) in [
            (io::ErrorKind::NotFound, "; check the path"),
            (io::ErrorKind::PermissionDenied, "; check the permissions of the file and its folder"),
            (io::ErrorKind::IsADirectory, "; name a file in it"),
            (io::ErrorKind::AlreadyExists, "; edit it, or name another file"),
        ] {
            let text = Failure::File("x cannot be read".to_owned(), kind.into()).to_string();
            assert!(text.starts_with("x cannot be read: ") && text.ends_with(what_to_do), "{text}");
        }
    }

    #[test]
    fn the_printed_table_lists_every_code() {
        for exit in [
            Exit::Ok,
            Exit::Nothing,
            Exit::Usage,
            Exit::Refused,
            Exit::Conflict,
            Exit::Unavailable,
            Exit::Corrupt,
            Exit::Partial,
            Exit::Failed,
            Exit::Unknown,
            Exit::Internal,
            Exit::InputOutput,
            Exit::Interrupted,
        ] {
            let line = format!("\n  {:<3}  ", exit.code());
            assert!(EXIT_CODES.contains(&line), "{exit:?}");
        }
    }

    #[test]
    fn the_page_has_the_same_table_as_the_help() {
        let page = include_str!("../../../docs/cli.md");
        for line in EXIT_CODES.lines().skip(1) {
            let (code, meaning) = line.trim().split_once("  ").unwrap();
            let row = format!("| {code} | {} |", meaning.trim());
            assert!(page.contains(&row), "{row}");
        }
    }

    #[test]
    fn errors_are_documents_for_programs() {
        let failure = Failure::from(Error::conflict(Some(7)));
        let document: serde_json::Value = serde_json::from_str(&failure.to_json()).unwrap();
        assert_eq!(document["error"]["code"], "conflict");
        assert_eq!(document["error"]["details"]["current_version"], 7);
        assert_eq!(document["error"]["retryable"], true);
        assert_eq!(failure.exit(), Exit::Conflict);
    }
}
