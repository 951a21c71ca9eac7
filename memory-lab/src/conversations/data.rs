//! Dialogues with questions and the turns that answer them, one JSON object a line, gzip or plain.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use memory_core::layer::{Message, Role};
use memory_core::{Error, ErrorKind, Result, Timestamp};
use serde::{Deserialize, Deserializer};

/// Longest line, in bytes: a dialogue.
const MAX_LINE_BYTES: u64 = 256 << 20;

/// A place in a dialogue: session and turn, from 0.
pub(crate) type Place = (usize, usize);

#[derive(Debug, Deserialize)]
pub(crate) struct Dialogue {
    #[serde(deserialize_with = "name")]
    pub(crate) id: String,
    pub(crate) sessions: Vec<Session>,
    #[serde(default)]
    pub(crate) questions: Vec<Question>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Session {
    at: Option<Timestamp>,
    turns: Vec<Turn>,
}

#[derive(Debug, Deserialize)]
struct Turn {
    speaker: Option<String>,
    role: Option<Role>,
    text: String,
    caption: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Question {
    pub(crate) text: String,
    pub(crate) at: Option<Timestamp>,
    #[serde(default = "uncategorised", deserialize_with = "name")]
    pub(crate) category: String,
    #[serde(default)]
    pub(crate) evidence: Vec<Place>,
}

fn uncategorised() -> String {
    "uncategorised".to_owned()
}

/// Text, or a number as text.
fn name<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Name {
        Text(String),
        Number(serde_json::Number),
    }
    Ok(match Name::deserialize(deserializer)? {
        Name::Text(text) => text,
        Name::Number(number) => number.to_string(),
    })
}

impl Question {
    /// Whether it asks for something that was never said, or is made to mislead: such count by themselves.
    pub(crate) fn is_apart(&self) -> bool {
        self.category == "adversarial" || self.evidence.is_empty()
    }

    /// Whether it asks for a value that was replaced.
    pub(crate) fn is_update(&self) -> bool {
        self.category == "knowledge-update"
    }
}

impl Dialogue {
    /// Refuses questions without words, and evidence that is nowhere: they could never be answered.
    fn check(&self) -> std::result::Result<(), String> {
        let there = |(session, turn): &Place| {
            self.sessions.get(*session).is_some_and(|session| *turn < session.turns.len())
        };
        for (question, number) in self.questions.iter().zip(1..) {
            if question.text.trim().is_empty() {
                return Err(format!("question {number} has no words"));
            }
            if let Some((session, turn)) = question.evidence.iter().find(|place| !there(place)) {
                return Err(format!("the evidence [{session}, {turn}] of {:?} is no turn", question.text));
            }
        }
        Ok(())
    }

    /// The messages of a session; those without words are none. The id of each is its place.
    pub(crate) fn messages(&self, session: usize) -> Vec<Message> {
        let Some(held) = self.sessions.get(session) else { return Vec::new() };
        let turns = held.turns.iter().enumerate().filter(|(_, turn)| !turn.text.trim().is_empty());
        turns
            .map(|(at, turn)| {
                let mut message = Message::new(turn.role.unwrap_or(Role::User), turn.text.as_str())
                    .with_id(format!("{session}:{at}"))
                    .with_session(format!("session {session}"));
                message.name.clone_from(&turn.speaker);
                message.caption.clone_from(&turn.caption);
                message.at = held.at;
                message
            })
            .collect()
    }
}

/// The place that a message's id names.
pub(crate) fn place(id: &str) -> Option<Place> {
    let (session, turn) = id.split_once(':')?;
    Some((session.parse().ok()?, turn.parse().ok()?))
}

/// Reads a file of dialogues.
pub(crate) fn load(path: &Path) -> Result<Vec<Dialogue>> {
    let named = |error: Error| error.with_detail("file", path.display().to_string());
    let unreadable = |error: std::io::Error| {
        let kind = if error.kind() == std::io::ErrorKind::NotFound {
            ErrorKind::NotFound
        } else {
            ErrorKind::InvalidArgument
        };
        named(Error::new(kind, format!("{} cannot be read: {error}", path.display())))
    };
    let mut file = BufReader::new(File::open(path).map_err(unreadable)?);
    let gzip = file.fill_buf().map_err(unreadable)?.starts_with(&[0x1f, 0x8b]);
    let mut lines: Box<dyn std::io::BufRead> =
        if gzip { Box::new(BufReader::new(MultiGzDecoder::new(file))) } else { Box::new(file) };
    let (mut dialogues, mut line) = (Vec::new(), String::new());
    loop {
        line.clear();
        let read = (&mut lines).take(MAX_LINE_BYTES).read_line(&mut line).map_err(unreadable)?;
        if read == 0 {
            break;
        }
        if line.trim().is_empty() {
            continue;
        }
        let dialogue = serde_json::from_str::<Dialogue>(&line).map_err(|error| error.to_string());
        dialogues.push(dialogue.and_then(|dialogue| dialogue.check().map(|()| dialogue)).map_err(
            |error| {
                named(Error::invalid(format!(
                    "dialogue {} is not as it should be: {error}",
                    dialogues.len() + 1
                )))
            },
        )?);
    }
    if dialogues.is_empty() {
        return Err(named(Error::invalid("the file has no dialogue")));
    }
    Ok(dialogues)
}
