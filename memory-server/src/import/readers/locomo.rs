//! LoCoMo dialogues: an array of `{"sample_id", "conversation": {"session_1": [turns], "session_1_date_time", …}}`.
//! Questions, observations and summaries are not imported.

use std::collections::BTreeMap;
use std::io::BufRead;

use memory_core::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::elements::Unfolded;
use super::item::{Item, json_complaint};
use super::time;
use super::turn::{Place, Turn};

#[derive(Deserialize)]
struct Dialogue<'a> {
    sample_id: String,
    #[serde(borrow)]
    conversation: BTreeMap<String, &'a RawValue>,
}

#[derive(Deserialize)]
struct Said {
    speaker: String,
    dia_id: String,
    text: String,
    #[serde(default)]
    blip_caption: Option<String>,
}

/// Reads dialogues, holding one in memory at a time.
pub(super) fn dialogues<R: BufRead + Send>(input: R) -> Unfolded<R> {
    Unfolded::new(input, "dialogue", read_dialogue)
}

fn read_dialogue(text: &str, _: u64) -> Result<Vec<Item>, String> {
    let dialogue: Dialogue<'_> = serde_json::from_str(text).map_err(|error| json_complaint(&error))?;
    if dialogue.sample_id.is_empty() {
        return Err("`sample_id` is empty".to_owned());
    }
    let mut sessions: Vec<(i64, &RawValue)> = dialogue
        .conversation
        .iter()
        .filter_map(|(name, raw)| Some((name.strip_prefix("session_")?.parse().ok()?, *raw)))
        .collect();
    sessions.sort_by_key(|(number, _)| *number);
    let mut items = Vec::new();
    for (number, raw) in sessions {
        let place = format!("{}, session {number}", dialogue.sample_id);
        let time = match date(&dialogue, number) {
            Ok(time) => time,
            Err(why) => {
                items.push(Item::Broken(Place::Part(place), format!("{why}; its turns are left out")));
                continue;
            }
        };
        match serde_json::from_str::<Vec<&RawValue>>(raw.get()) {
            Ok(turns) => items.extend(turns.iter().zip(1_u32..).map(|(raw, position)| {
                let place = Place::Part(format!("{place}, turn {position}"));
                turn(raw, &place, &dialogue.sample_id, number, position, time)
                    .unwrap_or_else(|why| Item::Broken(place, why))
            })),
            Err(error) => items.push(Item::Broken(Place::Part(place), json_complaint(&error))),
        }
    }
    Ok(items)
}

/// The session's date, if the dialogue gives one.
fn date(dialogue: &Dialogue<'_>, session: i64) -> Result<Option<Timestamp>, String> {
    let Some(raw) = dialogue.conversation.get(&format!("session_{session}_date_time")) else {
        return Ok(None);
    };
    let text: String = serde_json::from_str(raw.get()).map_err(|_| "the date is not text".to_owned())?;
    time::locomo(&text).map(Some).map_err(|error| error.message().to_owned())
}

fn turn(
    raw: &RawValue,
    place: &Place,
    dialogue: &str,
    session: i64,
    position: u32,
    time: Option<Timestamp>,
) -> Result<Item, String> {
    let said: Said = serde_json::from_str(raw.get()).map_err(|error| json_complaint(&error))?;
    Ok(Item::Turn(Box::new(Turn {
        ended: None,
        expires_at: None,
        place: place.clone(),
        conversation: dialogue.to_owned(),
        session: Some(session.into()),
        position: vec![format!("{position:04}"), said.dia_id.clone()],
        speaker: said.speaker,
        role: None,
        text: said.text,
        time,
        caption: said.blip_caption,
        labels: vec![("dia_id".into(), said.dia_id.into()), ("turn".into(), i64::from(position).into())],
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::format::Format;
    use crate::import::readers::item::testing::read;

    #[test]
    fn sessions_are_read_in_number_order_with_their_dates() {
        let text = r#"[{"qa":[{"question":"?"}],"conversation":{"speaker_a":"Ada",
            "session_10":[{"speaker":"Ada","dia_id":"D10:1","text":"Later"}],
            "session_2":[{"speaker":"Bo","dia_id":"D2:1","text":"Look","blip_caption":"a lake","img_url":["x"]}],
            "session_2_date_time":"1:56 pm on 8 May, 2023","session_3_date_time":"dangling"},
            "sample_id":"conv-1"}]"#;
        let found = read(dialogues(text.as_bytes()));
        assert_eq!(found.broken, []);
        assert_eq!(
            found.keys(Format::Locomo),
            ["locomo/conv-1/0002/0001/D2:1", "locomo/conv-1/0010/0001/D10:1"]
        );
        assert_eq!(found.turns[0].time.unwrap().to_string(), "2023-05-08T13:56:00.000Z");
        assert_eq!(found.turns[0].caption.as_deref(), Some("a lake"));
        assert_eq!(found.turns[1].time, None);
    }

    #[test]
    fn a_broken_turn_session_or_dialogue_is_named_and_the_rest_is_read() {
        let text = r#"[{"sample_id":"a","conversation":{
            "session_1":[{"speaker":"Ada","dia_id":"D1:1"},{"speaker":"Ada","dia_id":"D1:2","text":"ok"}],
            "session_2":"?","session_3":[{"speaker":"Ada","dia_id":"D3:1","text":"x"}],
            "session_3_date_time":"whenever"}}, {"sample_id":7}, {"sample_id":"b","conversation":{}}]"#;
        let found = read(dialogues(text.as_bytes()));
        let places: Vec<_> = found.broken.iter().map(|(place, _)| place.as_str()).collect();
        assert_eq!(places, ["a, session 1, turn 1", "a, session 2", "a, session 3", "dialogue 2"]);
        assert_eq!(found.turns.len(), 1);
    }
}
