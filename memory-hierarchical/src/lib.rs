//! Sessions and a knowledge graph per agent: what it knows (semantic memories), what happened (episodic memories), and
//! how they follow from each other. `docs/hierarchical.md` gives the whole picture.
//!
//! A [`GraphStore`] keeps the graphs; everything else builds on that trait and is the same for every store.
//! [`SqlGraphs`] keeps them in SQL tables.

mod agent;
pub mod backend;
pub mod limits;
#[cfg(feature = "sqlite")]
pub mod migrate;
mod model;
mod recall;
pub mod rows;
mod sessions;
mod space;
mod sql;
mod store;
pub mod transfer;

pub use agent::{AgentMemory, HistoryEntry, MAX_STEPS, Neighbour, Neighbours, Stats};
pub use model::{
    Agent, Counts, DerivesFrom, Edge, EdgeKind, Episodic, Node, Semantic, SimilarTo, Supersedes,
    TransitionedTo,
};
pub use recall::{DEFAULT_MEMORY_BYTES, GraphHit, GraphRecall, RecallOptions, Recalled, Step};
pub use sessions::{Entry, EntryQuery, NewEntry, SessionSummary, Sessions, parse_expiry};
pub use space::SPACE;
pub use sql::SqlGraphs;
pub use store::{Changes, Direction, GraphStore, GraphWrite, Stored};
