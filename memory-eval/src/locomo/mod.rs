//! LoCoMo (Maharana et al., ACL 2024): long dialogues over many sessions, with questions and the
//! turns that hold their evidence.

mod evidence;
mod read;

use memory_core::{Json, Key, Metadata, NewEntry, Result, SetOptions, Source, Timestamp};

pub use evidence::{Evidence, turn_ids};
pub use read::{MAX_FILE_BYTES, load, parse};

/// The category of questions that have no answer in the dialogue.
pub const ADVERSARIAL: u32 = 5;

/// Position of a turn in its dialogue, spelled `D3:12`: session and turn, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TurnId {
    /// The session.
    pub session: u32,
    /// The turn within it.
    pub turn: u32,
}

impl std::fmt::Display for TurnId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "D{}:{}", self.session, self.turn)
    }
}

/// One utterance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Where it stands.
    pub id: TurnId,
    /// Who said it.
    pub speaker: String,
    /// What was said.
    pub text: String,
    /// Caption of a picture shared with it.
    pub caption: Option<String>,
    /// When its session began, read as UTC: the data names no time zone.
    pub time: Option<Timestamp>,
}

/// One question about a dialogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The question.
    pub text: String,
    /// 1 multi-hop, 2 temporal, 3 open-domain, 4 single-hop, 5 adversarial.
    pub category: u32,
    /// The turns that hold the answer.
    pub evidence: Vec<Evidence>,
}

impl Question {
    /// Whether retrieval can be judged by it: it is not adversarial and names evidence.
    #[must_use]
    pub fn is_judged(&self) -> bool {
        self.category != ADVERSARIAL && !self.evidence.is_empty()
    }
}

/// One dialogue with its questions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialogue {
    /// Its name in the file (`conv-26`).
    pub id: String,
    /// Turns in the order they were said; no id twice.
    pub turns: Vec<Turn>,
    /// Questions in the file's order.
    pub questions: Vec<Question>,
}

impl Turn {
    /// The key a turn is stored under: `locomo/conv-26/0003/0012/D3:12`, so that keys sort as turns were
    /// said. A `/` or `%` in the dialogue's name is percent-encoded.
    ///
    /// # Errors
    /// `invalid_argument` or `too_large` for a dialogue's name that no key can hold.
    pub fn key(&self, dialogue: &str) -> Result<Key> {
        let dialogue = dialogue.replace('%', "%25").replace('/', "%2F");
        let TurnId { session, turn } = self.id;
        Key::new(format!("locomo/{dialogue}/{session:04}/{turn:04}/{}", self.id))
    }

    /// What search indexes: `speaker: text`. NUL, which no search text may have, is a space.
    #[must_use]
    pub fn search_text(&self) -> String {
        format!("{}: {}", self.speaker, self.text).replace('\0', " ")
    }

    /// The entry a turn is stored as: the one that `memory import` makes of it.
    ///
    /// # Errors
    /// `invalid_argument` or `too_large` where a part is beyond what an entry holds.
    pub fn entry(&self, dialogue: &str) -> Result<NewEntry> {
        #[derive(serde::Serialize)]
        struct Said<'a> {
            speaker: &'a str,
            text: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            caption: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            time: Option<Timestamp>,
            session: u32,
            conversation: &'a str,
        }
        let value = Json::from_serialize(&Said {
            speaker: &self.speaker,
            text: &self.text,
            caption: self.caption.as_deref(),
            time: self.time,
            session: self.id.session,
            conversation: dialogue,
        })?;
        let mut metadata = Metadata::new()
            .with("conversation", dialogue)
            .with("session", i64::from(self.id.session))
            .with("turn", i64::from(self.id.turn))
            .with("dia_id", self.id.to_string())
            .with("speaker", self.speaker.as_str());
        if let Some(time) = &self.time {
            metadata.insert("time", time.to_string());
        }
        metadata.check()?;
        let mut entry = NewEntry::new(self.key(dialogue)?, value);
        entry.options = SetOptions::default()
            .with_text(self.search_text())
            .with_metadata(metadata)
            .with_source(Source::new("import:locomo")?);
        Ok(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(session: u32, turn: u32) -> Turn {
        Turn {
            id: TurnId { session, turn },
            speaker: "Ann".into(),
            text: "Look!\0".into(),
            caption: Some("a red kite".into()),
            time: Some("2023-05-08T13:56:00Z".parse().unwrap()),
        }
    }

    #[test]
    fn a_turn_becomes_an_entry_that_keeps_all_of_it() {
        let entry = turn(3, 12).entry("a/1").unwrap();
        assert_eq!(entry.key.as_str(), "locomo/a%2F1/0003/0012/D3:12");
        assert_eq!(
            entry.value.as_str(),
            r#"{"speaker":"Ann","text":"Look!\u0000","caption":"a red kite","time":"2023-05-08T13:56:00.000Z","session":3,"conversation":"a/1"}"#
        );
        assert_eq!(entry.options.text.as_deref(), Some("Ann: Look! "));
        assert_eq!(entry.options.source.unwrap().as_str(), "import:locomo");
        assert_eq!(
            serde_json::to_string(&entry.options.metadata).unwrap(),
            r#"{"conversation":"a/1","dia_id":"D3:12","session":3,"speaker":"Ann","time":"2023-05-08T13:56:00.000Z","turn":12}"#
        );
    }

    #[test]
    fn keys_sort_as_turns_were_said() {
        let key = |session, number| turn(session, number).key("c").unwrap();
        assert!(key(1, 2) < key(1, 10) && key(1, 10) < key(2, 1) && key(9, 1) < key(10, 1));
    }
}
