//! Readers for real conversations: every format yields turns, and every turn becomes a turn of a conversation or an
//! entry.
//!
//! Readers handle files of any size and hold one line or conversation at a time. Broken parts are reported with their
//! place; the rest is read.

mod conversation;
mod detect;
mod format;
mod inputs;
mod langgraph;
mod moved;
mod problems;
mod readers;
mod records;
mod store;
mod template;
mod turns;

pub(crate) use conversation::ConversationRecords;
pub(crate) use detect::{Opened, detect, undetected};
pub(crate) use format::Format;
pub(crate) use inputs::{EXPORT, Input, Inputs, MAX_DEPTH, Unread, inputs, is_markdown};
pub(crate) use langgraph::{LangGraph, LangGraphRows, SQLITE};
pub(crate) use moved::{Moved, left};
pub(crate) use problems::{Problem, Problems};
pub(crate) use readers::{Item, Place, Source, Turn, reader};
pub(crate) use records::{
    FORMAT as EXPORT_FORMAT, Found, Header, RecordReader, Records, VERSION as EXPORT_VERSION,
    store as store_records, stored as stored_records,
};
pub(crate) use store::{OnDifferent, Store, Totals, digest_of_record};
pub(crate) use template::ScopeTemplate;
pub(crate) use turns::{Turns, message};
