//! Maps PostgreSQL's errors to core errors.
//!
//! The server's messages and details are not kept, since they quote stored values, statements and names. What remains
//! is the SQLSTATE, which PostgreSQL's documentation explains.

use std::fmt;
use std::time::Duration;

use memory_core::{Error, ErrorKind, Retry};
use tokio_postgres::error::Severity;

/// What a statement without an answer may have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing: it only reads, or its transaction has yet to commit.
    None,
    /// It commits.
    Commits,
}

/// The retained cause: where the driver failed, and the server's SQLSTATE.
#[derive(Debug)]
pub(crate) struct Cause {
    what: String,
    state: Option<String>,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.state {
            Some(state) => write!(f, " (SQLSTATE {state})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Cause {}

/// The SQLSTATE of an error created by [`engine`].
pub(crate) fn state_of(error: &Error) -> Option<&str> {
    std::error::Error::source(error)?.downcast_ref::<Cause>()?.state.as_deref()
}

fn cause(error: &tokio_postgres::Error) -> Cause {
    // The driver's messages are constants; those of the system and of TLS contain no secrets.
    let mut what = error.to_string();
    let source = std::error::Error::source(error);
    if let Some(io) = source.and_then(|source| source.downcast_ref::<std::io::Error>()) {
        what = match io.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(tls) => format!("{what}: {tls}"),
            None => format!("{what}: {io}"),
        };
    }
    Cause { what, state: error.code().map(|code| code.code().to_owned()) }
}

/// An error of the driver or the server.
pub(crate) fn engine(error: &tokio_postgres::Error, effect: Effect) -> Error {
    let (kind, message, retry) = match error.code() {
        Some(state) => of_state(state.code()),
        None => without_state(error, effect),
    };
    let fatal = error
        .as_db_error()
        .and_then(|db| db.parsed_severity())
        .is_some_and(|severity| matches!(severity, Severity::Panic));
    // A server that crashes may have committed first.
    let (kind, message, retry) =
        if fatal && effect == Effect::Commits { unknown() } else { (kind, message, retry) };
    Error::new(kind, message).with_retry(retry).with_source(cause(error))
}

type Verdict = (ErrorKind, &'static str, Retry);

/// No connection to the server can be made.
pub(crate) const UNREACHABLE: &str = "the PostgreSQL server cannot be reached; check that it runs and that the URL names it, or \
                                      try again";

const SOON: Retry = Retry::After(Duration::from_millis(100));
const LATER: Retry = Retry::After(Duration::from_secs(1));

/// The SQLSTATE raised by our function `check_run`.
const RUN_ENDED: &str = "ME001";

/// Also for a session that is refused because its transactions would be read-only.
const TAKES_NO_WRITES: Verdict = (
    ErrorKind::Unavailable,
    "the PostgreSQL server is a standby, or its transactions are read-only (`default_transaction_read_only`), and nothing \
     was written; name the primary, or try again once it takes writes",
    SOON,
);

fn of_state(state: &str) -> Verdict {
    match state {
        "40001" | "40P01" => (
            ErrorKind::Unavailable,
            "the write conflicted with another one and nothing was written; try again",
            Retry::Now,
        ),
        "55P03" | "55006" => (
            ErrorKind::Unavailable,
            "a lock was not available in time and nothing was written; try again",
            SOON,
        ),
        "57014" => (
            ErrorKind::Timeout,
            "the statement exceeded its timeout and was cancelled before it had an effect; try again, or raise \
             `statement_timeout_ms`",
            SOON,
        ),
        "57P03" => (
            ErrorKind::Unavailable,
            "the PostgreSQL server is starting, stopping or recovering; try again",
            SOON,
        ),
        "57P04" => (ErrorKind::Unavailable, "the database was dropped; create it again", Retry::Never),
        "25006" => TAKES_NO_WRITES,
        RUN_ENDED => (
            ErrorKind::RunEnded,
            "the run has ended and its scope is gone; write to the agent's or the user's scope, or start \
             another run with a new id",
            Retry::Never,
        ),
        "25P03" | "25P04" => (
            ErrorKind::Unavailable,
            "the server ended a transaction that took too long; nothing was written",
            SOON,
        ),
        "53100" => (
            ErrorKind::Unavailable,
            "the disk of the PostgreSQL server is full and nothing was written; free space and try again",
            LATER,
        ),
        "53200" => (
            ErrorKind::Unavailable,
            "the PostgreSQL server is out of memory; try again with less load",
            LATER,
        ),
        "53300" => (
            ErrorKind::Unavailable,
            "the PostgreSQL server has no connection left; try again, lower `pool_size`, or raise max_connections",
            LATER,
        ),
        "53400" => (
            ErrorKind::Unavailable,
            "a limit of the PostgreSQL server is reached; try again with less load",
            LATER,
        ),
        "28P01" | "28000" => (
            ErrorKind::Unauthenticated,
            "the PostgreSQL server refuses this user or password; check the URL, the password and pg_hba.conf",
            Retry::Never,
        ),
        "42501" => (
            ErrorKind::Forbidden,
            "the database user lacks a privilege; `memory postgres doctor` names it, and `memory postgres provision` prints the \
             statement that grants it",
            Retry::Never,
        ),
        "3D000" => (ErrorKind::NotFound, "the database does not exist; create it", Retry::Never),
        "42P01" | "42883" | "42703" | "3F000" => (
            ErrorKind::Corrupt,
            "the memory's tables are missing or were changed; run `memory postgres provision`, or restore them",
            Retry::Never,
        ),
        "22021" | "22P05" => (
            ErrorKind::InvalidArgument,
            "a text holds a character that PostgreSQL cannot store",
            Retry::Never,
        ),
        "XX001" | "XX002" => {
            (ErrorKind::Corrupt, "the database is damaged; restore it from a backup", Retry::Never)
        }
        state if state.starts_with("08") || state.starts_with("57P") || state.starts_with("58") => (
            ErrorKind::Unavailable,
            "the PostgreSQL server cannot be reached or is going down; try again",
            SOON,
        ),
        state if state.starts_with("53") => {
            (ErrorKind::Unavailable, "the PostgreSQL server lacks resources; try again with less load", LATER)
        }
        state if state.starts_with("54") => {
            (ErrorKind::TooLarge, "a limit of PostgreSQL is exceeded; store or ask for less", Retry::Never)
        }
        state if state.starts_with("28") => (
            ErrorKind::Unauthenticated,
            "the PostgreSQL server refuses this user; check the URL",
            Retry::Never,
        ),
        _ => (ErrorKind::Internal, "PostgreSQL reports an unexpected error; please report it", Retry::Never),
    }
}

fn without_state(error: &tokio_postgres::Error, effect: Effect) -> Verdict {
    let text = error.to_string();
    // The driver does not expose the kinds of its errors; these are their messages.
    if text.contains("TLS handshake") {
        return (
            ErrorKind::Unavailable,
            "TLS with the PostgreSQL server failed; check `sslmode`, `sslrootcert` and the server's certificate",
            Retry::Never,
        );
    }
    if text.contains("authentication") {
        return (
            ErrorKind::Unauthenticated,
            "the PostgreSQL server requires a password or an authentication method that is not configured",
            Retry::Never,
        );
    }
    if text.contains("invalid configuration") || text.contains("invalid connection string") {
        return (ErrorKind::InvalidArgument, "the PostgreSQL URL cannot be used; check it", Retry::Never);
    }
    if text.contains("connecting to server") {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        return match cause.is_some_and(|cause| cause.contains("does not allow writes")) {
            true => TAKES_NO_WRITES,
            false => (ErrorKind::Unavailable, UNREACHABLE, SOON),
        };
    }
    if error.is_closed() || text.contains("communicating with the server") || text.contains("timeout") {
        return match effect {
            Effect::None => (
                ErrorKind::Unavailable,
                "the connection to the PostgreSQL server was lost; try again",
                Retry::Now,
            ),
            Effect::Commits => unknown(),
        };
    }
    (
        ErrorKind::Internal,
        "PostgreSQL's protocol was violated, which is a bug; please report it",
        Retry::Never,
    )
}

fn unknown() -> Verdict {
    (
        ErrorKind::OutcomeUnknown,
        "the connection to the PostgreSQL server was lost before it confirmed the write; read the key to see whether it \
         was stored",
        Retry::Never,
    )
}

/// A write without an answer.
pub(crate) fn outcome_unknown() -> Error {
    let (kind, message, retry) = unknown();
    Error::new(kind, message).with_retry(retry)
}

/// The connection was lost before anything was sent.
pub(crate) fn gone() -> Error {
    Error::unavailable("the connection to the PostgreSQL server was lost; nothing was sent, try again")
        .with_retry(Retry::Now)
}

/// No connection was free in time.
pub(crate) fn no_connection() -> Error {
    Error::unavailable(
        "every connection to PostgreSQL is in use; nothing was sent, try again, or raise `pool_size`",
    )
}

/// A snapshot would take the last connection, without which not even the snapshot can be read.
pub(crate) fn only_one_left() -> Error {
    Error::unavailable(
        "a snapshot keeps one connection to PostgreSQL and is read through another, and only one is left; end another \
         snapshot, or set `pool_size` to at least 2 and one more for each snapshot that is open at a time",
    )
}

/// No answer came in time, and the statement had no effect.
pub(crate) fn late() -> Error {
    Error::timeout("the PostgreSQL server did not answer in time; nothing was written, try again")
}

/// The provider was closed.
pub(crate) fn closed() -> Error {
    Error::unavailable("the database was closed; open it again").with_retry(Retry::Never)
}

/// A stored row that this crate would not have written.
pub(crate) fn malformed(what: &'static str) -> Error {
    Error::corrupt(format!(
        "a stored {what} is malformed; the table was changed by another program or is damaged"
    ))
}

/// Vectors were requested without an embedder or pgvector.
pub(crate) fn vector_unsupported(operation: &'static str) -> Error {
    Error::vector_unsupported(
        "provider `postgres` was opened without an embedder, or its server has no pgvector; configure both, or search by \
         words and write with `embed` left at `auto`",
    )
    .with_detail("operation", operation)
    .with_detail("provider", "postgres")
}
