//! Refuses an operation that the backend does not serve, and suggests an alternative here or backends that serve it.

#[cfg(not(all(feature = "governed", feature = "hierarchical")))]
use memory_core::Result;
use memory_core::{Error, ErrorKind, Retry};

use super::memory_tool::MemoryTool;
use super::ops::ToolOp;
#[cfg(not(feature = "governed"))]
use super::ops::{ForgetShared, Note, Pending, Shared, Why};
#[cfg(not(feature = "hierarchical"))]
use super::ops::{RecallGraph, Relate, Remember};

/// Backends with entries and SQL.
const STORES: &str = "sqlite or postgres";
/// Backends with tables of the host.
const TABLES: &str = "sqlite, or postgres with `sql.url`";
/// Backends with facts.
const LAYERS: &str = "mem0 or mem9";

impl MemoryTool {
    /// The refusal of an operation that the backend does not serve.
    pub(super) fn unsupported(&self, op: ToolOp) -> Error {
        let capabilities = self.memory.capabilities();
        let instead = instead(op).filter(|other| self.serves(*other, &capabilities));
        let advice = match (op, instead) {
            (op, _) if is_shared(op) && !cfg!(feature = "governed") => {
                "this build has no shared state: it needs the cargo feature `governed`".to_owned()
            }
            (op, _) if is_shared(op) => format!(
                "it has no tables for shared state: continue without, or ask the operator for a backend with SQL, such as {TABLES}"
            ),
            (op, _) if is_graph(op) && !cfg!(feature = "hierarchical") => {
                "this build has no graphs: they need the cargo feature `hierarchical`".to_owned()
            }
            (op, _) if is_graph(op) => format!(
                "it has no tables for graphs: continue without, or ask the operator for a backend with SQL, such as {TABLES}"
            ),
            (ToolOp::Event, _) if capabilities.memory_layer => {
                "pending work has no event here: look with `facts`".to_owned()
            }
            (ToolOp::Forget, _) if capabilities.memory_layer => "it never forgets a fact".to_owned(),
            (_, Some(other)) if capabilities.memory_layer => format!(
                "it has facts but no entries: use `{}` here, or ask the operator for a backend with entries, such as {STORES}",
                other.as_str()
            ),
            (_, Some(other)) => format!(
                "it has entries but no facts: use `{}` here, or ask the operator for a backend with facts, such as {LAYERS}",
                other.as_str()
            ),
            (op, None) if is_sql(op) => {
                format!("continue without it, or ask the operator for a backend with SQL, such as {STORES}")
            }
            (_, None) => "see `describe` for what is served".to_owned(),
        };
        let name = self.memory.name();
        let error = Error::new(
            ErrorKind::Unsupported,
            format!("provider `{name}` does not serve `{}`; {advice}", op.as_str()),
        )
        .with_retry(Retry::Never)
        .with_detail("operation", op.as_str())
        .with_detail("provider", name);
        match instead {
            Some(other) => error.with_detail("instead", other.as_str()),
            None => error,
        }
    }
}

/// Without the feature there is no shared state to look into.
#[cfg(not(feature = "governed"))]
#[allow(clippy::unused_async, reason = "with the feature they wait for the store")]
impl MemoryTool {
    pub(super) async fn note(&self, _: Note) -> Result<String> {
        self.granted(ToolOp::Note).and_then(|()| Err(self.unsupported(ToolOp::Note)))
    }

    pub(super) async fn shared(&self, _: Shared) -> Result<String> {
        self.granted(ToolOp::Shared).and_then(|()| Err(self.unsupported(ToolOp::Shared)))
    }

    pub(super) async fn why(&self, _: Why) -> Result<String> {
        self.granted(ToolOp::Why).and_then(|()| Err(self.unsupported(ToolOp::Why)))
    }

    pub(super) async fn pending(&self, _: Pending) -> Result<String> {
        self.granted(ToolOp::Pending).and_then(|()| Err(self.unsupported(ToolOp::Pending)))
    }

    pub(super) async fn forget_shared(&self, _: ForgetShared) -> Result<String> {
        self.granted(ToolOp::ForgetShared).and_then(|()| Err(self.unsupported(ToolOp::ForgetShared)))
    }
}

/// Without the feature there are no graphs.
#[cfg(not(feature = "hierarchical"))]
#[allow(clippy::unused_async, reason = "with the feature they wait for the store")]
impl MemoryTool {
    pub(super) async fn remember(&self, _: Remember) -> Result<String> {
        self.granted(ToolOp::Remember).and_then(|()| Err(self.unsupported(ToolOp::Remember)))
    }

    pub(super) async fn relate(&self, _: Relate) -> Result<String> {
        self.granted(ToolOp::Relate).and_then(|()| Err(self.unsupported(ToolOp::Relate)))
    }

    pub(super) async fn recall_graph(&self, _: RecallGraph) -> Result<String> {
        self.granted(ToolOp::RecallGraph).and_then(|()| Err(self.unsupported(ToolOp::RecallGraph)))
    }
}

fn is_graph(op: ToolOp) -> bool {
    matches!(op, ToolOp::Remember | ToolOp::Relate | ToolOp::RecallGraph)
}

fn is_shared(op: ToolOp) -> bool {
    matches!(op, ToolOp::Note | ToolOp::Shared | ToolOp::Why | ToolOp::Pending | ToolOp::ForgetShared)
}

fn is_sql(op: ToolOp) -> bool {
    matches!(
        op,
        ToolOp::SqlExec | ToolOp::SqlQuery | ToolOp::SqlBegin | ToolOp::SqlCommit | ToolOp::SqlRollback
    )
}

/// The closest operation of the other facet.
fn instead(op: ToolOp) -> Option<ToolOp> {
    Some(match op {
        ToolOp::Set | ToolOp::Update | ToolOp::Incr | ToolOp::BulkInsert => ToolOp::Add,
        ToolOp::Get | ToolOp::Search => ToolOp::Recall,
        ToolOp::List => ToolOp::Facts,
        ToolOp::Delete => ToolOp::Forget,
        ToolOp::Add => ToolOp::Set,
        ToolOp::Recall => ToolOp::Search,
        ToolOp::Facts => ToolOp::List,
        ToolOp::Forget => ToolOp::Delete,
        _ => return None,
    })
}
