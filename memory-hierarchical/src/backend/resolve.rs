//! Flag, environment, files: in this order.

use std::path::PathBuf;

use memory_core::{Error, Result};
use serde::Serialize;

use super::choice::BackendChoice;
use super::detect::graph_files;
use super::environment::{BACKEND, Environment};
use super::paths::Paths;

/// What decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "by")]
pub enum ChosenBy {
    /// The flag `--backend`.
    Flag,
    /// The variable `AMPLIHACK_MEMORY_BACKEND`.
    Variable,
    /// Files of the graph engine.
    Detected {
        /// The first one found.
        path: PathBuf,
    },
    /// Nothing: the default of new installations.
    Default,
    /// The fallback for a variable that names no backend.
    Fallback,
}

/// A choice, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Resolved {
    /// The backend.
    pub backend: BackendChoice,
    /// What decided.
    #[serde(flatten)]
    pub by: ChosenBy,
    /// What the caller must show to the person.
    pub warnings: Vec<String>,
}

/// The backend of a command: the flag, or else the variable, or else `graph-db` if files of it are found, or else
/// `sqlite`.
///
/// # Errors
/// `invalid_argument` for a flag or variable that names no backend, without a home folder where files decide, and for a
/// malformed path of the graph engine's file.
pub fn resolve_backend(flag: Option<&str>, environment: &Environment) -> Result<Resolved> {
    if let Some(token) = flag {
        return chosen(token, ChosenBy::Flag);
    }
    if let Some(token) = environment.backend() {
        return chosen(&token.to_string_lossy(), ChosenBy::Variable).map_err(|error| {
            let message =
                format!("{BACKEND} names no backend; set it to `sqlite` or `graph-db`, or unset it");
            error.retold(message).with_detail("variable", BACKEND)
        });
    }
    let paths = Paths::of(environment)?;
    Ok(match graph_files(&paths) {
        Some(path) => Resolved {
            backend: BackendChoice::GraphDb,
            by: ChosenBy::Detected { path },
            warnings: Vec::new(),
        },
        None => Resolved { backend: BackendChoice::Sqlite, by: ChosenBy::Default, warnings: Vec::new() },
    })
}

/// The backend of a transfer, which has no flag: as [`resolve_backend`], but a variable that names no backend is a warning,
/// and then `graph-db`.
///
/// # Errors
/// Those of [`resolve_backend`], except for the variable.
pub fn resolve_transfer_backend(environment: &Environment) -> Result<Resolved> {
    match resolve_backend(None, environment) {
        Err(error) if is_of_variable(&error) => Ok(Resolved {
            backend: BackendChoice::GraphDb,
            by: ChosenBy::Fallback,
            warnings: vec![format!("{}; going on with `graph-db`", error.message())],
        }),
        resolved => resolved,
    }
}

fn is_of_variable(error: &Error) -> bool {
    error.details().get("variable").is_some_and(|name| name == BACKEND)
}

fn chosen(token: &str, by: ChosenBy) -> Result<Resolved> {
    let (backend, warning) = BackendChoice::parse(token)?;
    Ok(Resolved { backend, by, warnings: warning.into_iter().collect() })
}
