//! `graph backend`.

use memory::hierarchical::backend::{BackendChoice, ChosenBy, Paths, resolve_backend};
use memory_core::Result;
use serde_json::json;

use super::{Which, environment};
use crate::terminal::{Context, Exit, Failure, Out, note};

/// Refuses what this build cannot open.
pub(super) fn require_served(backend: BackendChoice) -> Result<()> {
    if cfg!(feature = "ladybug") { Ok(()) } else { backend.require_served() }
}

/// The engine's graphs: ours, and for reading also the original's where we have none.
#[cfg(feature = "ladybug")]
pub(super) fn engine_graphs(
    reads_original: bool,
) -> Result<std::sync::Arc<dyn memory::hierarchical::GraphStore>> {
    let paths = Paths::of(&environment())?;
    let graphs = memory::hierarchical::ladybug::LadybugGraphs::new(
        paths.own_graphs(),
        reads_original.then(|| paths.graphs()),
    );
    Ok(std::sync::Arc::new(graphs))
}

pub(super) fn backend(context: &Context, which: &Which, out: &mut Out) -> Result<Exit, Failure> {
    let resolved = resolve_backend(which.graph_backend.as_deref(), &environment())?;
    let served = require_served(resolved.backend);
    let opens = match resolved.backend {
        BackendChoice::Sqlite => context.settings()?.shown_url()?,
        BackendChoice::GraphDb => Paths::of(&environment())?.own_graphs().display().to_string(),
    };
    let document = json!({
        "backend": resolved.backend,
        "opens": opens,
        "chosen": resolved.by,
        "warnings": resolved.warnings,
        "is_served": served.is_ok(),
    });
    for warning in &resolved.warnings {
        note(&format!("memory: {warning}"));
    }
    out.tell(&document, |out| {
        let why = match &resolved.by {
            ChosenBy::Flag => "the option says so".to_owned(),
            ChosenBy::Variable => "AMPLIHACK_MEMORY_BACKEND says so".to_owned(),
            ChosenBy::Detected { path } => format!("there is {}", path.display()),
            ChosenBy::Default => "there are no files of the graph engine".to_owned(),
            ChosenBy::Fallback => "AMPLIHACK_MEMORY_BACKEND names no backend".to_owned(),
        };
        out.line(format!("{}: {why}", resolved.backend))?;
        out.line(format!("opens {opens}"))?;
        match &served {
            Ok(()) => Ok(()),
            Err(error) => out.line(error.message()),
        }
    })?;
    Ok(Exit::Ok)
}
