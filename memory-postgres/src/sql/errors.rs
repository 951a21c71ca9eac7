//! The server's errors about an agent's statement. Their texts may contain stored values, which are left out.

use std::time::Duration;

use memory_core::{Error, ErrorKind, Retry};
pub(crate) use memory_sql::errors::{cancelled, constraint, locked, quota_exceeded, timeout, writes};

use crate::sql::protocol::exchange::Broken;
use crate::sql::protocol::{Fault, Lost};

/// The statement exceeded the quota.
pub(crate) const QUOTA_EXCEEDED: &str = "MM002";

/// The transaction holds too many locks.
const TOO_MANY_LOCKS: &str = "MM003";

/// The scope's database has too many objects.
const TOO_MANY_OBJECTS: &str = "MM005";

/// Whether the session's database is gone, or waits for the decision whether to remove it.
pub(crate) fn is_of_another_generation(error: &Error) -> bool {
    error.details().get("sqlstate").and_then(|state| state.as_str()) == Some("MM001")
}

/// Longest message to pass on.
const LONGEST: usize = 300;

/// An error about a statement.
pub(crate) fn statement(fault: &Fault) -> Error {
    let told = told(fault);
    let state = fault.state.as_str();
    let error = match state {
        "57014" => timeout(),
        "55P03" => locked(),
        "25006" => writes(),
        "42501" if told.contains("row-level security") => Error::statement_refused(
            format!(
                "{told}; the policy was set by the table's owner: write only rows that it allows, or ask the operator"
            ),
        )
        .with_detail("construct", named(&told))
        .with_detail("layer", "privileges"),
        "42501" => Error::statement_refused(
            format!("the engine refuses this to agents: {told}; use the scope's own tables and the documented functions"),
        )
        .with_detail("construct", named(&told))
        .with_detail("layer", "privileges"),
        TOO_MANY_LOCKS => Error::new(
            ErrorKind::TooLarge,
            "the transaction would hold locks on too many objects; nothing of this statement was done: commit, and go on in \
             another transaction",
        )
        .with_detail("layer", "limits"),
        TOO_MANY_OBJECTS => Error::new(
            ErrorKind::TooLarge,
            "the scope's database would have more tables, indexes and constraints than the server can drop at once; nothing of \
             this statement was done: drop some first, or ask the operator to raise max_locks_per_transaction",
        )
        .with_detail("layer", "limits"),
        // The table of locks, which all of the server's transactions share.
        "53200" if told.contains("shared memory") => Error::unavailable(
            "the PostgreSQL server has no room for more locks; nothing was written: define and use fewer objects in one \
             transaction, or ask the operator to raise max_locks_per_transaction",
        )
        .with_retry(Retry::After(Duration::from_secs(1))),
        "53400" | "53200" => Error::new(
            ErrorKind::TooLarge,
            "the statement exceeds its memory or temporary space; let it sort, group or concatenate less",
        )
        .with_detail("layer", "limits"),
        "54000" | "54001" | "54011" | "54023" => {
            Error::new(ErrorKind::TooLarge, format!("a limit of PostgreSQL is exceeded: {told}")).with_detail("layer", "limits")
        }
        "53100" => Error::unavailable(
            "the disk of the PostgreSQL server is full; nothing was written, free space and try again",
        ),
        "40001" | "40P01" => {
            Error::new(ErrorKind::Conflict, "the statement conflicted with another one; nothing was written, run it again")
                .with_retry(Retry::Now)
        }
        "22021" | "22P05" => Error::invalid("a text holds a character that PostgreSQL cannot store, such as U+0000"),
        QUOTA_EXCEEDED => Error::internal("a quota without its size"),
        _ => match state.get(..2) {
            Some("23") => {
                let kind = match state {
                    "23502" => "not_null",
                    "23503" => "foreign_key",
                    "23505" => "unique",
                    "23514" => "check",
                    "23P01" => "exclusion",
                    _ => "constraint",
                };
                constraint(kind, &told)
            }
            Some("08" | "57" | "58") => {
                Error::unavailable("the PostgreSQL server is going down or lost the session; try again")
                    .with_retry(Retry::Now)
            }
            Some("53") => {
                Error::unavailable("the PostgreSQL server lacks resources; try again with less load")
            }
            // `to_tsvector(30777, 'a')`: a number that the agent wrote.
            Some("XX") if told.starts_with("cache lookup failed for text search") => Error::invalid(
                "no text search configuration, dictionary or parser has this number; name it, as in to_tsvector('english', …)",
            ),
            Some("XX") => Error::internal("PostgreSQL ended the statement with an internal error; please report it"),
            _ => Error::invalid(format!("PostgreSQL refuses the statement: {told}")),
        },
    };
    error.with_detail("sqlstate", state.chars().take(5).collect::<String>())
}

/// The message without values. Names and parts of the statement stay; what data exceptions quote is data.
fn told(fault: &Fault) -> String {
    let message = &fault.message;
    let message = if fault.state.starts_with("22") || fault.state.starts_with("XX") {
        match (message.find('"'), message.rfind('"')) {
            (Some(first), Some(last)) if first < last => {
                let (before, after) = (message.get(..first), message.get(last + 1..));
                format!("{}\"…\"{}", before.unwrap_or_default(), after.unwrap_or_default())
            }
            _ => message.clone(),
        }
    } else {
        message.clone()
    };
    message.chars().take(LONGEST).collect()
}

/// The object of a message, which comes last: `permission denied for function pg_sleep`, `… policy for table "my
/// notes"`.
fn named(told: &str) -> String {
    let quoted = told.strip_suffix('"').and_then(|rest| rest.rsplit_once('"')).map(|(_, name)| name);
    quoted.or_else(|| told.rsplit(' ').next()).unwrap_or_default().chars().take(64).collect()
}

/// Parts of messages that show that a statement is about vectors.
const OF_VECTORS: &[&str] = &[
    "type \"vector\"",
    "type \"halfvec\"",
    "type \"sparsevec\"",
    "function cosine_distance(",
    "function inner_product(",
    "function l1_distance(",
    "function l2_distance(",
    "function l2_normalize(",
    "function vector_dims(",
    "function vector_norm(",
];

/// Whether the message is about a pgvector operator between types that pgvector would accept.
fn compares_vectors(message: &str) -> bool {
    let could_be_one = |operand: &str| {
        let is_text =
            matches!(operand, "unknown" | "text" | "character varying" | "vector" | "halfvec" | "sparsevec");
        is_text || operand.ends_with("[]")
    };
    let operands = message.split_once("operator does not exist: ").map_or("", |(_, operands)| operands);
    let split =
        [" <=> ", " <-> ", " <#> ", " <+> "].iter().find_map(|operator| operands.split_once(operator));
    split.is_some_and(|(left, right)| could_be_one(left) && could_be_one(right))
}

/// The error of a statement in a database without pgvector. The server only says that an operator, a type or a function
/// does not exist, as if its arguments were at fault.
pub(crate) fn without_vectors(error: Error) -> Error {
    let state = error.details().get("sqlstate").and_then(|state| state.as_str()).unwrap_or_default();
    let message = error.message();
    let is_of_vectors = compares_vectors(message) || OF_VECTORS.iter().any(|word| message.contains(word));
    if !matches!(state, "42883" | "42704") || !is_of_vectors {
        return error;
    }
    Error::vector_unsupported(
        format!(
            "{message}; vectors need pgvector, which this database does not have: do without them, or ask the operator to \
             install it"
        ),
    )
    .with_detail("sqlstate", state)
    .with_detail("provider", "postgres")
}

/// The statement ended its own transaction.
pub(crate) fn ends_transaction() -> Error {
    Error::statement_refused(
        "the statement ended its transaction; use the calls for begin, commit and rollback",
    )
    .with_detail("construct", "transaction")
    .with_detail("layer", "transaction")
}

/// The statement would copy to or from the client.
pub(crate) fn copies() -> Error {
    Error::statement_refused("COPY is not for agents; use INSERT and SELECT")
        .with_detail("construct", "COPY")
        .with_detail("layer", "protocol")
}

/// The session broke, but nothing can have been written.
pub(crate) fn lost(lost: Lost) -> Error {
    let error = Error::unavailable(
        "the connection to the PostgreSQL server was lost; nothing was written, try again",
    )
    .with_retry(Retry::Now);
    match lost {
        Lost::Broken(source) => error.with_source(source),
        Lost::Ended(state) => error.with_detail("sqlstate", state),
        Lost::ProtocolViolation => Error::internal("PostgreSQL's protocol was violated; please report it"),
    }
}

/// The session broke, or the server did not end the statement in time, but nothing can have been written.
pub(crate) fn broken(broken: Broken) -> Error {
    match broken {
        Broken::Late | Broken::Stopped => timeout(),
        Broken::Lost(reason) => lost(reason),
    }
}

/// The session broke during a commit.
pub(crate) fn outcome_unknown() -> Error {
    Error::outcome_unknown(
        "the connection to the PostgreSQL server was lost before it confirmed the commit; read the rows to see whether they \
         are there",
    )
    .with_retry(Retry::Never)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(state: &str, message: &str) -> Error {
        statement(&Fault { state: state.to_owned(), message: message.to_owned(), ..Fault::default() })
    }

    #[test]
    fn no_value_is_shown() {
        for (state, message) in [
            ("22P02", "invalid input syntax for type integer: \"hunter2\""),
            ("22P02", "invalid input syntax for type integer: \"a\"hunter2\"b\""),
            ("22003", "value \"hunter2\" is out of range for type integer"),
            ("22P02", "invalid input value for enum mood: \"hunter2\""),
        ] {
            let error = of(state, message);
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn what_the_server_lacks_is_told() {
        for (state, message, kind) in [
            ("53200", "out of shared memory", ErrorKind::Unavailable),
            ("53200", "out of memory", ErrorKind::TooLarge),
            (TOO_MANY_LOCKS, "the transaction holds too many locks", ErrorKind::TooLarge),
            (TOO_MANY_OBJECTS, "the database has too many objects", ErrorKind::TooLarge),
            ("XX000", "cache lookup failed for text search configuration 30777", ErrorKind::InvalidArgument),
            ("XX000", "cache lookup failed for relation 1", ErrorKind::Internal),
        ] {
            assert_eq!(of(state, message).kind(), kind, "{message}");
        }
    }

    #[test]
    fn constraints_and_refusals_are_named() {
        let error = of("23505", "duplicate key value violates unique constraint \"t_v_key\"");
        assert_eq!(error.details().get("constraint").and_then(|value| value.as_str()), Some("unique"));
        for (message, construct) in [
            ("permission denied for function pg_sleep", "pg_sleep"),
            ("new row violates row-level security policy for table \"my notes\"", "my notes"),
            ("new row violates row-level security policy \"own\" for table \"notes\"", "notes"),
        ] {
            let error = of("42501", message);
            assert_eq!(error.kind(), ErrorKind::StatementRefused);
            assert_eq!(error.details()["construct"], construct);
            assert_eq!(error.message().contains("documented functions"), construct == "pg_sleep", "{error}");
        }
    }

    #[test]
    fn without_pgvector_a_statement_about_vectors_is_told_what_is_missing() {
        for (state, message) in [
            ("42883", "operator does not exist: text <=> unknown"),
            ("42883", "operator does not exist: double precision[] <-> real[]"),
            ("42704", "type \"vector\" does not exist"),
            ("42883", "function cosine_distance(unknown, unknown) does not exist"),
        ] {
            let error = without_vectors(of(state, message));
            assert_eq!(error.kind(), ErrorKind::VectorUnsupported);
            assert!(error.message().contains(message) && error.message().contains("pgvector"), "{error}");
        }
        for message in [
            "operator does not exist: text + integer",
            "operator does not exist: integer <-> integer",
            "operator does not exist: point <-> integer",
            "operator does not exist: <-> unknown",
        ] {
            let other = without_vectors(of("42883", message));
            assert_eq!(other.kind(), ErrorKind::InvalidArgument);
            assert!(!other.message().contains("pgvector"), "{other}");
        }
    }
}
