//! Errors of the engine as errors of this workspace.

use memory_core::{Error, ErrorKind};

/// What the engine says when another process has the file open.
const LOCKED: &str = "Could not set lock on file";

/// Whether another process has the file open.
pub(crate) fn is_locked(error: &lbug::Error) -> bool {
    error.to_string().contains(LOCKED)
}

/// Another process has the file open, and keeps it.
pub(crate) fn locked() -> Error {
    Error::new(ErrorKind::Unavailable, "another process has the agent's graph open; try again later")
}

/// A file cannot be opened. Nothing of its content is in the engine's message.
pub(crate) fn unopened(error: lbug::Error) -> Error {
    let told = if error.to_string().contains("IO exception") {
        Error::new(
            ErrorKind::Unavailable,
            "the agent's graph cannot be opened; check its folder and the disk",
        )
    } else {
        Error::new(
            ErrorKind::Corrupt,
            "the agent's graph cannot be opened: it is damaged, or of another version of the engine",
        )
    };
    told.with_source(error)
}

/// A file cannot be opened with what is beside it.
pub(crate) fn unread_log(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Corrupt => error.retold(
            "the agent's graph cannot be opened with the log (.wal) beside it; move the log away to read what was in the file before",
        ),
        _ => error,
    }
}

/// A statement failed. The engine's message quotes stored values, so only its first words are kept: `Runtime exception`.
pub(crate) fn failed(error: &lbug::Error) -> Error {
    let message = error.to_string();
    let class = message.split(": ").find(|part| part.ends_with("xception")).unwrap_or("unknown exception");
    let class = class.to_owned();
    if message.contains("nterrupted") {
        Error::new(ErrorKind::Timeout, "the graph engine took too long; nothing was changed")
    } else if class.starts_with("Buffer manager") {
        Error::new(ErrorKind::TooLarge, "the graph engine has no memory left for this; use smaller batches")
    } else if message.contains("duplicated primary key") {
        // Which rows the graph has is asked before any is stored.
        Error::new(
            ErrorKind::Corrupt,
            "the index of the graph's file has an id that the graph has not, as a kill in the middle of a write can leave it; \
             nothing was changed, and reading is not affected: export the graph, move its file away, and import the export",
        )
    } else {
        Error::internal("the graph engine failed").with_detail("class", class)
    }
}

/// The checkpoint of a write failed, which may be complete all the same.
pub(crate) fn undecided(error: Error) -> Error {
    Error::new(
        ErrorKind::OutcomeUnknown,
        "the graph engine may have stored the write or not; read the graph to see",
    )
    .with_source(error)
}

/// The thread of the engine has ended.
pub(crate) fn ended() -> Error {
    Error::new(ErrorKind::Unavailable, "the graph engine has stopped; open the graphs again")
}

/// A transaction ended because of an error before.
pub(crate) fn lost() -> Error {
    Error::new(ErrorKind::TransactionLost, "an earlier error ended this write; begin another")
}
