//! Replies of language models that draw facts: of a chat service, or the answer alone. Facts of bounded shape about what was
//! given, or a typed error.
//!
//! The first line is `chat` for a service's whole reply; the rest is it. Otherwise all of the input is the answer.

use memory_core::ErrorKind;
use memory_core::layer::FactId;
use memory_embed::parse_chat_reply;
use memory_recall::extract::{
    KnownFact, MAX_DRAWN_FACTS, MAX_REPLY_BYTES, SourceTurn, checked, parse_facts_reply,
};

/// Tries one reply.
pub fn run(data: &[u8]) {
    match data.strip_prefix(b"chat\n") {
        Some(body) => match parse_chat_reply(body, true) {
            Ok(reply) => {
                assert!(!reply.text.trim().is_empty() && reply.text.len() <= body.len());
                facts(&reply.text);
            }
            Err(error) => {
                let kinds = [ErrorKind::Unavailable, ErrorKind::TooLarge];
                assert!(kinds.contains(&error.kind()) && error.message().len() < 1_000, "{error:?}");
            }
        },
        None => facts(&String::from_utf8_lossy(data)),
    }
}

fn facts(text: &str) {
    let id = |id: &str| FactId::new(id).expect("an id");
    let turns = [SourceTurn::new(id("turn-1"), "Ida lives in Bergen"), SourceTurn::new(id("turn-2"), "hm")];
    let known = [KnownFact::new(id("fact-1"), "Ida lives in Oslo")];
    match parse_facts_reply(text, &turns, &known) {
        Ok(drawn) => {
            assert!(text.len() <= MAX_REPLY_BYTES && drawn.len() <= MAX_DRAWN_FACTS);
            let all = drawn.len();
            let (taken, refused) = checked(drawn, &turns, &known);
            assert!(taken.len() as u64 + refused <= all as u64);
            for fact in taken {
                assert!(!fact.text.trim().is_empty() && !fact.text.chars().any(char::is_control));
                assert!(!fact.sources.is_empty());
                assert!(fact.sources.iter().all(|source| turns.iter().any(|turn| turn.id == *source)));
                assert!(fact.supersedes.iter().all(|other| *other == known[0].id));
            }
        }
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::TooLarge), "{error:?}");
            assert!(error.message().len() < 1_000);
        }
    }
}
