//! [`BackendChoice`].

use std::fmt;

use memory_core::{Error, ErrorKind, Result};
use serde::Serialize;

/// The tokens, as written.
const TOKENS: [&str; 3] = ["sqlite", "graph-db", "kuzu"];

/// A backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendChoice {
    /// SQL tables.
    Sqlite,
    /// The graph engine.
    GraphDb,
}

impl BackendChoice {
    /// Reads a token: `sqlite`, `graph-db`, or `kuzu`, the latter's old name. The second value is a warning for whoever
    /// wrote it.
    ///
    /// # Errors
    /// `invalid_argument` for anything else, with `value` and `allowed` in the details; case matters.
    pub fn parse(token: &str) -> Result<(Self, Option<String>)> {
        match token {
            "sqlite" => Ok((Self::Sqlite, None)),
            "graph-db" => Ok((Self::GraphDb, None)),
            "kuzu" => {
                let warning = "the backend `kuzu` is called `graph-db` now; the old name will go".to_owned();
                Ok((Self::GraphDb, Some(warning)))
            }
            other => {
                let lower = other.to_ascii_lowercase();
                let meant = TOKENS.into_iter().find(|known| *known == lower);
                let hint = meant.map(|known| format!(" (write `{known}`: case matters)")).unwrap_or_default();
                Err(Error::invalid(format!("there is no such backend{hint}; choose `sqlite` or `graph-db`"))
                    .with_detail("value", other)
                    .with_detail("allowed", TOKENS.to_vec()))
            }
        }
    }

    /// The token.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::GraphDb => "graph-db",
        }
    }

    /// Refuses what this build cannot open.
    ///
    /// # Errors
    /// `capability_unsupported` for the graph engine, saying how to bring its memories here.
    pub fn require_served(self) -> Result<()> {
        match self {
            Self::Sqlite => Ok(()),
            Self::GraphDb => Err(Error::new(
                ErrorKind::Unsupported,
                "this build has no graph engine; export each agent to JSON with the program that wrote the graph \
                 (`memory export --format json` there), import the file here, and choose `sqlite`",
            )
            .with_detail("operation", "graph-db")
            .with_detail("allowed", vec![Self::Sqlite.as_str()])),
        }
    }
}

impl fmt::Display for BackendChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
