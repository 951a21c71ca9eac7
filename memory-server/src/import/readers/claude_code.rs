//! Session files of Claude Code: JSON Lines of `user` and `assistant` messages among bookkeeping. The format is
//! internal to that program and changes between releases, so unknown kinds of lines are skipped; only a line that is
//! not a JSON object counts as broken.

use std::io::{self, BufRead};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::item::{Item, Reader, json_complaint};
use super::lines::{Line, Lines};
use super::turn::{Place, Turn};
use super::{content, time};

/// The type of a line; the rest is parsed only if it is a turn.
#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "type", default)]
    kind: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Record<'a> {
    uuid: Option<String>,
    parent_uuid: Option<String>,
    session_id: Option<String>,
    agent_id: Option<String>,
    #[serde(borrow)]
    timestamp: Option<&'a RawValue>,
    cwd: Option<String>,
    git_branch: Option<String>,
    is_sidechain: bool,
    /// Inserted by the program.
    is_meta: bool,
    /// A summary of turns that are also in the file.
    is_compact_summary: bool,
    #[serde(borrow)]
    message: Option<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(default, borrow)]
    content: Option<&'a RawValue>,
    #[serde(default)]
    model: Option<String>,
}

/// Reads one session file.
pub(crate) struct Session<R> {
    lines: Lines<R>,
    name: String,
}

impl<R: BufRead> Session<R> {
    /// `name` is the session's name for lines without one.
    pub(crate) fn new(input: R, name: &str) -> Self {
        Self { lines: Lines::new(input), name: name.to_owned() }
    }
}

impl<R: BufRead + Send> Reader for Session<R> {
    fn next_item(&mut self) -> io::Result<Option<Item>> {
        let Some((number, line)) = self.lines.next_line()? else { return Ok(None) };
        let item = match line {
            Line::Broken(why) => Err(why),
            Line::Text(text) if !text.starts_with('{') => Err("the line is not a JSON object".to_owned()),
            Line::Text(text) => read_line(text, number, &self.name),
        };
        Ok(Some(item.unwrap_or_else(|why| Item::Broken(Place::Line(number), why))))
    }
}

fn read_line(text: &str, number: u64, name: &str) -> Result<Item, String> {
    let Kind { kind } = serde_json::from_str(text).map_err(|error| json_complaint(&error))?;
    if !matches!(kind.as_str(), "user" | "assistant") {
        return Ok(Item::PassedOver);
    }
    let record = serde_json::from_str(text).map_err(|error| json_complaint(&error))?;
    turn(kind, record, number, name)
}

fn turn(kind: String, record: Record<'_>, number: u64, name: &str) -> Result<Item, String> {
    let content = record.message.as_ref().and_then(|message| message.content);
    let (false, false, Some(content)) = (record.is_meta, record.is_compact_summary, content) else {
        return Ok(Item::PassedOver);
    };
    let said = content::said(content).map_err(|error| json_complaint(&error))?;
    let Some(text) = without_markup(&said) else { return Ok(Item::PassedOver) };
    let time =
        record.timestamp.map_or(Ok(None), time::instant).map_err(|error| error.message().to_owned())?;
    // A resumed session repeats lines of an earlier one in another file: time and uuid stay, the line number changes.
    let line = format!("{number:08}");
    let moment = time.map_or_else(|| line.clone(), |time| time.to_string());
    let mut labels = Vec::new();
    for (label, value) in [
        ("uuid", &record.uuid),
        ("parent_uuid", &record.parent_uuid),
        ("agent", &record.agent_id),
        ("cwd", &record.cwd),
        ("git_branch", &record.git_branch),
        ("model", &record.message.as_ref().and_then(|message| message.model.clone())),
    ] {
        if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
            labels.push((label.into(), value.into()));
        }
    }
    if record.is_sidechain {
        labels.push(("sidechain".into(), true.into()));
    }
    Ok(Item::Turn(Box::new(Turn {
        ended: None,
        expires_at: None,
        place: Place::Line(number),
        conversation: record.session_id.filter(|id| !id.is_empty()).unwrap_or_else(|| name.to_owned()),
        session: None,
        position: vec![moment, record.uuid.filter(|id| !id.is_empty()).unwrap_or(line)],
        speaker: kind.clone(),
        role: Some(kind),
        text,
        time,
        caption: None,
        labels,
    })))
}

/// What a person typed, with a slash command as its name and arguments; `None` for the program's own text.
fn without_markup(said: &str) -> Option<String> {
    if said.is_empty() || said.starts_with("<local-command-") {
        return None;
    }
    if !(said.starts_with("<command-name>") || said.starts_with("<command-message>")) {
        return Some(said.to_owned());
    }
    let name = tagged(said, "command-name")?;
    let arguments = tagged(said, "command-args").unwrap_or_default();
    Some(format!("{name} {arguments}").trim().to_owned())
}

fn tagged<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{tag}>"))?;
    rest.split_once(&format!("</{tag}>")).map(|(inside, _)| inside.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::format::Format;
    use crate::import::readers::item::testing::read;
    use memory_core::Scalar;

    #[test]
    fn what_was_said_is_kept_and_bookkeeping_is_read_over() {
        let found = read(Session::new(
            concat!(
                r#"{"type":"summary","summary":"Fix the parser","leafUuid":"x"}"#,
                "\n",
                r#"{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s","timestamp":"2026-01-02T03:04:05.678Z","cwd":"/src","message":{"role":"user","content":"Fix the parser"}}"#,
                "\n",
                r#"{"type":"assistant","uuid":"u2","parentUuid":"u1","sessionId":"s","timestamp":"2026-01-02T03:04:06.000Z","isSidechain":true,"message":{"role":"assistant","model":"m","content":[{"type":"thinking","thinking":"…","signature":"x"},{"type":"text","text":"Reading it."},{"type":"tool_use","id":"t","name":"Read","input":{"file_path":"/src/p.rs"}}]}}"#,
                "\n",
                r#"{"type":"user","uuid":"u3","sessionId":"s","timestamp":"2026-01-02T03:04:07Z","message":{"role":"user","content":[{"tool_use_id":"t","type":"tool_result","content":"fn main() {}"}]}}"#,
                "\n",
                r#"{"type":"user","isMeta":true,"uuid":"u4","sessionId":"s","message":{"content":"Caveat: …"}}"#,
                "\n",
                r#"{"type":"user","uuid":"u5","sessionId":"s","timestamp":"2026-01-02T03:04:08Z","message":{"content":"<command-name>/clear</command-name>\n<command-args>now</command-args>"}}"#,
                "\n",
                r#"{"type":"user","uuid":"u6","sessionId":"s","message":{"content":"<local-command-stdout>ok</local-command-stdout>"}}"#,
                "\n",
                r#"{"type":"a-kind-of-tomorrow","message":"text"}"#,
                "\n",
                r#"{"type":"system","content":"x"}"#,
            )
            .as_bytes(),
            "file",
        ));
        assert_eq!(
            found.keys(Format::ClaudeCode),
            [
                "claude-code/s/2026-01-02T03:04:05.678Z/u1",
                "claude-code/s/2026-01-02T03:04:06.000Z/u2",
                "claude-code/s/2026-01-02T03:04:08.000Z/u5",
            ]
        );
        assert_eq!(found.turns[1].text, "Reading it.\n[Read {\"file_path\":\"/src/p.rs\"}]");
        assert!(found.turns[1].labels.contains(&("sidechain".into(), Scalar::Bool(true))));
        assert_eq!(found.turns[2].text, "/clear now");
    }

    #[test]
    fn a_line_without_ids_is_named_by_file_and_number() {
        let found = read(Session::new(&br#"{"type":"user","message":{"content":"hi"}}"#[..], "file"));
        assert_eq!(found.keys(Format::ClaudeCode), ["claude-code/file/00000001/00000001"]);
    }

    #[test]
    fn a_line_cut_off_is_broken_by_its_number() {
        let found = read(Session::new(&b"{\"type\":\"user\",\"mess\n[]\n"[..], "file"));
        let places: Vec<_> = found.broken.iter().map(|(place, _)| place.as_str()).collect();
        assert_eq!(places, ["line 1", "line 2"]);
    }
}
