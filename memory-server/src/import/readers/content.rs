//! The text of a message in the usual shapes: a string, or a list of blocks.

use serde::Deserialize;
use serde_json::value::RawValue;

/// How much of a tool call's arguments is kept, in characters.
const TOOL_ARGUMENTS: usize = 200;

/// A block with a type; unknown members are ignored.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Block<'a> {
    #[serde(rename = "type", alias = "content_type")]
    kind: String,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    name: Option<String>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

/// The text of a message's content: the string itself, or a list's text blocks separated by line breaks, with tool
/// calls in brief; empty if there is no text.
pub(crate) fn said(raw: &RawValue) -> serde_json::Result<String> {
    let text = raw.get();
    if text.starts_with('"') {
        return Ok(serde_json::from_str::<String>(text)?.trim().to_owned());
    }
    if !text.starts_with('[') {
        return Ok(String::new());
    }
    let mut parts = Vec::new();
    for block in serde_json::from_str::<Vec<&RawValue>>(text)? {
        let part = said_in_part(block)?;
        if !part.is_empty() {
            parts.push(part);
        }
    }
    Ok(parts.join("\n"))
}

/// The text of one element of a list.
pub(crate) fn said_in_part(raw: &RawValue) -> serde_json::Result<String> {
    if raw.get().starts_with('"') {
        return said(raw);
    }
    if !raw.get().starts_with('{') {
        return Ok(String::new());
    }
    let block: Block<'_> = serde_json::from_str(raw.get())?;
    Ok(match block.kind.as_str() {
        "text" | "input_text" | "output_text" | "audio_transcription" | "" => match block.text {
            Some(text) if text.get().starts_with('"') => said(text)?,
            _ => String::new(),
        },
        "tool_use" | "server_tool_use" => {
            tool_call(block.name.as_deref().unwrap_or("a tool"), block.input.map_or("", RawValue::get))
        }
        _ => String::new(),
    })
}

/// A tool call in brief: `[Read {"file_path":"/src/main.rs"}]`.
pub(crate) fn tool_call(name: &str, arguments: &str) -> String {
    match arguments.trim().char_indices().nth(TOOL_ARGUMENTS) {
        None if arguments.trim().is_empty() => format!("[{name}]"),
        None => format!("[{name} {}]", arguments.trim()),
        Some((end, _)) => format!("[{name} {}…]", arguments.trim().get(..end).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(json: &str) -> String {
        said(serde_json::from_str(json).unwrap()).unwrap()
    }

    #[test]
    fn words_are_kept_and_everything_else_is_read_over() {
        assert_eq!(words(r#"" hello ""#), "hello");
        assert_eq!(words("null"), "");
        assert_eq!(words(r#"{"a":1}"#), "");
        assert_eq!(
            words(
                r#"[{"type":"thinking","thinking":"hm"},{"type":"text","text":"Look:"},
                    {"type":"image","source":{"data":"AAAA"}},{"type":"tool_use","name":"Read","input":{"p":1}},
                    {"type":"tool_result","content":"secret"},"bare",7]"#
            ),
            "Look:\n[Read {\"p\":1}]\nbare"
        );
    }

    #[test]
    fn long_tool_arguments_are_cut_between_characters() {
        let brief = tool_call("Write", &"é".repeat(1_000));
        assert_eq!(brief.chars().count(), "[Write ".len() + TOOL_ARGUMENTS + "…]".chars().count());
    }
}
