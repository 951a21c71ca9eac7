//! Shared state of several agents. A note is a candidate write: it becomes state that others read only when what it
//! means, what it refers to and whether it may are certain. What is not certain waits, and is never guessed.

mod bucket;
pub mod interpret;
mod note;
mod request;
pub mod resolve;

pub use bucket::{Bucket, Operation};
pub use note::{Actor, Note, NoteSource, Trust};
pub use request::{Decision, MAX_ALIASES, MAX_ID_BYTES, TASK_STATUSES, WriteRequest, is_id};
