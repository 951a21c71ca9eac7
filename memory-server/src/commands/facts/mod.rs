//! Conversational memory.

mod adding;
mod listing;

pub(crate) use adding::{AddArgs, EventArgs, add, event};
pub(crate) use listing::{FactsArgs, RecallArgs, facts, recall};
