//! A reader for each format of conversations.

mod chatgpt;
mod claude;
mod claude_code;
mod content;
mod elements;
mod front_matter;
mod item;
mod letta;
pub(super) mod lines;
mod locomo;
mod markdown;
mod mem0;
mod messages;
mod time;
mod turn;

use super::format::Format;

pub(crate) use item::{Bytes, Item, Reader};
pub(crate) use turn::{Ended, Place, Turn};

pub(super) use item::json_complaint;
pub(super) use time::written;

/// The contents of a file.
pub(crate) enum Source<'a> {
    /// Conversations.
    Turns(Box<dyn Reader + 'a>),
    /// Entries of an export.
    Records(Bytes<'a>),
}

/// The reader of `input`; `name` is the conversation's name for formats without one.
pub(crate) fn reader<'a>(format: Format, input: Bytes<'a>, name: &str) -> Source<'a> {
    Source::Turns(match format {
        Format::Jsonl => messages::of(input, name),
        Format::Locomo => Box::new(locomo::dialogues(input)),
        Format::ClaudeCode => Box::new(claude_code::Session::new(input, name)),
        Format::Chatgpt => Box::new(chatgpt::conversations(input)),
        Format::Claude => Box::new(claude::elements(input)),
        Format::Letta => Box::new(letta::agents(input, name)),
        Format::Mem0 => mem0::of(input, name),
        Format::Markdown => Box::new(markdown::File::new(input, name)),
        // LangGraph is read from its file instead.
        Format::Records | Format::Langgraph => return Source::Records(input),
    })
}
