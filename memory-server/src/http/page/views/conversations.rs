//! Conversations: what a question would find and why, everything that is remembered, and forgetting.

use maud::{Markup, html};
use memory_core::layer::{
    ContextBlock, Fact, FactId, FactsQuery, Forget, RecallQuery, Role, ScoreKind, Share, approximate_tokens,
};
use memory_core::{Error, Op, Provider as _, Reply, Request, Result};

use super::super::ask::{Page, Visit, unexpected};
use super::super::fields::Fields;
use super::super::html::{
    hidden, key, more, none, number, remark, said, scalar, score, spelled, table, time, whole,
};
use super::super::place::Place;
use super::Done;

/// Facts of a page.
const LISTED: usize = 50;
/// Tokens of the block.
const TOKENS: usize = 1_000;
/// Characters of a block that are shown.
const SHOWN: usize = 64 << 10;
const FOUND: [&str; 5] = ["Rank", "Said", "Score", "Similarity", "What the score is made of"];

/// What each signal of the built-in conversations measures.
const SIGNALS: [(&str, &str); 16] = [
    ("lexical", "words it shares with the question"),
    ("window", "words that it and its neighbours share with the question"),
    ("session_lexical", "words that its session shares with the question"),
    ("dense", "nearness in meaning to the question"),
    ("previous_dense", "nearness of what was said before it"),
    ("next_dense", "nearness of what was said after it"),
    ("session_dense", "nearness of its session’s nearest turn"),
    ("speaker", "the question names its speaker"),
    ("role", "the question is about this side of the conversation"),
    ("date", "near the time that the question names"),
    ("says_when", "it says when, and the question asks when"),
    ("says_number", "it has a number, and the question asks for one"),
    ("length", "it has many words"),
    ("asks", "it is a question itself, which counts against it"),
    ("caption", "a picture came with it"),
    ("feedback", "nearness to what was found first"),
];

pub(super) async fn recall(page: &Page, visit: &Visit, place: &Place, fields: &Fields) -> Result<Markup> {
    if !page.memory.capabilities().memory_layer {
        return Ok(unserved());
    }
    let Some(scope) = &place.scope else {
        return Ok(html! {
            (place.chooser("/page/recall", true))
            (remark("Choose whose conversations: a user’s, an agent’s or a run’s."))
        });
    };
    let top_k = fields.parse("top_k")?.unwrap_or(10);
    let found = match fields.get("q") {
        None => {
            html! { (remark("Ask as an agent would, and see what it would be given. Asking changes nothing.")) }
        }
        Some(text) => {
            let query = RecallQuery::new(text).with_top_k(top_k).with_explain(true);
            let request = Request::Recall { run: visit.run(scope)?, scope: scope.clone(), query };
            let Reply::Recall(facts) = page.ask(visit, request).await? else { return Err(unexpected()) };
            answered(&facts)
        }
    };
    Ok(html! {
        (place.chooser("/page/recall", true))
        form class="filters" method="get" action="/page/recall" role="search" aria-label="Recall" {
            (hidden(&place.fields()))
            label class="wide" { "Question" input type="search" name="q" value=(fields.text("q")) required; }
            label { "Most facts"
                select name="top_k" { @for count in [5_usize, 10, 25, 50] { option selected[count == top_k] { (count) } } }
            }
            button { "Recall" }
        }
        (found)
        p { a href=(place.link("/page/facts", &[])) { "Everything that is remembered here" } }
    })
}

fn unserved() -> Markup {
    remark("This store serves no conversations, so there is nothing to recall.")
}

fn answered(facts: &[Fact]) -> Markup {
    if facts.is_empty() {
        return remark("Nothing is found for this question in this scope.");
    }
    let rows: Vec<Markup> = facts
        .iter()
        .enumerate()
        .map(|(at, fact)| {
            html! {
                td class="number" { (at + 1) }
                td class="value" { (words(fact)) }
                td class="number" { (score(fact.score)) }
                td class="number" { (score(fact.similarity)) }
                td { (shares(&fact.shares)) }
            }
        })
        .collect();
    let block = ContextBlock::of(facts, TOKENS, &approximate_tokens);
    let meaning = match facts.first().map(|fact| fact.score_kind) {
        Some(ScoreKind::Rank) => {
            "The score only orders this answer; the similarity, from 0 to 1, compares across answers."
        }
        Some(ScoreKind::Cosine) => "The score is the cosine of question and fact.",
        Some(ScoreKind::Similarity) => "The score is the service’s own similarity, from 0 to 1.",
        _ => "The service gave no scores.",
    };
    html! {
        (table("What the question finds, the best first", &FOUND, &rows))
        p class="remark" { (meaning) }
        details {
            summary { "What the signals mean" }
            dl class="terms" { @for (name, what) in SIGNALS { div { dt { code { (name) } } dd { (what) } } } }
        }
        h2 { "The block for a prompt" }
        p class="remark" {
            "About " (block.tokens) " of at most " (TOKENS) " tokens, in the order of time; a number points to the fact. "
            @if block.left_out > 0 { (block.left_out) " facts did not fit." }
        }
        (whole(&block.text, SHOWN))
    }
}

/// The shares of a score, the largest first.
pub(super) fn shares(shares: &[Share]) -> Markup {
    let mut shares: Vec<&Share> = shares.iter().filter(|share| share.value != 0.0).collect();
    shares.sort_by(|a, b| b.value.abs().total_cmp(&a.value.abs()));
    html! {
        @if shares.is_empty() { (none()) }
        @else {
            ul class="shares" {
                @for share in shares { li { (said(&share.signal)) " " span class="number" { (number(share.value)) } } }
            }
        }
    }
}

/// Who said what, and when.
fn words(fact: &Fact) -> Markup {
    let role = fact.role.map(|role| match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::System => "system",
        Role::Tool => "tool",
    });
    html! {
        (said(&fact.memory))
        @if let Some(caption) = &fact.caption { " (picture: " (said(caption)) ")" }
        span class="under" {
            @match (&fact.speaker, role) {
                (Some(speaker), Some(role)) => { (said(speaker)) " (" (role) "), " }
                (Some(speaker), None) => { (said(speaker)) ", " }
                (None, Some(role)) => { (role) ", " }
                (None, None) => {}
            }
            @if let Some(at) = fact.at.or(fact.created_at) { (time(at)) }
            @if let Some(session) = &fact.session { ", in " (said(session)) }
        }
    }
}

pub(super) async fn facts(page: &Page, visit: &Visit, place: &Place, fields: &Fields) -> Result<Markup> {
    let capabilities = page.memory.capabilities();
    if !capabilities.memory_layer {
        return Ok(unserved());
    }
    let Some(scope) = &place.scope else {
        return Ok(html! { (place.chooser("/page/facts", true)) (remark("Choose whose conversations.")) });
    };
    let mut query = FactsQuery::default();
    (query.limit, query.cursor) = (LISTED, fields.get("cursor").map(str::to_owned));
    let request = Request::Facts { run: visit.run(scope)?, scope: scope.clone(), query };
    let Reply::Facts(found) = page.ask(visit, request).await? else { return Err(unexpected()) };
    let next = found.next.as_ref().map(|next| place.link("/page/facts", &[("cursor", next)]));
    let refused = visit.caller.allows(Op::Forget).err();
    let rows: Vec<Markup> = found
        .facts
        .iter()
        .map(|fact| {
            html! {
                td class="value" id=(format!("fact-{}", fact.id)) { (words(fact)) }
                td { (provenance(fact)) }
                td { (validity(fact)) }
                td { @if capabilities.layer_forget && refused.is_none() { (forgetting(visit, place, fact)) } @else { (none()) } }
            }
        })
        .collect();
    Ok(html! {
        (place.chooser("/page/facts", true))
        @if rows.is_empty() { (remark("Nothing is remembered in this scope.")) }
        @else {
            (table("Facts in the order in which they are kept", &["Said", "Where from", "Holds", "Forget"], &rows))
            (more(next))
            @if let Some(refused) = &refused { (remark(refused.message())) }
        }
        p { a href=(place.link("/page/recall", &[])) { "Ask a question" } }
    })
}

fn provenance(fact: &Fact) -> Markup {
    html! {
        code class="id" { (said(fact.id.as_str())) }
        span class="under" {
            @if let Some(from) = &fact.provenance { (said(from)) " " }
            @if let Some(answered) = &fact.answers { "answers " code class="id" { (said(answered.as_str())) } " " }
            @if !fact.sources.is_empty() { "drawn from " }
            @for source in &fact.sources { code class="id" { (said(source.as_str())) } " " }
            @for (name, value) in fact.metadata.iter() { (said(name)) ": " (said(&scalar(value))) " " }
        }
    }
}

fn validity(fact: &Fact) -> Markup {
    html! {
        @match fact.valid_to {
            Some(until) => {
                "until " (time(until))
                @if let Some(by) = &fact.superseded_by { ", corrected by " code class="id" { (said(by.as_str())) } }
            }
            None => { "now" @if let Some(at) = fact.confirmed_at { ", confirmed " (time(at)) } }
        }
    }
}

fn forgetting(visit: &Visit, place: &Place, fact: &Fact) -> Markup {
    html! {
        details class="danger" {
            summary { "Forget…" }
            form method="post" action="/page/facts" {
                (key(&visit.form_key)) (hidden(&place.fields())) (hidden(&[("fact", fact.id.as_str())]))
                p { "Its words and vectors are removed for good." }
                button class="danger" aria-label=(format!("Forget the fact {}", spelled(fact.id.as_str()))) { "Forget it" }
            }
        }
    }
}

/// Forgets one fact.
pub(super) async fn forget(page: &Page, visit: &Visit, place: &Place, fields: &Fields) -> Result<Done> {
    let scope = place.need_scope()?;
    let id = FactId::new(fields.need("fact")?)?;
    let request =
        Request::Forget { run: visit.run(scope)?, scope: scope.clone(), what: Forget::Ids(vec![id]) };
    let Reply::Forget(outcome) = page.ask(visit, request).await? else { return Err(unexpected()) };
    if !outcome.not_found.is_empty() {
        return Err(Error::new(
            memory_core::ErrorKind::NotFound,
            "this scope has no such fact; it may be forgotten already",
        ));
    }
    let mut notice = "The fact is forgotten.".to_owned();
    for rest in &outcome.remains {
        notice = format!("{notice} {rest}");
    }
    Ok(Done { to: place.link("/page/facts", &[]), notice })
}
