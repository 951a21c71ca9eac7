//! Files of a Claude data export: `conversations.json`, an array of conversations, each with its messages in order;
//! `memories.json`, what Claude remembers; and `projects.json`, or a file each, with instructions and documents.

use std::collections::BTreeMap;
use std::io::BufRead;

use memory_core::Metadata;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::elements::Unfolded;
use super::item::{Item, json_complaint};
use super::turn::{Place, Turn, kept};
use super::{content, time};

/// A conversation, what is remembered of an account, or a project.
#[derive(Deserialize)]
struct Element<'a> {
    #[serde(default)]
    uuid: String,
    name: Option<String>,
    #[serde(borrow)]
    chat_messages: Option<Vec<&'a RawValue>>,
    #[serde(default)]
    account_uuid: String,
    conversations_memory: Option<String>,
    /// By project.
    project_memories: Option<BTreeMap<String, String>>,
    prompt_template: Option<String>,
    docs: Option<Vec<Document>>,
}

#[derive(Deserialize)]
struct Document {
    uuid: String,
    filename: String,
    content: String,
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

/// Reads conversations, memories or projects, holding one in memory at a time.
pub(super) fn elements<R: BufRead + Send>(input: R) -> Unfolded<R> {
    Unfolded::new(input, "conversation", read_element)
}

fn read_element(text: &str, number: u64) -> Result<Vec<Item>, String> {
    let element: Element<'_> = serde_json::from_str(text).map_err(|error| json_complaint(&error))?;
    match &element.chat_messages {
        Some(_) if element.uuid.is_empty() => Err("it has no `uuid`".to_owned()),
        Some(messages) => {
            let read = |(raw, index): (&&RawValue, u64)| {
                let place = Place::Part(format!("conversation {number}, message {index}"));
                turn(&element, raw, index, &place).unwrap_or_else(|why| Item::Broken(place, why))
            };
            Ok(messages.iter().zip(1..).map(read).collect())
        }
        None if element.uuid.is_empty() && element.account_uuid.is_empty() => {
            Err("it has no messages, and is neither memories nor a project".to_owned())
        }
        None => Ok(element.kept()),
    }
}

impl Element<'_> {
    /// Memories and a project's texts.
    fn kept(&self) -> Vec<Item> {
        let named = || match self.name.as_deref() {
            Some(name) if !name.is_empty() => Metadata::new().with("project", name),
            _ => Metadata::new(),
        };
        let mut items = Vec::new();
        let mut keep = |parts: &[&str], text: &str, metadata: Metadata| {
            let place = Place::Part(parts.join(", "));
            items.push(match kept("claude", parts, text, metadata) {
                _ if text.trim().is_empty() => Item::PassedOver,
                Ok(entry) => Item::Entry(place, Box::new(entry)),
                Err(error) => Item::Broken(place, error.message().to_owned()),
            });
        };
        if let Some(memory) = &self.conversations_memory {
            keep(&["memory", &self.account_uuid], memory, Metadata::new());
        }
        for (project, memory) in self.project_memories.iter().flatten() {
            keep(&["memory", &self.account_uuid, project], memory, Metadata::new());
        }
        if let Some(instructions) = &self.prompt_template {
            keep(&["projects", &self.uuid, "instructions"], instructions, named());
        }
        for document in self.docs.iter().flatten() {
            let parts = ["projects", self.uuid.as_str(), "docs", document.uuid.as_str()];
            keep(&parts, &document.content, named().with("title", document.filename.as_str()));
        }
        items
    }
}

fn turn(conversation: &Element<'_>, raw: &RawValue, index: u64, place: &Place) -> Result<Item, String> {
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
        let found = read(elements(
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

    #[test]
    fn what_claude_remembers_and_projects_become_entries() {
        let found = read(elements(
            r##"[{"conversations_memory":"Ada sails.","project_memories":{"p/1":"A trip"},"account_uuid":"a"},
            {"uuid":"p1","name":"Trips","prompt_template":"Be brief","docs":[
              {"uuid":"d","filename":"notes.md","content":"Ferries leave at 8","created_at":"2026-05-01T10:00:00Z"}]},
            {"uuid":"p2","name":"Empty","prompt_template":"","docs":[]},
            {"uuid":"c1","chat_messages":[]}, {"name":"Trip"}, {"chat_messages":[]}]"##
                .as_bytes(),
        ));
        let entries: Vec<_> = found
            .entries
            .iter()
            .map(|entry| {
                (
                    entry.key.as_str(),
                    entry.value.as_str(),
                    serde_json::to_string(&entry.options.metadata).unwrap(),
                )
            })
            .collect();
        assert_eq!(
            entries,
            [
                ("claude/memory/a", r#""Ada sails.""#, "{}".to_owned()),
                ("claude/memory/a/p%2F1", r#""A trip""#, "{}".to_owned()),
                ("claude/projects/p1/instructions", r#""Be brief""#, r#"{"project":"Trips"}"#.to_owned()),
                (
                    "claude/projects/p1/docs/d",
                    r#""Ferries leave at 8""#,
                    r#"{"project":"Trips","title":"notes.md"}"#.to_owned()
                ),
            ]
        );
        assert_eq!((found.turns.len(), found.passed_over), (0, 1));
        let places: Vec<_> = found.broken.iter().map(|(place, _)| place.as_str()).collect();
        assert_eq!(places, ["conversation 5", "conversation 6"]);
    }
}
