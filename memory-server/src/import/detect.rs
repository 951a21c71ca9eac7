//! Detects a file's format from its beginning.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Cursor, Read};

use memory_core::Error;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::format::Format;
use super::langgraph::SQLITE;
use super::records::FORMAT as EXPORT_FORMAT;

/// How a snapshot begins.
const SNAPSHOT: &[u8] = b"{\"memory_snapshot\":";
/// Members that only files of an export of Claude have: conversations, memories, projects.
const CLAUDE: [&str; 3] = ["chat_messages", "conversations_memory", "prompt_template"];
/// How much of a file is examined.
const HEAD_BYTES: u64 = 256 << 10;

/// An input whose beginning was examined and can be read again.
pub(crate) struct Opened<'a> {
    /// The whole input.
    pub(crate) input: Box<dyn BufRead + Send + 'a>,
    /// Its format, or why that is unknown.
    pub(crate) format: Result<Format, Unknown>,
}

/// Why a format is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    Empty,
    Zip,
    Snapshot,
    Gzip,
    /// Compressed by the program with this name.
    Packed(&'static str),
    Utf16,
    Other,
}

impl Unknown {
    /// Whether no format can be read from such a file, whatever its name.
    pub(crate) const fn is_certain(self) -> bool {
        !matches!(self, Self::Empty | Self::Other)
    }
}

/// The error for a file whose format is unknown.
pub(crate) fn undetected(file: &str, why: Unknown) -> Error {
    let packed;
    let advice = match why {
        Unknown::Empty => "it is empty",
        Unknown::Zip => "it is a zip archive; unpack it and name the conversations.json in it",
        Unknown::Snapshot => "it is a snapshot; `memory restore FILE` puts it back",
        Unknown::Gzip => {
            "it is compressed with gzip; unpack it with `gunzip`, or pipe it: gunzip -c FILE | memory import -"
        }
        Unknown::Packed(by) => {
            packed = format!("it is compressed with {by}; unpack it first");
            packed.as_str()
        }
        Unknown::Utf16 => {
            "its text is UTF-16; convert it to UTF-8, as with `iconv -f UTF-16 -t UTF-8 FILE`, and import that"
        }
        Unknown::Other => {
            "its format cannot be detected from its beginning; name it with --format, whose values are in `memory import --help`"
        }
    };
    Error::corrupt(format!("{file}: {advice}"))
}

/// Examines the beginning of `input`.
pub(crate) fn detect<'a>(mut input: impl Read + Send + 'a) -> io::Result<Opened<'a>> {
    let mut head = Vec::new();
    input.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
    let found = match &*head {
        head if head.starts_with(SQLITE) => Some(Format::Langgraph),
        head if head.starts_with(SNAPSHOT) => None,
        head => format_of(&String::from_utf8_lossy(head)),
    };
    let format = found.ok_or(match head.as_slice() {
        head if head.trim_ascii().is_empty() => Unknown::Empty,
        [b'P', b'K', 3, 4, ..] => Unknown::Zip,
        head if head.starts_with(SNAPSHOT) => Unknown::Snapshot,
        [0x1f, 0x8b, ..] => Unknown::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Unknown::Packed("zstd"),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => Unknown::Packed("xz"),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => Unknown::Packed("bzip2"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [b'{' | b'[', 0, ..] | [0, b'{' | b'[', ..] => Unknown::Utf16,
        _ => Unknown::Other,
    });
    Ok(Opened {
        input: Box::new(Cursor::new(head).chain(BufReader::with_capacity(256 << 10, input))),
        format,
    })
}

fn format_of(head: &str) -> Option<Format> {
    let head = head.trim_start_matches('\u{feff}').trim_start();
    if let Some(format) = of_nothing(head) {
        return Some(format);
    }
    if head.starts_with('[') || is_laid_out(head) {
        return array(head);
    }
    head.lines().map(str::trim).filter(|line| line.starts_with('{')).find_map(line).or_else(|| array(head))
}

/// An empty listing, as mem0's API or any other returns.
fn of_nothing(head: &str) -> Option<Format> {
    #[derive(Deserialize)]
    struct Listed {
        results: [IgnoredAny; 0],
    }
    match serde_json::from_str(head) {
        Ok(Listed { results: [] }) => Some(Format::Mem0),
        Err(_) => serde_json::from_str::<[IgnoredAny; 0]>(head).is_ok().then_some(Format::Jsonl),
    }
}

/// Whether a text starts with an object spread over several lines, since its lines may be objects too.
fn is_laid_out(head: &str) -> bool {
    let mut objects = serde_json::Deserializer::from_str(head).into_iter::<BTreeMap<String, IgnoredAny>>();
    match objects.next() {
        Some(Ok(_)) => head.get(..objects.byte_offset()).is_some_and(|object| object.contains('\n')),
        Some(Err(error)) => error.is_eof(),
        None => false,
    }
}

/// By names that only this format has, because the first element may be much longer than the head.
fn array(head: &str) -> Option<Format> {
    if is_letta(|name| head.contains(&format!("\"{name}\""))) {
        Some(Format::Letta)
    } else if head.contains("\"mapping\"") {
        Some(Format::Chatgpt)
    } else if CLAUDE.iter().any(|name| head.contains(&format!("\"{name}\""))) {
        Some(Format::Claude)
    } else if head.contains("\"dia_id\"") || head.contains("\"evidence\"") || head.contains("\"session_1\"") {
        Some(Format::Locomo)
    } else if head.contains("\"memory\"") && head.contains("\"id\"") {
        Some(Format::Mem0)
    } else if head.starts_with(['[', '{']) && holds_messages(head) {
        Some(Format::Jsonl)
    } else {
        None
    }
}

fn holds_messages(head: &str) -> bool {
    let has = |names: &[&str]| names.iter().any(|name| head.contains(&format!("\"{name}\"")));
    has(&["messages"]) || has(&["role", "speaker", "name"]) && has(&["content", "text"])
}

/// Whether a file has the members of a Letta agent file.
fn is_letta(has: impl Fn(&str) -> bool) -> bool {
    has("core_memory") || has("agents") && has("blocks") || has("agent_type") && has("messages")
}

/// By the members of one complete line.
fn line(line: &str) -> Option<Format> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(line).ok()?;
    let has = |name: &str| members.contains_key(name);
    let text = |name: &str| members.get(name).map_or("", |raw| raw.get().trim_matches('"'));
    if text("format") == EXPORT_FORMAT {
        Some(Format::Records)
    } else if is_letta(has) {
        Some(Format::Letta)
    } else if has("prefix") && has("key") && has("value") {
        Some(Format::Langgraph)
    } else if has("id") && has("memory") {
        Some(Format::Mem0)
    } else if has("mapping") {
        Some(Format::Chatgpt)
    } else if CLAUDE.iter().any(|name| has(name)) {
        Some(Format::Claude)
    } else if has("type") && (has("sessionId") || has("leafUuid") || has("parentUuid") || has("snapshot")) {
        Some(Format::ClaudeCode)
    } else if has("messages")
        || ((has("role") || has("speaker") || has("name")) && (has("content") || has("text")))
    {
        Some(Format::Jsonl)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_apart() {
        for (head, format) in [
            (r#"{"role":"user","content":"x"}"#, Some(Format::Jsonl)),
            ("broken\n\n{\"speaker\":\"A\",\"text\":\"x\"}\n", Some(Format::Jsonl)),
            (r#"{"messages":[]}"#, Some(Format::Jsonl)),
            ("\u{feff}[ {\"title\":\"x\",\"mapping\":{", Some(Format::Chatgpt)),
            (r#"[{"uuid":"c","name":"x","chat_messages":[{"uuid":"m","text":"x"#, Some(Format::Claude)),
            (
                r#"[{"conversations_memory":"x","project_memories":{},"account_uuid":"a"}]"#,
                Some(Format::Claude),
            ),
            (r#"[{"uuid":"p","name":"x","prompt_template":"","docs":[{"content":"x"#, Some(Format::Claude)),
            (r#"{"uuid":"p","name":"x","prompt_template":"","docs":[]}"#, Some(Format::Claude)),
            ("{\n  \"messages\": [\n    {\n", Some(Format::Jsonl)),
            (r#"[{"qa":[{"question":"?","evidence":["#, Some(Format::Locomo)),
            ("{\n \"conversation\": {\n \"session_1\": [", Some(Format::Locomo)),
            (r#"{"type":"summary","summary":"x","leafUuid":"y"}"#, Some(Format::ClaudeCode)),
            (
                r#"{"parentUuid":null,"type":"user","message":{"role":"user","content":"x"}}"#,
                Some(Format::ClaudeCode),
            ),
            (r#"{"format":"memory-export","version":1}"#, Some(Format::Records)),
            (r#"{"agents":[],"blocks":[],"tools":[]}"#, Some(Format::Letta)),
            ("{\n  \"agent_type\": \"memgpt_agent\",\n  \"core_memory\": [", Some(Format::Letta)),
            (
                "{\n \"agent_type\": \"x\",\n \"core_memory\": [],\n \"messages\": [\n  {\"role\": \"user\", \"content\": \"x\"}\n ]\n}",
                Some(Format::Letta),
            ),
            (
                "{\"agents\": [\n{\"messages\": [\n{\"role\":\"user\",\"content\":\"x\"}]}],\n\"blocks\":",
                Some(Format::Letta),
            ),
            ("{\"broken\": \"core_memory\"\n{\"role\":\"user\",\"content\":\"x\"}\n", Some(Format::Jsonl)),
            (r#"{"id":"f","memory":"x","score_kind":"none"}"#, Some(Format::Mem0)),
            (r#"{"prefix":"users.ada","key":"k","value":{"memory":"x"}}"#, Some(Format::Langgraph)),
            (r#"{"results":[{"id":"f","memory":"x"}]}"#, Some(Format::Mem0)),
            ("hello", None),
            ("", None),
            ("[1,2]", None),
            ("[ ]\n", Some(Format::Jsonl)),
            ("{\n \"results\": []\n}\n", Some(Format::Mem0)),
            (r#"{"results":[],"next":null}"#, Some(Format::Mem0)),
            (r#"{"results":[{"x":1}]}"#, None),
            (r#"{"detail":"Unauthorized"}"#, None),
            (r#"[{"role":"user","content":"x"},"#, Some(Format::Jsonl)),
            ("[\n  {\n    \"speaker\": \"A\",\n    \"text\": \"x\"", Some(Format::Jsonl)),
        ] {
            assert_eq!(format_of(head), format, "{head}");
        }
    }

    #[test]
    fn what_cannot_be_told_says_what_to_do() {
        let unknown = |bytes: &'static [u8]| detect(bytes).unwrap().format.unwrap_err();
        assert_eq!(unknown(b"PK\x03\x04rest"), Unknown::Zip);
        assert_eq!(unknown(b" \n"), Unknown::Empty);
        assert_eq!(unknown(b"{\"memory_snapshot\":{\"version\":1}}\n"), Unknown::Snapshot);
        assert_eq!(unknown(b"\x1f\x8b\x08\x00"), Unknown::Gzip);
        for text in [&b"\xff\xfe{\0\"\0"[..], b"\xfe\xff\0{\0\"", b"{\0\"\0", b"\0[\0{"] {
            assert_eq!(unknown(text), Unknown::Utf16);
        }
        for why in [Unknown::Gzip, Unknown::Utf16, Unknown::Packed("xz")] {
            assert!(why.is_certain() && !undetected("x", why).message().contains("--format"), "{why:?}");
        }
        assert!(undetected("x", unknown(b"hello")).message().contains("--format"));
    }

    #[test]
    fn what_was_looked_at_is_read_again() {
        let mut text = String::new();
        detect(&b"{\"role\":\"user\",\"content\":\"x\"}\nrest"[..])
            .unwrap()
            .input
            .read_to_string(&mut text)
            .unwrap();
        assert!(text.ends_with("rest") && text.starts_with('{'));
    }
}
