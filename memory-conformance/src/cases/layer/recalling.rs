//! Recalling: the right facts, in order, with honest scores.

use std::collections::BTreeSet;

use memory_core::layer::{Fact, RecallQuery, ScoreKind};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq};
use crate::cx::Cx;
use crate::cx::conversation::{Conversation, about, mentions};
use crate::cx::vectors::{longer_model, other_model};

pub(crate) const CASES: &[Case] = &[
    case!("layer.recall.best-first", [Layer], ["LAY-12"], |cx| {
        let chat = owner(cx).await?;
        for thing in THINGS {
            check!(first_is(&chat, thing).await?, "the first fact does not answer the query about a {thing}");
        }
    }),
    case!("layer.recall.top-k", [Layer], ["LAY-13"], |cx| {
        let chat = owner(cx).await?;
        for top_k in 1..=3 {
            let found = chat.recall_with(RecallQuery::new(about("theremin")).with_top_k(top_k)).await?;
            check!(found.len() <= top_k, "{} facts for top_k {top_k}", found.len());
            check!(
                found.first().is_some_and(|fact| mentions(fact, "theremin")),
                "of {top_k} facts the best one is missing"
            );
        }
    }),
    case!("layer.recall.no-fact-twice", [Layer], ["LAY-13"], |cx| {
        let chat = owner(cx).await?;
        for thing in THINGS {
            let found = chat.recall(&about(thing)).await?;
            let ids: BTreeSet<_> = found.iter().map(|fact| &fact.id).collect();
            expect_eq!(ids.len(), found.len(), "different facts of the answer");
        }
    }),
    case!("layer.recall.scores", [Layer], ["LAY-14"], |cx| {
        let chat = owner(cx).await?;
        for thing in THINGS {
            chat.recall(&about(thing)).await?.iter().try_for_each(in_range)?;
        }
        chat.facts().await?.iter().try_for_each(in_range)?;
    }),
    case!("layer.recall.order-of-scores", [Layer], ["LAY-14"], |cx| {
        let chat = owner(cx).await?;
        for thing in THINGS {
            let found = chat.recall(&about(thing)).await?;
            let kinds: BTreeSet<String> = found.iter().map(|fact| format!("{:?}", fact.score_kind)).collect();
            check!(kinds.len() <= 1, "one answer has scores of several kinds: {kinds:?}");
            let scores: Vec<f64> = found.iter().filter_map(|fact| fact.score).collect();
            check!(scores.is_sorted_by(|a, b| a >= b), "scores grow along the answer: {scores:?}");
        }
    }),
    case!("layer.recall.threshold-keeps", [Layer, LayerThreshold], ["LAY-15"], |cx| {
        let chat = owner(cx).await?;
        for threshold in [0.0, 0.3, 0.5] {
            let query = RecallQuery::new(about("theremin")).with_threshold(threshold);
            let found = chat.recall_with(query).await?;
            check!(
                found.iter().any(|fact| mentions(fact, "theremin")),
                "a threshold of {threshold} leaves out the fact with the words of the query"
            );
        }
    }),
    case!("layer.recall.threshold-cuts", [Layer, LayerThreshold], ["LAY-15"], |cx| {
        let chat = owner(cx).await?;
        let all = chat.recall(&about("theremin")).await?.len();
        for threshold in [0.2, 0.4, 0.6, 0.8, 1.0] {
            let query = RecallQuery::new(about("theremin")).with_threshold(threshold);
            let found = chat.recall_with(query).await?;
            for fact in &found {
                let bounded = matches!(fact.score_kind, ScoreKind::Cosine | ScoreKind::Similarity);
                let score = fact.score.unwrap_or(1.0);
                check!(
                    !bounded || score >= threshold - 1e-9,
                    "a fact with {score} passed a threshold of {threshold}"
                );
            }
            if threshold >= 1.0 {
                check!(all < 2 || found.len() < all, "a threshold of 1 leaves nothing out of {all} facts");
            }
        }
    }),
    case!("layer.recall.threshold-adds-nothing", [Layer, LayerThreshold], ["LAY-15"], |cx| {
        let chat = owner(cx).await?;
        let query = |threshold| RecallQuery::new(about("theremin")).with_threshold(threshold);
        let mut before: Option<BTreeSet<_>> = None;
        for threshold in [0.0, 0.25, 0.5, 0.75, 1.0] {
            let ids: BTreeSet<_> =
                chat.recall_with(query(threshold)).await?.into_iter().map(|fact| fact.id).collect();
            check!(
                before.is_none_or(|before| ids.is_subset(&before)),
                "a threshold of {threshold} brought a fact that a lower one had not"
            );
            before = Some(ids);
        }
    }),
    case!(
        "layer.recall.nothing-learned",
        [Layer],
        ["LAY-16"],
        |cx, chat: Conversation, other: Conversation| {
            other.learn("theremin").await?;
            expect_eq!(chat.recall("theremin").await?, [], "what a scope that learned nothing recalls");
            expect_eq!(chat.facts().await?, [], "what a scope that learned nothing lists");
        }
    ),
    case!("layer.recall.changes-nothing", [Layer], ["LAY-17"], |cx| {
        let chat = owner(cx).await?;
        let shape = |facts: &[Fact]| {
            let mut shape: Vec<_> = facts.iter().map(|fact| (fact.id.clone(), fact.memory.clone())).collect();
            shape.sort();
            shape
        };
        let before = shape(&chat.facts().await?);
        for question in ["theremin", "something else", "*"] {
            chat.recall(question).await?;
        }
        expect_eq!(shape(&chat.facts().await?), before, "the listing after queries");
    }),
    case!("layer.recall.another-model", [Layer], ["LAY-97"], |cx| {
        for embedder in [other_model(), longer_model()] {
            let cx = cx.on(cx.open().await?);
            let scope = owner(&cx).await?.scope;
            let cx = cx.reopened_with(embedder).await?;
            let chat = cx.conversation_in(scope)?;
            for added in [false, true] {
                if added {
                    chat.learn("kazoo").await?;
                    check!(first_is(&chat, "kazoo").await?, "what was added by the new model is not found");
                }
                for thing in THINGS {
                    check!(
                        first_is(&chat, thing).await?,
                        "what was learned by another model is not found first (more was added: {added})"
                    );
                }
            }
        }
    }),
];

const THINGS: [&str; 5] = ["theremin", "sextant", "zeppelin", "harpsichord", "trebuchet"];

async fn owner<'a>(cx: &'a Cx) -> CaseResult<Conversation<'a>> {
    let chat = cx.conversation()?;
    chat.learn_all(&THINGS).await?;
    Ok(chat)
}

/// Whether the first fact that answers a question about a thing mentions it.
async fn first_is(chat: &Conversation<'_>, thing: &str) -> CaseResult<bool> {
    let found = chat.recall(&about(thing)).await?;
    Ok(found.first().is_some_and(|fact| mentions(fact, thing)))
}

fn in_range(fact: &Fact) -> CaseResult {
    check!(
        fact.score.is_some() == (fact.score_kind != ScoreKind::None),
        "a score is {:?} and its kind {:?}",
        fact.score,
        fact.score_kind
    );
    if let Some(score) = fact.score {
        check!(score.is_finite(), "a score is {score}");
        let bounded = matches!(fact.score_kind, ScoreKind::Cosine | ScoreKind::Similarity);
        check!(!bounded || (0.0..=1.0).contains(&score), "a {:?} is {score}", fact.score_kind);
    }
    Ok(())
}
