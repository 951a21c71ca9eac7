//! Reading the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Read as _;
use std::path::Path;

use memory_core::{Error, ErrorKind, Result, Timestamp};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use super::evidence::turn_id;
use super::{Dialogue, Question, Turn, turn_ids};

/// Largest file that is read: 64 MiB; the published one has 2.8 MB.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

/// Reads the dialogues of a file in LoCoMo's JSON form.
///
/// # Errors
/// `not_found` or `unavailable` where the file cannot be read; `too_large` over [`MAX_FILE_BYTES`];
/// else as [`parse`].
pub fn load(path: &Path) -> Result<Vec<Dialogue>> {
    let unreadable = |error: std::io::Error| {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            _ => ErrorKind::Unavailable,
        };
        Error::new(kind, format!("cannot read {}: {error}", path.display())).with_source(error)
    };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut text = Vec::new();
    // One byte more than allowed tells a file that is too large, also where it has no length (a pipe).
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        let limit = usize::try_from(MAX_FILE_BYTES).unwrap_or(usize::MAX);
        return Err(Error::too_large("LoCoMo file", text.len(), limit, "bytes"));
    }
    parse(&text)
}

/// Reads the dialogues of LoCoMo's JSON text.
///
/// # Errors
/// `invalid_argument` with line and column where the text is not JSON or has another shape, and
/// with the dialogue's name where its ids contradict each other.
pub fn parse(text: &[u8]) -> Result<Vec<Dialogue>> {
    let samples: Vec<Sample> = serde_json::from_slice(text).map_err(|error| {
        Error::invalid(format!("not a LoCoMo file: {error}"))
            .with_detail("line", error.line())
            .with_detail("column", error.column())
            .with_source(error)
    })?;
    let mut names = BTreeSet::new();
    let mut dialogues = Vec::with_capacity(samples.len());
    for (index, sample) in samples.into_iter().enumerate() {
        let name = sample.sample_id.clone();
        if !names.insert(name.clone()) {
            return Err(wrong(index, &name, "the name occurs twice"));
        }
        dialogues.push(sample.dialogue().map_err(|fault| wrong(index, &name, &fault))?);
    }
    Ok(dialogues)
}

fn wrong(index: usize, name: &str, fault: &str) -> Error {
    Error::invalid(format!("dialogue {} ({name:?}): {fault}", index + 1)).with_detail("index", index)
}

#[derive(Deserialize)]
struct Sample {
    sample_id: String,
    conversation: Conversation,
    qa: Vec<Qa>,
}

#[derive(Deserialize)]
struct Qa {
    question: String,
    category: u32,
    #[serde(default)]
    evidence: Vec<String>,
}

#[derive(Deserialize)]
struct Said {
    speaker: String,
    dia_id: String,
    text: String,
    #[serde(default)]
    blip_caption: Option<String>,
}

/// `session_N` holds turns, `session_N_date_time` when it began; other members are left alone.
#[derive(Default)]
struct Conversation {
    sessions: BTreeMap<u32, Vec<Said>>,
    times: BTreeMap<u32, String>,
}

impl<'de> Deserialize<'de> for Conversation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Conversation;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of sessions")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut members: M) -> Result<Conversation, M::Error> {
                let mut conversation = Conversation::default();
                while let Some(name) = members.next_key::<String>()? {
                    let repeated = match member(&name) {
                        Some(Member::Session(n)) => {
                            conversation.sessions.insert(n, members.next_value()?).is_some()
                        }
                        Some(Member::Time(n)) => {
                            conversation.times.insert(n, members.next_value()?).is_some()
                        }
                        None => {
                            members.next_value::<IgnoredAny>()?;
                            false
                        }
                    };
                    if repeated {
                        return Err(M::Error::custom(format_args!("{name:?} occurs twice")));
                    }
                }
                Ok(conversation)
            }
        }
        deserializer.deserialize_map(Members)
    }
}

enum Member {
    Session(u32),
    Time(u32),
}

fn member(name: &str) -> Option<Member> {
    let rest = name.strip_prefix("session_")?;
    let (digits, member): (&str, fn(u32) -> Member) = match rest.strip_suffix("_date_time") {
        Some(digits) => (digits, Member::Time),
        None => (rest, Member::Session),
    };
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok().map(member))?
}

impl Sample {
    fn dialogue(self) -> Result<Dialogue, String> {
        let Self { sample_id, conversation, qa } = self;
        let mut seen = BTreeSet::new();
        let mut turns = Vec::new();
        for (session, said) in conversation.sessions {
            let time = conversation.times.get(&session).and_then(|time| instant(time));
            for Said { speaker, dia_id, text, blip_caption } in said {
                let id = turn_id(&dia_id).ok_or_else(|| {
                    format!("session {session} has a turn whose `dia_id` {dia_id:?} is not like \"D1:2\"")
                })?;
                if !seen.insert(id) {
                    return Err(format!("turn {id} occurs twice"));
                }
                turns.push(Turn { id, speaker, text, caption: blip_caption, time });
            }
        }
        let questions = qa
            .into_iter()
            .map(|Qa { question, category, evidence }| {
                let mut ids: Vec<_> = evidence.iter().flat_map(|text| turn_ids(text)).collect();
                ids.sort();
                ids.dedup();
                Question { text: question, category, evidence: ids }
            })
            .collect();
        Ok(Dialogue { id: sample_id, turns, questions })
    }
}

/// `1:56 pm on 8 May, 2023`, read as UTC; `None` for any other form.
fn instant(time: &str) -> Option<Timestamp> {
    let local = jiff::civil::DateTime::strptime("%I:%M %p on %d %B, %Y", time.trim()).ok()?;
    let instant = local.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Timestamp::from_millis(instant.timestamp().as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locomo::{Evidence, TurnId};

    const SMALL: &str = r#"[{
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ann", "speaker_b": "Bo",
            "session_2_date_time": "1:14 pm on 25 May, 2023",
            "session_2": [{"speaker": "Bo", "dia_id": "D2:1", "text": "Back again."}],
            "session_1_date_time": "some day",
            "session_1": [
                {"speaker": "Ann", "dia_id": "D1:1", "text": "Hi", "img_url": ["x"], "blip_caption": "a cat"}
            ],
            "session_3_date_time": "2:00 am on 1 June, 2023"
        },
        "qa": [
            {"question": "Who?", "answer": 3, "category": 4, "evidence": ["D1:1; D2:1", "D1:01", "D"]},
            {"question": "What?", "adversarial_answer": "x", "category": 5, "evidence": ["D1:1"]},
            {"question": "When?", "category": 2, "evidence": []}
        ],
        "event_summary": {}
    }]"#;

    #[test]
    fn turns_come_in_session_order_with_time_and_caption() {
        let [dialogue] = &parse(SMALL.as_bytes()).unwrap()[..] else { panic!("one dialogue") };
        let [first, second] = &dialogue.turns[..] else { panic!("two turns") };
        assert_eq!((first.id, first.caption.as_deref()), (TurnId { session: 1, turn: 1 }, Some("a cat")));
        assert_eq!(first.time, None);
        assert_eq!(second.time, Some("2023-05-25T13:14:00Z".parse().unwrap()));
    }

    #[test]
    fn evidence_is_a_set_and_unjudged_questions_are_told_apart() {
        let [dialogue] = &parse(SMALL.as_bytes()).unwrap()[..] else { panic!("one dialogue") };
        let judged: Vec<_> = dialogue.questions.iter().map(Question::is_judged).collect();
        assert_eq!(judged, [true, false, false]);
        assert_eq!(
            dialogue.questions[0].evidence,
            [
                Evidence::Turn(TurnId { session: 1, turn: 1 }),
                Evidence::Turn(TurnId { session: 2, turn: 1 }),
                Evidence::Unreadable("D".into()),
            ]
        );
    }

    #[test]
    fn a_wrong_shape_is_named_by_line_and_column() {
        let error = parse(SMALL.replace(r#""text": "Back again.""#, r#""text": 7"#).as_bytes()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(error.details()["line"], 6);
        for text in ["", "{}", "[{}]", "[", "\u{0}", "[1]"] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text:?}");
            assert!(error.details().contains_key("column"), "{text:?}");
        }
        assert!(parse(&b"[".repeat(100_000)).is_err());
    }

    #[test]
    fn contradicting_ids_are_refused_by_name() {
        for (from, to, word) in [
            ("D2:1\", \"text", "D1:1\", \"text", "D1:1 occurs twice"),
            ("D2:1\", \"text", "Q2\", \"text", "`dia_id`"),
            ("\"session_2\"", "\"session_1\"", "\"session_1\" occurs twice"),
        ] {
            let text = SMALL.replacen(from, to, 1);
            assert_ne!(text, SMALL);
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.message().contains(word), "{}", error.message());
        }
        let twice = format!("[{0},{0}]", SMALL.trim_start_matches('[').trim_end_matches(']'));
        assert!(parse(twice.as_bytes()).unwrap_err().message().contains("conv-1"));
    }

    #[test]
    fn a_missing_file_is_not_found() {
        let error = load(Path::new("/nonexistent/locomo10.json")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
}
