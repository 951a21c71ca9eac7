//! Readers of real conversations: every format yields turns, and every turn becomes one entry.
//!
//! Readers pull from a file of any size and hold one line or one conversation of it at a time. What
//! is broken is reported by its place; the rest is read.

mod chatgpt;
mod claude_code;
mod content;
mod detect;
mod elements;
mod inputs;
mod lines;
pub(crate) mod locomo;
mod messages;
mod problems;
mod records;
mod store;
mod template;
mod time;
mod turn;

use std::io::BufRead;

use clap::ValueEnum;
use serde::Serialize;

pub(crate) use detect::{Opened, detect, undetected};
pub(crate) use inputs::{Input, inputs};
pub(crate) use problems::Problems;
pub(crate) use records::{
    FORMAT as EXPORT_FORMAT, Found, Header, Records, VERSION as EXPORT_VERSION, store as store_records,
    stored as stored_records,
};
pub(crate) use store::{OnDifferent, Store, Totals};
pub(crate) use template::ScopeTemplate;
pub(crate) use turn::{Place, Turn};

/// What a file of conversations is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Format {
    /// One message a line: `{"role"|"speaker", "content"|"text", "time"?, "session"?}`
    Jsonl,
    /// LoCoMo dialogues, as in `locomo10.json`
    Locomo,
    /// Session files of Claude Code (`~/.claude/projects/*/*.jsonl`)
    ClaudeCode,
    /// `conversations.json` of a ChatGPT data export
    Chatgpt,
    /// Entries as `memory export` writes them
    Records,
}

impl Format {
    /// The name on the command line, in keys and in source labels.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Locomo => "locomo",
            Self::ClaudeCode => "claude-code",
            Self::Chatgpt => "chatgpt",
            Self::Records => "records",
        }
    }
}

/// What a reader found next.
pub(crate) enum Item {
    /// Something that was said.
    Turn(Box<Turn>),
    /// Something that cannot be read: where, and why.
    Broken(Place, String),
    /// Something that is no turn and is meant to be read over.
    PassedOver,
}

/// A reader of one file in one format.
pub(crate) trait Reader: Send {
    /// The next item; `None` at the end.
    fn next_item(&mut self) -> std::io::Result<Option<Item>>;
}

/// Bytes to read.
pub(crate) type Bytes<'a> = Box<dyn BufRead + Send + 'a>;

/// What stands in a file.
pub(crate) enum Source<'a> {
    /// Conversations.
    Turns(Box<dyn Reader + 'a>),
    /// Entries of an export.
    Records(Bytes<'a>),
}

/// What reads `input`; `name` names the conversation where the format does not.
pub(crate) fn reader<'a>(format: Format, input: Bytes<'a>, name: &str) -> Source<'a> {
    Source::Turns(match format {
        Format::Jsonl => Box::new(messages::Messages::new(input, name)),
        Format::Locomo => Box::new(locomo::Dialogues::new(input)),
        Format::ClaudeCode => Box::new(claude_code::Session::new(input, name)),
        Format::Chatgpt => Box::new(chatgpt::Conversations::new(input)),
        Format::Records => return Source::Records(input),
    })
}

/// Longest complaint of a parser, in characters: it may quote what it met.
const MAX_COMPLAINT: usize = 200;

/// A parser's complaint without the position it adds, which would be one inside the line.
pub(crate) fn json_complaint(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    let cut: String = text.chars().take(MAX_COMPLAINT).collect();
    format!("{cut}, at byte {}", error.column())
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// Everything a reader finds.
    #[derive(Default)]
    pub(crate) struct Found {
        pub(crate) turns: Vec<Turn>,
        pub(crate) broken: Vec<(String, String)>,
        pub(crate) passed_over: usize,
    }

    pub(crate) fn read(mut reader: impl Reader) -> Found {
        let mut found = Found::default();
        while let Some(item) = reader.next_item().unwrap() {
            match item {
                Item::Turn(turn) => found.turns.push(*turn),
                Item::Broken(place, why) => found.broken.push((place.to_string(), why)),
                Item::PassedOver => found.passed_over += 1,
            }
        }
        found
    }

    impl Found {
        /// Keys of the entries the turns become.
        pub(crate) fn keys(&self, format: Format) -> Vec<String> {
            let key = |turn: &Turn| turn.clone().into_entry(format.name()).unwrap().key.to_string();
            self.turns.iter().map(key).collect()
        }
    }
}
