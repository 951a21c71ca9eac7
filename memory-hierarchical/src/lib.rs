//! Sessions and a graph of knowledge per agent: what it knows (semantic memories), what happened (episodic memories), and
//! how they follow from each other. `docs/hierarchical.md` has the whole picture.
//!
//! A [`GraphStore`] keeps the graphs; everything else is built on that trait and is the same on every store.

mod model;
mod store;

pub use model::{
    Agent, Counts, DerivesFrom, Edge, EdgeKind, Episodic, Node, Semantic, SimilarTo, Supersedes,
    TransitionedTo,
};
pub use store::{Direction, GraphStore, GraphWrite, Stored};
