//! Conversational memory.

mod adding;
mod extract;
mod listing;

pub(crate) use adding::{AddArgs, EventArgs, add, event};
pub(crate) use extract::{ExtractArgs, drain, extract};
pub(crate) use listing::{FactsArgs, RecallArgs, facts, recall};
