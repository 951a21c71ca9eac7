//! One turn of a conversation, and the entry it becomes.

use std::borrow::Cow;

use memory_core::limits::{MAX_METADATA_MEMBERS, MAX_TEXT_BYTES};
use memory_core::{Error, Json, Key, Metadata, NewEntry, Result, Scalar, SetOptions, Source, Timestamp};
use serde::Serialize;

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Place {
    /// The number of a line, from 1.
    Line(u64),
    /// A place in a file that is not read line by line.
    Part(String),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Line(number) => write!(f, "line {number}"),
            Self::Part(part) => f.write_str(part),
        }
    }
}

/// One turn of a conversation, as a reader returns it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Turn {
    /// Its place in the file.
    pub(crate) place: Place,
    /// The id of the conversation it belongs to.
    pub(crate) conversation: String,
    /// The part of the conversation it belongs to, if the format has parts.
    pub(crate) session: Option<Scalar>,
    /// Its position within conversation and session, unique among turns: the parts of the key after the session.
    pub(crate) position: Vec<String>,
    /// Who said it.
    pub(crate) speaker: String,
    /// `user`, `assistant`, `system` or `tool`, if the format says.
    pub(crate) role: Option<String>,
    /// What was said.
    pub(crate) text: String,
    /// When.
    pub(crate) time: Option<Timestamp>,
    /// The caption of an attached image.
    pub(crate) caption: Option<String>,
    /// More metadata to filter by.
    pub(crate) labels: Vec<(Cow<'static, str>, Scalar)>,
    /// Set if it was superseded at its origin.
    pub(crate) ended: Option<Ended>,
    /// When it is to be forgotten, if its origin says so.
    pub(crate) expires_at: Option<Timestamp>,
}

/// How a fact was superseded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Until when it held.
    pub(crate) valid_to: Option<Timestamp>,
    /// The id of the superseding fact, at their origin.
    pub(crate) by: Option<String>,
}

/// The stored value. The order of members matters, since stored values are compared as text.
#[derive(Serialize)]
struct Value<'a> {
    speaker: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'a str>,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    caption: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a Scalar>,
    conversation: &'a str,
}

/// A session as a part of a key.
pub(super) fn session_name(session: &Scalar) -> String {
    match session {
        Scalar::Int(number) => format!("{number:04}"),
        Scalar::Text(name) => name.clone(),
        Scalar::Bool(_) | Scalar::Float(_) => String::new(),
    }
}

impl Turn {
    /// The session as a part of a key.
    pub(crate) fn session_name(&self) -> Option<String> {
        self.session.as_ref().map(session_name)
    }

    /// What to filter by.
    pub(crate) fn metadata(&self) -> Metadata {
        let mut metadata = Metadata::new().with("speaker", self.speaker.as_str());
        metadata.insert("conversation", self.conversation.as_str());
        if let Some(role) = &self.role {
            metadata.insert("role", role.as_str());
        }
        if let Some(session) = &self.session {
            metadata.insert("session", session.clone());
        }
        if let Some(time) = self.time {
            metadata.insert("time", time.to_string());
        }
        for (name, value) in &self.labels {
            // Labels that cannot be filtered by are left out; they are only a convenience. Two more may follow.
            let fits = Metadata::new().with(name.as_ref(), value.clone()).check().is_ok();
            if fits && metadata.len() + 2 < MAX_METADATA_MEMBERS && metadata.get(name).is_none() {
                metadata.insert(name.as_ref(), value.clone());
            }
        }
        metadata
    }

    /// A key that no other turn of the format has, made from its place.
    pub(crate) fn key(&self, format: &str) -> String {
        let mut key = format.to_owned();
        let session = self.session_name();
        for part in std::iter::once(&self.conversation).chain(&session).chain(&self.position) {
            key.push('/');
            push_component(&mut key, part);
        }
        key
    }

    /// The entry of this turn under a format's name.
    ///
    /// # Errors
    /// `invalid_argument` or `too_large` if a part breaks the limits of an entry.
    pub(crate) fn into_entry(self, format: &str) -> Result<NewEntry> {
        let key = Key::new(self.key(format))?;
        let text = search_text(&self.speaker, &self.text);
        if text.len() > MAX_TEXT_BYTES {
            return Err(Error::too_large("text of the turn", text.len(), MAX_TEXT_BYTES, "bytes"));
        }
        let value = Json::from_serialize(&Value {
            speaker: &self.speaker,
            role: self.role.as_deref(),
            text: &self.text,
            caption: self.caption.as_deref(),
            time: self.time,
            session: self.session.as_ref(),
            conversation: &self.conversation,
        })?;
        let mut metadata = self.metadata();
        if let Some(ended) = &self.ended {
            metadata.insert("valid_to", ended.valid_to.map_or_else(String::new, |at| at.to_string()));
            metadata.insert("superseded_by", ended.by.clone().unwrap_or_default());
        }
        metadata.check()?;
        let options = SetOptions::default()
            .with_metadata(metadata)
            .with_source(Source::new(format!("import:{format}"))?)
            .with_text(text);
        let mut entry = NewEntry::new(key, value);
        entry.options = options;
        Ok(entry)
    }
}

/// The entry of a text that is no turn, under these parts of a key.
pub(super) fn kept(format: &str, parts: &[&str], text: &str, metadata: Metadata) -> Result<NewEntry> {
    let mut key = format.to_owned();
    for part in parts {
        key.push('/');
        push_component(&mut key, part);
    }
    metadata.check()?;
    let mut entry = NewEntry::new(Key::new(key)?, Json::string(text));
    let source = Source::new(format!("import:{format}"))?;
    entry.options = SetOptions::default().with_metadata(metadata).with_source(source);
    Ok(entry)
}

/// The text that search indexes. NUL is replaced: no text column stores it.
fn search_text(speaker: &str, text: &str) -> String {
    let mut said = format!("{speaker}: {text}");
    if said.contains('\0') {
        said = said.replace('\0', " ");
    }
    said
}

/// Appends a part of a key, with `/` and control characters percent-encoded, so that parts stay separable.
fn push_component(key: &mut String, part: &str) {
    use std::fmt::Write as _;
    for character in part.chars() {
        if character == '/' || character == '%' || character.is_control() {
            let mut bytes = [0; 4];
            for byte in character.encode_utf8(&mut bytes).bytes() {
                let _ = write!(key, "%{byte:02X}");
            }
        } else {
            key.push(character);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn() -> Turn {
        Turn {
            ended: None,
            expires_at: None,
            place: Place::Line(3),
            conversation: "a/b".into(),
            session: Some(Scalar::Int(2)),
            position: vec!["0007".into(), "D2:7".into()],
            speaker: "Ada".into(),
            role: None,
            text: "Tea?\0".into(),
            time: Some(Timestamp::from_millis(1_683_554_160_000).unwrap()),
            caption: None,
            labels: vec![("dia_id".into(), "D2:7".into()), ("title".into(), "x".repeat(5_000).into())],
        }
    }

    #[test]
    fn a_turn_becomes_an_entry_that_sorts_filters_and_is_found() {
        let entry = turn().into_entry("locomo").unwrap();
        assert_eq!(entry.key.as_str(), "locomo/a%2Fb/0002/0007/D2:7");
        assert_eq!(
            entry.value.as_str(),
            r#"{"speaker":"Ada","text":"Tea?\u0000","time":"2023-05-08T13:56:00.000Z","session":2,"conversation":"a/b"}"#
        );
        assert_eq!(entry.options.text.as_deref(), Some("Ada: Tea? "));
        assert_eq!(entry.options.source.unwrap().as_str(), "import:locomo");
        assert_eq!(
            serde_json::to_string(&entry.options.metadata).unwrap(),
            r#"{"conversation":"a/b","dia_id":"D2:7","session":2,"speaker":"Ada","time":"2023-05-08T13:56:00.000Z"}"#
        );
    }

    #[test]
    fn what_breaks_the_limits_of_an_entry_is_refused() {
        let mut long = turn();
        long.text = "x".repeat(MAX_TEXT_BYTES);
        assert_eq!(long.into_entry("jsonl").unwrap_err().kind(), memory_core::ErrorKind::TooLarge);
        let mut deep = turn();
        deep.position = vec!["x".repeat(2_000)];
        assert_eq!(deep.into_entry("jsonl").unwrap_err().kind(), memory_core::ErrorKind::TooLarge);
    }
}
