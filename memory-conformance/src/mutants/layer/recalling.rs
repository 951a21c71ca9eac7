//! Answers that are too long, too short, misordered or misscored.

use memory_core::layer::{Fact, FactId, Message, Role, ScoreKind};
use memory_core::{Error, ErrorKind, Next, Reply, Request, Result, Timestamp};

use super::requests::{facts_of, layer, own_run};
use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;

mutants! {
    |memory, request, next|
    "layer.worst-first": ["LAY-12", "LAY-14"] needs [Layer], "the worst fact comes first" => answer(|reply| recalled(reply).reverse());
    "layer.by-age": ["LAY-12", "LAY-14"] needs [Layer], "facts come in the order they were learned"
        => answer(|reply| recalled(reply).sort_by(|a, b| a.id.cmp(&b.id)));
    "layer.top-k-ignored": ["LAY-13"] needs [Layer], "more facts come than top_k"
        => ask(Request::Recall { query, .. } => query.top_k = 1_000);
    "layer.top-k-cuts-the-best": ["LAY-13"] needs [Layer], "top_k cuts the best fact" => around(cuts_the_best);
    "layer.facts-twice": ["LAY-13"] needs [Layer], "a fact is returned twice"
        => answer(Reply::Recall(facts) => {
            if let Some(first) = facts.first().cloned() {
                facts.insert(0, first);
            }
        });
    "layer.score-nan": ["LAY-14"] needs [Layer], "a score is NaN"
        => answer(|reply| recalled(reply).iter_mut().for_each(|fact| fact.score = Some(f64::NAN)));
    "layer.score-in-percent": ["LAY-14"] needs [Layer], "percentages are declared as similarities"
        => answer(|reply| recalled(reply).iter_mut().for_each(|fact| fact.score = fact.score.map(|score| score * 100.0)));
    "layer.score-without-kind": ["LAY-14"] needs [Layer], "scores are declared as absent"
        => answer(|reply| recalled(reply).iter_mut().for_each(|fact| fact.score_kind = ScoreKind::None));
    "layer.kind-without-score": ["LAY-14"] needs [Layer], "listed facts have a score kind without a score"
        => answer(Reply::Facts(page) => page.facts.iter_mut().for_each(|fact| fact.score_kind = ScoreKind::Cosine));
    "layer.scores-of-others": ["LAY-14"] needs [Layer], "facts have each other's scores" => answer(|reply| {
        let facts = recalled(reply);
        let scores: Vec<_> = facts.iter().rev().map(|fact| fact.score).collect();
        facts.iter_mut().zip(scores).for_each(|(fact, score)| fact.score = score);
    });
    "layer.scores-mixed": ["LAY-14"] needs [Layer], "one answer mixes several kinds of scores"
        => answer(|reply| if let Some(last) = recalled(reply).last_mut() { last.score_kind = ScoreKind::Rank; });
    "layer.threshold-on-rank": ["LAY-15"] needs [Layer, LayerEvents], "the threshold is applied to the rank again"
        => around(filtered(request, next, |score, threshold| score >= threshold).await);
    "layer.threshold-ignored": ["LAY-15"] needs [Layer], "the threshold is not applied"
        => ask(Request::Recall { query, .. } => query.threshold = None);
    "layer.threshold-upside-down": ["LAY-15"] needs [Layer], "a high threshold leaves out fewer facts than a low one"
        => ask(Request::Recall { query, .. } => query.threshold = query.threshold.map(|threshold| (1.0 - threshold) / 2.0));
    "layer.threshold-exclusive": ["LAY-15"] needs [Layer], "a threshold leaves everything out"
        => around(filtered(request, next, |_, _| false).await);
    "layer.nothing-is-not-found": ["LAY-16"] needs [Layer], "an empty scope cannot be searched"
        => answer(Reply::Recall(facts) if facts.is_empty() => return Err(Error::new(ErrorKind::NotFound, "no such user")));
    "layer.nothing-falls-back": ["LAY-16", "LAY-50"] needs [Layer], "an empty scope answers with another's facts"
        => ask(Request::Recall { scope, .. } => {
            let scopes = memory.scopes_added_to();
            if !scopes.contains(scope) && let Some(other) = scopes.first() {
                return Ok(Reply::Recall(facts_of(&next, other).await?));
            }
        });
    "layer.questions-are-learned": ["LAY-17"] needs [Layer], "a question is learned"
        => ask(Request::Recall { scope, query, .. } => {
            let messages = [Message::new(Role::User, query.text.clone())];
            layer(&next)?.add(&own_run(scope)?, scope, &messages, Default::default()).await?;
        });
    "layer.recalled-once": ["LAY-17"] needs [Layer, LayerForget], "a recalled fact is forgotten"
        => over(Request::Recall { run, scope, query } => {
            let facts = layer(&next)?.recall(&run, &scope, query).await?;
            let ids: Vec<FactId> = facts.iter().map(|fact| fact.id.clone()).collect();
            super::requests::forget_in(&next, &scope, memory_core::layer::Forget::Ids(ids)).await?;
            Ok(Reply::Recall(facts))
        });
    "layer.recalled-in-capitals": ["LAY-42"] needs [Layer], "a recalled fact has other words"
        => answer(|reply| recalled(reply).iter_mut().for_each(|fact| fact.memory = fact.memory.to_uppercase()));
    "layer.recalled-ids": ["LAY-42"] needs [Layer], "a recalled fact has another id" => answer(|reply| {
        for (n, fact) in recalled(reply).iter_mut().enumerate() {
            if let Ok(id) = FactId::new(format!("row-{n}")) {
                fact.id = id;
            }
        }
    });
    "layer.other-model-forgets": ["LAY-97"] needs [Layer], "once the model has changed, nothing is found"
        => ask(Request::Recall { .. } if memory.has_another_model() => return Ok(Reply::Recall(Vec::new())));
    "layer.nobody-said-it": ["LAY-102"] needs [Layer, LayerSessions], "recalled facts lack speaker, time and session"
        => answer(|reply| recalled(reply).iter_mut().for_each(|fact| {
            (fact.speaker, fact.at, fact.session) = (None, None, None);
        }));
    "layer.best-of-each-scope": ["LAY-101"] needs [Layer], "the best fact of every answer has a similarity of 1"
        => answer(|reply| {
            let facts = recalled(reply);
            let most = facts.iter().filter_map(|fact| fact.score).fold(f64::MIN, f64::max);
            facts.iter_mut().for_each(|fact| fact.similarity = fact.score.map(|score| score / most));
        });
    "layer.recalled-now": ["LAY-42"] needs [Layer], "a recalled fact dates from the epoch"
        => answer(|reply| recalled(reply).iter_mut().for_each(|fact| fact.created_at = Some(Timestamp::EPOCH)));
}

fn recalled(reply: &mut Reply) -> &mut [Fact] {
    match reply {
        Reply::Recall(facts) => facts,
        _ => &mut [],
    }
}

async fn cuts_the_best(_memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let top_k = match &request {
        Request::Recall { query, .. } => query.top_k,
        _ => usize::MAX,
    };
    let mut reply = next.run(request).await?;
    if let Reply::Recall(facts) = &mut reply
        && facts.len() == top_k
    {
        facts.remove(0);
    }
    Ok(reply)
}

/// Keeps the facts that `keeps` accepts, given score and threshold.
async fn filtered(request: Request, next: Next<'_>, keeps: fn(f64, f64) -> bool) -> Result<Reply> {
    let threshold = match &request {
        Request::Recall { query, .. } => query.threshold,
        _ => None,
    };
    let mut reply = next.run(request).await?;
    if let (Reply::Recall(facts), Some(threshold)) = (&mut reply, threshold) {
        facts.retain(|fact| fact.score.is_some_and(|score| keeps(score, threshold)));
    }
    Ok(reply)
}
