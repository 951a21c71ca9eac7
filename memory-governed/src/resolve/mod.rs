//! Which row a note means: certain, or deferred. Pure functions: no I/O, no clock, no language model.

mod decide;
mod ids;
#[cfg(feature = "lab")]
pub mod lab;
mod measure;
mod model;
mod note_words;
mod phrases;
mod plain;
mod report;
mod resolution;
mod row;
mod same_work;
pub(crate) mod speech;
mod weigh;
mod words;

pub use decide::resolve;
pub(crate) use decide::{has_phrase, named_in, names, restates_other_work, states_no_end};
pub(crate) use ids::{occurs, possible_ids};
pub use model::Model;
pub(crate) use plain::words::is_time;
pub(crate) use plain::{ends_plainly, is_understood, is_unturned};
pub(crate) use report::report;
pub use resolution::{Binding, BoundBy, DeferReason, Deferral, OFFERED, Place, Resolution, Scored};
pub use row::{Row, Space};
pub use speech::Mood;
pub(crate) use words::{folded, stems};
