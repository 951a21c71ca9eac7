//! Shared state of several agents. A note is a candidate write: it becomes state that others read only when what it
//! means, what it refers to and whether it may are certain. What is not certain waits, and is never guessed.

mod bucket;
mod note;
mod request;

pub use bucket::{Bucket, Operation};
pub use note::{Actor, Note, NoteSource, Trust};
pub use request::{Decision, WriteRequest};
