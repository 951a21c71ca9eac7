//! Turns and questions: generated, or those of a file.

use std::path::Path;

use memory_core::layer::{Message, Role};
use memory_core::{Error, Result, Timestamp};

use crate::bench::workload::{Random, push_word};
use crate::conversations::data;

/// Turns of a generated session, and sessions until they begin again.
const SESSION: usize = 40;
const SESSIONS: usize = 2_500;
/// Words of a generated turn: as many as people mostly say at once.
const WORDS: usize = 24;
const QUESTIONS: usize = 200;
/// 2024-01-01.
const FIRST: i64 = 1_704_067_200_000;
const DAY: i64 = 86_400_000;

/// What is said, in sessions, and what is asked about it.
pub(super) struct Turns {
    pub(super) sessions: Vec<Vec<Message>>,
    pub(super) questions: Vec<String>,
}

impl Turns {
    /// Two people who talk every day. Every third turn has a word that nobody says again.
    pub(super) fn generated() -> Self {
        let mut random = Random::new(1);
        let sessions = (0..SESSIONS).map(|session| {
            let at = FIRST + i64::try_from(session).unwrap_or_default() * DAY;
            let turn = |turn: usize, random: &mut Random| {
                let mut text = sentence(random, WORDS / 2 + random.clone().below(WORDS));
                if turn.is_multiple_of(3) {
                    text += &format!("item{session}x{turn}");
                }
                Message::new(Role::User, text)
                    .with_name(if turn.is_multiple_of(2) { "Ann" } else { "Ben" }.to_owned())
                    .with_at(Timestamp::from_millis_clamped(at))
            };
            (0..SESSION).map(|at| turn(at, &mut random)).collect()
        });
        let sessions = sessions.collect();
        let mut random = Random::new(2);
        let questions = (0..QUESTIONS).map(|at| {
            let name = if at.is_multiple_of(2) { "Ann" } else { "Ben" };
            format!("When did {name} say {}?", sentence(&mut random, 5).trim_end())
        });
        Self { sessions, questions: questions.collect() }
    }

    /// The dialogues of a file.
    pub(super) fn of_file(file: &Path) -> Result<Self> {
        let dialogues = data::load(file)?.read;
        let sessions = dialogues
            .iter()
            .flat_map(|dialogue| (0..dialogue.sessions.len()).map(|session| dialogue.messages(session)));
        let turns = Self {
            sessions: sessions.filter(|session| !session.is_empty()).collect(),
            questions: dialogues.iter().flat_map(|d| &d.questions).map(|asked| asked.text.clone()).collect(),
        };
        if turns.sessions.is_empty() || turns.questions.is_empty() {
            return Err(Error::invalid("the file has no turns, or no questions"));
        }
        Ok(turns)
    }
}

fn sentence(random: &mut Random, words: usize) -> String {
    let mut text = String::new();
    for _ in 0..words {
        push_word(&mut text, random);
        text.push(' ');
    }
    text
}
