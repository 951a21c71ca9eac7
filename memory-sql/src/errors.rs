//! Errors that agents see alike on every engine.

use memory_core::{Error, ErrorKind, Retry};

/// The statement was ended at its deadline.
#[must_use]
pub fn timeout() -> Error {
    Error::timeout(
        "the statement took longer than its deadline and was ended without effect; \
         let it read less, or raise the timeout",
    )
    .with_retry(Retry::Never)
    .with_detail("layer", "deadline")
}

/// The statement was ended because its caller went away or its transaction had to end.
#[must_use]
pub fn cancelled() -> Error {
    Error::timeout("the statement was cancelled and had no effect").with_retry(Retry::Never)
}

/// The scope's write lock was not free before the deadline.
#[must_use]
pub fn locked() -> Error {
    Error::timeout(
        "another transaction writes to this scope for longer than the deadline; nothing was done, \
         try again when it has ended",
    )
}

/// A statement that writes was sent as a query.
#[must_use]
pub fn writes() -> Error {
    Error::read_only("the statement writes, and a query may only read; use sql_exec for it")
        .with_detail("layer", "readonly")
}

/// The scope's database would hold more than its quota.
#[must_use]
pub fn quota_exceeded(bytes: u64) -> Error {
    Error::quota_exceeded(format!(
        "the scope's database would grow past its {bytes} bytes; delete rows or drop tables first"
    ))
    .with_detail("layer", "quota")
    .with_detail("quota_bytes", bytes)
}

/// A row breaks a constraint of this kind; `told` is what the engine says.
#[must_use]
pub fn constraint(kind: &'static str, told: &str) -> Error {
    let article = if kind == "exclusion" { "an" } else { "a" };
    Error::invalid(format!("{article} {kind} constraint does not hold: {told}"))
        .with_detail("constraint", kind)
}

/// A restore whose target holds something already.
#[must_use]
pub fn not_empty() -> Error {
    Error::new(
        ErrorKind::Conflict,
        "the scope's database is not empty; drop or replace it, or restore into another scope",
    )
    .with_retry(Retry::Never)
}

/// The next line of a dump did not come in time.
#[must_use]
pub fn dump_stalled() -> Error {
    Error::timeout(
        "the restore was given up: the dump's next line did not come in time; nothing was restored",
    )
}
