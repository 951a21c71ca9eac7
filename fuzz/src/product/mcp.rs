//! Input from an MCP client: every line is a message, gets an answer or is ignored, however the reads are split;
//! arguments and answers pass through as text.

use memory_server::fuzzing::{McpLine, mcp_answer, mcp_lines};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::support::one_in;

/// Tries the input as a stream of lines, its lines as lines over the limit, and the whole as an answer.
pub fn run(data: &[u8]) {
    let lines = mcp_lines(data, usize::MAX, 8 << 10).expect("memory can be read");
    let texts: Vec<&[u8]> =
        data.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")).collect();
    assert_eq!(lines.len(), texts.len(), "a line each");
    for (line, text) in lines.iter().zip(&texts) {
        match line {
            McpLine::Call(arguments) => {
                let text = std::str::from_utf8(text).expect("a call is UTF-8");
                assert!(
                    arguments == "{}" || text.contains(arguments.as_str()),
                    "{arguments} is not in {text}"
                );
                serde_json::from_str::<&RawValue>(arguments).expect("arguments are JSON");
            }
            McpLine::Refused(answer) => drop(refusal(answer)),
            McpLine::TooLong(answer) => panic!("within the limit: {answer}"),
            McpLine::Message | McpLine::Empty => {}
        }
    }
    if one_in(4, data) {
        assert_eq!(
            mcp_lines(data, usize::MAX, 3).expect("memory can be read"),
            lines,
            "however the reads are split"
        );
    }
    // Every non-empty line is too long; the id found while skipping must be the one a parser finds.
    for (line, text) in mcp_lines(data, 0, 7).expect("memory can be read").iter().zip(&texts) {
        if let McpLine::TooLong(answer) = line {
            let answered = refusal(answer);
            if let Ok(object) = serde_json::from_slice::<serde_json::Map<String, Value>>(text)
                && names_once(text)
            {
                let id = object.get("id").filter(|id| id.is_string() || id.is_i64());
                // An id with escapes, or a long one, may be missed.
                assert!(
                    answered.is_null() || Some(&answered) == id,
                    "{answer}: {:?}",
                    String::from_utf8_lossy(text)
                );
            }
        }
    }
    if let Ok(text) = std::str::from_utf8(data)
        && text.starts_with('{')
        && let Ok(value) = serde_json::from_str::<Value>(text)
    {
        let line = mcp_answer(text, 7).expect("an object is an answer");
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1, "one line");
        if let Ok(message) = serde_json::from_slice::<Value>(&line) {
            assert_eq!(message["result"]["structuredContent"], value);
            assert_eq!(message["result"]["content"][0]["text"], text);
        } else {
            // An object at the parser's depth limit is deeper inside the message.
            assert!(text.matches(['{', '[']).count() >= 120, "{text}");
        }
    }
}

/// The answer to an invalid message: one line, an error, with the message's id.
fn refusal(answer: &str) -> Value {
    assert!(!answer.contains('\n') && answer.len() < 1_000, "{answer}");
    let mut message: Value = serde_json::from_str(answer).expect("an answer is JSON");
    assert_eq!(message["jsonrpc"], "2.0");
    assert!(message["error"]["code"].is_i64() && message["error"]["message"].is_string(), "{answer}");
    message["id"].take()
}

/// Whether `id` occurs once in the text: a parser takes the last of several, and escapes spell it differently.
fn names_once(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    text.matches("\"id\"").count() <= 1 && !text.contains('\\')
}
