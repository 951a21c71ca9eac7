//! `conversations.json` of a ChatGPT data export: an array of conversations, each a tree of messages. The branch that
//! ends in `current_node` is the one last shown.

use std::collections::{HashMap, HashSet};
use std::io::BufRead;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::elements::Unfolded;
use super::item::{Item, json_complaint};
use super::turn::{Place, Turn};
use super::{content, time};

#[derive(Deserialize)]
struct Conversation<'a> {
    #[serde(default)]
    conversation_id: Option<String>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    current_node: Option<String>,
    #[serde(default, borrow)]
    create_time: Option<&'a RawValue>,
    #[serde(borrow)]
    mapping: HashMap<String, &'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Node<'a> {
    parent: Option<String>,
    children: Option<Vec<String>>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    author: Option<Author>,
    #[serde(default, borrow)]
    create_time: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<Content<'a>>,
    #[serde(default)]
    recipient: Option<String>,
    #[serde(default)]
    metadata: Option<Metadata>,
}

#[derive(Deserialize)]
struct Author {
    role: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Content<'a> {
    content_type: String,
    #[serde(borrow)]
    parts: Option<Vec<&'a RawValue>>,
    text: Option<String>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    is_visually_hidden_from_conversation: Option<bool>,
    #[serde(default)]
    model_slug: Option<String>,
}

/// Reads conversations, holding one in memory at a time.
pub(super) fn conversations<R: BufRead + Send>(input: R) -> Unfolded<R> {
    Unfolded::new(input, "conversation", read_conversation)
}

fn read_conversation(text: &str, number: u64) -> Result<Vec<Item>, String> {
    let conversation: Conversation<'_> =
        serde_json::from_str(text).map_err(|error| json_complaint(&error))?;
    let id =
        [&conversation.conversation_id, &conversation.id].into_iter().flatten().find(|id| !id.is_empty());
    let Some(id) = id else { return Err("it has neither `conversation_id` nor `id`".to_owned()) };
    let mut items = Vec::new();
    let (branch, missing) = branch(&conversation)?;
    if let Some(missing) = missing {
        let place = Place::Part(format!("conversation {number}, message {missing}"));
        items.push(Item::Broken(
            place,
            "it is missing in the file, and what was said before it with it".to_owned(),
        ));
    }
    // A message without a time was sent after the previous one, not at the time of the import.
    let mut last = conversation.create_time.and_then(|time| time::instant(time).ok().flatten());
    for (depth, node) in branch.iter().enumerate() {
        let place = Place::Part(format!("conversation {number}, message {node}"));
        let mut item =
            turn(&conversation, id, node, depth, &place).unwrap_or_else(|why| Item::Broken(place, why));
        if let Item::Turn(turn) = &mut item {
            turn.time = turn.time.or(last);
            last = turn.time;
        }
        items.push(item);
    }
    Ok(items)
}

/// The ids of the nodes from the root to the current one; if the root's parent is missing in the file, its id too.
fn branch(conversation: &Conversation<'_>) -> Result<(Vec<String>, Option<String>), String> {
    let mut nodes = HashMap::with_capacity(conversation.mapping.len());
    for (id, raw) in &conversation.mapping {
        let node: Node<'_> = serde_json::from_str(raw.get())
            .map_err(|error| format!("node {id}: {}", json_complaint(&error)))?;
        nodes.insert(id.as_str(), node);
    }
    let current = match conversation.current_node.as_deref() {
        Some(id) if nodes.contains_key(id) => Some(id),
        // Old exports name no current node; the newest branch then follows the last child at each level.
        _ => newest_leaf(&nodes),
    };
    let mut path = Vec::new();
    let mut seen = HashSet::new();
    let mut next = current;
    let mut missing = None;
    while let Some(wanted) = next {
        let Some((id, node)) = nodes.get_key_value(wanted) else {
            missing = Some(wanted.to_owned());
            break;
        };
        if !seen.insert(*id) {
            return Err("its messages form a cycle".to_owned());
        }
        path.push((*id).to_owned());
        next = node.parent.as_deref();
    }
    path.reverse();
    Ok((path, missing))
}

fn newest_leaf<'a>(nodes: &'a HashMap<&'a str, Node<'a>>) -> Option<&'a str> {
    let mut roots: Vec<&str> = nodes
        .iter()
        .filter(|(_, node)| node.parent.as_deref().is_none_or(|parent| !nodes.contains_key(parent)))
        .map(|(id, _)| *id)
        .collect();
    roots.sort_unstable();
    let mut id = *roots.first()?;
    let mut seen = HashSet::new();
    while seen.insert(id) {
        match nodes.get(id).and_then(|node| node.children.as_ref()?.last()).map(String::as_str) {
            Some(child) if nodes.contains_key(child) => id = child,
            _ => break,
        }
    }
    Some(id)
}

fn turn(
    conversation: &Conversation<'_>,
    id: &str,
    node: &str,
    depth: usize,
    place: &Place,
) -> Result<Item, String> {
    let raw = conversation.mapping.get(node).map_or("null", |raw| raw.get());
    let Node { message: Some(raw), .. } =
        serde_json::from_str(raw).map_err(|error| json_complaint(&error))?
    else {
        return Ok(Item::PassedOver);
    };
    let message: Message<'_> = serde_json::from_str(raw.get()).map_err(|error| json_complaint(&error))?;
    let metadata = message.metadata.as_ref();
    let hidden = metadata.and_then(|metadata| metadata.is_visually_hidden_from_conversation);
    let (Some(Author { role }), Some(content), None | Some(false)) =
        (message.author, message.content, hidden)
    else {
        return Ok(Item::PassedOver);
    };
    if !matches!(role.as_str(), "user" | "assistant") {
        return Ok(Item::PassedOver);
    }
    let text = said(&content, message.recipient.as_deref().unwrap_or("all"))?;
    if text.is_empty() {
        return Ok(Item::PassedOver);
    }
    let time =
        message.create_time.map_or(Ok(None), time::instant).map_err(|error| error.message().to_owned())?;
    let mut labels = vec![("message_id".into(), node.into())];
    if let Some(title) = conversation.title.as_deref().filter(|title| !title.is_empty()) {
        labels.push(("title".into(), title.into()));
    }
    if let Some(model) = metadata.and_then(|metadata| metadata.model_slug.as_deref()) {
        labels.push(("model".into(), model.into()));
    }
    Ok(Item::Turn(Box::new(Turn {
        ended: None,
        expires_at: None,
        place: place.clone(),
        conversation: id.to_owned(),
        session: None,
        position: vec![format!("{depth:06}"), node.to_owned()],
        speaker: role.clone(),
        role: Some(role),
        text,
        time,
        caption: None,
        labels,
    })))
}

/// Text of both sides, and tool calls in brief. Reasoning, tool output and context that the user did not type here are
/// not turns.
fn said(content: &Content<'_>, recipient: &str) -> Result<String, String> {
    match content.content_type.as_str() {
        "text" | "multimodal_text" | "" => {}
        "code" => return Ok(content::tool_call(recipient, content.text.as_deref().unwrap_or_default())),
        _ => return Ok(String::new()),
    }
    let mut parts = Vec::new();
    for part in content.parts.iter().flatten() {
        let part = content::said_in_part(part).map_err(|error| json_complaint(&error))?;
        if !part.is_empty() {
            parts.push(part);
        }
    }
    let text = without_marks(&parts.join("\n"));
    Ok(if recipient == "all" || text.is_empty() { text } else { content::tool_call(recipient, &text) })
}

/// A text as it was on the screen. Links and cards stand in it as marks: U+E200, a kind, U+E202 before each argument, U+E201. Of
/// those with a name the name stays, of those that cite a source nothing.
fn without_marks(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, (mark, after))) =
        rest.split_once('\u{e200}').and_then(|(before, mark)| Some((before, mark.split_once('\u{e201}')?)))
    {
        shown.push_str(before);
        let mut arguments = mark.split('\u{e202}');
        match (arguments.next(), arguments.next()) {
            // As a list: its kind, its name, what it is.
            (Some("entity"), Some(entity)) => match serde_json::from_str::<Vec<String>>(entity) {
                Ok(entity) => shown.push_str(entity.get(1).map_or("", String::as_str)),
                Err(_) => shown.push_str(entity),
            },
            (Some("url" | "link_title"), Some(name)) => shown.push_str(name),
            _ if after.starts_with(char::is_alphanumeric) => {}
            _ => shown.truncate(shown.trim_end_matches(' ').len()),
        }
        rest = after;
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::format::Format;
    use crate::import::readers::item::testing::read;

    const BRANCHED: &str = r#"[{"title":"Trip","create_time":1.7e9,"current_node":"n4","conversation_id":"c1","mapping":{
        "root":{"id":"root","message":null,"parent":null,"children":["n0"]},
        "n0":{"id":"n0","message":{"id":"n0","author":{"role":"system"},"content":{"content_type":"text","parts":[""]}},"parent":"root","children":["n1"]},
        "n1":{"id":"n1","message":{"id":"n1","author":{"role":"user"},"create_time":1700000000.5,"content":{"content_type":"text","parts":["Where to?"]},"recipient":"all"},"parent":"n0","children":["n2","n3"]},
        "n2":{"id":"n2","message":{"id":"n2","author":{"role":"assistant"},"content":{"content_type":"text","parts":["An answer thrown away"]}},"parent":"n1","children":[]},
        "n3":{"id":"n3","message":{"id":"n3","author":{"role":"assistant"},"recipient":"browser","content":{"content_type":"code","language":"unknown","text":"search('Oslo')"}},"parent":"n1","children":["t"]},
        "t":{"id":"t","message":{"id":"t","author":{"role":"tool","name":"browser"},"content":{"content_type":"tether_quote","text":"page"}},"parent":"n3","children":["n4"]},
        "n4":{"id":"n4","message":{"id":"n4","author":{"role":"assistant"},"create_time":null,"content":{"content_type":"multimodal_text","parts":["Oslo.",{"content_type":"image_asset_pointer","asset_pointer":"file"},{"content_type":"audio_transcription","text":"By train."}]},"metadata":{"model_slug":"gpt-4o"}},"parent":"t","children":[]}}}]"#;

    #[test]
    fn the_branch_on_the_screen_is_followed() {
        let found = read(conversations(BRANCHED.as_bytes()));
        assert_eq!(found.broken, []);
        assert_eq!(
            found.keys(Format::Chatgpt),
            ["chatgpt/c1/000002/n1", "chatgpt/c1/000003/n3", "chatgpt/c1/000005/n4"]
        );
        let texts: Vec<_> = found.turns.iter().map(|turn| turn.text.as_str()).collect();
        assert_eq!(texts, ["Where to?", "[browser search('Oslo')]", "Oslo.\nBy train."]);
        let times = || found.turns.iter().map(|turn| turn.time.unwrap().to_string());
        assert!(times().all(|time| time == "2023-11-14T22:13:20.500Z"), "{:?}", times().collect::<Vec<_>>());
        let untimed = BRANCHED.replace("\"create_time\":1700000000.5,", "");
        let found = read(conversations(untimed.as_bytes()));
        assert_eq!(found.turns[0].time.unwrap().to_string(), "2023-11-14T22:13:20.000Z");
    }

    #[test]
    fn without_a_current_node_the_newest_branch_is_followed() {
        let text = BRANCHED.replace(r#""current_node":"n4","#, "");
        assert_eq!(read(conversations(text.as_bytes())).turns.len(), 3);
    }

    #[test]
    fn a_branch_whose_beginning_is_missing_is_named() {
        let text =
            BRANCHED.replace(r#""parent":"n1","children":["t"]"#, r#""parent":"lost","children":["t"]"#);
        let found = read(conversations(text.as_bytes()));
        assert_eq!(found.broken[0].0, "conversation 1, message lost");
        assert_eq!((found.broken.len(), found.turns.len()), (1, 2));
    }

    #[test]
    fn a_broken_conversation_is_named_and_the_others_are_read() {
        let text = format!(
            r#"[{{"id":"a","mapping":7}}, {{"mapping":{{}}}},
            {{"id":"loop","current_node":"x","mapping":{{"x":{{"parent":"y"}},"y":{{"parent":"x"}}}}}},
            {{"id":"d","current_node":"x","mapping":{{"x":{{"message":{{"author":{{}}}}}}}}}}, {}"#,
            &BRANCHED[1..]
        );
        let found = read(conversations(text.as_bytes()));
        let places: Vec<_> = found.broken.iter().map(|(place, _)| place.as_str()).collect();
        assert_eq!(
            places,
            ["conversation 1", "conversation 2", "conversation 3", "conversation 4, message x"]
        );
        assert_eq!(found.turns.len(), 3);
    }

    #[test]
    fn of_marks_for_links_and_cards_what_was_on_the_screen_stays() {
        for (text, shown) in [
            ("In \u{e200}entity\u{e202}[\"city\",\"Oslo\",\"Norway\"]\u{e201} there.", "In Oslo there."),
            (
                "It rains \u{e200}cite\u{e202}turn0search0\u{e202}turn0search3\u{e201}. Often.",
                "It rains. Often.",
            ),
            (
                "See \u{e200}url\u{e202}Visit\u{e202}https://x\u{e201}!\u{e200}i\u{e202}turn0image1\u{e201}",
                "See Visit!",
            ),
            (
                "a \u{e200}filecite\u{e202}turn0file1\u{e201}b \u{e200}entity\u{e202}plain\u{e201}",
                "a b plain",
            ),
            ("open \u{e200}cite", "open \u{e200}cite"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(without_marks(text), shown);
        }
        let marked = BRANCHED.replace("\"Oslo.\"", "\"Oslo. \u{e200}cite\u{e202}turn0search0\u{e201}\"");
        assert_eq!(read(conversations(marked.as_bytes())).turns[2].text, "Oslo.\nBy train.");
    }

    #[test]
    fn what_is_null_in_a_message_breaks_no_conversation() {
        let text = BRANCHED
            .replace(r#""parent":"n1","children":[]"#, r#""parent":"n1","children":null"#)
            .replace(r#"{"role":"tool","name":"browser"}"#, "null")
            .replace(r#""content":{"content_type":"text","parts":[""]}"#, r#""content":null"#);
        let found = read(conversations(text.as_bytes()));
        assert_eq!((found.broken.len(), found.turns.len()), (0, 3));
    }
}
