//! LoCoMo (Maharana et al., ACL 2024): long dialogues over many sessions, with questions and the
//! turns that hold their evidence.

mod evidence;
mod read;

use memory_core::{Error, Json, Key, Metadata, NewEntry, Result, SetOptions, Source};

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
    /// When its session began, as `2023-05-08T13:56:00Z`; the data names no time zone.
    pub time: Option<String>,
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
    /// The key a turn is stored under: `D03:012`, so that keys sort as turns were said, up to 99
    /// sessions of 999 turns.
    ///
    /// # Errors
    /// None that a valid turn can cause.
    pub fn key(&self) -> Result<Key> {
        Key::new(format!("D{:02}:{:03}", self.id.session, self.id.turn))
    }

    /// What search indexes: `speaker: text`.
    #[must_use]
    pub fn search_text(&self) -> String {
        format!("{}: {}", self.speaker, self.text)
    }

    /// The entry a turn is stored as: value `{"speaker", "text", "caption"?}`, the text of
    /// [`search_text`](Self::search_text), source `import:locomo`, and metadata `dialogue`, `session`, `turn`
    /// (`D3:12`), `speaker` and, where the session has one, `time`.
    ///
    /// # Errors
    /// `invalid_argument` or `too_large` where a name is beyond what metadata holds.
    pub fn entry(&self, dialogue: &str) -> Result<NewEntry> {
        #[derive(serde::Serialize)]
        struct Said<'a> {
            speaker: &'a str,
            text: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            caption: Option<&'a str>,
        }
        let said = Said { speaker: &self.speaker, text: &self.text, caption: self.caption.as_deref() };
        let mut metadata = Metadata::new()
            .with("dialogue", dialogue)
            .with("session", i64::from(self.id.session))
            .with("turn", self.id.to_string())
            .with("speaker", self.speaker.as_str());
        if let Some(time) = &self.time {
            metadata.insert("time", time.as_str());
        }
        metadata.check()?;
        let value = Json::from_serialize(&said).map_err(Error::from)?;
        let mut entry = NewEntry::new(self.key()?, value);
        entry.options = SetOptions::default()
            .with_text(self.search_text().replace('\0', " "))
            .with_metadata(metadata)
            .with_source(Source::new("import:locomo")?);
        Ok(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_becomes_an_entry_that_keeps_all_of_it() {
        let turn = Turn {
            id: TurnId { session: 3, turn: 12 },
            speaker: "Ann".into(),
            text: "Look!".into(),
            caption: Some("a red kite".into()),
            time: Some("2023-05-08T13:56:00Z".into()),
        };
        let entry = turn.entry("conv-1").unwrap();
        assert_eq!(entry.key.as_str(), "D03:012");
        assert_eq!(entry.value.as_str(), r#"{"speaker":"Ann","text":"Look!","caption":"a red kite"}"#);
        assert_eq!(entry.options.text.as_deref(), Some("Ann: Look!"));
        assert_eq!(entry.options.source.unwrap().as_str(), "import:locomo");
        assert_eq!(
            serde_json::to_string(&entry.options.metadata).unwrap(),
            r#"{"dialogue":"conv-1","session":3,"speaker":"Ann","time":"2023-05-08T13:56:00Z","turn":"D3:12"}"#
        );
    }

    #[test]
    fn keys_sort_as_turns_were_said() {
        let key = |session, turn| {
            let id = TurnId { session, turn };
            Turn { id, speaker: String::new(), text: String::new(), caption: None, time: None }.key().unwrap()
        };
        assert!(key(1, 2) < key(1, 10) && key(1, 10) < key(2, 1) && key(9, 1) < key(10, 1));
    }
}
