//! Messages, one per line or in one JSON array: `{"role": "user", "content": "…"}` and its many variants.

use std::collections::{HashSet, VecDeque};
use std::io::{self, BufRead};

use memory_core::Scalar;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::elements::Unfolded;
use super::item::{Bytes, Item, Reader, json_complaint};
use super::lines::{Line, Lines};
use super::turn::{Place, Turn, session_name};
use super::{content, time};

/// A message; unknown members are ignored.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    role: Option<String>,
    speaker: Option<String>,
    name: Option<String>,
    #[serde(borrow, deserialize_with = "present")]
    content: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    time: Option<&'a RawValue>,
    #[serde(borrow)]
    timestamp: Option<&'a RawValue>,
    #[serde(borrow)]
    created_at: Option<&'a RawValue>,
    #[serde(borrow)]
    session: Option<&'a RawValue>,
    #[serde(borrow)]
    session_id: Option<&'a RawValue>,
    /// A whole conversation on one line, as in fine-tuning files.
    #[serde(borrow)]
    messages: Option<Vec<&'a RawValue>>,
}

/// Distinguishes `null` from an absent member.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// The ids of a file's messages so far, with their sessions as in keys: `1` and `"0001"` are the same. A repeated id
/// does not count, because it must number something else.
#[derive(Default)]
struct Ids(HashSet<(Option<String>, String)>);

impl Ids {
    /// A message's position by its own id, a string or an integer, if no other in its session has it. Never looks like
    /// a line number.
    fn of(&mut self, message: &Message<'_>, session: Option<&Scalar>) -> Option<String> {
        let raw = message.id?.get();
        let id: String =
            serde_json::from_str(raw).ok().or_else(|| raw.parse::<i64>().ok().map(|id| id.to_string()))?;
        let is_own = !id.trim().is_empty()
            && id.len() <= MAX_ID
            && self.0.insert((session.map(session_name), id.clone()));
        is_own.then(|| format!("#{id}"))
    }
}

/// Longest id of a message, in bytes; with file and session it becomes part of a key.
const MAX_ID: usize = 128;

/// Reads messages; the file is one conversation.
pub(crate) struct Messages<R> {
    lines: Lines<R>,
    conversation: String,
    ids: Ids,
    ready: VecDeque<Item>,
}

impl<R: BufRead> Messages<R> {
    pub(crate) fn new(input: R, conversation: &str) -> Self {
        let (conversation, ids) = (conversation.to_owned(), Ids::default());
        Self { lines: Lines::new(input), conversation, ids, ready: VecDeque::new() }
    }
}

impl<R: BufRead + Send> Reader for Messages<R> {
    fn next_item(&mut self) -> io::Result<Option<Item>> {
        if let Some(item) = self.ready.pop_front() {
            return Ok(Some(item));
        }
        let Some((number, line)) = self.lines.next_line()? else { return Ok(None) };
        let place = Place::Line(number);
        let items = match line {
            Line::Broken(why) => Err(why),
            Line::Text(text) => read_message(text, "line", number, &self.conversation, &mut self.ids),
        };
        match items {
            Ok(items) => self.ready.extend(items),
            Err(why) => return Ok(Some(Item::Broken(place, why))),
        }
        Ok(self.ready.pop_front().or(Some(Item::PassedOver)))
    }
}

/// The reader of a file of messages, whatever its form.
pub(super) fn of<'a>(mut input: Bytes<'a>, conversation: &str) -> Box<dyn Reader + 'a> {
    // If the input cannot be read, its first message fails.
    let head = input.fill_buf().unwrap_or_default();
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    if head.first() != Some(&b'[') && !goes_over_lines(head) {
        return Box::new(Messages::new(input, conversation));
    }
    let (conversation, mut ids) = (conversation.to_owned(), Ids::default());
    Box::new(Unfolded::new(input, "message", move |text, number| {
        read_message(text, "message", number, &conversation, &mut ids)
    }))
}

/// Whether a file starts with an object that spans several lines, rather than with a line that was cut off.
fn goes_over_lines(head: &[u8]) -> bool {
    let mut values = serde_json::Deserializer::from_slice(head).into_iter::<serde::de::IgnoredAny>();
    let ends = match values.next() {
        Some(Ok(_)) => values.byte_offset(),
        Some(Err(error)) if error.is_eof() => head.len(),
        _ => return false,
    };
    head.first() == Some(&b'{') && head.get(..ends).is_some_and(|object| object.contains(&b'\n'))
}

fn parse(text: &str) -> Result<Message<'_>, String> {
    if !text.starts_with('{') {
        return Err("it is not a JSON object".to_owned());
    }
    serde_json::from_str(text).map_err(|error| json_complaint(&error))
}

/// One line, or one element of an array.
fn read_message(
    text: &str,
    what: &str,
    number: u64,
    conversation: &str,
    ids: &mut Ids,
) -> Result<Vec<Item>, String> {
    let mut message = parse(text)?;
    let line = format!("{number:08}");
    let Some(messages) = message.messages.take() else {
        let place = match what {
            "line" => Place::Line(number),
            _ => Place::Part(format!("{what} {number}")),
        };
        let session = session(&message)?;
        let position = vec![ids.of(&message, session.as_ref()).unwrap_or(line)];
        return Ok(vec![turn(&message, place, conversation, session, position)?]);
    };
    // Without a session, each such line is a session of its own.
    let around = session(&message)?.unwrap_or_else(|| line.clone().into());
    let items = messages.iter().zip(1_u32..).map(|(raw, index)| {
        let place = Place::Part(format!("{what} {number}, message {index}"));
        let read = parse(raw.get()).and_then(|message| {
            let session = self::session(&message)?.unwrap_or_else(|| around.clone());
            let own = ids.of(&message, Some(&session)).map(|id| vec![id]);
            let position = own.unwrap_or_else(|| vec![line.clone(), format!("{index:04}")]);
            turn(&message, place.clone(), conversation, Some(session), position)
        });
        read.unwrap_or_else(|why| Item::Broken(place, why))
    });
    Ok(items.collect())
}

fn turn(
    message: &Message<'_>,
    place: Place,
    conversation: &str,
    session: Option<Scalar>,
    position: Vec<String>,
) -> Result<Item, String> {
    let speaker = [&message.speaker, &message.name, &message.role]
        .into_iter()
        .flatten()
        .find(|name| !name.trim().is_empty());
    let Some(speaker) = speaker else {
        return Err("the message has neither `role` nor `speaker`".to_owned());
    };
    let Some(content) = message.content.or(message.text) else {
        return Err("the message has neither `content` nor `text`".to_owned());
    };
    let said = content::said(content).map_err(|error| json_complaint(&error))?;
    if said.is_empty() {
        return Ok(Item::PassedOver);
    }
    let time = message.time.or(message.timestamp).or(message.created_at);
    let time = time.map_or(Ok(None), time::instant).map_err(|error| error.message().to_owned())?;
    Ok(Item::Turn(Box::new(Turn {
        ended: None,
        expires_at: None,
        place,
        conversation: conversation.to_owned(),
        session,
        position,
        speaker: speaker.trim().to_owned(),
        role: message.role.clone(),
        text: said,
        time,
        caption: None,
        labels: Vec::new(),
    })))
}

fn session(message: &Message<'_>) -> Result<Option<Scalar>, String> {
    let Some(raw) = message.session.or(message.session_id).map(RawValue::get) else { return Ok(None) };
    if let Ok(name) = serde_json::from_str::<String>(raw) {
        return Ok((!name.is_empty()).then(|| name.into()));
    }
    match raw.parse::<i64>() {
        Ok(number) => Ok(Some(number.into())),
        Err(_) => Err("the session is neither text nor an integer".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::format::Format;
    use crate::import::readers::item::testing::{Found, read};

    fn found(text: &str) -> Found {
        read(Messages::new(text.as_bytes(), "chat"))
    }

    #[test]
    fn an_id_names_its_message_wherever_it_stands_and_one_that_is_not_its_own_does_not() {
        let line = |id: &str| format!("{{\"id\":{id},\"role\":\"user\",\"content\":\"a\",\"session\":1}}\n");
        let text: String = ["\"m-1\"", "7", "null", "7", "\" \"", "{}", "1.5"].map(line).concat();
        let keys = found(&text).keys(Format::Jsonl);
        let parts: Vec<&str> = keys.iter().filter_map(|key| key.rsplit('/').next()).collect();
        assert_eq!(
            parts,
            ["#m-1", "#7", "00000003", "00000004", "00000005", "00000006", "00000007"],
            "{keys:?}"
        );
    }

    #[test]
    fn turns_of_one_file_never_share_a_key() {
        let line = |id: &str, session: &str| {
            format!("{{\"id\":{id},\"role\":\"user\",\"content\":\"a\",\"session\":{session}}}\n")
        };
        let sessions = ["1", "\"0001\"", "\"\\u0030001\""].map(|session| line("\"m\"", session)).concat();
        let ids = ["\"00000005\"", "null"].map(|id| line(id, "\"\"")).concat();
        let keys = found(&(sessions + &ids)).keys(Format::Jsonl);
        let parts = ["0001/#m", "0001/00000002", "0001/00000003", "#00000005", "00000005"];
        assert_eq!(keys, parts.map(|part| format!("jsonl/chat/{part}")));
    }

    #[test]
    fn ids_of_a_whole_conversation_are_those_of_its_session() {
        let message = |id: &str| format!("{{\"id\":\"{id}\",\"role\":\"user\",\"content\":\"a\"}}");
        let line = |ids: &[&str]| {
            let messages: Vec<String> = ids.iter().map(|id| message(id)).collect();
            format!("{{\"messages\":[{}]}}\n", messages.join(","))
        };
        let keys = found(&(line(&["z", "a", "a"]) + &line(&["a"]))).keys(Format::Jsonl);
        assert_eq!(
            keys,
            [
                "jsonl/chat/00000001/#z",
                "jsonl/chat/00000001/#a",
                "jsonl/chat/00000001/00000001/0003",
                "jsonl/chat/00000002/#a",
            ]
        );
    }

    #[test]
    fn an_object_may_be_laid_out_over_lines_and_a_line_may_be_cut_off() {
        let items = |text: &'static str| {
            let mut reader = of(Box::new(text.as_bytes()), "chat");
            let (mut turns, mut broken) = (Vec::new(), 0);
            while let Some(item) = reader.next_item().unwrap() {
                match item {
                    Item::Turn(turn) => turns.push(turn.text),
                    _ => broken += 1,
                }
            }
            (turns.join(" "), broken)
        };
        let laid_out = "\u{feff}{\n  \"messages\": [\n {\"role\": \"user\", \"content\": \"a\"},\n {\"role\": \"assistant\", \"content\": \"b\"}\n]}\n";
        assert_eq!(items(laid_out), ("a b".to_owned(), 0));
        assert_eq!(items("{\"messages\": [\n {\"role\": \"user\""), (String::new(), 1));
        for cut in ["{\"role\": \"user\", \"content\": \"a", "{\"role\": \"user\","] {
            let text = format!("{cut}\n{{\"role\": \"user\", \"content\": \"b\"}}\n");
            assert_eq!(items(text.leak()), ("b".to_owned(), 1));
        }
    }

    #[test]
    fn every_usual_shape_of_a_message_is_read() {
        let found = found(concat!(
            r#"{"role":"user","content":"Hello","time":"2024-01-01T10:00:00Z","session":"s1"}"#,
            "\n",
            r#"{"speaker":"Ada","text":"Hi there","timestamp":1704103201,"session_id":2}"#,
            "\n\n",
            r#"{"role":"assistant","content":[{"type":"text","text":"one"},{"type":"image_url","image_url":{}}]}"#,
            "\n",
            r#"{"messages":[{"role":"system","content":"Be kind."},{"role":"user","content":"Ok"}]}"#,
        ));
        assert_eq!(found.broken, []);
        assert_eq!(
            found.keys(Format::Jsonl),
            [
                "jsonl/chat/s1/00000001",
                "jsonl/chat/0002/00000002",
                "jsonl/chat/00000004",
                "jsonl/chat/00000005/00000005/0001",
                "jsonl/chat/00000005/00000005/0002",
            ]
        );
        let texts: Vec<_> =
            found.turns.iter().map(|turn| (turn.speaker.as_str(), turn.text.as_str())).collect();
        assert_eq!(
            texts,
            [
                ("user", "Hello"),
                ("Ada", "Hi there"),
                ("assistant", "one"),
                ("system", "Be kind."),
                ("user", "Ok")
            ]
        );
        assert_eq!(found.turns[1].time.unwrap().to_string(), "2024-01-01T10:00:01.000Z");
    }

    #[test]
    fn a_broken_line_is_named_and_the_others_are_read() {
        let deep = "[".repeat(100_000);
        let found = found(&format!(
            "{}\nnot json\n{}\n{}\n{}\n{}\n{}\n{}\n{}",
            r#"{"role":"user","content":"fine"}"#,
            r#"{"role":"user","content":"cut of"#,
            r#"{"role":"user"}"#,
            r#"{"content":"who?"}"#,
            r#"{"role":"user","content":"\ud800 alone"}"#,
            format_args!("{{\"role\":\"user\",\"content\":{deep}"),
            r#"{"role":"user","content":"when","time":"tomorrow"}"#,
            r#"{"role":"user","content":"also fine\u0000"}"#,
        ));
        let places: Vec<_> = found.broken.iter().map(|(place, _)| place.as_str()).collect();
        assert_eq!(places, ["line 2", "line 3", "line 4", "line 5", "line 6", "line 7", "line 8"]);
        assert_eq!(found.turns.len(), 2);
        assert!(found.broken[2].1.contains("neither `content` nor `text`"));
    }

    #[test]
    fn a_message_that_says_nothing_is_passed_over() {
        let found = found(r#"{"role":"assistant","content":null,"tool_calls":[]}"#);
        assert_eq!((found.turns.len(), found.passed_over, found.broken.len()), (0, 1, 0));
    }
}
