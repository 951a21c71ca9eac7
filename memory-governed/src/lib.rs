//! Shared state of several agents. A note is a candidate write: it becomes state that others read only when its
//! meaning, what it refers to and its permission are all certain. What is uncertain waits; nothing is guessed.
//!
//! The stages, each with one job:
//! - [`WorkingMemory`] keeps notes, private to an agent and its run.
//! - [`PromotionPipeline`] takes one note after another: an [`Interpreter`] says what it asks for, and a [`Resolver`]
//!   which row it means.
//! - [`Inputter`] is the only way to shared state: it appends to the ledger, and in the same transaction
//!   [`SharedMemoryWriter`] projects the event into the tables that others read.
//! - [`PendingMemoryQueue`] holds what is uncertain; [`Review`] lets people decide.
//! - [`SharedMemory`] is what agents read.
//! - [`Ledger`] proves that nothing was changed, and rebuilds the tables from the events.
//! - [`Eraser`] forgets a note or a row, and everything derived from it.
//!
//! All of it uses the tables of one [`Space`], which agents cannot reach.

mod bucket;
mod calibrated;
mod columns;
mod encoding;
mod forget;
pub mod interpret;
mod ledger;
mod note;
mod pipeline;
mod projection;
mod request;
pub mod resolve;
mod seams;
mod shared;
mod store;
mod working;

pub use bucket::{Bucket, Operation};
pub use calibrated::Calibrated;
pub use columns::TASK_STATUSES;
pub use forget::{Eraser, Forgotten};
pub use interpret::{Context, Interpretation, Interpreter, ModelInterpreter, Rules};
pub use ledger::{Anchor, Event, Ledger, Rebuilt, SourceRef, Verified};
pub use note::{Actor, Note, NoteSource, Trust};
pub use pipeline::{
    Held, Inputter, Outcome, Pending, PendingMemoryQueue, PendingStatus, Promotion, PromotionPipeline,
    Report, Review,
};
pub use projection::{Row, SharedMemoryWriter};
pub use request::{Decision, MAX_ALIASES, MAX_ID_BYTES, WriteRequest, is_id};
pub use seams::{Alias, Candidate, Resolution, Resolver, Scored};
pub use shared::{AsOf, Offered, SharedMemory, Why, WhyEvent};
pub use store::{Options, Space};
pub use working::{StoredNote, WorkingMemory};
