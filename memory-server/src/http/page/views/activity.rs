//! Recent requests, according to the audit file.

use maud::{Markup, html};
use memory::audit::{OpUsage, usage};
use memory_core::{Error, ErrorKind, Op, Result};

use super::super::ask::{Page, Visit};
use super::super::html::{none, plain, quote, refusal, remark, said, score, table, time};
use super::super::place::Place;
use super::conversations::shares;
use super::records::{Recalled, Record, latest};

/// Records of each kind.
const LISTED: usize = 30;
const CALLS: [&str; 7] = ["When", "Agent", "Operation", "Scope", "Rows", "Took", "Outcome"];
const REQUESTS: [&str; 6] = ["When", "Token", "Operation", "Scope", "Took", "Outcome"];
const USAGE: [&str; 7] = ["Operation", "Calls", "Failed", "Found nothing", "Median", "99 %", "Since"];
const GIVEN: [&str; 4] = ["Fact", "Score", "Similarity", "What the score is made of"];

pub(super) async fn show(page: &Page, visit: &Visit, place: &Place) -> Result<Markup> {
    let Some(file) = page.beside.audit_file.clone() else {
        return Ok(html! {
            p class="remark" {
                "This server writes no audit file, so nothing is known of what was asked. The operator names one: "
                code { "file" } " under " code { "[audit]" } " of memory.toml."
            }
        });
    };
    let Some(tenant) = place.tenant.clone() else {
        return Ok(html! {
            (place.chooser("/page/activity", false))
            (remark("This token reaches every tenant. Name one to see what was asked of it."))
        });
    };
    let bound = visit.caller.grant().agent.is_some() || visit.caller.grant().user.is_some();
    let caller = std::sync::Arc::clone(&visit.caller);
    let of = tenant.clone();
    let found = page.as_op(visit, Op::Stats, &tenant, None, async {
        let read = tokio::task::spawn_blocking(move || {
            let used = if bound { Vec::new() } else { usage(&file, &of)? };
            Ok::<_, Error>((used, latest(&file, &caller, &of, LISTED)?))
        });
        read.await.unwrap_or_else(|_| Err(Error::internal("the audit file could not be read")))
    });
    let (used, [recalls, calls, requests]) = match found.await {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(
                html! { (place.chooser("/page/activity", false)) (remark("Nothing is recorded yet.")) },
            );
        }
        Err(error) => return Ok(html! { (place.chooser("/page/activity", false)) (refusal(&error)) }),
    };
    Ok(html! {
        (place.chooser("/page/activity", false))
        h2 { "Recalls" }
        (recalled(&recalls))
        h2 { "Other calls of the tool" }
        @if calls.is_empty() { (remark("None is recorded.")) }
        @else { (table("The latest calls, the newest first", &CALLS, &rows(&calls, call))) }
        h2 { "Requests over HTTP" }
        @if requests.is_empty() { (remark("None is recorded.")) }
        @else { (table("The latest requests, the newest first", &REQUESTS, &rows(&requests, request))) }
        @if !bound {
            h2 { "By operation" }
            @if used.is_empty() { (remark("No call of the tool is recorded.")) }
            @else { (table("Calls of the tool", &USAGE, &rows(&used, summed))) }
        }
        p class="remark" { "From the end of the audit file. Words of questions are there only in the audit’s full mode." }
    })
}

fn rows<T>(of: &[T], cells: impl Fn(&T) -> Markup) -> Vec<Markup> {
    of.iter().map(cells).collect()
}

fn took(micros: Option<u64>) -> Markup {
    match micros {
        Some(micros) => html! { (micros / 1_000) "." (format!("{:01}", micros % 1_000 / 100)) " ms" },
        None => none(),
    }
}

fn outcome(record: &Record) -> Markup {
    html! { @if record.outcome == "ok" { "ok" } @else { strong { (said(&record.outcome)) } } }
}

fn scope(record: &Record) -> Markup {
    html! {
        @match record.scope { Some(kind) => (kind.as_str()), None => (none()) }
        @if let Some(id) = &record.scope_id { " " (said(id)) }
    }
}

fn recalled(recalls: &[Record]) -> Markup {
    if recalls.is_empty() {
        return remark("No recall is recorded.");
    }
    let asked = |record: &Record| record.input.as_ref().and_then(|input| input.get("query")).map(plain);
    html! {
        @for record in recalls {
            article class="waits" {
                (quote(asked(record).as_deref(), "The question is not recorded."))
                p class="under" {
                    (time(record.time)) ", "
                    @match (&record.token, &record.agent) {
                        (Some(token), _) => { "the token " (said(token)) " in " (scope(record)) }
                        (None, agent) => {
                            (said(agent.as_deref().unwrap_or("?")))
                            " in the run " (said(record.run.as_deref().unwrap_or("?")))
                        }
                    }
                    ", " (took(record.micros)) ", " (outcome(record))
                }
                @if record.recalled.is_empty() { (remark("It was given nothing.")) }
                @else {
                    details {
                        summary {
                            @if record.recalled.len() == 1 { "1 fact given" } @else { (record.recalled.len()) " facts given" }
                        }
                        (table("What it was given, the best first", &GIVEN, &rows(&record.recalled, given)))
                    }
                }
            }
        }
    }
}

fn given(fact: &Recalled) -> Markup {
    html! {
        td { code class="id" { (said(&fact.id)) } }
        td class="number" { (score(fact.score)) }
        td class="number" { (score(fact.similarity)) }
        td { (shares(&fact.shares)) }
    }
}

fn call(record: &Record) -> Markup {
    html! {
        td { (time(record.time)) }
        td { (said(record.agent.as_deref().unwrap_or_default())) }
        td { code { (said(record.op.as_deref().unwrap_or("?"))) } }
        td { (scope(record)) }
        td class="number" { @match record.rows { Some(rows) => (rows), None => (none()) } }
        td class="number" { (took(record.micros)) }
        td { (outcome(record)) }
    }
}

fn request(record: &Record) -> Markup {
    html! {
        td { (time(record.time)) }
        td { code { (said(record.token.as_deref().unwrap_or_default())) } }
        td { code { (said(record.op.as_deref().unwrap_or("?"))) } }
        td { (scope(record)) }
        td class="number" { (took(record.micros)) }
        td { (outcome(record)) }
    }
}

fn summed(of: &OpUsage) -> Markup {
    html! {
        td { code { (said(&of.op)) } }
        td class="number" { (of.calls) }
        td class="number" { (of.failed) }
        td class="number" { (of.empty) }
        td class="number" { (format!("{:.1} ms", of.median_ms)) }
        td class="number" { (format!("{:.1} ms", of.p99_ms)) }
        td { (time(of.since)) }
    }
}
