use std::io::BufRead;

use memory_core::NewEntry;

use super::turn::{Place, Turn};

/// The next item of a reader.
pub(crate) enum Item {
    /// A turn.
    Turn(Box<Turn>),
    /// An entry.
    Entry(Place, Box<NewEntry>),
    /// Something unreadable: its place and the reason.
    Broken(Place, String),
    /// Something that is not a turn, to be skipped.
    PassedOver,
}

/// A reader of one file in one format.
pub(crate) trait Reader: Send {
    /// The next item; `None` at the end.
    fn next_item(&mut self) -> std::io::Result<Option<Item>>;
}

/// Bytes to read.
pub(crate) type Bytes<'a> = Box<dyn BufRead + Send + 'a>;

/// Longest parser message in characters, since it may quote the input.
const MAX_COMPLAINT: usize = 200;

/// A parser's message without its position, which would be relative to the element.
pub(crate) fn json_complaint(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    // Rust type names mean nothing to the file's owner.
    let text = match text.split_once("expected struct ") {
        Some((before, name)) => {
            let rest = name.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
            format!("{before}expected an object{rest}")
        }
        None => text.to_owned(),
    };
    let cut: String = text.chars().take(MAX_COMPLAINT).collect();
    format!("{cut}, at byte {}", error.column())
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use crate::import::format::Format;

    /// Everything a reader finds.
    #[derive(Default)]
    pub(crate) struct Found {
        pub(crate) turns: Vec<Turn>,
        pub(crate) entries: Vec<NewEntry>,
        pub(crate) broken: Vec<(String, String)>,
        pub(crate) passed_over: usize,
    }

    pub(crate) fn read(mut reader: impl Reader) -> Found {
        let mut found = Found::default();
        while let Some(item) = reader.next_item().unwrap() {
            match item {
                Item::Turn(turn) => found.turns.push(*turn),
                Item::Entry(_, entry) => found.entries.push(*entry),
                Item::Broken(place, why) => found.broken.push((place.to_string(), why)),
                Item::PassedOver => found.passed_over += 1,
            }
        }
        found
    }

    impl Found {
        /// Keys of the entries that the turns become.
        pub(crate) fn keys(&self, format: Format) -> Vec<String> {
            let key = |turn: &Turn| turn.clone().into_entry(format.name()).unwrap().key.to_string();
            self.turns.iter().map(key).collect()
        }
    }
}
