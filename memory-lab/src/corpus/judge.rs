//! Classifies an answer, and compares it with the line's expectation.

use std::time::Duration;

use memory_core::{Error, ErrorKind};
use serde::{Deserialize, Serialize};

use super::line::{Expect, Line};

/// Time limit of every statement.
pub(super) const MAX_ELAPSED: Duration = Duration::from_secs(2);
/// Memory limit of every statement, in bytes.
pub(super) const MAX_PEAK: u64 = 256 << 20;

/// The code of a line that could not be read.
pub(super) const UNREADABLE: &str = "unreadable";

/// How a statement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// It ran.
    Ok,
    /// A layer refused or stopped it, with a typed code.
    Refused,
    /// The engine rejected it, as it would outside a sandbox.
    Error,
}

impl Outcome {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Refused => "refused",
            Self::Error => "error",
        }
    }
}

/// The outcome of a failure, and the layer it comes from.
pub(super) fn of(error: &Error) -> (Outcome, String) {
    let named = ["layer", "stage"].iter().find_map(|name| error.details().get(*name)?.as_str());
    let refused = |otherwise: &str| (Outcome::Refused, named.unwrap_or(otherwise).to_owned());
    match error.kind() {
        ErrorKind::StatementRefused => refused("authorizer"),
        ErrorKind::ReadOnly => refused("readonly"),
        ErrorKind::QuotaExceeded => refused("quota"),
        ErrorKind::Timeout => refused("deadline"),
        ErrorKind::TooLarge => refused("limits"),
        ErrorKind::ResultTooLarge => refused("heap"),
        _ => (Outcome::Error, named.unwrap_or("engine").to_owned()),
    }
}

/// The outcome of a line, as printed.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Verdict {
    pub(super) id: String,
    pub(super) outcome: Outcome,
    /// The error's code; `ok` if it ran.
    pub(super) code: String,
    /// The layer that refused it.
    pub(super) layer: Option<String>,
    pub(super) elapsed_ms: f64,
    pub(super) peak_bytes: u64,
    /// Whether the scope's database, or anything outside it, changed.
    pub(super) changed: bool,
    /// What changed or was read outside the scope.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) outside: Vec<String>,
    /// The error message.
    #[serde(skip)]
    pub(super) message: String,
}

impl Verdict {
    /// The verdict of a statement after which nothing can be checked: `hung` or `crashed`.
    pub(super) fn without_result(line: &Line, code: &str, elapsed_ms: f64) -> Self {
        let message = format!("the process that ran it {code}");
        let lost = Self::unreadable(&line.id, &message);
        Self { code: code.to_owned(), elapsed_ms, changed: true, outside: vec![message], ..lost }
    }

    /// The verdict of a line that could not be read.
    pub(super) fn unreadable(id: &str, why: &str) -> Self {
        Self {
            id: id.to_owned(),
            outcome: Outcome::Error,
            code: UNREADABLE.to_owned(),
            layer: None,
            elapsed_ms: 0.0,
            peak_bytes: 0,
            changed: false,
            outside: Vec::new(),
            message: why.to_owned(),
        }
    }

    /// The verdict of a statement that did not run because its setup failed.
    pub(super) fn unprepared(line: &Line, error: &Error) -> Self {
        let why = format!("its setup fails: {}", error.message());
        Self { code: "setup_failed".to_owned(), ..Self::unreadable(&line.id, &why) }
    }

    pub(super) fn is_lost(&self) -> bool {
        self.outcome == Outcome::Error && matches!(self.code.as_str(), "hung" | "crashed")
    }

    /// Whether it ended as expected. Nothing outside the scope may ever change, and the limits on time and memory always hold.
    pub(super) fn is_as_expected(&self, line: &Line) -> bool {
        let bounded = self.elapsed_ms < MAX_ELAPSED.as_secs_f64() * 1_000.0 && self.peak_bytes < MAX_PEAK;
        let isolated = self.outside.is_empty();
        if matches!(self.code.as_str(), "setup_failed" | UNREADABLE) {
            return false;
        }
        let ended = match line.expect {
            None => self.outcome == Outcome::Ok || (line.is_optional() && self.outcome == Outcome::Refused),
            Some(Expect::Refuse) if line.is_optional() && self.outcome == Outcome::Ok => true,
            Some(Expect::Refuse) => self.outcome != Outcome::Ok && !self.changed,
            Some(Expect::Readonly) => self.outcome == Outcome::Refused && !self.changed,
            Some(Expect::Bounded | Expect::Isolated) => true,
        };
        bounded && isolated && ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(rest: &str) -> Line {
        serde_json::from_str(&format!(r#"{{"id":"a","op":"exec","sql":"x"{rest}}}"#)).unwrap()
    }

    fn verdict(outcome: Outcome) -> Verdict {
        Verdict {
            outcome,
            code: String::new(),
            elapsed_ms: 1.0,
            peak_bytes: 1,
            ..Verdict::unreadable("a", "")
        }
    }

    #[test]
    fn each_expectation_is_held_to_its_words() {
        let (ok, refused, error) = (verdict(Outcome::Ok), verdict(Outcome::Refused), verdict(Outcome::Error));
        for (rest, as_expected) in [
            ("", [true, false, false]),
            (r#","policy":"optional""#, [true, true, false]),
            (r#","expect":"refuse""#, [false, true, true]),
            (r#","expect":"readonly""#, [false, true, false]),
            (r#","expect":"bounded""#, [true, true, true]),
            (r#","expect":"isolated""#, [true, true, true]),
        ] {
            let line = line(rest);
            let found = [&ok, &refused, &error].map(|verdict| verdict.is_as_expected(&line));
            assert_eq!(found, as_expected, "{rest}");
        }
    }

    #[test]
    fn what_changes_takes_too_long_too_much_or_moves_the_outside_is_never_as_expected() {
        let refuse = line(r#","expect":"refuse""#);
        assert!(!Verdict { changed: true, ..verdict(Outcome::Refused) }.is_as_expected(&refuse));
        for rest in ["", r#","expect":"bounded""#, r#","expect":"isolated""#] {
            let line = line(rest);
            assert!(!Verdict { elapsed_ms: 2_000.0, ..verdict(Outcome::Ok) }.is_as_expected(&line));
            assert!(!Verdict { peak_bytes: MAX_PEAK, ..verdict(Outcome::Ok) }.is_as_expected(&line));
            assert!(!Verdict { outside: vec![String::new()], ..verdict(Outcome::Ok) }.is_as_expected(&line));
        }
    }

    #[test]
    fn typed_refusals_name_their_layer_and_the_engine_s_own_errors_are_none() {
        let refused = Error::statement_refused("no").with_detail("stage", "gate");
        assert_eq!(of(&refused), (Outcome::Refused, "gate".to_owned()));
        assert_eq!(of(&Error::timeout("late")), (Outcome::Refused, "deadline".to_owned()));
        assert_eq!(of(&Error::invalid("no such table: x")), (Outcome::Error, "engine".to_owned()));
    }
}
