//! The content of a message as model APIs write it: a string, null, or a list of blocks.

use std::fmt;

use serde::Deserializer;
use serde::de::{SeqAccess, Visitor};
use serde_json::Value;

/// Reads a content. `null` is an empty text. The texts of a list's blocks are joined by line breaks, as in `memory
/// import`; other blocks (images, tool calls) are ignored.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    deserializer.deserialize_any(Content)
}

struct Content;

impl<'de> Visitor<'de> for Content {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, null, or a list of blocks such as {\"type\":\"text\",\"text\":\"…\"}")
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_string<E>(self, text: String) -> Result<String, E> {
        Ok(text)
    }

    fn visit_unit<E>(self) -> Result<String, E> {
        Ok(String::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut blocks: A) -> Result<String, A::Error> {
        let mut texts = Vec::new();
        while let Some(block) = blocks.next_element::<Value>()? {
            let text = said(&block).trim();
            if !text.is_empty() {
                texts.push(text.to_owned());
            }
        }
        Ok(texts.join("\n"))
    }
}

/// The text of a block.
fn said(block: &Value) -> &str {
    let member = |name: &str| block.get(name).and_then(Value::as_str);
    match (block, member("type")) {
        (Value::String(text), _) => text,
        (_, None | Some("text" | "input_text" | "output_text")) => member("text").unwrap_or_default(),
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use crate::layer::Message;

    fn content(json: &str) -> serde_json::Result<String> {
        let message = format!(r#"{{"role":"user","content":{json}}}"#);
        serde_json::from_str::<Message>(&message).map(|message| message.content)
    }

    #[test]
    fn a_content_is_a_text_or_nothing_or_the_texts_of_its_blocks() {
        for (json, words) in [
            (r#"" as it is\n""#, " as it is\n"),
            ("null", ""),
            ("[]", ""),
            (r#"[{"type":"text","text":"Look"}]"#, "Look"),
            (
                r#"[{"type":"text","text":"Look: "},{"type":"image_url","image_url":{"url":"data:AAAA"}},
                    {"type":"tool_use","name":"read","input":{"text":"no"}},{"type":"input_text","text":"a kite"},
                    {"type":"tool_result","content":"no"},{"type":"thinking","thinking":"no"},{"type":"text","text":null},
                    {"type":"output_text","text":" "},"bare",7,null]"#,
                "Look:\na kite\nbare",
            ),
        ] {
            assert_eq!(content(json).unwrap(), words, "{json}");
        }
        for bad in ["7", "true", "{}", r#"{"type":"text","text":"a"}"#] {
            let told = content(bad).unwrap_err().to_string();
            assert!(told.contains("a string, null, or a list of blocks"), "{bad}: {told}");
        }
    }

    #[test]
    fn one_message_without_words_does_not_refuse_the_others() {
        let said: Vec<Message> = serde_json::from_str(
            r#"[{"role":"user","content":"Is it open?"},{"role":"assistant","content":null},{"role":"tool","content":[]}]"#,
        )
        .unwrap();
        assert_eq!(said.len(), 3);
        let written = serde_json::to_value(&said).unwrap();
        assert_eq!(written[1], serde_json::json!({"role": "assistant", "content": ""}));
    }
}
