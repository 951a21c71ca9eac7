//! Short queries on the caller's thread, within narrow bounds: handing one to a worker costs more than it takes.

pub(super) mod history;
mod repeated;
mod unseen;
