//! `conversations.json` of a Claude data export: an array of conversations, each with its messages in order.

use std::io::BufRead;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::elements::Unfolded;
use super::item::{Item, json_complaint};
use super::turn::{Place, Turn};
use super::{content, time};

#[derive(Deserialize)]
struct Conversation<'a> {
    uuid: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(borrow)]
    chat_messages: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    sender: String,
    #[serde(default)]
    uuid: Option<String>,
    #[serde(default, borrow)]
    content: Option<&'a RawValue>,
    #[serde(default, borrow)]
    text: Option<&'a RawValue>,
    #[serde(default, borrow)]
    created_at: Option<&'a RawValue>,
}

/// Reads conversations, holding one in memory at a time.
pub(super) fn conversations<R: BufRead + Send>(input: R) -> Unfolded<R> {
    Unfolded::new(input, "conversation", read_conversation)
}

fn read_conversation(text: &str, number: u64) -> Result<Vec<Item>, String> {
    let conversation: Conversation<'_> =
        serde_json::from_str(text).map_err(|error| json_complaint(&error))?;
    let read = |(raw, index): (&&RawValue, u64)| {
        let place = Place::Part(format!("conversation {number}, message {index}"));
        turn(&conversation, raw, index, &place).unwrap_or_else(|why| Item::Broken(place, why))
    };
    Ok(conversation.chat_messages.iter().zip(1..).map(read).collect())
}

fn turn(conversation: &Conversation<'_>, raw: &RawValue, index: u64, place: &Place) -> Result<Item, String> {
    let message: Message<'_> = serde_json::from_str(raw.get()).map_err(|error| json_complaint(&error))?;
    let role = match message.sender.as_str() {
        "human" | "user" => "user",
        "assistant" => "assistant",
        _ => return Ok(Item::PassedOver),
    };
    // Older exports only have `text`. In newer ones it also contains placeholders for images and files, so the blocks
    // come first.
    let said = |raw: Option<&RawValue>| raw.map_or(Ok(String::new()), content::said);
    let blocks = said(message.content).map_err(|error| json_complaint(&error))?;
    let text =
        if blocks.is_empty() { said(message.text).map_err(|error| json_complaint(&error))? } else { blocks };
    if text.is_empty() {
        return Ok(Item::PassedOver);
    }
    let time =
        message.created_at.map_or(Ok(None), time::instant).map_err(|error| error.message().to_owned())?;
    // A later export has the same messages, but not always in the same places.
    let index = format!("{index:06}");
    let position = match message.uuid.filter(|uuid| !uuid.is_empty()) {
        Some(uuid) => vec![time.map_or(index, |time| time.to_string()), uuid],
        None => vec![index],
    };
    let name = conversation.name.as_deref().filter(|name| !name.is_empty());
    Ok(Item::Turn(Box::new(Turn {
        ended: None,
        expires_at: None,
        place: place.clone(),
        conversation: conversation.uuid.clone(),
        session: None,
        position,
        speaker: role.to_owned(),
        role: Some(role.to_owned()),
        text,
        time,
        caption: None,
        labels: name.map(|name| ("title".into(), name.into())).into_iter().collect(),
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::format::Format;
    use crate::import::readers::item::testing::read;

    #[test]
    fn both_sides_are_read_and_what_has_no_text_is_passed_over() {
        let found = read(conversations(
            r#"[{"uuid":"c1","name":"Trip","created_at":"2026-03-01T09:00:00Z","account":{"uuid":"u"},"chat_messages":[
            {"uuid":"m1","sender":"human","text":"Plan a trip","content":[{"type":"text","text":"Plan a trip"}],
             "created_at":"2026-03-01T09:00:00.123456Z","attachments":[{"file_name":"a.txt","extracted_content":"notes"}]},
            {"uuid":"m2","sender":"assistant","text":"","content":[],"created_at":"2026-03-01T09:01:00Z"},
            {"uuid":"m3","sender":"assistant","text":"This block is not supported. Spring.","created_at":"2026-03-01T09:02:00Z",
             "content":[{"type":"thinking","thinking":"hm"},{"type":"tool_result","content":[]},{"type":"text","text":"Spring."}]},
            {"sender":"human","text":"an older export"},
            {"sender":"human","text":"x","created_at":"whenever"}]},
            {"uuid":"c2","chat_messages":7}]"#
                .as_bytes(),
        ));
        let texts: Vec<_> = found.turns.iter().map(|turn| turn.text.as_str()).collect();
        assert_eq!(texts, ["Plan a trip", "Spring.", "an older export"]);
        assert_eq!(
            found.keys(Format::Claude),
            [
                "claude/c1/2026-03-01T09:00:00.123Z/m1",
                "claude/c1/2026-03-01T09:02:00.000Z/m3",
                "claude/c1/000004"
            ]
        );
        assert_eq!(found.passed_over, 1);
        let places: Vec<_> = found.broken.iter().map(|(place, _)| place.as_str()).collect();
        assert_eq!(places, ["conversation 1, message 5", "conversation 2"]);
    }
}
