//! [`Failure`]: an error as JSON, as it crosses between processes.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind, Retry};

/// An error without its cause, which stays in the process. Converting back gives an equal error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Failure {
    /// The kind, by its wire code.
    pub code: ErrorKind,
    /// For people.
    pub message: String,
    /// For programs.
    #[serde(default)]
    pub details: Map<String, Value>,
    /// Whether the same call may be made again.
    #[serde(default)]
    pub retryable: bool,
    /// After how many milliseconds at the earliest; absent: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        Self {
            code: error.kind(),
            message: error.message().to_owned(),
            details: error.details().clone(),
            retryable: error.retry().is_retryable(),
            retry_after_ms: match error.retry() {
                Retry::Never | Retry::Now => None,
                Retry::After(wait) => Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
            },
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let retry = match (failure.retryable, failure.retry_after_ms) {
            (false, _) => Retry::Never,
            (true, None) => Retry::Now,
            (true, Some(wait)) => Retry::After(Duration::from_millis(wait)),
        };
        let error = Self::new(failure.code, failure.message).with_retry(retry);
        failure.details.into_iter().fold(error, |error, (name, value)| error.with_detail(&name, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_survives_the_way_there_and_back() {
        for error in [
            Error::conflict(Some(7)),
            Error::too_large("key", 2_000, 1_024, "bytes"),
            Error::rate_limited("slower").with_retry(Retry::After(Duration::from_millis(1_500))),
            Error::unsupported("erase", "mine"),
        ] {
            let text = serde_json::to_string(&Failure::from(&error)).unwrap();
            let back: Error = serde_json::from_str::<Failure>(&text).unwrap().into();
            assert_eq!((back.kind(), back.message()), (error.kind(), error.message()));
            assert_eq!((back.details(), back.retry()), (error.details(), error.retry()));
        }
    }
}
