//! Short queries on the caller's thread, within narrow limits: handing one to a worker costs more than running it.

pub(super) mod history;
mod repeated;
mod unseen;
