//! How a case reports a failure: with an actionable reason, never a panic.

use std::fmt;
use std::panic::Location;

use memory_core::json::JsonError;
use memory_core::{Error, ErrorKind};

/// Why a case stopped early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The provider misbehaves.
    Failed(String),
    /// The case does not apply to this provider.
    Skipped(String),
}

/// The outcome of a case.
pub(crate) type CaseResult<T = ()> = Result<T, Stop>;

impl Stop {
    /// A failure, with its place in the suite.
    #[track_caller]
    pub(crate) fn failed(why: impl fmt::Display) -> Self {
        Self::failed_at(&why, Location::caller())
    }

    #[cold]
    fn failed_at(why: &dyn fmt::Display, place: &Location<'_>) -> Self {
        let file = place.file().rsplit_once("src/").map_or(place.file(), |(_, file)| file);
        Self::Failed(format!("{why} ({file}:{})", place.line()))
    }

    /// Not applicable, and why.
    pub(crate) fn skipped(why: impl Into<String>) -> Self {
        Self::Skipped(why.into())
    }
}

/// An unexpected error.
impl From<Error> for Stop {
    #[track_caller]
    fn from(error: Error) -> Self {
        Self::failed(format_args!("failed with {}: {error}", error.kind()))
    }
}

impl From<JsonError> for Stop {
    #[track_caller]
    fn from(error: JsonError) -> Self {
        Self::failed(format_args!("the value that came back is not acceptable JSON: {error}"))
    }
}

impl From<serde_json::Error> for Stop {
    #[track_caller]
    fn from(error: serde_json::Error) -> Self {
        Self::failed(format_args!("JSON does not pass: {error}"))
    }
}

/// Most characters of a value in a message.
const LONGEST: usize = 300;

/// A value for a message, shortened if it is long.
pub(crate) fn shown(value: &dyn fmt::Debug) -> String {
    part(&format!("{value:?}"), 0)
}

/// At most [`LONGEST`] characters of a text from `start` on.
fn part(text: &str, start: usize) -> String {
    let mut rest = text.chars().skip(start);
    let (before, part) = (if start > 0 { "…" } else { "" }, rest.by_ref().take(LONGEST).collect::<String>());
    format!("{before}{part}{}", if rest.next().is_some() { "…" } else { "" })
}

/// Two long texts from shortly before their first difference on.
fn apart(one: &str, other: &str) -> (String, String) {
    const BEFORE: usize = 80;
    let same = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    let start = if same < LONGEST / 2 { 0 } else { same.saturating_sub(BEFORE) };
    (part(one, start), part(other, start))
}

/// The error of a result that must be one of this kind.
///
/// # Errors
/// A failure if it is not.
#[track_caller]
pub(crate) fn error_of_kind<T: fmt::Debug>(
    result: Result<T, Error>,
    kind: ErrorKind,
    what: fmt::Arguments<'_>,
) -> CaseResult<Error> {
    match result {
        Err(error) if error.kind() == kind => Ok(error),
        Err(error) => Err(another_kind(&error, kind, what)),
        Ok(value) => Err(no_error(&value, kind, what)),
    }
}

// Messages are formatted out of line: inlined, they would be most of the cases' code.

#[cold]
#[inline(never)]
#[track_caller]
fn another_kind(error: &Error, kind: ErrorKind, what: fmt::Arguments<'_>) -> Stop {
    Stop::failed(format_args!("{what}: expected the error {kind}, got {}: {error}", error.kind()))
}

#[cold]
#[inline(never)]
#[track_caller]
fn no_error(value: &dyn fmt::Debug, kind: ErrorKind, what: fmt::Arguments<'_>) -> Stop {
    Stop::failed(format_args!("{what}: expected the error {kind}, but it succeeded with {}", shown(value)))
}

/// The failure of two values that should be equal.
#[cold]
#[inline(never)]
#[track_caller]
pub(crate) fn unequal(what: fmt::Arguments<'_>, actual: &dyn fmt::Debug, expected: &dyn fmt::Debug) -> Stop {
    let (expected, actual) = apart(&format!("{expected:?}"), &format!("{actual:?}"));
    Stop::failed(format_args!("{what}: expected {expected}, got {actual}"))
}

/// The failure of an option that should not be empty.
#[cold]
#[inline(never)]
#[track_caller]
pub(crate) fn nothing(what: fmt::Arguments<'_>) -> Stop {
    Stop::failed(format_args!("{what}: expected something, got nothing"))
}

/// Fails the case unless the condition holds: `check!(cond)`, `check!(cond, "why {}", x)`.
macro_rules! check {
    ($condition:expr $(,)?) => {
        $crate::check::check!($condition, "{}", concat!("does not hold: ", stringify!($condition)))
    };
    ($condition:expr, $($why:tt)+) => {
        let holds: bool = $condition;
        if !holds {
            return Err($crate::check::Stop::failed(format_args!($($why)+)));
        }
    };
}

/// Fails the case unless both are equal: `expect_eq!(actual, expected)`, optionally with a context.
macro_rules! expect_eq {
    ($actual:expr, $expected:expr $(,)?) => { $crate::check::expect_eq!($actual, $expected, "{}", stringify!($actual)) };
    ($actual:expr, $expected:expr, $($context:tt)+) => {
        match (&$actual, &$expected) {
            (actual, expected) => if !(*actual == *expected) {
                return Err($crate::check::unequal(format_args!($($context)+), actual, expected));
            }
        }
    };
}

/// Fails the case unless the result is an error of the kind, and returns the error: `let error = expect_kind!(result,
/// ErrorKind::Conflict, "a stale version");`
macro_rules! expect_kind {
    ($result:expr, $kind:expr $(,)?) => { $crate::check::expect_kind!($result, $kind, "{}", stringify!($result)) };
    ($result:expr, $kind:expr, $($context:tt)+) => {
        match $result {
            result => $crate::check::error_of_kind(result, $kind, format_args!($($context)+))?,
        }
    };
}

/// Fails the case if the option is `None`, and returns its content: `expect_some!(option, "why")`.
macro_rules! expect_some {
    ($option:expr $(,)?) => { $crate::check::expect_some!($option, "{}", stringify!($option)) };
    ($option:expr, $($context:tt)+) => {
        match $option {
            Some(value) => value,
            None => return Err($crate::check::nothing(format_args!($($context)+))),
        }
    };
}

pub(crate) use {check, expect_eq, expect_kind, expect_some};

#[cfg(test)]
mod tests {
    use super::*;

    fn failing(result: CaseResult) -> String {
        match result {
            Err(Stop::Failed(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn reasons_give_actual_expected_and_place() {
        let why = failing((|| {
            expect_eq!(1 + 1, 3, "the sum of {}", "ones");
            Ok(())
        })());
        assert!(why.starts_with("the sum of ones: expected 3, got 2 (check.rs:"), "{why}");
        let why = failing((|| {
            expect_kind!(Err::<(), _>(Error::conflict(None)), ErrorKind::TooLarge, "a key");
            Ok(())
        })());
        assert!(why.starts_with("a key: expected the error too_large, got conflict: "), "{why}");
    }

    #[test]
    fn an_unexpected_error_names_its_line() {
        fn failed() -> CaseResult {
            Err::<(), _>(Error::internal("x"))?;
            Ok(())
        }
        let why = failing(failed());
        assert!(why.contains("(check.rs:"), "{why}");
    }

    #[test]
    fn long_values_are_shown_where_they_differ() {
        let (one, other) = (format!("{}1 end", "ä".repeat(500)), format!("{}2 end", "ä".repeat(500)));
        let shown = apart(&one, &other);
        assert_eq!(shown.0, format!("…{}1 end", "ä".repeat(80)));
        assert_eq!(shown.1, format!("…{}2 end", "ä".repeat(80)));
        assert_eq!(apart("a", &"a".repeat(301)), ("a".to_owned(), format!("{}…", "a".repeat(300))));
        assert_eq!(apart("Some(1)", "None"), ("Some(1)".to_owned(), "None".to_owned()));
    }
}
