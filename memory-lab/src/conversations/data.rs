//! Dialogues with questions and the turns that answer them, one JSON object a line, gzip or plain.

use std::path::Path;

use memory_core::layer::{Message, Role};
use memory_core::{Json, Result, Timestamp};
use serde::{Deserialize, Deserializer};

use crate::lines::{self, LeftOut};

/// Longest line, in bytes: a dialogue.
const MAX_LINE_BYTES: u64 = 256 << 20;

/// A place in a dialogue: session and turn, from 0.
pub(crate) type Place = (usize, usize);

#[derive(Debug, Deserialize)]
pub(crate) struct Dialogue {
    #[serde(default, deserialize_with = "lines::text")]
    pub(crate) id: String,
    pub(crate) sessions: Vec<Session>,
    #[serde(default, deserialize_with = "lines::or_default")]
    pub(crate) questions: Vec<Question>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Session {
    #[serde(default, deserialize_with = "time")]
    at: Time,
    #[serde(default, deserialize_with = "lines::or_default")]
    turns: Vec<Turn>,
}

#[derive(Debug, Deserialize)]
struct Turn {
    #[serde(default, deserialize_with = "lines::text")]
    speaker: String,
    #[serde(default, deserialize_with = "lines::text")]
    role: String,
    #[serde(default, deserialize_with = "lines::text")]
    text: String,
    #[serde(default, deserialize_with = "lines::text")]
    caption: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Question {
    #[serde(default, deserialize_with = "lines::text")]
    pub(crate) text: String,
    #[serde(default, deserialize_with = "time")]
    at: Time,
    #[serde(default, deserialize_with = "lines::text")]
    category: String,
    #[serde(default, deserialize_with = "lines::or_default")]
    pub(crate) evidence: Vec<Place>,
}

/// When something was said or asked.
#[derive(Clone, Copy, Debug, Default)]
enum Time {
    #[default]
    None,
    Read(Timestamp),
    /// It is written, but is no time that we read.
    Unread,
}

impl Time {
    fn read(self) -> Option<Timestamp> {
        match self {
            Self::Read(at) => Some(at),
            Self::None | Self::Unread => None,
        }
    }
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Time, D::Error> {
    #[derive(Deserialize)]
    struct Read(#[serde(deserialize_with = "memory_core::time::read_or_none")] Option<Timestamp>);
    Ok(match <Json as Deserialize>::deserialize(deserializer)?.deserialize() {
        Ok(Read(read)) => read.map_or(Time::None, Time::Read),
        Err(_) => Time::Unread,
    })
}

/// What a file holds.
pub(crate) struct Dialogues {
    pub(crate) read: Vec<Dialogue>,
    pub(crate) left_out: Vec<LeftOut>,
}

impl Question {
    pub(crate) fn at(&self) -> Option<Timestamp> {
        self.at.read()
    }

    pub(crate) fn category(&self) -> &str {
        if self.category.is_empty() { "uncategorised" } else { &self.category }
    }

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
    /// Pieces of evidence that are no turn with words: they stay in their questions, and are never found.
    pub(crate) fn unmatched(&self) -> usize {
        let there = |(session, turn): &Place| {
            let turn = self.sessions.get(*session).and_then(|session| session.turns.get(*turn));
            turn.is_some_and(|turn| !turn.is_empty())
        };
        self.questions.iter().flat_map(|question| &question.evidence).filter(|place| !there(place)).count()
    }

    /// Times that are written and could not be read: what they belong to counts as undated.
    pub(crate) fn times_unread(&self) -> usize {
        let times = self.sessions.iter().map(|session| session.at);
        let times = times.chain(self.questions.iter().map(|question| question.at));
        times.filter(|time| matches!(time, Time::Unread)).count()
    }

    /// The messages of a session; those without words are none. The id of each is its place.
    pub(crate) fn messages(&self, session: usize) -> Vec<Message> {
        let Some(held) = self.sessions.get(session) else { return Vec::new() };
        let turns = held.turns.iter().enumerate().filter(|(_, turn)| !turn.is_empty());
        let some = |text: &str| Some(text).filter(|text| !text.trim().is_empty()).map(str::to_owned);
        turns
            .map(|(at, turn)| {
                let mut message = Message::new(turn.role(), turn.text.as_str())
                    .with_id(format!("{session}:{at}"))
                    .with_session(format!("session {session}"));
                message.name = some(&turn.speaker);
                message.caption = some(&turn.caption);
                message.at = held.at.read();
                message
            })
            .collect()
    }
}

impl Turn {
    fn is_empty(&self) -> bool {
        self.text.trim().is_empty() && self.caption.trim().is_empty()
    }

    /// A role that is none of ours is a person's.
    fn role(&self) -> Role {
        serde_json::from_value(self.role.to_lowercase().into()).unwrap_or(Role::User)
    }
}

/// The place that a message's id names.
pub(crate) fn place(id: &str) -> Option<Place> {
    let (session, turn) = id.split_once(':')?;
    Some((session.parse().ok()?, turn.parse().ok()?))
}

/// Reads a file of dialogues. A line that is no dialogue and a question without words are left out.
pub(crate) fn load(path: &Path) -> Result<Dialogues> {
    let lines::Lines { read, mut left_out } = lines::read::<Dialogue>(path, MAX_LINE_BYTES)?;
    let mut dialogues = Vec::new();
    for (line, mut dialogue) in read {
        let before = dialogue.questions.len();
        dialogue.questions.retain(|question| !question.text.trim().is_empty());
        for _ in dialogue.questions.len()..before {
            left_out.push(LeftOut { line, why: "a question has no words".to_owned() });
        }
        if dialogue.id.trim().is_empty() {
            dialogue.id = format!("line {line}");
        }
        dialogues.push(dialogue);
    }
    left_out.sort_by_key(|left_out| left_out.line);
    Ok(Dialogues { read: dialogues, left_out })
}
