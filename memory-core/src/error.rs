//! The error type of every facet.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json::JsonError;
use crate::reduce::ReduceError;

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

type Source = Box<dyn std::error::Error + Send + Sync + 'static>;

/// The kind of error, as far as a caller can act on it.
///
/// [`ErrorKind::code`] is the stable wire code; codes are never renamed or reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument is malformed or outside its documented range.
    InvalidArgument,
    /// Something named that must exist does not.
    NotFound,
    /// A precondition did not hold; `details.current_version` is the stored version.
    Conflict,
    /// Somebody else changed what this caller last saw; `details.reason` says how.
    DriftDetected,
    /// The operation needs another JSON type than the stored value has.
    WrongType,
    /// An input exceeds a size limit; `details.limit` and `details.actual` are in `details.unit`.
    TooLarge,
    /// The write would grow the scope past its quota.
    QuotaExceeded,
    /// The provider does not advertise this operation.
    #[serde(rename = "capability_unsupported")]
    Unsupported,
    /// Vectors were requested from a provider without vectors.
    VectorUnsupported,
    /// Vectors were requested but no embedder is configured.
    EmbedderNotConfigured,
    /// The embedder's dimensions differ from those in the scope or the store.
    DimensionMismatch,
    /// Policy does not let this caller use this scope.
    ScopeDenied,
    /// The SQL statement is not one an agent may run.
    StatementRefused,
    /// A write was attempted on a read-only path.
    ReadOnly,
    /// A deadline passed before the operation had an effect.
    Timeout,
    /// The result exceeds a limit.
    ResultTooLarge,
    /// The named transaction is no longer open.
    TransactionLost,
    /// Too many open transactions or savepoints.
    TransactionLimit,
    /// The run has ended: its scope can no longer be written.
    RunEnded,
    /// Credentials are missing or wrong.
    Unauthenticated,
    /// Credentials are valid but do not allow this.
    Forbidden,
    /// The remote service asks to slow down.
    RateLimited,
    /// The store cannot be reached or is busy; nothing was written.
    Unavailable,
    /// A write may or may not have happened.
    OutcomeUnknown,
    /// The network policy does not allow this connection.
    EgressDenied,
    /// Stored data is damaged, foreign, or of a newer format.
    Corrupt,
    /// A bug in this library or its backend.
    Internal,
}

impl ErrorKind {
    /// Every kind, in declaration order.
    pub const ALL: [Self; 27] = [
        Self::InvalidArgument,
        Self::NotFound,
        Self::Conflict,
        Self::DriftDetected,
        Self::WrongType,
        Self::TooLarge,
        Self::QuotaExceeded,
        Self::Unsupported,
        Self::VectorUnsupported,
        Self::EmbedderNotConfigured,
        Self::DimensionMismatch,
        Self::ScopeDenied,
        Self::StatementRefused,
        Self::ReadOnly,
        Self::Timeout,
        Self::ResultTooLarge,
        Self::TransactionLost,
        Self::TransactionLimit,
        Self::RunEnded,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::RateLimited,
        Self::Unavailable,
        Self::OutcomeUnknown,
        Self::EgressDenied,
        Self::Corrupt,
        Self::Internal,
    ];

    /// The stable wire code.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::DriftDetected => "drift_detected",
            Self::WrongType => "wrong_type",
            Self::TooLarge => "too_large",
            Self::QuotaExceeded => "quota_exceeded",
            Self::Unsupported => "capability_unsupported",
            Self::VectorUnsupported => "vector_unsupported",
            Self::EmbedderNotConfigured => "embedder_not_configured",
            Self::DimensionMismatch => "dimension_mismatch",
            Self::ScopeDenied => "scope_denied",
            Self::StatementRefused => "statement_refused",
            Self::ReadOnly => "read_only",
            Self::Timeout => "timeout",
            Self::ResultTooLarge => "result_too_large",
            Self::TransactionLost => "transaction_lost",
            Self::TransactionLimit => "transaction_limit",
            Self::RunEnded => "run_ended",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::RateLimited => "rate_limited",
            Self::Unavailable => "unavailable",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::EgressDenied => "egress_denied",
            Self::Corrupt => "corrupt",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// Whether the same call may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Retry {
    /// The same call will fail again.
    #[default]
    Never,
    /// The same call may succeed immediately (after a fresh read, for a conflict).
    Now,
    /// The same call may succeed after this long.
    After(Duration),
}

impl Retry {
    /// True unless [`Retry::Never`].
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        !matches!(self, Self::Never)
    }
}

/// The error of every facet: a kind to match on, a message for people, details for programs.
///
/// Neither `Display` nor `Debug` shows secrets, connection strings, stored values or another tenant's text. Whoever
/// creates an error must keep that promise.
///
/// ```
/// use memory_core::{Error, ErrorKind};
/// let error = Error::new(ErrorKind::TooLarge, "the key has 1,025 bytes; at most 1,024 are allowed")
///     .with_detail("limit", 1_024)
///     .with_detail("actual", 1_025);
/// assert_eq!(error.kind().code(), "too_large");
/// assert!(!error.retry().is_retryable());
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: Cow<'static, str>,
    details: Map<String, Value>,
    retry: Retry,
    source: Option<Source>,
}

/// In an `impl` block, `name: Kind;` becomes a constructor that makes an error of that kind from a message.
macro_rules! of_kind {
    ($($(#[$about:meta])* $name:ident: $kind:ident;)*) => {$(
        #[doc = concat!("[`ErrorKind::", stringify!($kind), "`].")]
        $(#[$about])*
        #[must_use]
        pub fn $name(message: impl Into<Cow<'static, str>>) -> Self {
            Self::new(ErrorKind::$kind, message)
        }
    )*};
}

impl Error {
    /// An error of `kind`; the message says what is wrong and what to do next.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        let retry = match kind {
            ErrorKind::Conflict | ErrorKind::TransactionLost => Retry::Now,
            ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::TransactionLimit => {
                Retry::After(Duration::from_millis(100))
            }
            ErrorKind::RateLimited => Retry::After(Duration::from_secs(1)),
            _ => Retry::Never,
        };
        Self(Box::new(Inner { kind, message: message.into(), details: Map::new(), retry, source: None }))
    }

    of_kind! {
        corrupt: Corrupt;
        forbidden: Forbidden;
        invalid: InvalidArgument;
        not_found: NotFound;
        outcome_unknown: OutcomeUnknown;
        quota_exceeded: QuotaExceeded;
        rate_limited: RateLimited;
        read_only: ReadOnly;
        result_too_large: ResultTooLarge;
        scope_denied: ScopeDenied;
        statement_refused: StatementRefused;
        timeout: Timeout;
        transaction_lost: TransactionLost;
        unauthenticated: Unauthenticated;
        unavailable: Unavailable;
        vector_unsupported: VectorUnsupported;
        wrong_type: WrongType;
        /// A bug, not the caller's fault.
        internal: Internal;
    }

    /// [`ErrorKind::TooLarge`], with `details.what`, `limit`, `actual` and `unit`.
    #[must_use]
    pub fn too_large(what: &'static str, actual: usize, limit: usize, unit: &'static str) -> Self {
        Self::new(ErrorKind::TooLarge, format!("{what}: {actual} {unit}; at most {limit} {unit} are allowed"))
            .with_detail("what", what)
            .with_detail("actual", actual)
            .with_detail("limit", limit)
            .with_detail("unit", unit)
    }

    /// [`ErrorKind::Unsupported`], naming the operation and the provider.
    #[must_use]
    pub fn unsupported(operation: &str, provider: &str) -> Self {
        Self::new(
            ErrorKind::Unsupported,
            format!(
                "provider `{provider}` does not serve `{operation}`; ask its capabilities before calling, \
                 or choose a provider that serves it"
            ),
        )
        .with_detail("operation", operation)
        .with_detail("provider", provider)
    }

    /// [`ErrorKind::Conflict`], with the version stored now (`None`: no live entry).
    #[must_use]
    pub fn conflict(current_version: Option<u64>) -> Self {
        let message = match current_version {
            Some(version) => {
                format!(
                    "the precondition does not hold: version {version} is stored; read it and decide again"
                )
            }
            None => {
                "the precondition does not hold: no entry is stored; read the key and decide again".to_owned()
            }
        };
        Self::new(ErrorKind::Conflict, message).with_detail("current_version", current_version)
    }

    /// [`ErrorKind::RunEnded`]: a write to the scope of a run that has ended.
    #[must_use]
    pub fn run_ended() -> Self {
        Self::new(
            ErrorKind::RunEnded,
            "the run has ended and its scope is gone; write to the agent's or the user's scope, or start \
             another run with a new id",
        )
    }

    /// Adds one machine-readable detail.
    #[must_use]
    pub fn with_detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.details.insert(name.to_owned(), value.into());
        self
    }

    /// Overrides the kind's default retry advice.
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.0.retry = retry;
        self
    }

    /// Keeps the cause. Its `Display` must be free of secrets, because it appears in `Debug` and in logs.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The same error with another message; this one becomes its cause.
    #[must_use]
    pub fn retold(self, message: impl Into<Cow<'static, str>>) -> Self {
        let Inner { kind, retry, ref details, .. } = *self.0;
        let details = details.clone();
        Self(Box::new(Inner { kind, message: message.into(), details, retry, source: Some(self.into()) }))
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The message for people.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The details for programs.
    #[must_use]
    pub fn details(&self) -> &Map<String, Value> {
        &self.0.details
    }

    /// Whether the same call may be made again.
    #[must_use]
    pub fn retry(&self) -> Retry {
        self.0.retry
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Error");
        debug.field("kind", &self.0.kind).field("message", &self.0.message);
        if !self.0.details.is_empty() {
            debug.field("details", &self.0.details);
        }
        if self.0.retry.is_retryable() {
            debug.field("retry", &self.0.retry);
        }
        if let Some(source) = &self.0.source {
            debug.field("source", &format_args!("{source}"));
        }
        debug.finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

impl From<JsonError> for Error {
    fn from(error: JsonError) -> Self {
        Self::invalid(format!("the value is not acceptable JSON: {error}")).with_source(error)
    }
}

impl From<ReduceError> for Error {
    fn from(error: ReduceError) -> Self {
        let kind = match &error {
            ReduceError::WrongType { .. } => ErrorKind::WrongType,
            ReduceError::LimitOutOfRange { .. } => ErrorKind::InvalidArgument,
            _ => ErrorKind::TooLarge,
        };
        Self::new(kind, error.to_string()).with_source(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_equal_their_serde_names() {
        let mut seen = std::collections::BTreeSet::new();
        for kind in ErrorKind::ALL {
            assert!(seen.insert(kind.code()), "{} twice", kind.code());
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.code());
        }
    }

    #[test]
    fn the_source_chain_is_kept() {
        let error = Error::internal("outer").with_source(std::io::Error::other("inner"));
        assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "inner");
    }
}
