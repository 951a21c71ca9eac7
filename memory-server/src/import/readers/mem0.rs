//! Facts of mem0: what its REST API lists (`{"results":[…]}` or an array), and the lines of `memory facts --all
//! --json`. Each becomes a turn under the fact's own id.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, BufRead};

use jiff::civil::Date;
use memory_core::{Scalar, Timestamp};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::elements::Unfolded;
use super::item::{Bytes, Item, Reader, json_complaint};
use super::lines::{Line, Lines};
use super::time;
use super::turn::{Ended, Place, Turn};
use crate::terminal::values;

#[derive(Deserialize)]
struct Listed<'a> {
    #[serde(borrow)]
    results: Vec<&'a RawValue>,
    /// Where the service's listing continues.
    #[serde(borrow, default)]
    next: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Fact<'a> {
    id: String,
    memory: String,
    #[serde(borrow)]
    created_at: Option<&'a RawValue>,
    #[serde(borrow)]
    updated_at: Option<&'a RawValue>,
    #[serde(borrow)]
    at: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "text_or_number")]
    user_id: Option<String>,
    #[serde(default, deserialize_with = "text_or_number")]
    agent_id: Option<String>,
    #[serde(default, deserialize_with = "text_or_number")]
    run_id: Option<String>,
    speaker: Option<String>,
    /// The name on the message, which was stored unchanged.
    actor_id: Option<String>,
    role: Option<String>,
    /// Who said it. In a listing of all users this is in `metadata`, in `memory facts` in `provenance`.
    attributed_to: Option<String>,
    #[serde(borrow)]
    provenance: Option<&'a RawValue>,
    #[serde(borrow)]
    valid_to: Option<&'a RawValue>,
    superseded_by: Option<String>,
    /// Its last day.
    expiration_date: Option<String>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    categories: Option<&'a RawValue>,
}

/// An id chosen by a program: a string, or a number as written.
fn text_or_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a text or a number")]
    enum Id {
        Text(String),
        Number(serde_json::Number),
    }
    Ok(Option::<Id>::deserialize(deserializer)?.map(|id| match id {
        Id::Text(text) => text,
        Id::Number(number) => number.to_string(),
    }))
}

/// Reads facts a line.
struct Facts<R> {
    lines: Lines<R>,
    conversation: String,
}

/// The reader of facts, for any form of the file; `name` is the conversation of facts that name nobody.
pub(super) fn of<'a>(mut input: Bytes<'a>, name: &str) -> Box<dyn Reader + 'a> {
    let name = name.to_owned();
    // If the input cannot be read, its first fact fails.
    let head = String::from_utf8_lossy(input.fill_buf().unwrap_or_default()).into_owned();
    let head = head.trim_start_matches('\u{feff}').trim_start();
    let listed = head.starts_with('[') || has_member(head, "\"results\"");
    if !listed {
        return Box::new(Facts { lines: Lines::new(input), conversation: name });
    }
    Box::new(Unfolded::new(input, "fact", move |text, number| {
        let (raws, next) = match serde_json::from_str::<Listed<'_>>(text) {
            Ok(listed) => (listed.results, listed.next),
            Err(_) => (vec![serde_json::from_str(text).map_err(|error| json_complaint(&error))?], None),
        };
        let items = raws.iter().zip(number..).map(|(raw, number)| {
            let place = Place::Part(format!("fact {number}"));
            turn(raw.get(), &name, place.clone()).unwrap_or_else(|why| Item::Broken(place, why))
        });
        let more = next.map(|_| {
            let why = "this is one page of several; import the others, too, which begin at `next`".to_owned();
            Item::Broken(Place::Part("the listing".to_owned()), why)
        });
        Ok(items.chain(more).collect())
    }))
}

/// Whether the object that a text starts with has this member, as far as the text goes.
fn has_member(text: &str, quoted: &str) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = in_string,
            '"' => {
                let begins = !in_string && depth == 1;
                let after = text.get(at..).and_then(|rest| rest.strip_prefix(quoted)).filter(|_| begins);
                if after.is_some_and(|after| after.trim_start().starts_with(':')) {
                    return true;
                }
                in_string = !in_string;
            }
            '{' | '[' if !in_string => depth += 1,
            '}' | ']' if !in_string => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return false;
                }
            }
            _ => {}
        }
    }
    false
}

impl<R: BufRead + Send> Reader for Facts<R> {
    fn next_item(&mut self) -> io::Result<Option<Item>> {
        let Some((number, line)) = self.lines.next_line()? else { return Ok(None) };
        let place = Place::Line(number);
        Ok(Some(match line {
            Line::Broken(why) => Item::Broken(place, why),
            Line::Text(text) => {
                turn(text, &self.conversation, place.clone()).unwrap_or_else(|why| Item::Broken(place, why))
            }
        }))
    }
}

fn turn(text: &str, conversation: &str, place: Place) -> Result<Item, String> {
    let fact: Fact<'_> = serde_json::from_str(text).map_err(|error| json_complaint(&error))?;
    if fact.memory.trim().is_empty() {
        return Ok(Item::PassedOver);
    }
    let time = match fact.at.or(fact.created_at) {
        Some(raw) => time::instant(raw).map_err(|error| error.message().to_owned())?,
        None => None,
    };
    let valid_to = match fact.valid_to {
        Some(raw) => time::instant(raw).map_err(|error| error.message().to_owned())?,
        None => None,
    };
    let expires_at = match fact.expiration_date.filter(|date| !date.is_empty()) {
        Some(date) => expiry(&date).map_err(|error| error.message().to_owned())?,
        None => None,
    };
    // Every fact has this; it is only informative if it differs from the creation time.
    let updated_at =
        fact.updated_at.filter(|at| fact.created_at.is_some_and(|first| first.get() != at.get()));
    let updated_at = updated_at.and_then(|raw| time::instant(raw).ok()?).map(|at| at.to_string());
    let is_ended = valid_to.is_some() || fact.superseded_by.is_some();
    let role = fact.role.or(fact.attributed_to);
    let role = role.or_else(|| attributed_to(fact.metadata?));
    // Other backends put a message's id here.
    let is_assistants = || fact.provenance.is_some_and(|raw| raw.get() == r#""assistant""#);
    let role = role.unwrap_or_else(|| if is_assistants() { "assistant" } else { "user" }.to_owned());
    // Only a user's words are by the person that the fact is about.
    let named = fact.speaker.or(fact.actor_id).filter(|name| !name.is_empty());
    let speaker = named.or_else(|| match role.as_str() {
        "user" => fact.user_id.clone().or(fact.agent_id.clone()),
        _ => fact.agent_id.clone(),
    });
    let (agent, run) = (fact.agent_id, fact.run_id);
    let labels = [("agent_id", agent.clone()), ("run_id", run.clone()), ("updated_at", updated_at)]
        .into_iter()
        .filter_map(|(name, value)| Some((Cow::from(name), Scalar::Text(value?))))
        .chain(labels(fact.metadata, fact.categories))
        .collect();
    let whose = fact.user_id.or(agent).or(run);
    Ok(Item::Turn(Box::new(Turn {
        place,
        conversation: whose.unwrap_or_else(|| conversation.to_owned()),
        session: None,
        position: vec![fact.id],
        speaker: speaker.unwrap_or_else(|| role.clone()),
        role: Some(role),
        text: fact.memory,
        time,
        caption: None,
        labels,
        ended: is_ended.then_some(Ended { valid_to, by: fact.superseded_by }),
        expires_at,
    })))
}

fn attributed_to(metadata: &RawValue) -> Option<String> {
    let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(metadata.get()).ok()?;
    serde_json::from_str(members.get("attributed_to")?.get()).ok()
}

/// The metadata and categories; a list or object becomes its JSON text.
fn labels(metadata: Option<&RawValue>, categories: Option<&RawValue>) -> Vec<(Cow<'static, str>, Scalar)> {
    let label = |raw: &RawValue| match serde_json::from_str(raw.get()) {
        _ if raw.get() == "null" => None,
        Ok(scalar) => Some(scalar),
        Err(_) => Some(Scalar::Text(raw.get().to_owned())),
    };
    let members: Option<BTreeMap<String, Box<RawValue>>> =
        metadata.and_then(|metadata| serde_json::from_str(metadata.get()).ok());
    let members = members.unwrap_or_default().into_iter();
    let named = members.filter_map(|(name, raw)| Some((Cow::Owned(name), label(&raw)?)));
    named.chain(categories.and_then(label).map(|scalar| ("categories".into(), scalar))).collect()
}

/// When a fact ends: after a day, or at a time. `None` for never, since no time comes after the last days of 9999.
fn expiry(written: &str) -> memory_core::Result<Option<Timestamp>> {
    let Ok(day) = written.parse::<Date>() else { return time::written(written).map(Some) };
    Ok(day.tomorrow().ok().and_then(|next| values::utc(next.at(0, 0, 0, 0)).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::format::Format;
    use crate::import::readers::item::testing::Found;

    fn read(text: &str) -> Found {
        let mut reader = of(Box::new(text.as_bytes()), "file");
        let mut found = Found::default();
        while let Some(item) = reader.next_item().unwrap() {
            match item {
                Item::Turn(turn) => found.turns.push(*turn),
                Item::Broken(place, why) => found.broken.push((place.to_string(), why)),
                _ => found.passed_over += 1,
            }
        }
        found
    }

    #[test]
    fn lines_stay_lines_whatever_their_metadata_is_called() {
        let line = |n: u32| {
            format!(
                "{{\"id\":\"{n}\",\"memory\":\"the \\\"results\\\": {{\",\"metadata\":{{\"results\":[{n}]}}}}\n"
            )
        };
        let found = read(&(line(1) + &line(2) + "{\"results\":1}"));
        assert_eq!((found.turns.len(), found.broken.len()), (2, 1), "{:?}", found.broken);
    }

    #[test]
    fn words_of_others_are_not_given_to_the_user() {
        for (whose, speaker) in [
            (r#""role":"assistant""#, "assistant"),
            (r#""role":"assistant","user_id":"ada""#, "assistant"),
            (r#""role":"assistant","user_id":"ada","agent_id":"planner""#, "planner"),
            (r#""role":"assistant","speaker":"Bo""#, "Bo"),
            (r#""role":"user","user_id":"ada""#, "ada"),
            (r#""attributed_to":"assistant","user_id":"ada""#, "assistant"),
            (r#""role":null,"metadata":{"n":[1],"attributed_to":"assistant"},"user_id":"ada""#, "assistant"),
            (r#""metadata":{"n":1},"provenance":"assistant","user_id":"ada""#, "assistant"),
            (r#""role":"user","attributed_to":"assistant","user_id":"ada""#, "ada"),
            (r#""attributed_to":null,"provenance":"m-1","user_id":"ada""#, "ada"),
            (r#""agent_id":"planner""#, "planner"),
            (r#""role":"user","user_id":"ada","actor_id":"Bo""#, "Bo"),
            (r#""user_id":null"#, "user"),
            (r#""user_id":17"#, "17"),
        ] {
            let found = read(&format!(r#"{{"id":"1","memory":"a",{whose}}}"#));
            assert_eq!(found.turns[0].speaker, speaker, "{whose}");
        }
    }

    /// Regression: the run, the agent next to the user and the time of the last change were lost, and a run's facts
    /// went under the file's name.
    #[test]
    fn a_fact_keeps_its_agent_its_run_and_when_it_was_changed() {
        let at = r#""created_at":"2026-01-02T03:04:05+00:00","updated_at":"2026-01-03T03:04:05+00:00""#;
        let labels = |whose: &str| {
            let found = read(&format!(r#"[{{"id":"1","memory":"a",{whose}}}]"#));
            serde_json::to_string(&found.turns[0].metadata()).unwrap()
        };
        assert_eq!(
            labels(&format!(r#""user_id":"ada","agent_id":"planner","run_id":7,{at}"#)),
            r#"{"agent_id":"planner","conversation":"ada","role":"user","run_id":"7","speaker":"ada","time":"2026-01-02T03:04:05.000Z","updated_at":"2026-01-03T03:04:05.000Z"}"#
        );
        assert_eq!(
            labels(r#""run_id":"r-1","created_at":"2026-01-02","updated_at":"2026-01-02""#),
            r#"{"conversation":"r-1","role":"user","run_id":"r-1","speaker":"user","time":"2026-01-02T00:00:00.000Z"}"#
        );
    }

    #[test]
    fn facts_keep_their_ids_and_times_in_every_form() {
        let fact = r#"{"id":"f-1","memory":"Likes tea","hash":"x","metadata":null,"created_at":"2026-01-02T03:04:05.678-08:00","updated_at":null,"user_id":"ada"}"#;
        for text in [fact.to_owned(), format!("[{fact}]"), format!("{{\"results\":[{fact}],\"next\":null}}")]
        {
            let found = read(&text);
            assert_eq!(found.keys(Format::Mem0), ["mem0/ada/f-1"], "{text}: {:?}", found.broken);
            assert_eq!(found.turns[0].time.unwrap().to_string(), "2026-01-02T11:04:05.678Z");
        }
        let dated = |date: &str| format!(r#"{{"id":"1","memory":"a","expiration_date":{date}}}"#);
        for (date, end) in [
            (r#""2030-01-31""#, Some("2030-02-01T00:00:00.000Z")),
            (r#""2030-01-31T12:00:00Z""#, Some("2030-01-31T12:00:00.000Z")),
            (r#""9999-12-31""#, None),
            (r#""""#, None),
            ("null", None),
        ] {
            let found = read(&dated(date));
            assert_eq!(found.turns[0].expires_at.map(|at| at.to_string()).as_deref(), end, "{date}");
        }
        assert_eq!(read(&dated(r#""soon""#)).broken.len(), 1);
        let labelled = r#"{"id":"1","memory":"a","user_id":"ada","metadata":{"topic":"food","rank":2,"speaker":"eve","none":null,"of":["x",1]},"categories":["tea"]}"#;
        assert_eq!(
            serde_json::to_string(&read(labelled).turns[0].metadata()).unwrap(),
            r#"{"categories":"[\"tea\"]","conversation":"ada","of":"[\"x\",1]","rank":2,"role":"user","speaker":"ada","topic":"food"}"#
        );
        assert_eq!(read(r#"{"id":"1","memory":"a","metadata":"odd"}"#).turns.len(), 1);
        let found = read("{\"id\":\"1\",\"memory\":\"a\"}\n{\"id\":2}\n{\"id\":\"3\",\"memory\":\" \"}\n");
        assert_eq!(
            (found.keys(Format::Mem0), found.broken.len(), found.passed_over),
            (vec!["mem0/file/1".to_owned()], 1, 1)
        );
    }
}
